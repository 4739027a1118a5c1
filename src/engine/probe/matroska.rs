//! Reads the headers of a Matroska or WebM file (RFC 8794, RFC 9559): tracks, flags, chapters, attachments, timing.
//!
//! Elements are visited in place: only the needed ones are read, each below a megabyte, and of the clusters only the first
//! blocks.

use super::outline::{Kind, Outline, Unsure};
use crate::domain::media::{Attachment, Chapter, Container, Tags};
use crate::engine::source::Source;

mod blocks;
mod ebml;
mod track;

pub(super) use blocks::{last_cluster, last_timestamp};
use ebml::{Element, Inside, element, float, loose, text, unsigned, whole};
use track::Listed;

/// Maximum number of elements visited at one level.
const ELEMENTS: usize = 4096;

/// Reads the file's outline; `webm` states the DocType.
pub(super) fn read(source: &Source, webm: bool) -> Result<Outline, Unsure> {
    let header = element(source, 0)?;
    let segment = element(source, header.end())?;
    if (header.id, segment.id) != (0x1a45_dfa3, 0x1853_8067) {
        return Err(Unsure("not a segment"));
    }
    if segment.end() > source.len {
        return Err(Unsure("truncated"));
    }
    let parts = Parts::find(source, segment)?;
    let info = whole(source, parts.info.ok_or(Unsure("no info"))?)?;
    let (duration, title) = information(&info)?;
    let mut tracks: Vec<Listed> = Vec::new();
    for entry in Inside(&whole(source, parts.tracks.ok_or(Unsure("no tracks"))?)?) {
        let (id, body) = entry?;
        if id == 0xae {
            tracks.push(track::track(body, tracks.len() as u32)?);
        }
    }
    if !tracks.iter().any(|listed| listed.track.kind == Kind::Video) {
        return Err(Unsure("no video"));
    }
    let start = blocks::first_timestamp(source, parts.cluster.ok_or(Unsure("no cluster"))?, &mut tracks)?;
    let chapters = match parts.chapters {
        Some(part) => chapters(&whole(source, part)?, duration)?,
        None => Vec::new(),
    };
    let attachments = match parts.attachments {
        Some(part) => attachments(source, part)?,
        None => Vec::new(),
    };
    Ok(Outline {
        container: if webm { Container::Webm } else { Container::Matroska },
        duration_seconds: duration,
        start_seconds: start,
        tracks: tracks.into_iter().map(|listed| listed.track).collect(),
        chapters,
        attachments,
        tags: Tags { title, ..Tags::default() },
    })
}

/// The positions of a segment's parts.
#[derive(Default)]
struct Parts {
    info: Option<Element>,
    tracks: Option<Element>,
    chapters: Option<Element>,
    attachments: Option<Element>,
    cluster: Option<Element>,
}

impl Parts {
    /// Finds the parts before the first cluster, and those after it that the seek head lists.
    fn find(source: &Source, segment: Element) -> Result<Self, Unsure> {
        let mut parts = Self::default();
        let mut elsewhere = Vec::new();
        let mut at = segment.at;
        for _ in 0..ELEMENTS {
            if at >= segment.end() {
                break;
            }
            let found = element(source, at)?;
            if found.id == 0x1f43_b675 {
                parts.cluster = Some(found);
                break;
            }
            if found.id == 0x114d_9b74 {
                elsewhere = seek_head(&whole(source, found)?)?;
            }
            parts.keep(found);
            at = found.end();
        }
        for offset in elsewhere {
            let at = segment.at.checked_add(offset).filter(|at| *at < segment.end());
            let found = element(source, at.ok_or(Unsure("a seek entry points outside"))?)?;
            parts.keep(found);
        }
        Ok(parts)
    }

    fn keep(&mut self, found: Element) {
        let slot = match found.id {
            0x1549_a966 => &mut self.info,
            0x1654_ae6b => &mut self.tracks,
            0x1043_a770 => &mut self.chapters,
            0x1941_a469 => &mut self.attachments,
            _ => return,
        };
        slot.get_or_insert(found);
    }
}

/// Where the segment ends by its header; None if its size is unknown.
pub(super) fn promised_end(source: &Source) -> Option<u64> {
    let header = element(source, 0).ok()?;
    let segment = loose(source, header.end())?;
    (segment.id == 0x1853_8067).then_some(segment.end()).filter(|end| *end < u64::MAX)
}

/// Positions in the seek head, relative to the segment's content.
fn seek_head(body: &[u8]) -> Result<Vec<u64>, Unsure> {
    let mut positions = Vec::new();
    for entry in Inside(body) {
        let (id, seek) = entry?;
        if id != 0x4dbb {
            continue;
        }
        let (mut wanted, mut position) = (0, None);
        for field in Inside(seek) {
            let (id, value) = field?;
            match id {
                0x53ab => wanted = unsigned(value)?,
                0x53ac => position = Some(unsigned(value)?),
                _ => {}
            }
        }
        // Info, Tracks, Chapters and Attachments; Cues and Tags are not needed here.
        if matches!(wanted, 0x1549_a966 | 0x1654_ae6b | 0x1043_a770 | 0x1941_a469) {
            positions.extend(position);
        }
    }
    Ok(positions)
}

