//! The duration of raw audio streams, which have no header with it: counted frame by frame. An estimate by the first
//! frames' bit rate was 9 % off for a file of the corpus.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::read_blocking;
use super::truncation::set_duration;
use crate::domain::media::Media;
use crate::domain::sniff::{self, Container};
use crate::engine::source::SourceFile;

/// Limits of counting, in bytes and time. The rest of the file is extrapolated.
const MAX_BYTES: u64 = 64 << 20;
const TIME_LIMIT: Duration = Duration::from_secs(1);

const CHUNK_BYTES: usize = 256 * 1024;
/// More than any frame has.
const MAX_FRAME_BYTES: usize = 8 * 1024;

/// Corrects the duration of a raw audio stream; other files stay unchanged.
pub(super) async fn with_counted_duration(source: &Arc<SourceFile>, mut media: Media) -> Media {
    let container = match source.format.map(|sniffed| sniffed.container) {
        Some(container @ (Container::Aac | Container::Mp3)) => container,
        _ => return media,
    };
    if let Some(seconds) = read_blocking(source, move |file| count_seconds(file, container)).await.flatten() {
        set_duration(&mut media, source, Some(seconds));
    }
    media
}

/// None if a header states the duration after all, or if there are no frames.
fn count_seconds(source: &SourceFile, container: Container) -> Option<f64> {
    let started = Instant::now();
    let mut buffer = vec![0; CHUNK_BYTES];
    let (mut position, mut audio_seconds, mut frames) = (0u64, 0.0, 0u64);
    while position < source.len.min(MAX_BYTES) && started.elapsed() < TIME_LIMIT {
        let filled = source.read_blocking(&mut buffer, position).ok()?;
        let bytes = &buffer[..filled];
        let mut offset = 0;
        // A frame that may continue after this chunk is left for the next one.
        let usable =
            if position + filled as u64 >= source.len { filled } else { filled.saturating_sub(MAX_FRAME_BYTES) };
        while offset < usable {
            match sniff::parse_audio_frame(container, &bytes[offset..]) {
                Some(frame) if offset + frame.size_bytes <= filled => {
                    if frames == 0 && has_duration_table(&bytes[offset..offset + frame.size_bytes]) {
                        return None;
                    }
                    frames += 1;
                    audio_seconds += frame.seconds;
                    offset += frame.size_bytes;
                }
                // Tags, garbage, or a truncated last frame.
                _ => offset += 1,
            }
        }
        if offset == 0 {
            break;
        }
        position += offset as u64;
    }
    // A single frame may be a coincidence.
    if frames < 3 {
        return None;
    }
    let rest_bytes = source.len.saturating_sub(position) as f64;
    Some(audio_seconds * (1.0 + rest_bytes / position as f64))
}

/// Whether an MP3's first frame has the encoder's table instead of audio, which states the duration.
fn has_duration_table(frame: &[u8]) -> bool {
    let head = &frame[..frame.len().min(64)];
    [b"Xing", b"Info", b"VBRI"].iter().any(|name| head.windows(4).any(|bytes| bytes == *name))
}
