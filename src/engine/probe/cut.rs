//! Files that end before or after what their headers state: measures the real duration.
//!
//! The check costs a few reads of headers and of the file's end; only a file that fails it is examined further.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::outline::number;
use super::{ends, matroska};
use crate::domain::media::{Container, Media};
use crate::domain::time::{round_to_ms, to_seconds};
use crate::engine::clock::{self, PlayedLinks};
use crate::engine::index;
use crate::engine::source::Source;

/// The warning for a file whose duration is unknown.
pub(super) const UNKNOWN: &str = "the duration is unknown";

/// A measured end may differ this much from a correct header, because it excludes the last frame's duration.
const TOLERANCE_SECONDS: f64 = 0.5;
/// A Matroska header may exceed the last block by the duration of a last subtitle.
const LONGEST_SUBTITLE_SECONDS: f64 = 15.0;

/// Corrects the duration of a truncated file or of a file with a wrong header, and adds a warning.
pub(super) async fn corrected(source: &Arc<Source>, media: Media) -> Media {
    let share = {
        let (file, container) = (source.clone(), media.container);
        tokio::task::spawn_blocking(move || share_present(&file, container)).await.ok().flatten()
    };
    match (media.container, share, media.duration_seconds) {
        (Container::Matroska | Container::Webm, None, Some(_)) => by_cues(source, media).await,
        // An unfinished recording, or fragments without a duration in the header: complete, but of unknown duration.
        (Container::Matroska | Container::Webm | Container::Mp4, share, stated)
            if share.is_some() || stated.is_none() =>
        {
            cut_short(source, media, share.unwrap_or(1.0)).await
        }
        (Container::Flv | Container::Asf | Container::Avi | Container::WavPack | Container::Flac, ..) => {
            by_last_packets(source, media).await
        }
        (Container::Ogg, ..) => chained(source, media).await,
        _ => media,
    }
}

/// Chained Ogg: all links if they can be played as one stream, otherwise the first one, because ffmpeg seeks only in it.
async fn chained(source: &Arc<Source>, mut media: Media) -> Media {
    let file = source.clone();
    let is_single = media.audio_streams().count() == 1 && media.video_streams().next().is_none();
    let looking = tokio::task::spawn_blocking(move || clock::chained(&file, is_single));
    match looking.await.ok().flatten() {
        Some(PlayedLinks::All(links)) => {
            media
                .warnings
                .push(format!("the file is a chain of {} streams: they are played as one", links.pieces.len()));
            set_duration(&mut media, source, Some(to_seconds(links.end)));
            media.start_seconds = 0.0;
            media.clock_pieces = links.pieces;
        }
        Some(PlayedLinks::First(end)) => {
            let text = format!("the file is a chain of streams: only the first, {} s long, is played", round_to_ms(end));
            media.warnings.push(text);
            set_duration(&mut media, source, Some(end));
        }
        None => {}
    }
    media
}

/// mp4 and Matroska files that have only a `share` of the stated bytes.
async fn cut_short(source: &Arc<Source>, mut media: Media, share: f64) -> Media {
    let stated = media.duration_seconds;
    let measured = match media.container {
        Container::Mp4 => match media.video_streams().next().map(|(stream, _)| stream.index) {
            Some(stream) => index::keyframes(source, &media, stream).await.ok().map(|index| to_seconds(index.end)),
            None => None,
        },
        _ => {
            let file = source.clone();
            tokio::task::spawn_blocking(move || matroska::last_timestamp(&file, None)).await.ok().flatten()
        }
    };
    // Without a table, estimate the duration by the share of the bytes.
    let left = measured.or_else(|| Some(stated? * share)).filter(|left| *left >= 0.01);
    match (left, stated) {
        // The missing tail may be only an index.
        (Some(left), Some(stated)) if left >= stated - TOLERANCE_SECONDS => {
            if media.container == Container::Mp4 && share < 1.0 {
                media.warnings.push("the file is truncated".to_owned());
                set_duration(&mut media, source, Some(left.min(stated)));
            }
            return media;
        }
        // The file is complete and its duration unknown, as the existing warning states.
        (None, None) if share >= 1.0 => return media,
        _ => {}
    }
    media.warnings.push(match (left, stated) {
        (Some(_), None) => "the header has no duration; it was measured".to_owned(),
        (Some(left), Some(stated)) => cut_text(left, stated),
        (None, _) => "the file is truncated".to_owned(),
    });
    set_duration(&mut media, source, left);
    media
}