/// Duration in seconds, and title.
fn information(body: &[u8]) -> Result<(f64, Option<String>), Unsure> {
    let (mut scale, mut units, mut title) = (1_000_000, None, None);
    for field in Inside(body) {
        let (id, value) = field?;
        match id {
            0x2a_d7b1 => scale = unsigned(value)?,
            0x4489 => units = Some(float(value)?),
            0x7ba9 => title = text(value),
            _ => {}
        }
    }
    // The readers below take block timestamps as milliseconds, as nearly every file has them.
    if scale != 1_000_000 {
        return Err(Unsure("an unusual timestamp scale"));
    }
    let seconds = units.map(|units| units / 1000.0).filter(|seconds| seconds.is_finite() && *seconds > 0.0);
    Ok((seconds.ok_or(Unsure("no duration"))?, title))
}

fn chapters(body: &[u8], duration: f64) -> Result<Vec<Chapter>, Unsure> {
    let mut list: Vec<Atom> = Vec::new();
    let mut editions = 0;
    for edition in Inside(body) {
        let (id, edition) = edition?;
        if id != 0x45b9 {
            continue;
        }
        editions += 1;
        for atom in Inside(edition) {
            let (id, atom) = atom?;
            match id {
                0xb6 => list.extend(chapter(atom)?),
                0x45dd if unsigned(atom)? != 0 => return Err(Unsure("ordered chapters")),
                _ => {}
            }
        }
    }
    if editions > 1 {
        return Err(Unsure("several editions"));
    }
    list.sort_by(|a, b| a.0.total_cmp(&b.0));
    let starts: Vec<f64> = list.iter().map(|(start, ..)| *start).collect();
    Ok(list
        .into_iter()
        .enumerate()
        .map(|(place, (start, end, title))| {
            let end = end.or(starts.get(place + 1).copied()).unwrap_or(duration);
            Chapter { title, start_seconds: start, end_seconds: end.max(start) }
        })
        .collect())
}

/// Start, end and title.
type Atom = (f64, Option<f64>, Option<String>);

/// None for a hidden chapter.
fn chapter(body: &[u8]) -> Result<Option<Atom>, Unsure> {
    let (mut start, mut end, mut title, mut shown) = (0.0, None, None, true);
    for field in Inside(body) {
        let (id, value) = field?;
        match id {
            0x91 => start = unsigned(value)? as f64 / 1e9,
            0x92 => end = Some(unsigned(value)? as f64 / 1e9),
            0x98 => shown = unsigned(value)? == 0,
            0xb6 => return Err(Unsure("nested chapters")),
            0x80 if title.is_none() => {
                for field in Inside(value) {
                    let (id, value) = field?;
                    if id == 0x85 {
                        title = text(value);
                    }
                }
            }
            _ => {}
        }
    }
    Ok(shown.then_some((start, end, title)))
}

/// Names and types of attachments. ffmpeg turns images into streams of their own, so those files are left to ffprobe.
fn attachments(source: &Source, part: Element) -> Result<Vec<Attachment>, Unsure> {
    let mut list = Vec::new();
    let mut at = part.at;
    while at < part.end() && list.len() < 256 {
        let file = element(source, at)?;
        at = file.end();
        if file.id != 0x61a7 {
            continue;
        }
        let (attachment, _) = attached_file(source, file)?;
        if attachment.mime_type.as_deref().is_some_and(|kind| kind.starts_with("image/")) {
            return Err(Unsure("cover art"));
        }
        list.push(attachment);
    }
    Ok(list)
}

/// Name and type of one attachment, and the element of its bytes.
fn attached_file(source: &Source, file: Element) -> Result<(Attachment, Option<Element>), Unsure> {
    let mut attachment = Attachment { file_name: None, mime_type: None };
    let (mut inside, mut data) = (file.at, None);
    for _ in 0..ELEMENTS {
        if inside >= file.end() {
            break;
        }
        let field = element(source, inside)?;
        inside = field.end();
        match field.id {
            0x466e => attachment.file_name = text(&whole(source, field)?),
            0x4660 => attachment.mime_type = text(&whole(source, field)?),
            0x465c => data = Some(field),
            _ => {}
        }
    }
    Ok((attachment, data))
}

/// Offset and length of the attachment with this name.
pub(super) fn attached(source: &Source, name: &str) -> Result<Option<(u64, u64)>, Unsure> {
    let header = element(source, 0)?;
    let segment = element(source, header.end())?;
    if (header.id, segment.id) != (0x1a45_dfa3, 0x1853_8067) {
        return Err(Unsure("not a segment"));
    }
    let Some(part) = Parts::find(source, segment)?.attachments else { return Ok(None) };
    let mut at = part.at;
    for _ in 0..ELEMENTS {
        if at >= part.end() {
            break;
        }
        let file = element(source, at)?;
        at = file.end();
        if file.id != 0x61a7 {
            continue;
        }
        let (attachment, data) = attached_file(source, file)?;
        if attachment.file_name.as_deref() == Some(name) {
            return Ok(data.map(|data| (data.at, data.len)));
        }
    }
    Ok(None)
}
