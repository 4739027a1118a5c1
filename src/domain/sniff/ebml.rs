//! Matroska and WebM (RFC 8794, RFC 9559): DocType, and whether there is video.

use super::{ByteSource, Container, FileFormat, MediaKind};
use crate::domain::bytes::ByteCursor;
use crate::domain::ebml::{Element, child, parse_header, parse_uint};

/// Elements read before giving up.
const MAX_ELEMENTS: usize = 64;

const DOC_TYPE: u32 = 0x4282;

fn parse_element(bytes: &[u8]) -> Option<Element> {
    parse_header(&mut ByteCursor(bytes), 0).ok()
}

/// Recognises a file that starts with the EBML signature.
pub(super) fn detect_format<B: ByteSource>(bytes: &mut B, head: &[u8]) -> Result<Option<FileFormat>, B::Error> {
    let Some(ebml) = parse_element(head) else { return Ok(None) };
    if ebml.size.is_none_or(|size| size > 4096) {
        return Ok(None);
    }
    let header = head.get(ebml.body as usize..head.len().min(ebml.end() as usize)).unwrap_or_default();
    let container = match child(header, DOC_TYPE).and_then(|text| text.split(|byte| *byte == 0).next()) {
        Some(b"webm") => Container::WebM,
        Some(b"matroska") => Container::Matroska,
        _ => return Ok(None),
    };
    let kind = is_audio_only(bytes, ebml.end())?
        .map_or(MediaKind::Video, |is_audio| if is_audio { MediaKind::Audio } else { MediaKind::Video });
    Ok(Some(FileFormat { container, kind }))
}

/// True if the tracks are audio-only; None if no tracks are found near the start.
fn is_audio_only<B: ByteSource>(bytes: &mut B, segment: u64) -> Result<Option<bool>, B::Error> {
    const SEGMENT: u32 = 0x1853_8067;
    const TRACKS: u32 = 0x1654_ae6b;
    const CLUSTER: u32 = 0x1f43_b675;
    const TRACK_ENTRY: u32 = 0xae;
    const TRACK_TYPE: u32 = 0x83;
    let Some(segment_element) = parse_element(&bytes.read_at(segment, 16)?) else { return Ok(None) };
    if segment_element.id != SEGMENT {
        return Ok(None);
    }
    let mut offset = segment + segment_element.body;
    let mut is_in_tracks = false;
    let (mut has_video, mut has_audio) = (false, false);
    for _ in 0..MAX_ELEMENTS {
        let Some(element) = parse_element(&bytes.read_at(offset, 16)?) else { break };
        let content = offset + element.body;
        match element.id {
            TRACKS => {
                is_in_tracks = true;
                offset = content;
                continue;
            }
            TRACK_ENTRY if is_in_tracks => match child(&bytes.read_at(content, 1024)?, TRACK_TYPE).map(parse_uint) {
                Some(1) => has_video = true,
                Some(2) => has_audio = true,
                _ => {}
            },
            CLUSTER => break,
            _ if is_in_tracks && element.id > 0xff_ffff => break,
            _ => {}
        }
        let Some(next) = element.size.and_then(|size| content.checked_add(size)) else { break };
        offset = next;
    }
    Ok((has_video || has_audio).then_some(has_audio && !has_video))
}
