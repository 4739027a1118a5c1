//! Reads the headers of a Matroska or WebM file (RFC 8794, RFC 9559): tracks, flags, chapters, attachments, timing.
//!
//! Elements are visited in place: only those that are needed are read, each below a megabyte, and the clusters are
//! looked at no further than the first blocks.

use std::os::unix::fs::FileExt;

use super::outline::{Kind, Outline, Track, Unsure, number, usual_rate};
use crate::domain::media::{Attachment, Chapter, Container, Tags};
use crate::domain::time::FrameRate;
use crate::engine::source::Source;

/// Largest element read whole.
const ELEMENT_BYTES: u64 = 1 << 20;
/// Elements visited at one level.
const ELEMENTS: usize = 4096;
/// Elements visited to find the last block of a file that was cut short.
const WALK: usize = 200_000;
/// Blocks looked at to find the first timestamp; sound and picture interleave well within it.
const FIRST_BLOCKS: usize = 64;

/// An element in the file: what it is, where its content begins, and how long that is.
#[derive(Clone, Copy, Debug)]
struct Element {
    id: u64,
    at: u64,
    len: u64,
}

impl Element {
    fn end(&self) -> u64 {
        self.at.saturating_add(self.len)
    }
}

/// Reads the file's outline; `webm` by its DocType.
pub(super) fn read(source: &Source, webm: bool) -> Result<Outline, Unsure> {
    let header = element(source, 0)?;
    let segment = element(source, header.end())?;
    if (header.id, segment.id) != (0x1a45_dfa3, 0x1853_8067) {
        return Err(Unsure("not a segment"));
    }
    if segment.end() > source.len {
        return Err(Unsure("cut short"));
    }
    let parts = Parts::find(source, segment)?;
    let info = whole(source, parts.info.ok_or(Unsure("no info"))?)?;
    let (duration, title) = information(&info)?;
    let mut tracks: Vec<Listed> = Vec::new();
    for entry in Inside(&whole(source, parts.tracks.ok_or(Unsure("no tracks"))?)?) {
        let (id, body) = entry?;
        if id == 0xae {
            tracks.push(track(body, tracks.len() as u32)?);
        }
    }
    if !tracks.iter().any(|listed| listed.track.kind == Kind::Video) {
        return Err(Unsure("no picture"));
    }
    let start = first_timestamp(source, parts.cluster.ok_or(Unsure("no cluster"))?, &tracks)?;
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

/// Where the parts of a segment are.
#[derive(Default)]
struct Parts {
    info: Option<Element>,
    tracks: Option<Element>,
    chapters: Option<Element>,
    attachments: Option<Element>,
    cluster: Option<Element>,
}

impl Parts {
    /// Those before the first cluster, and those the seek head names behind it.
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

/// The header of the element at `at`. Unknown sizes (live recordings) are not handled here.
fn element(source: &Source, at: u64) -> Result<Element, Unsure> {
    let mut head = [0; 12];
    let filled = source.file.read_at(&mut head, at).map_err(|_| Unsure("unreadable"))?;
    let (id, id_len) = vint(&head[..filled], true)?;
    let (len, size_len) = vint(head[..filled].get(id_len..).unwrap_or_default(), false)?;
    let at = at + (id_len + size_len) as u64;
    if at.saturating_add(len) > source.len {
        return Err(Unsure("cut short"));
    }
    Ok(Element { id, at, len })
}

/// Where the segment's header says it ends; None when it says nothing.
pub(super) fn promised_end(source: &Source) -> Option<u64> {
    let header = element(source, 0).ok()?;
    let segment = loose(source, header.end())?;
    (segment.id == 0x1853_8067).then_some(segment.end()).filter(|end| *end < u64::MAX)
}

/// The timestamp of the last block that is there, seconds. Whole clusters are passed over.
pub(super) fn last_timestamp(source: &Source) -> Option<f64> {
    let header = element(source, 0).ok()?;
    let segment = loose(source, header.end())?;
    let (mut at, mut base, mut last, mut cluster) = (segment.at, 0.0, None, None);
    for _ in 0..WALK {
        let Some(found) = loose(source, at) else {
            // The end of the file, or of what can be read: what is inside the last cluster passed over is left.
            let Some(inside) = cluster.take() else { break };
            at = inside;
            continue;
        };
        let whole = found.end() < source.len;
        match found.id {
            0x1f43_b675 if whole => cluster = Some(found.at),
            0x1f43_b675 => {
                cluster = None;
                at = found.at;
                continue;
            }
            0xe7 if found.len <= 8 => base = unsigned(&whole_of(source, found)?).ok()? as f64,
            0xa3 | 0xa1 => {
                let mut head = [0; 11];
                let filled = source.file.read_at(&mut head, found.at).ok()?;
                let offset = vint(&head[..filled], false).and_then(|(_, used)| number(&head[..filled], used, 2));
                last = offset.ok().map(|offset| base + f64::from(offset as u16 as i16)).or(last);
            }
            0xa0 => {
                at = found.at;
                continue;
            }
            _ => {}
        }
        if !whole && found.id != 0x1f43_b675 {
            let Some(inside) = cluster.take() else { break };
            at = inside;
            continue;
        }
        at = found.end();
    }
    last.map(|milliseconds: f64| milliseconds / 1000.0)
}

/// An element header whose content may run past the end; an unknown size has no end.
fn loose(source: &Source, at: u64) -> Option<Element> {
    if at >= source.len {
        return None;
    }
    let mut head = [0; 12];
    let filled = source.file.read_at(&mut head, at).ok()?;
    let (id, id_len) = vint(&head[..filled], true).ok()?;
    let rest = head[..filled].get(id_len..)?;
    let size_len = rest.first()?.leading_zeros() as usize + 1;
    let len = vint(rest, false).map_or(u64::MAX, |(len, _)| len);
    Some(Element { id, at: at + (id_len + size_len) as u64, len })
}

fn whole_of(source: &Source, part: Element) -> Option<Vec<u8>> {
    whole(source, part).ok()
}

/// A variable-size integer (RFC 8794 section 4) and its length; ids keep their marker.
fn vint(bytes: &[u8], keep_marker: bool) -> Result<(u64, usize), Unsure> {
    let first = *bytes.first().ok_or(Unsure("an element is cut short"))?;
    let len = first.leading_zeros() as usize + 1;
    if len > 8 || (keep_marker && len > 4) {
        return Err(Unsure("not an element"));
    }
    let raw = number(bytes, 0, len)?;
    if keep_marker {
        return Ok((raw, len));
    }
    let mask = (1u64 << (7 * len)) - 1;
    let value = raw & mask;
    if value == mask { Err(Unsure("an unknown size")) } else { Ok((value, len)) }
}

fn whole(source: &Source, part: Element) -> Result<Vec<u8>, Unsure> {
    if part.len > ELEMENT_BYTES {
        return Err(Unsure("a large header"));
    }
    let mut body = vec![0; part.len as usize];
    source.file.read_exact_at(&mut body, part.at).map_err(|_| Unsure("unreadable"))?;
    Ok(body)
}

/// The elements inside one that was read.
struct Inside<'a>(&'a [u8]);

impl<'a> Iterator for Inside<'a> {
    type Item = Result<(u64, &'a [u8]), Unsure>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let split = || {
            let (id, id_len) = vint(self.0, true)?;
            let (len, size_len) = vint(&self.0[id_len..], false)?;
            let from = id_len + size_len;
            let end = usize::try_from(len).ok().and_then(|len| from.checked_add(len));
            let body = end.and_then(|end| self.0.get(from..end)).ok_or(Unsure("an element runs past its parent"))?;
            Ok((from + body.len(), (id, body)))
        };
        match split() {
            Ok((used, found)) => {
                self.0 = &self.0[used..];
                Some(Ok(found))
            }
            Err(unsure) => {
                self.0 = &[];
                Some(Err(unsure))
            }
        }
    }
}

