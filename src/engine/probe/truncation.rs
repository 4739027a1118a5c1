//! Files that end before or after what their headers state: measures the real duration.
//!
//! The check costs a few reads of headers and of the file's end; only a file that fails it is examined further.

use std::sync::Arc;

use super::{ends, matroska, read_blocking};
use crate::domain::media::{Container, Media};
use crate::domain::time::round_to_ms;
use crate::engine::clock::{self, PlayedLinks};
use crate::engine::container::mp4::boxes::{FileBox, top_level};
use crate::engine::index::{self, RecoveryPoints};
use crate::engine::source::SourceFile;

/// The warning for a file whose duration is unknown.
pub(super) const UNKNOWN_DURATION: &str = "the duration is unknown";

/// A measured end may differ this much from a correct header, because it excludes the last frame's duration.
const TOLERANCE_SECONDS: f64 = 0.5;
/// A Matroska header may exceed the last block by the duration of a last subtitle.
const MAX_SUBTITLE_SECONDS: f64 = 15.0;

/// Corrects the duration of a truncated file or of a file with a wrong header, and adds a warning.
pub(super) async fn with_checked_duration(source: &Arc<SourceFile>, media: Media) -> Media {
    let container = media.container;
    let present_share = read_blocking(source, move |file| measure_present_share(file, container)).await.flatten();
    match (media.container, present_share, media.duration_seconds) {
        (Container::Matroska | Container::Webm, None, Some(_)) => with_duration_by_cues(source, media).await,
        // An unfinished recording, or fragments without a duration in the header: complete, but of unknown duration.
        (Container::Matroska | Container::Webm | Container::Mp4, share, stated_seconds)
            if share.is_some() || stated_seconds.is_none() =>
        {
            with_truncated_duration(source, media, share.unwrap_or(1.0)).await
        }
        (Container::Flv | Container::Asf | Container::Avi | Container::WavPack | Container::Flac, ..) => {
            with_last_packet_duration(source, media).await
        }
        (Container::Ogg, ..) => chained(source, media).await,
        _ => media,
    }
}

/// Chained Ogg: all links if they can be played as one stream, otherwise the first one, because ffmpeg seeks only in it.
async fn chained(source: &Arc<SourceFile>, mut media: Media) -> Media {
    let is_single = media.audio_streams().count() == 1 && media.video_streams().next().is_none();
    match read_blocking(source, move |file| clock::chained(file, is_single)).await.flatten() {
        Some(PlayedLinks::All(links)) => {
            let text = format!("the file is a chain of {} streams: they are played as one", links.pieces.len());
            media.warnings.push(text);
            set_duration(&mut media, source, Some(links.end.as_seconds()));
            media.start_seconds = 0.0;
            media.clock_pieces = links.pieces;
        }
        Some(PlayedLinks::First(end)) => {
            let text =
                format!("the file is a chain of streams: only the first, {} s long, is played", round_to_ms(end));
            media.warnings.push(text);
            set_duration(&mut media, source, Some(end));
        }
        None => {}
    }
    media
}

/// mp4 and Matroska files that have only the share `present_share` of the stated bytes.
async fn with_truncated_duration(source: &Arc<SourceFile>, mut media: Media, present_share: f64) -> Media {
    let stated_seconds = media.duration_seconds;
    let measured = match media.container {
        Container::Mp4 => match media.video_streams().next().map(|(stream, _)| stream.index) {
            Some(stream) => index::build_index(source, &media, stream, RecoveryPoints::Accepted)
                .await
                .ok()
                .map(|index| index.end.as_seconds()),
            None => None,
        },
        _ => read_blocking(source, |file| matroska::last_timestamp(file, None)).await.flatten(),
    };
    // Without a table, estimate the duration by the share of the bytes.
    let present_seconds = measured.or_else(|| Some(stated_seconds? * present_share)).filter(|left| *left >= 0.01);
    match (present_seconds, stated_seconds) {
        // The missing tail may be only an index.
        (Some(left), Some(stated)) if left >= stated - TOLERANCE_SECONDS => {
            if media.container == Container::Mp4 && present_share < 1.0 {
                media.warnings.push("the file is truncated".to_owned());
                set_duration(&mut media, source, Some(left.min(stated)));
            }
            return media;
        }
        // The file is complete and its duration unknown, as the existing warning states.
        (None, None) if present_share >= 1.0 => return media,
        _ => {}
    }
    media.warnings.push(match (present_seconds, stated_seconds) {
        (Some(_), None) => "the header has no duration; it was measured".to_owned(),
        (Some(left), Some(stated)) => truncated_warning(left, stated),
        (None, _) => "the file is truncated".to_owned(),
    });
    set_duration(&mut media, source, present_seconds);
    media
}

