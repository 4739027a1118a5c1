//! Reads the headers of a Matroska or WebM file (RFC 8794, RFC 9559): tracks, flags, chapters, attachments, timing.
//!
//! Elements are visited in place: only the needed ones are read, each below a megabyte, and of the clusters only the first
//! blocks.

use super::outline::{ContainerOutline, NeedsFfprobe, OutlineTrackKind};
use crate::domain::media::{Attachment, Chapter, Container, Tags};
use crate::engine::source::SourceFile;

mod blocks;
mod ebml;
mod track;

pub(super) use blocks::{last_cluster, last_timestamp};
use ebml::{
    ChildElements, Element, parse_float, parse_text, parse_unsigned, read_content, read_element, read_truncated_element,
};
use track::TimedMatroskaTrack;

/// Maximum number of elements visited at one level.
const MAX_ELEMENTS: usize = 4096;

/// Reads the file's outline; `webm` states the DocType.
pub(super) fn read_outline(source: &SourceFile, webm: bool) -> Result<ContainerOutline, NeedsFfprobe> {
    let segment = read_segment(source)?;
    if segment.end() > source.len {
        return Err(NeedsFfprobe("truncated"));
    }
    let parts = SegmentParts::locate(source, segment)?;
    let info = read_content(source, parts.info.ok_or(NeedsFfprobe("no info"))?)?;
    let (duration, title) = parse_info(&info)?;
    let mut tracks: Vec<TimedMatroskaTrack> = Vec::new();
    for entry in ChildElements(&read_content(source, parts.tracks.ok_or(NeedsFfprobe("no tracks"))?)?) {
        let (id, body) = entry?;
        if id == 0xae {
            tracks.push(track::parse_track(body, tracks.len() as u32)?);
        }
    }
    if !tracks.iter().any(|timed_track| timed_track.track.kind == OutlineTrackKind::Video) {
        return Err(NeedsFfprobe("no video"));
    }
    let start = blocks::first_timestamp(source, parts.cluster.ok_or(NeedsFfprobe("no cluster"))?, &mut tracks)?;
    let chapters = match parts.chapters {
        Some(part) => parse_chapters(&read_content(source, part)?, duration)?,
        None => Vec::new(),
    };
    let attachments = match parts.attachments {
        Some(part) => read_attachments(source, part)?,
        None => Vec::new(),
    };
    Ok(ContainerOutline {
        container: if webm { Container::Webm } else { Container::Matroska },
        duration_seconds: duration,
        start_seconds: start,
        tracks: tracks.into_iter().map(|timed_track| timed_track.track).collect(),
        chapters,
        attachments,
        tags: Tags { title, ..Tags::default() },
    })
}

/// The positions of a segment's parts.
#[derive(Default)]
struct SegmentParts {
    info: Option<Element>,
    tracks: Option<Element>,
    chapters: Option<Element>,
    attachments: Option<Element>,
    cluster: Option<Element>,
}

impl SegmentParts {
    /// Finds the parts before the first cluster, and those after it that the seek head lists.
    fn locate(source: &SourceFile, segment: Element) -> Result<Self, NeedsFfprobe> {
        let mut parts = Self::default();
        let mut seek_positions = Vec::new();
        let mut position = segment.content_start;
        for _ in 0..MAX_ELEMENTS {
            if position >= segment.end() {
                break;
            }
            let child = read_element(source, position)?;
            if child.id == 0x1f43_b675 {
                parts.cluster = Some(child);
                break;
            }
            if child.id == 0x114d_9b74 {
                seek_positions = parse_seek_head(&read_content(source, child)?)?;
            }
            parts.record(child);
            position = child.end();
        }
        for offset in seek_positions {
            let position = segment.content_start.checked_add(offset).filter(|at| *at < segment.end());
            let child = read_element(source, position.ok_or(NeedsFfprobe("a seek entry points outside"))?)?;
            parts.record(child);
        }
        Ok(parts)
    }

    fn record(&mut self, child: Element) {
        let field = match child.id {
            0x1549_a966 => &mut self.info,
            0x1654_ae6b => &mut self.tracks,
            0x1043_a770 => &mut self.chapters,
            0x1941_a469 => &mut self.attachments,
            _ => return,
        };
        field.get_or_insert(child);
    }
}

/// The segment, which follows the EBML header.
fn read_segment(source: &SourceFile) -> Result<Element, NeedsFfprobe> {
    let header = read_element(source, 0)?;
    let segment = read_element(source, header.end())?;
    if (header.id, segment.id) != (0x1a45_dfa3, 0x1853_8067) {
        return Err(NeedsFfprobe("not a segment"));
    }
    Ok(segment)
}

/// Where the segment ends by its header; None if its size is unknown.
pub(super) fn stated_end(source: &SourceFile) -> Option<u64> {
    let header = read_element(source, 0).ok()?;
    let segment = read_truncated_element(source, header.end())?;
    (segment.id == 0x1853_8067).then_some(segment.end()).filter(|end| *end < u64::MAX)
}