/// Formats whose last packets have timestamps.
async fn by_last_packets(source: &Arc<Source>, media: Media) -> Media {
    let file = source.clone();
    let measuring = tokio::task::spawn_blocking(move || (ends::measured(&file, &media), media));
    let (measured, mut media) = measuring.await.expect("readers of the file's end do not panic");
    let Some((left, is_short)) = measured else { return media };
    media.warnings.push(match media.duration_seconds {
        Some(stated) if left < stated - TOLERANCE_SECONDS => cut_text(left, stated),
        _ if is_short => "the file is truncated".to_owned(),
        Some(stated) if left > stated + TOLERANCE_SECONDS => wrong_text(left, stated),
        Some(_) => return media,
        None => "the header has no duration; it was measured".to_owned(),
    });
    set_duration(&mut media, source, Some(left));
    media
}

/// Checks the header's duration in a complete Matroska file, by the cues and if necessary by the last cluster.
pub(super) async fn by_cues(source: &Arc<Source>, media: Media) -> Media {
    let file = source.clone();
    let measuring = tokio::task::spawn_blocking(move || {
        let measured = media.duration_seconds.and_then(|stated| {
            let cue = index::last_cue(&file, &media);
            let (last, from) = match cue {
                Some((time, cluster)) => (time - media.start_seconds, cluster),
                None => (f64::NEG_INFINITY, matroska::last_cluster(&file)?),
            };
            // Keyframes are rarely further apart; if the last cue is in this range, no further check is needed.
            let near = stated - LONGEST_SUBTITLE_SECONDS..stated + TOLERANCE_SECONDS;
            if near.contains(&last) {
                return None;
            }
            matroska::last_timestamp(&file, Some(from)).map(|last| last - media.start_seconds)
        });
        (measured, media)
    });
    let (measured, mut media) = measuring.await.expect("readers of Matroska do not panic");
    let (Some(left), Some(stated)) = (measured.filter(|left| *left > 0.0), media.duration_seconds) else {
        return media;
    };
    if left > stated + TOLERANCE_SECONDS || left < stated - LONGEST_SUBTITLE_SECONDS {
        media.warnings.push(wrong_text(left, stated));
        set_duration(&mut media, source, Some(left));
    }
    media
}

fn cut_text(left: f64, stated: f64) -> String {
    format!("the file is truncated: it has {} of {} s", round_to_ms(left), round_to_ms(stated))
}

fn wrong_text(left: f64, stated: f64) -> String {
    format!("the header states {} s, but the file has {} s", round_to_ms(stated), round_to_ms(left))
}

fn set_duration(media: &mut Media, source: &Source, left: Option<f64>) {
    media.warnings.retain(|warning| warning != UNKNOWN);
    media.duration_seconds = left;
    media.is_seekable = left.is_some();
    if let Some(left) = left {
        media.bitrate_kbps = Some((source.len as f64 * 8.0 / left / 1000.0).round() as u32);
        media.chapters.retain(|chapter| chapter.start_seconds < left);
        for chapter in &mut media.chapters {
            chapter.end_seconds = chapter.end_seconds.min(left);
        }
    }
}

/// The share of the stated media bytes that is present; None for a complete file, or if the headers state no size.
pub(super) fn share_present(source: &Source, container: Container) -> Option<f64> {
    match container {
        Container::Mp4 => mp4_share(source),
        Container::Matroska | Container::Webm => {
            matroska::promised_end(source).filter(|end| *end > source.len).map(|end| source.len as f64 / end as f64)
        }
        _ => None,
    }
}

fn mp4_share(source: &Source) -> Option<f64> {
    let (mut at, mut moov, mut samples) = (0, false, false);
    for _ in 0..10_000 {
        let mut head = [0; 16];
        let filled = source.file.read_at(&mut head, at).ok()?;
        if filled < 8 {
            break;
        }
        let mut size = number(&head[..filled], 0, 4).ok()?;
        if size == 1 {
            size = number(&head[..filled], 8, 8).ok()?;
        }
        moov |= &head[4..8] == b"moov";
        samples |= matches!(&head[4..8], b"mdat" | b"moof");
        if size == 0 {
            return None;
        }
        let end = at.checked_add(size.max(8))?;
        if end > source.len {
            return match (samples, moov) {
                (true, _) => Some((source.len - at) as f64 / size as f64),
                // The tables themselves are truncated.
                (false, true) => Some(0.0),
                (false, false) => None,
            };
        }
        at = end;
    }
    // The tables are present, but no samples.
    (moov && !samples).then_some(0.0)
}