/// Formats whose last packets have timestamps.
async fn with_last_packet_duration(source: &Arc<SourceFile>, media: Media) -> Media {
    let reading = read_blocking(source, move |file| (ends::measure_end(file, &media), media)).await;
    let (measured, mut media) = reading.expect("readers of the file's end do not panic");
    let Some((present_seconds, is_truncated)) = measured else { return media };
    media.warnings.push(match media.duration_seconds {
        Some(stated) if present_seconds < stated - TOLERANCE_SECONDS => truncated_warning(present_seconds, stated),
        _ if is_truncated => "the file is truncated".to_owned(),
        Some(stated) if present_seconds > stated + TOLERANCE_SECONDS => wrong_duration_warning(present_seconds, stated),
        Some(_) => return media,
        None => "the header has no duration; it was measured".to_owned(),
    });
    set_duration(&mut media, source, Some(present_seconds));
    media
}

/// Checks the header's duration in a complete Matroska file, by the cues and if necessary by the last cluster.
/// The cues give the keyframe interval as well.
pub(super) async fn with_duration_by_cues(source: &Arc<SourceFile>, mut media: Media) -> Media {
    let reading = read_blocking(source, move |file| {
        let cues = index::summarize_cues(file, &media);
        // Not the duration, which is yet to be checked.
        let interval = cues.as_ref().and_then(|cues| cues.keyframe_interval_seconds);
        media.keyframe_interval_seconds = interval.filter(|seconds| Some(*seconds) != media.duration_seconds);
        let measured = media.duration_seconds.and_then(|stated| {
            let (last, from) = match cues {
                Some(cues) => (cues.last_seconds - media.start_seconds, cues.last_cluster),
                None => (f64::NEG_INFINITY, matroska::last_cluster(file)?),
            };
            // Keyframes are rarely further apart; if the last cue is in this range, no further check is needed.
            let expected = stated - MAX_SUBTITLE_SECONDS..stated + TOLERANCE_SECONDS;
            if expected.contains(&last) {
                return None;
            }
            matroska::last_timestamp(file, Some(from)).map(|last| last - media.start_seconds)
        });
        (measured, media)
    });
    let (measured, mut media) = reading.await.expect("readers of Matroska do not panic");
    let (Some(present), Some(stated_seconds)) = (measured.filter(|left| *left > 0.0), media.duration_seconds) else {
        return media;
    };
    if present > stated_seconds + TOLERANCE_SECONDS || present < stated_seconds - MAX_SUBTITLE_SECONDS {
        media.warnings.push(wrong_duration_warning(present, stated_seconds));
        set_duration(&mut media, source, Some(present));
    }
    media
}

fn truncated_warning(present_seconds: f64, stated_seconds: f64) -> String {
    format!("the file is truncated: it has {} of {} s", round_to_ms(present_seconds), round_to_ms(stated_seconds))
}

fn wrong_duration_warning(present_seconds: f64, stated_seconds: f64) -> String {
    format!("the header states {} s, but the file has {} s", round_to_ms(stated_seconds), round_to_ms(present_seconds))
}

pub(super) fn set_duration(media: &mut Media, source: &SourceFile, present_seconds: Option<f64>) {
    media.warnings.retain(|warning| warning != UNKNOWN_DURATION);
    media.duration_seconds = present_seconds;
    media.is_seekable = present_seconds.is_some();
    if let Some(present_seconds) = present_seconds {
        media.bitrate_kbps = Some((source.len as f64 * 8.0 / present_seconds / 1000.0).round() as u32);
        media.chapters.retain(|chapter| chapter.start_seconds < present_seconds);
        for chapter in &mut media.chapters {
            chapter.end_seconds = chapter.end_seconds.min(present_seconds);
        }
    }
}

/// The share of the stated media bytes that is present; None for a complete file, or if the headers state no size.
pub(super) fn measure_present_share(source: &SourceFile, container: Container) -> Option<f64> {
    match container {
        Container::Mp4 => measure_mp4_share(source),
        Container::Matroska | Container::Webm => {
            matroska::stated_end(source).filter(|end| *end > source.len).map(|end| source.len as f64 / end as f64)
        }
        _ => None,
    }
}

fn measure_mp4_share(source: &SourceFile) -> Option<f64> {
    let (mut has_moov, mut has_samples) = (false, false);
    for file_box in top_level(source).take(10_000).map_while(Result::ok) {
        let FileBox { box_type, start, end, .. } = file_box;
        has_moov |= &box_type == b"moov";
        has_samples |= matches!(&box_type, b"mdat" | b"moof");
        if end > source.len {
            return match (has_samples, has_moov) {
                (true, _) => Some((source.len - start) as f64 / (end - start) as f64),
                // The tables themselves are truncated.
                (false, true) => Some(0.0),
                (false, false) => None,
            };
        }
    }
    // The tables are present, but no samples.
    (has_moov && !has_samples).then_some(0.0)
}
