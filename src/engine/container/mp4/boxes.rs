//! Boxes of the ISO base media file format (ISO/IEC 14496-12 section 4.2).

use super::super::bytes::{ByteCursor, ReadAt, Truncated, records};

/// A box's position in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileBox {
    pub box_type: [u8; 4],
    pub start: u64,
    /// Start of the content.
    pub body: u64,
    pub end: u64,
}

/// The top-level boxes, up to the first damaged one. The last may reach beyond the end of the file.
pub fn top_level(file: &(impl ReadAt + ?Sized)) -> impl Iterator<Item = Result<FileBox, Truncated>> {
    let mut position = 0;
    std::iter::from_fn(move || {
        if position >= file.len() {
            return None;
        }
        let found = read_box(file, position);
        position = found.map_or(u64::MAX, |file_box| file_box.end);
        Some(found)
    })
}

fn read_box(file: &(impl ReadAt + ?Sized), start: u64) -> Result<FileBox, Truncated> {
    let mut header_bytes = [0; 16];
    let read = file.read_at(&mut header_bytes, start);
    let (box_type, header_len, size) = parse_header(&header_bytes[..read])?;
    let size = size.unwrap_or(file.len() - start);
    let end = start.checked_add(size).filter(|_| size >= header_len).ok_or(Truncated)?;
    Ok(FileBox { box_type, start, body: start + header_len, end })
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
pub fn boxes(body: &[u8]) -> impl Iterator<Item = Result<([u8; 4], &[u8]), Truncated>> {
    // A terminator of four zero bytes ends QuickTime user data.
    records(body, 8, take_box)
}

fn take_box<'a>(rest: &mut ByteCursor<'a>) -> Result<([u8; 4], &'a [u8]), Truncated> {
    let (box_type, header_len, size) = parse_header(rest.0)?;
    let size = usize::try_from(size.unwrap_or(rest.0.len() as u64)).map_err(|_| Truncated)?;
    let content = rest.take(size)?.get(header_len as usize..).ok_or(Truncated)?;
    Ok((box_type, content))
}

/// The boxes before the first damaged one.
pub fn children(body: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    boxes(body).map_while(Result::ok)
}

/// The first box of a type in a body.
pub fn child<'a>(body: &'a [u8], box_type: &[u8; 4]) -> Option<&'a [u8]> {
    children(body).find(|(found_type, _)| found_type == box_type).map(|(_, content)| content)
}

/// The bytes of the first box in a body, with its header.
pub fn first_whole(body: &[u8]) -> Option<&[u8]> {
    let mut rest = ByteCursor(body);
    take_box(&mut rest).ok()?;
    body.get(..body.len() - rest.0.len())
}

/// Version and flags of a full box, and a cursor after them.
pub fn parse_full_box(body: &[u8]) -> Result<(u8, u32, ByteCursor<'_>), Truncated> {
    let mut cursor = ByteCursor(body);
    let word = cursor.u32()?;
    Ok(((word >> 24) as u8, word & 0xff_ffff, cursor))
}