/// Positions the seek head gives, relative to the segment's content.
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
        // Info, tracks, chapters and attachments; cues and tags are not needed here.
        if matches!(wanted, 0x1549_a966 | 0x1654_ae6b | 0x1043_a770 | 0x1941_a469) {
            positions.extend(position);
        }
    }
    Ok(positions)
}

/// Length in seconds and title.
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
    // Block timestamps below are read in milliseconds, as nearly every file has them.
    if scale != 1_000_000 {
        return Err(Unsure("an unusual clock"));
    }
    let seconds = units.map(|units| units / 1000.0).filter(|seconds| seconds.is_finite() && *seconds > 0.0);
    Ok((seconds.ok_or(Unsure("no duration"))?, title))
}

struct Listed {
    track: Track,
    /// Sound that is decoded and thrown away at the start, milliseconds.
    delay_ms: f64,
}

fn track(body: &[u8], index: u32) -> Result<Listed, Unsure> {
    let mut track = Track { index, default: true, ..Track::default() };
    let (mut kind, mut codec, mut frame_ns, mut delay_ns, mut bcp47) = (0, String::new(), 0, 0, None);
    let mut sampling = 0.0;
    for field in Inside(body) {
        let (id, value) = field?;
        match id {
            0xd7 => track.key = unsigned(value)?,
            0x83 => kind = unsigned(value)?,
            0x86 => codec = text(value).unwrap_or_default(),
            0x63a2 => track.config = value.to_vec(),
            0x88 => track.default = unsigned(value)? != 0,
            0x55aa => track.forced = unsigned(value)? != 0,
            0x55ab => track.hearing_impaired = unsigned(value)? != 0,
            0x55af => track.commentary = unsigned(value)? != 0,
            0x22_b59c => track.language = text(value),
            0x22_b59d => bcp47 = text(value),
            0x536e => track.title = text(value),
            0x23_e383 => frame_ns = unsigned(value)?,
            0x56aa => delay_ns = unsigned(value)?,
            0xe0 => picture(value)?,
            0xe1 => sampling = sample_rate(value)?,
            0x6d80 if value.windows(2).any(|id| id == [0x50, 0x35]) => return Err(Unsure("encrypted")),
            _ => {}
        }
    }
    // English where neither is given (RFC 9559 section 5.1.4.1.19). ffmpeg reads the older field alone.
    track.language = track.language.or(bcp47).or(Some("eng".into())).filter(|language| language != "und");
    (track.kind, track.codec) = match (kind, codec.as_str()) {
        (1, "V_MPEG4/ISO/AVC") => (Kind::Video, "h264"),
        (1, "V_MPEGH/ISO/HEVC") => (Kind::Video, "hevc"),
        (1, "V_VP8") => (Kind::Video, "vp8"),
        (1, "V_VP9") => (Kind::Video, "vp9"),
        (1, "V_AV1") => (Kind::Video, "av1"),
        (2, "A_AAC") => (Kind::Audio, "aac"),
        (2, "A_AC3") => (Kind::Audio, "ac3"),
        (2, "A_EAC3") => (Kind::Audio, "eac3"),
        (2, "A_MPEG/L3") => (Kind::Audio, "mp3"),
        (2, "A_OPUS") => (Kind::Audio, "opus"),
        (2, "A_VORBIS") => (Kind::Audio, "vorbis"),
        (2, "A_FLAC") => (Kind::Audio, "flac"),
        (17, "S_TEXT/UTF8") => (Kind::TextSubtitle, "subrip"),
        (17, "S_TEXT/ASS" | "S_ASS" | "S_TEXT/SSA" | "S_SSA") => (Kind::TextSubtitle, "ass"),
        (17, "S_HDMV/PGS") => (Kind::BitmapSubtitle, "hdmv_pgs_subtitle"),
        (17, "S_VOBSUB") => (Kind::BitmapSubtitle, "dvd_subtitle"),
        _ => return Err(Unsure("an unusual codec")),
    };
    if track.codec == "aac" && sampling <= 24_000.0 {
        return Err(Unsure("AAC that may be HE-AAC"));
    }
    if track.kind == Kind::Video {
        if frame_ns == 0 {
            return Err(Unsure("no frame rate"));
        }
        let measured = 1e9 / frame_ns as f64;
        let exact = FrameRate::new((measured * 1000.0).round() as u32, 1000);
        track.frame_rate = usual_rate(measured).or(exact).filter(|rate| (0.01..=500.0).contains(&rate.as_f64()));
    }
    Ok(Listed { track, delay_ms: delay_ns as f64 / 1e6 })
}

