//! The duration of raw audio streams, which have no header with it: counted frame by frame. An estimate by the first
//! frames' bit rate was 9 % off for a file of the corpus.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cut::UNKNOWN;
use crate::domain::media::Media;
use crate::domain::sniff::{self, Container};
use crate::engine::source::Source;

/// Limits of counting, in bytes and time. The rest of the file is extrapolated.
const MOST: u64 = 64 << 20;
const PATIENCE: Duration = Duration::from_secs(1);

const PIECE: usize = 256 * 1024;
/// More than any frame has.
const LONGEST_FRAME: usize = 8 * 1024;

/// Corrects the duration of a raw audio stream; other files stay unchanged.
pub(super) async fn counted(source: &Arc<Source>, mut media: Media) -> Media {
    let container = match source.sniffed.map(|sniffed| sniffed.container) {
        Some(container @ (Container::Aac | Container::Mp3)) => container,
        _ => return media,
    };
    let file = source.clone();
    let counting = tokio::task::spawn_blocking(move || seconds(&file, container));
    let Some(seconds) = counting.await.ok().flatten() else { return media };
    media.warnings.retain(|warning| warning != UNKNOWN);
    media.duration_seconds = Some(seconds);
    media.is_seekable = true;
    media.bitrate_kbps = Some((source.len as f64 * 8.0 / seconds / 1000.0).round() as u32);
    media
}

/// None if a header states the duration after all, or if there are no frames.
pub(super) fn seconds(source: &Source, container: Container) -> Option<f64> {
    let begun = Instant::now();
    let mut piece = vec![0; PIECE];
    let (mut at, mut sounding, mut frames) = (0u64, 0.0, 0u64);
    while at < source.len.min(MOST) && begun.elapsed() < PATIENCE {
        let filled = source.read_blocking(&mut piece, at).ok()?;
        let bytes = &piece[..filled];
        let mut from = 0;
        // A frame that may continue after this chunk is left for the next one.
        let whole = if at + filled as u64 >= source.len { filled } else { filled.saturating_sub(LONGEST_FRAME) };
        while from < whole {
            match sniff::parse_audio_frame(container, &bytes[from..]) {
                Some(frame) if from + frame.size_bytes <= filled => {
                    if frames == 0 && has_table(&bytes[from..from + frame.size_bytes]) {
                        return None;
                    }
                    frames += 1;
                    sounding += frame.seconds;
                    from += frame.size_bytes;
                }
                // Tags, garbage, or a truncated last frame.
                _ => from += 1,
            }
        }
        if from == 0 {
            break;
        }
        at += from as u64;
    }
    // A single frame may be a coincidence.
    if frames < 3 {
        return None;
    }
    let rest = source.len.saturating_sub(at) as f64;
    Some(sounding * (1.0 + rest / at as f64))
}

/// Whether an MP3's first frame has the encoder's table instead of audio, which states the duration.
fn has_table(frame: &[u8]) -> bool {
    let head = &frame[..frame.len().min(64)];
    [b"Xing", b"Info", b"VBRI"].iter().any(|name| head.windows(4).any(|four| four == *name))
}
