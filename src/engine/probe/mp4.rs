//! Reads the movie box of an mp4 file (ISO/IEC 14496-12): tracks, flags, rotation, edits, timing.
//!
//! Every length is checked against its box, nothing is indexed unchecked, and the size of the movie box is limited. The
//! samples themselves are never read.

use super::outline::{Kind, Outline, Track, Unsure, number};
use crate::domain::media::{Container, Tags};
use crate::engine::source::Source;

mod boxes;
mod tables;
mod track;

use boxes::{Boxes, child, movie_box};
use track::{Traced, track};

/// Reads the file's outline.
pub(super) fn read(source: &Source) -> Result<Outline, Unsure> {
    let moov = movie_box(source)?;
    let mut timescale = 0;
    let mut tracks: Vec<Traced> = Vec::new();
    let mut tags = Tags::default();
    for entry in Boxes(&moov) {
        let (kind, body) = entry?;
        match &kind {
            b"mvhd" => {
                let at = if body.first() == Some(&1) { 20 } else { 12 };
                timescale = number(body, at, 4)?;
            }
            b"trak" => tracks.push(track(body, timescale, source.len)?),
            b"udta" => tags = user_data(body)?,
            b"mvex" => return Err(Unsure("fragmented")),
            b"cmov" => return Err(Unsure("a compressed movie box")),
            _ => {}
        }
    }
    let empty = |traced: &Traced| traced.samples == 0;
    if tracks.is_empty() || tracks.iter().any(empty) {
        return Err(Unsure("a track without samples"));
    }
    let played = || tracks.iter().filter(|traced| matches!(traced.track.kind, Kind::Video | Kind::Audio));
    let start = played().map(|traced| traced.start).fold(f64::INFINITY, f64::min);
    let end = played().map(|traced| traced.start.max(0.0) + traced.length).fold(0.0, f64::max);
    if !start.is_finite() || end <= start {
        return Err(Unsure("neither video nor audio"));
    }
    let tracks = tracks.into_iter().enumerate().map(|(index, traced)| Track { index: index as u32, ..traced.track });
    Ok(Outline {
        container: Container::Mp4,
        duration_seconds: end - start,
        start_seconds: start,
        tracks: tracks.collect(),
        chapters: Vec::new(),
        attachments: Vec::new(),
        tags,
    })
}

/// Tags of an iTunes item list. Chapters and covers add tracks or need samples: ffprobe reads those files.
fn user_data(udta: &[u8]) -> Result<Tags, Unsure> {
    let mut tags = Tags::default();
    if child(udta, b"chpl")?.is_some() {
        return Err(Unsure("chapters"));
    }
    let Some(meta) = child(udta, b"meta")? else { return Ok(tags) };
    let Some(list) = child(meta.get(4..).unwrap_or_default(), b"ilst")? else { return Ok(tags) };
    for entry in Boxes(list) {
        let (kind, item) = entry?;
        let slot = match &kind {
            b"covr" => return Err(Unsure("cover art")),
            b"\xa9nam" => &mut tags.title,
            b"\xa9ART" => &mut tags.artist,
            b"\xa9alb" => &mut tags.album,
            b"\xa9day" => &mut tags.date,
            _ => continue,
        };
        if let Some(data) = child(item, b"data")? {
            let text = String::from_utf8_lossy(data.get(8..).unwrap_or_default()).trim().to_owned();
            *slot = Some(text.chars().take(512).collect()).filter(|text: &String| !text.is_empty());
        }
    }
    Ok(tags)
}
