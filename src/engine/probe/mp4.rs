//! Reads the movie box of an mp4 file (ISO/IEC 14496-12): tracks, flags, rotation, edits, timing.
//!
//! Every length is checked against its box, nothing is indexed unchecked, and the size of the movie box is limited. The
//! samples themselves are never read.

use super::outline::{ContainerOutline, OutlineTrack, OutlineTrackKind, Result, parse_uint, refuse_if};
use crate::domain::media::{Container, Media, Tags};
use crate::engine::container::bytes::{ReadAt, Truncated};
use crate::engine::container::mp4::Mp4File;
use crate::engine::container::mp4::boxes::{boxes, top_level};
use crate::engine::index;
use crate::engine::source::SourceFile;

mod sample_tables;
mod track;

use track::{TimedMp4Track, parse_track};

/// Maximum size of the movie box; a film of two hours has about 6 MiB.
const MAX_MOOV_BYTES: u64 = 48 << 20;
const MAX_TOP_LEVEL_BOXES: usize = 255;

/// Reads the file's outline.
pub(super) fn read_outline(source: &SourceFile) -> Result<ContainerOutline> {
    let file = read_header(source)?;
    let mut timescale = 0;
    let mut tracks: Vec<TimedMp4Track> = Vec::new();
    let mut tags = Tags::default();
    for entry in boxes(&file.moov) {
        let (box_type, body) = entry?;
        match &box_type {
            b"mvhd" => {
                let timescale_at = if body.first() == Some(&1) { 20 } else { 12 };
                timescale = parse_uint(body, timescale_at, 4)?;
            }
            b"trak" => tracks.push(parse_track(body, timescale, source.len)?),
            b"udta" => tags = parse_user_data(body)?,
            b"mvex" => return Err("fragmented"),
            b"cmov" => return Err("a compressed movie box"),
            _ => {}
        }
    }
    let is_empty = |track: &TimedMp4Track| track.sample_count == 0;
    refuse_if(tracks.is_empty() || tracks.iter().any(is_empty), "a track without samples")?;
    let played_tracks = || tracks.iter().filter(|track| track.track.kind.is_played());
    let start = played_tracks().map(|track| track.start_seconds).fold(f64::INFINITY, f64::min);
    let end = played_tracks().map(|track| track.start_seconds.max(0.0) + track.duration_seconds).fold(0.0, f64::max);
    refuse_if(!start.is_finite() || end <= start, "neither video nor audio")?;
    let video = tracks.iter().position(|track| track.track.kind == OutlineTrackKind::Video);
    let tracks =
        tracks.into_iter().enumerate().map(|(index, track)| OutlineTrack { index: index as u32, ..track.track });
    let keyframe_interval_seconds = video.and_then(|stream| index::mp4_keyframe_interval(&file, stream as u32, None));
    let media =
        Media { start_seconds: start, tags, keyframe_interval_seconds, ..Media::new(Container::Mp4, Vec::new()) };
    Ok(ContainerOutline { media, duration_seconds: end - start, tracks: tracks.collect() })
}

/// Reads the movie box; gives up on anything unusual at the top level.
fn read_header(source: &SourceFile) -> Result<Mp4File<'_, SourceFile>> {
    let mut moov = None;
    for (number, file_box) in top_level(source).enumerate() {
        let file_box = file_box?;
        refuse_if(number == MAX_TOP_LEVEL_BOXES, "too many boxes")?;
        refuse_if(file_box.end > source.len, "a box runs past the end")?;
        match &file_box.box_type {
            b"ftyp" if source.read_exact(file_box.body, 4)? == b"qt  " => return Err("QuickTime"),
            b"moov" if moov.is_none() && file_box.end - file_box.start <= MAX_MOOV_BYTES => {
                moov = Some(source.read_exact(file_box.body, (file_box.end - file_box.body) as usize)?);
            }
            b"ftyp" | b"mdat" | b"free" | b"skip" | b"wide" | b"uuid" | b"udta" => {}
            _ => return Err("an unusual box"),
        }
    }
    let moov = moov.ok_or("no movie box")?;
    // Only fragments are found by the other boxes, and fragmented files are refused.
    Ok(Mp4File { file: source, boxes: Vec::new(), moov })
}

/// The first child of a type; an error if a damaged box precedes it.
fn find_child<'a>(body: &'a [u8], expected: &[u8; 4]) -> Result<Option<&'a [u8]>, Truncated> {
    let found = boxes(body).find(|entry| entry.is_err() || matches!(entry, Ok((box_type, _)) if box_type == expected));
    Ok(found.transpose()?.map(|(_, content)| content))
}

fn require_child<'a>(body: &'a [u8], expected: &[u8; 4]) -> Result<&'a [u8]> {
    find_child(body, expected)?.ok_or("a box is missing")
}

/// Tags of an iTunes item list. Chapters and covers add tracks or need samples: ffprobe reads those files.
fn parse_user_data(udta: &[u8]) -> Result<Tags> {
    let mut tags = Tags::default();
    refuse_if(find_child(udta, b"chpl")?.is_some(), "chapters")?;
    let Some(meta) = find_child(udta, b"meta")? else { return Ok(tags) };
    let Some(list) = find_child(meta.get(4..).unwrap_or_default(), b"ilst")? else { return Ok(tags) };
    for entry in boxes(list) {
        let (box_type, item) = entry?;
        let field = match &box_type {
            b"covr" => return Err("cover art"),
            b"\xa9nam" => &mut tags.title,
            b"\xa9ART" => &mut tags.artist,
            b"\xa9alb" => &mut tags.album,
            b"\xa9day" => &mut tags.date,
            _ => continue,
        };
        if let Some(data) = find_child(item, b"data")? {
            let text = String::from_utf8_lossy(data.get(8..).unwrap_or_default()).trim().to_owned();
            *field = Some(text.chars().take(512).collect()).filter(|text: &String| !text.is_empty());
        }
    }
    Ok(tags)
}
