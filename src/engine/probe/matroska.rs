//! Reads the headers of a Matroska or WebM file (RFC 8794, RFC 9559): tracks, flags, chapters, attachments, timing.
//!
//! Elements are visited in place: only the needed ones are read, each below a megabyte, and of the clusters only the first
//! blocks.

use super::outline::{ContainerOutline, OutlineTrack, OutlineTrackKind, Result, refuse_if};
use crate::domain::media::{Attachment, Chapter, Container, Media, Tags};
use crate::engine::container::bytes::Truncated;
use crate::engine::container::matroska::ebml::{Element, elements, parse_text, parse_uint, read_body};
use crate::engine::container::matroska::{TopLevelElements, read_segment};
use crate::engine::source::SourceFile;

mod blocks;
mod track;

pub(super) use blocks::{last_cluster, last_timestamp};

/// Maximum size of an element of the header.
const MAX_ELEMENT_BYTES: u64 = 1 << 20;

/// Nanoseconds per unit of block timestamps: milliseconds, as nearly every file has them.
const TIMESTAMP_SCALE: u64 = 1_000_000;

/// Reads the file's outline; `webm` states the DocType.
pub(super) fn read_outline(source: &SourceFile, webm: bool) -> Result<ContainerOutline> {
    let parts = TopLevelElements::locate(source)?;
    // Live recordings have no known end.
    refuse_if(parts.segment.end() > source.len, "truncated")?;
    let read_part = |part: Option<Element>| match part {
        Some(part) => read_body(source, part, MAX_ELEMENT_BYTES),
        None => Ok(Vec::new()),
    };
    let (duration, title) = parse_info(&read_part(parts.info)?)?;
    let mut tracks: Vec<OutlineTrack> = Vec::new();
    for entry in elements(&read_part(parts.tracks)?) {
        let (id, body) = entry?;
        if id == 0xae {
            tracks.push(track::parse_track(body, tracks.len() as u32)?);
        }
    }
    refuse_if(!tracks.iter().any(|track| track.kind == OutlineTrackKind::Video), "no video")?;
    let start = blocks::first_timestamp(source, parts.cluster_layout(TIMESTAMP_SCALE)?, &mut tracks)?;
    let chapters = parse_chapters(&read_part(parts.chapters)?, duration)?;
    let mut attachments = Vec::new();
    for attachment in parts.read_attachments(source)? {
        // ffmpeg turns images into streams of their own.
        refuse_if(attachment.media_type.as_deref().is_some_and(|kind| kind.starts_with("image/")), "cover art")?;
        attachments.push(Attachment { file_name: attachment.name, mime_type: attachment.media_type });
    }
    let container = if webm { Container::Webm } else { Container::Matroska };
    let tags = Tags { title, ..Tags::default() };
    let media = Media { start_seconds: start, chapters, attachments, tags, ..Media::new(container, Vec::new()) };
    Ok(ContainerOutline { media, duration_seconds: duration, tracks })
}

/// Where the segment ends by its header; None if its size is unknown.
pub(super) fn stated_end(source: &SourceFile) -> Option<u64> {
    let segment = read_segment(source).ok()?;
    segment.size.map(|_| segment.end())
}

/// Duration in seconds, and title.
fn parse_info(body: &[u8]) -> Result<(f64, Option<String>)> {
    let (mut scale, mut units, mut title) = (TIMESTAMP_SCALE, None, None);
    for field in elements(body) {
        let (id, value) = field?;
        match id {
            0x2a_d7b1 => scale = parse_unsigned(value)?,
            0x4489 => units = Some(parse_float(value)?),
            0x7ba9 => title = parse_text(value),
            _ => {}
        }
    }
    refuse_if(scale != TIMESTAMP_SCALE, "an unusual timestamp scale")?;
    let seconds = units.map(|units| units / 1000.0).filter(|seconds| seconds.is_finite() && *seconds > 0.0);
    Ok((seconds.ok_or("no duration")?, title))
}

fn parse_chapters(body: &[u8], duration: f64) -> Result<Vec<Chapter>> {
    let mut list: Vec<ParsedChapter> = Vec::new();
    let mut editions = 0;
    for edition in elements(body) {
        let (id, edition) = edition?;
        if id != 0x45b9 {
            continue;
        }
        editions += 1;
        for atom in elements(edition) {
            let (id, atom) = atom?;
            match id {
                0xb6 => list.extend(parse_chapter(atom)?),
                0x45dd if parse_unsigned(atom)? != 0 => return Err("ordered chapters"),
                _ => {}
            }
        }
    }
    refuse_if(editions > 1, "several editions")?;
    list.sort_by(|a, b| a.0.total_cmp(&b.0));
    let starts: Vec<f64> = list.iter().map(|(start, ..)| *start).collect();
    Ok(list
        .into_iter()
        .enumerate()
        .map(|(index, (start, end, title))| {
            let end = end.or(starts.get(index + 1).copied()).unwrap_or(duration);
            Chapter { title, start_seconds: start, end_seconds: end.max(start) }
        })
        .collect())
}

/// Start, end and title.
type ParsedChapter = (f64, Option<f64>, Option<String>);

/// None for a hidden chapter.
fn parse_chapter(body: &[u8]) -> Result<Option<ParsedChapter>> {
    let (mut start, mut end, mut title, mut is_visible) = (0.0, None, None, true);
    for field in elements(body) {
        let (id, value) = field?;
        match id {
            0x91 => start = parse_unsigned(value)? as f64 / 1e9,
            0x92 => end = Some(parse_unsigned(value)? as f64 / 1e9),
            0x98 => is_visible = parse_unsigned(value)? == 0,
            0xb6 => return Err("nested chapters"),
            0x80 if title.is_none() => title = find_child(value, 0x85)?.and_then(parse_text),
            _ => {}
        }
    }
    Ok(is_visible.then_some((start, end, title)))
}

/// The first child with this id; an error if a damaged element precedes it.
fn find_child(body: &[u8], child_id: u32) -> Result<Option<&[u8]>, Truncated> {
    let found = elements(body).find(|entry| entry.is_err() || matches!(entry, Ok((id, _)) if *id == child_id));
    Ok(found.transpose()?.map(|(_, value)| value))
}

fn parse_unsigned(value: &[u8]) -> Result<u64, Truncated> {
    if value.len() > 8 { Err(Truncated) } else { Ok(parse_uint(value)) }
}

fn parse_float(value: &[u8]) -> Result<f64> {
    match value.len() {
        0 => Ok(0.0),
        4 => Ok(f64::from(f32::from_bits(parse_uint(value) as u32))),
        8 => Ok(f64::from_bits(parse_uint(value))),
        _ => Err("not a number"),
    }
}