/// Positions in the seek head, relative to the segment's content.
fn parse_seek_head(body: &[u8]) -> Result<Vec<u64>, NeedsFfprobe> {
    let mut positions = Vec::new();
    for entry in ChildElements(body) {
        let (id, seek) = entry?;
        if id != 0x4dbb {
            continue;
        }
        let (mut target_id, mut position) = (0, None);
        for field in ChildElements(seek) {
            let (id, value) = field?;
            match id {
                0x53ab => target_id = parse_unsigned(value)?,
                0x53ac => position = Some(parse_unsigned(value)?),
                _ => {}
            }
        }
        // Info, Tracks, Chapters and Attachments; Cues and Tags are not needed here.
        if matches!(target_id, 0x1549_a966 | 0x1654_ae6b | 0x1043_a770 | 0x1941_a469) {
            positions.extend(position);
        }
    }
    Ok(positions)
}

/// Duration in seconds, and title.
fn parse_info(body: &[u8]) -> Result<(f64, Option<String>), NeedsFfprobe> {
    let (mut scale, mut units, mut title) = (1_000_000, None, None);
    for field in ChildElements(body) {
        let (id, value) = field?;
        match id {
            0x2a_d7b1 => scale = parse_unsigned(value)?,
            0x4489 => units = Some(parse_float(value)?),
            0x7ba9 => title = parse_text(value),
            _ => {}
        }
    }
    // The readers below take block timestamps as milliseconds, as nearly every file has them.
    if scale != 1_000_000 {
        return Err(NeedsFfprobe("an unusual timestamp scale"));
    }
    let seconds = units.map(|units| units / 1000.0).filter(|seconds| seconds.is_finite() && *seconds > 0.0);
    Ok((seconds.ok_or(NeedsFfprobe("no duration"))?, title))
}

fn parse_chapters(body: &[u8], duration: f64) -> Result<Vec<Chapter>, NeedsFfprobe> {
    let mut list: Vec<ParsedChapter> = Vec::new();
    let mut editions = 0;
    for edition in ChildElements(body) {
        let (id, edition) = edition?;
        if id != 0x45b9 {
            continue;
        }
        editions += 1;
        for atom in ChildElements(edition) {
            let (id, atom) = atom?;
            match id {
                0xb6 => list.extend(parse_chapter(atom)?),
                0x45dd if parse_unsigned(atom)? != 0 => return Err(NeedsFfprobe("ordered chapters")),
                _ => {}
            }
        }
    }
    if editions > 1 {
        return Err(NeedsFfprobe("several editions"));
    }
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
fn parse_chapter(body: &[u8]) -> Result<Option<ParsedChapter>, NeedsFfprobe> {
    let (mut start, mut end, mut title, mut is_visible) = (0.0, None, None, true);
    for field in ChildElements(body) {
        let (id, value) = field?;
        match id {
            0x91 => start = parse_unsigned(value)? as f64 / 1e9,
            0x92 => end = Some(parse_unsigned(value)? as f64 / 1e9),
            0x98 => is_visible = parse_unsigned(value)? == 0,
            0xb6 => return Err(NeedsFfprobe("nested chapters")),
            0x80 if title.is_none() => {
                for field in ChildElements(value) {
                    let (id, value) = field?;
                    if id == 0x85 {
                        title = parse_text(value);
                    }
                }
            }
            _ => {}
        }
    }
    Ok(is_visible.then_some((start, end, title)))
}

/// Names and types of attachments. ffmpeg turns images into streams of their own, so those files are left to ffprobe.
fn read_attachments(source: &SourceFile, part: Element) -> Result<Vec<Attachment>, NeedsFfprobe> {
    let mut list = Vec::new();
    let mut position = part.content_start;
    while position < part.end() && list.len() < 256 {
        let file = read_element(source, position)?;
        position = file.end();
        if file.id != 0x61a7 {
            continue;
        }
        let (attachment, _) = read_attachment(source, file)?;
        if attachment.mime_type.as_deref().is_some_and(|kind| kind.starts_with("image/")) {
            return Err(NeedsFfprobe("cover art"));
        }
        list.push(attachment);
    }
    Ok(list)
}

/// Name and type of one attachment, and the element of its bytes.
fn read_attachment(source: &SourceFile, file: Element) -> Result<(Attachment, Option<Element>), NeedsFfprobe> {
    let mut attachment = Attachment { file_name: None, mime_type: None };
    let (mut position, mut data) = (file.content_start, None);
    for _ in 0..MAX_ELEMENTS {
        if position >= file.end() {
            break;
        }
        let field = read_element(source, position)?;
        position = field.end();
        match field.id {
            0x466e => attachment.file_name = parse_text(&read_content(source, field)?),
            0x4660 => attachment.mime_type = parse_text(&read_content(source, field)?),
            0x465c => data = Some(field),
            _ => {}
        }
    }
    Ok((attachment, data))
}

/// Offset and length of the attachment with this name.
pub(super) fn find_attachment(source: &SourceFile, name: &str) -> Result<Option<(u64, u64)>, NeedsFfprobe> {
    let Some(part) = SegmentParts::locate(source, read_segment(source)?)?.attachments else { return Ok(None) };
    let mut position = part.content_start;
    for _ in 0..MAX_ELEMENTS {
        if position >= part.end() {
            break;
        }
        let file = read_element(source, position)?;
        position = file.end();
        if file.id != 0x61a7 {
            continue;
        }
        let (attachment, data) = read_attachment(source, file)?;
        if attachment.file_name.as_deref() == Some(name) {
            return Ok(data.map(|data| (data.content_start, data.content_len)));
        }
    }
    Ok(None)
}
