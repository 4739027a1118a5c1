//! Files that end before their headers say: how much of them is there.
//!
//! The check costs a few reads of headers; only a file that fails it is looked at further.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::matroska;
use super::outline::number;
use crate::domain::media::{Container, Media};
use crate::domain::time::{round_ms, seconds};
use crate::engine::index;
use crate::engine::source::Source;

/// The warning of a file whose duration nobody knows.
pub(super) const UNKNOWN: &str = "the duration cannot be known";

/// Corrects the duration of a file that was cut short, and says so in its warnings.
pub(super) async fn corrected(source: &Arc<Source>, mut media: Media) -> Media {
    let stated = media.duration_seconds;
    let indexed = matches!(media.container, Container::Matroska | Container::Webm | Container::Mp4);
    let share = match share_present(source, media.container) {
        Some(share) => share,
        // A recording that nobody closed, or fragments whose header states none: whole, but without a duration.
        None if indexed && stated.is_none() => 1.0,
        None => return media,
    };
    let measured = match media.container {
        Container::Mp4 => match media.videos().next().map(|(stream, _)| stream.index) {
            Some(stream) => index::keyframes(source, &media, stream).await.ok().map(|index| seconds(index.end)),
            None => None,
        },
        _ => {
            let file = source.clone();
            tokio::task::spawn_blocking(move || matroska::last_timestamp(&file)).await.ok().flatten()
        }
    };
    // Without a table to count in, as much of the time as of the bytes.
    let left = measured.or_else(|| Some(stated? * share)).filter(|left| *left >= 0.01);
    match (left, stated) {
        (Some(left), Some(stated)) if left >= stated - 0.5 => return media,
        // Whole, and nobody knows how long: said already.
        (None, None) if share >= 1.0 => return media,
        _ => {}
    }
    media.warnings.retain(|warning| warning != UNKNOWN);
    media.warnings.push(match (left, stated) {
        (Some(_), None) => "the header gives no duration: it was measured".to_owned(),
        (Some(left), Some(stated)) => {
            format!("the file is cut short: it holds {} of {} s", round_ms(left), round_ms(stated))
        }
        (None, _) => "the file is cut short".to_owned(),
    });
    media.duration_seconds = left;
    media.seekable = left.is_some();
    if let Some(left) = left {
        media.bitrate_kbps = Some((source.len as f64 * 8.0 / left / 1000.0).round() as u32);
        media.chapters.retain(|chapter| chapter.start_seconds < left);
        for chapter in &mut media.chapters {
            chapter.end_seconds = chapter.end_seconds.min(left);
        }
    }
    media
}

/// The share of the promised media bytes that is there; None for a whole file, or one whose headers promise nothing.
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
                // The tables themselves are cut.
                (false, true) => Some(0.0),
                (false, false) => None,
            };
        }
        at = end;
    }
    // The tables are there and no sample is.
    (moov && !samples).then_some(0.0)
}
