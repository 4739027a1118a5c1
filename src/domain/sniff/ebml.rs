//! Matroska and WebM (RFC 8794, RFC 9559): DocType, and whether there is video.

use super::{Bytes, Container, Kind, Sniffed};

/// Elements read before giving up.
const MAX_ELEMENTS: usize = 64;

struct Element {
    id: u32,
    /// Offset of the content from the start of the slice.
    content: usize,
    /// None for "unknown", as written by live recordings.
    len: Option<u64>,
}

fn element(bytes: &[u8]) -> Option<Element> {
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
pub(super) fn sniff<B: Bytes>(bytes: &mut B, head: &[u8]) -> Result<Option<Sniffed>, B::Error> {
    let Some(ebml) = element(head) else { return Ok(None) };
    let Some(len) = ebml.len.filter(|len| *len <= 4096) else { return Ok(None) };
    let end = ebml.content + len as usize;
    let container = match doc_type(head.get(ebml.content..end.min(head.len())).unwrap_or_default()) {
        Some(b"webm") => Container::WebM,
        Some(b"matroska") => Container::Matroska,
        _ => return Ok(None),
    };
    let kind =
        only_sound(bytes, end as u64)?.map_or(Kind::Video, |sound| if sound { Kind::Audio } else { Kind::Video });
    Ok(Some(Sniffed { container, kind }))
}

fn doc_type(mut header: &[u8]) -> Option<&[u8]> {
    while let Some(found) = element(header) {
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
fn only_sound<B: Bytes>(bytes: &mut B, segment: u64) -> Result<Option<bool>, B::Error> {
    const SEGMENT: u32 = 0x1853_8067;
    const TRACKS: u32 = 0x1654_ae6b;
    const CLUSTER: u32 = 0x1f43_b675;
    const TRACK_ENTRY: u32 = 0xae;
    let Some(found) = element(&bytes.at(segment, 16)?) else { return Ok(None) };
    if found.id != SEGMENT {
        return Ok(None);
    }
    let mut offset = segment + found.content as u64;
    let mut inside_tracks = false;
    let (mut picture, mut sound) = (false, false);
    for _ in 0..MAX_ELEMENTS {
        let Some(found) = element(&bytes.at(offset, 16)?) else { break };
        let content = offset + found.content as u64;
        match found.id {
            TRACKS => {
                inside_tracks = true;
                offset = content;
                continue;
            }
            TRACK_ENTRY if inside_tracks => match track_type(&bytes.at(content, 1024)?) {
                Some(1) => picture = true,
                Some(2) => sound = true,
                _ => {}
            },
            CLUSTER => break,
            _ if inside_tracks && found.id > 0xff_ffff => break,
            _ => {}
        }
        let Some(next) = found.len.and_then(|len| content.checked_add(len)) else { break };
        offset = next;
    }
    Ok((picture || sound).then_some(sound && !picture))
}

fn track_type(mut entry: &[u8]) -> Option<u8> {
    while let Some(found) = element(entry) {
        if found.id == 0x83 {
            return entry.get(found.content).copied();
        }
        let end = found.content.checked_add(usize::try_from(found.len?).ok()?)?;
        entry = entry.get(end..)?;
    }
    None
}
