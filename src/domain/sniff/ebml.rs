//! Matroska and WebM (RFC 8794, RFC 9559): DocType, and whether there is video.

use super::{ByteSource, Container, FileFormat, MediaKind};

/// Elements read before giving up.
const MAX_ELEMENTS: usize = 64;

struct Element {
    id: u32,
    /// Offset of the content from the start of the slice.
    content: usize,
    /// None for "unknown", as written by live recordings.
    len: Option<u64>,
}

fn parse_element(bytes: &[u8]) -> Option<Element> {
    let id_len = bytes.first()?.leading_zeros() as usize + 1;
    if id_len > 4 {
        return None;
    }
    let id = bytes.get(..id_len)?.iter().fold(0, |id, byte| id << 8 | u32::from(*byte));
    let first = *bytes.get(id_len)?;
    let size_len = first.leading_zeros() as usize + 1;
    if size_len > 8 {
        return None;
    }
    let mask = (1u64 << (7 * size_len)) - 1;
    let raw = bytes.get(id_len..id_len + size_len)?.iter().fold(0, |len, byte| len << 8 | u64::from(*byte));
    let len = raw & mask;
    Some(Element { id, content: id_len + size_len, len: (len != mask).then_some(len) })
}

/// Recognises a file that starts with the EBML signature.
pub(super) fn detect_format<B: ByteSource>(bytes: &mut B, head: &[u8]) -> Result<Option<FileFormat>, B::Error> {
    let Some(ebml) = parse_element(head) else { return Ok(None) };
    let Some(len) = ebml.len.filter(|len| *len <= 4096) else { return Ok(None) };
    let end = ebml.content + len as usize;
    let container = match find_doc_type(head.get(ebml.content..end.min(head.len())).unwrap_or_default()) {
        Some(b"webm") => Container::WebM,
        Some(b"matroska") => Container::Matroska,
        _ => return Ok(None),
    };
    let kind = is_audio_only(bytes, end as u64)?
        .map_or(MediaKind::Video, |is_audio| if is_audio { MediaKind::Audio } else { MediaKind::Video });
    Ok(Some(FileFormat { container, kind }))
}

fn find_doc_type(mut header: &[u8]) -> Option<&[u8]> {
    while let Some(found) = parse_element(header) {
        let end = found.content.checked_add(usize::try_from(found.len?).ok()?)?;
        let value = header.get(found.content..end)?;
        if found.id == 0x4282 {
            let text = value.split(|byte| *byte == 0).next()?;
            return Some(text);
        }
        header = &header[end..];
    }
    None
}

/// True if the tracks are audio-only; None if no tracks are found near the start.
fn is_audio_only<B: ByteSource>(bytes: &mut B, segment: u64) -> Result<Option<bool>, B::Error> {
    const SEGMENT: u32 = 0x1853_8067;
    const TRACKS: u32 = 0x1654_ae6b;
    const CLUSTER: u32 = 0x1f43_b675;
    const TRACK_ENTRY: u32 = 0xae;
    let Some(segment_element) = parse_element(&bytes.read_at(segment, 16)?) else { return Ok(None) };
    if segment_element.id != SEGMENT {
        return Ok(None);
    }
    let mut offset = segment + segment_element.content as u64;
    let mut is_in_tracks = false;
    let (mut has_video, mut has_audio) = (false, false);
    for _ in 0..MAX_ELEMENTS {
        let Some(child) = parse_element(&bytes.read_at(offset, 16)?) else { break };
        let content = offset + child.content as u64;
        match child.id {
            TRACKS => {
                is_in_tracks = true;
                offset = content;
                continue;
            }
            TRACK_ENTRY if is_in_tracks => match find_track_type(&bytes.read_at(content, 1024)?) {
                Some(1) => has_video = true,
                Some(2) => has_audio = true,
                _ => {}
            },
            CLUSTER => break,
            _ if is_in_tracks && child.id > 0xff_ffff => break,
            _ => {}
        }
        let Some(next) = child.len.and_then(|len| content.checked_add(len)) else { break };
        offset = next;
    }
    Ok((has_video || has_audio).then_some(has_audio && !has_video))
}

fn find_track_type(mut entry: &[u8]) -> Option<u8> {
    while let Some(found) = parse_element(entry) {
        if found.id == 0x83 {
            return entry.get(found.content).copied();
        }
        let end = found.content.checked_add(usize::try_from(found.len?).ok()?)?;
        entry = entry.get(end..)?;
    }
    None
}
