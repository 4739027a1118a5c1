//! Boxes of the ISO base media file format (ISO/IEC 14496-12 section 4.2).

use super::super::bytes::{ByteCursor, ReadAt, Truncated};

/// Maximum number of boxes read on one level: a day of one-second fragments, twice over.
const MAX_BOXES: usize = 200_000;

/// A box's position in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileBox {
    pub box_type: [u8; 4],
    pub start: u64,
    /// Start of the content.
    pub body: u64,
    pub end: u64,
}

/// The top-level boxes. A box that reaches beyond the end of the file is the last.
pub fn read_top_level(file: &(impl ReadAt + ?Sized)) -> Vec<FileBox> {
    let (mut boxes, mut position, len) = (Vec::new(), 0u64, file.len());
    while boxes.len() < MAX_BOXES {
        let mut header_bytes = [0; 16];
        let read = file.read_at(&mut header_bytes, position);
        let Ok((box_type, header_len, size)) = parse_header(&header_bytes[..read]) else { break };
        let size = size.unwrap_or(len - position);
        let Some(end) = position.checked_add(size).filter(|_| size >= header_len) else { break };
        boxes.push(FileBox { box_type, start: position, body: position + header_len, end });
        if end >= len {
            break;
        }
        position = end;
    }
    boxes
}

/// Type, header length, and size (None: to the end of the parent box).
fn parse_header(bytes: &[u8]) -> Result<([u8; 4], u64, Option<u64>), Truncated> {
    let mut cursor = ByteCursor(bytes);
    let size = cursor.u32()?;
    let box_type = cursor.take(4)?.try_into().map_err(|_| Truncated)?;
    Ok(match size {
        0 => (box_type, 8, None),
        1 => (box_type, 16, Some(cursor.u64()?)),
        size => (box_type, 8, Some(u64::from(size))),
    })
}

/// The boxes in a body, up to the first damaged one.
pub fn children(mut body: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    std::iter::from_fn(move || {
        let (box_type, header_len, size) = parse_header(body).ok()?;
        let size = usize::try_from(size.unwrap_or(body.len() as u64)).ok()?;
        let content_start = header_len as usize;
        let content = body.get(content_start..size)?;
        body = &body[size..];
        Some((box_type, content))
    })
}

/// The first box of a type in a body.
pub fn child<'a>(body: &'a [u8], box_type: &[u8; 4]) -> Option<&'a [u8]> {
    children(body).find(|(found_type, _)| found_type == box_type).map(|(_, content)| content)
}

/// Version and flags of a full box, and a cursor after them.
pub fn parse_full_box(body: &[u8]) -> Result<(u8, u32, ByteCursor<'_>), Truncated> {
    let mut cursor = ByteCursor(body);
    let word = cursor.u32()?;
    Ok(((word >> 24) as u8, word & 0xff_ffff, cursor))
}