/// Leaves to ffprobe what a plain picture does not have.
fn picture(body: &[u8]) -> Result<(), Unsure> {
    for field in Inside(body) {
        let (id, value) = field?;
        match id {
            0x9a if unsigned(value)? == 1 => return Err(Unsure("interlaced")),
            0x7670 => return Err(Unsure("a projection")),
            0x53b8 if unsigned(value)? != 0 => return Err(Unsure("stereoscopic")),
            0x53c0 if unsigned(value)? != 0 => return Err(Unsure("an alpha channel")),
            _ => {}
        }
    }
    Ok(())
}

fn sample_rate(body: &[u8]) -> Result<f64, Unsure> {
    for field in Inside(body) {
        let (id, value) = field?;
        if id == 0xb5 {
            return float(value);
        }
    }
    Ok(8000.0)
}

/// The earliest timestamp of sound and picture among the first blocks, seconds.
fn first_timestamp(source: &Source, cluster: Element, tracks: &[Listed]) -> Result<f64, Unsure> {
    let mut base = 0.0;
    let mut earliest = f64::INFINITY;
    let mut at = cluster.at;
    let mut blocks = 0;
    for _ in 0..FIRST_BLOCKS * 2 {
        if at >= cluster.end() || blocks == FIRST_BLOCKS {
            break;
        }
        let found = element(source, at)?;
        let mut block = None;
        match found.id {
            0xe7 => base = unsigned(&whole(source, found)?)? as f64,
            0xa3 => block = Some(found.at),
            // A group begins with its block in every file seen; another order is left alone.
            0xa0 => block = Some(element(source, found.at)?).filter(|inner| inner.id == 0xa1).map(|inner| inner.at),
            _ => {}
        }
        if let Some(block) = block {
            blocks += 1;
            let mut head = [0; 11];
            let filled = source.file.read_at(&mut head, block).map_err(|_| Unsure("unreadable"))?;
            let (key, used) = vint(&head[..filled], false)?;
            let offset = number(&head[..filled], used, 2)? as u16 as i16;
            let played = |listed: &&Listed| matches!(listed.track.kind, Kind::Video | Kind::Audio);
            if let Some(listed) = tracks.iter().filter(played).find(|listed| listed.track.key == key) {
                earliest = earliest.min(base + f64::from(offset) - listed.delay_ms);
            }
        }
        at = found.end();
    }
    if earliest.is_finite() { Ok(earliest / 1000.0) } else { Err(Unsure("no blocks")) }
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

/// None for a hidden one.
fn chapter(body: &[u8]) -> Result<Option<Atom>, Unsure> {
    let (mut start, mut end, mut title, mut shown) = (0.0, None, None, true);
    for field in Inside(body) {
        let (id, value) = field?;
        match id {
            0x91 => start = unsigned(value)? as f64 / 1e9,
            0x92 => end = Some(unsigned(value)? as f64 / 1e9),
            0x98 => shown = unsigned(value)? == 0,
            0xb6 => return Err(Unsure("chapters in chapters")),
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

/// Names and types of attached files. Pictures become streams of their own in ffmpeg: left to ffprobe.
fn attachments(source: &Source, part: Element) -> Result<Vec<Attachment>, Unsure> {
    let mut list = Vec::new();
    let mut at = part.at;
    while at < part.end() && list.len() < 256 {
        let file = element(source, at)?;
        at = file.end();
        if file.id != 0x61a7 {
            continue;
        }
        let mut attachment = Attachment { file_name: None, mime_type: None };
        let mut inside = file.at;
        while inside < file.end() {
            let field = element(source, inside)?;
            inside = field.end();
            match field.id {
                0x466e => attachment.file_name = text(&whole(source, field)?),
                0x4660 => attachment.mime_type = text(&whole(source, field)?),
                _ => {}
            }
        }
        if attachment.mime_type.as_deref().is_some_and(|kind| kind.starts_with("image/")) {
            return Err(Unsure("a cover"));
        }
        list.push(attachment);
    }
    Ok(list)
}

fn unsigned(value: &[u8]) -> Result<u64, Unsure> {
    if value.len() > 8 { Err(Unsure("a number is too long")) } else { number(value, 0, value.len()) }
}

fn float(value: &[u8]) -> Result<f64, Unsure> {
    match value.len() {
        0 => Ok(0.0),
        4 => Ok(f64::from(f32::from_bits(number(value, 0, 4)? as u32))),
        8 => Ok(f64::from_bits(number(value, 0, 8)?)),
        _ => Err(Unsure("not a number")),
    }
}

fn text(value: &[u8]) -> Option<String> {
    let text: String = String::from_utf8_lossy(value).trim_matches('\0').trim().chars().take(512).collect();
    (!text.is_empty()).then_some(text)
}
