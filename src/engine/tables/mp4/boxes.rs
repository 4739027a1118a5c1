//! Boxes of the ISO base media file format (ISO/IEC 14496-12 section 4.2).

use super::super::bytes::{Cursor, ReadAt, Short};

/// Maximum number of boxes read on one level: a day of one-second fragments, twice over.
const MOST_BOXES: usize = 200_000;

/// A box's position in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    pub kind: [u8; 4],
    pub start: u64,
    /// Start of the content.
    pub body: u64,
    pub end: u64,
}

/// The top-level boxes. A box that reaches beyond the end of the file is the last.
pub fn top_level(file: &(impl ReadAt + ?Sized)) -> Vec<Placed> {
    let (mut found, mut at, len) = (Vec::new(), 0u64, file.len());
    while found.len() < MOST_BOXES {
        let mut head = [0; 16];
        let read = file.read_at(&mut head, at);
        let Ok((kind, header, size)) = header(&head[..read]) else { break };
        let size = size.unwrap_or(len - at);
        let Some(end) = at.checked_add(size).filter(|_| size >= header) else { break };
        found.push(Placed { kind, start: at, body: at + header, end });
        if end >= len {
            break;
        }
        at = end;
    }
    found
}

/// Type, header length, and size (None: to the end of the parent box).
fn header(bytes: &[u8]) -> Result<([u8; 4], u64, Option<u64>), Short> {
    let mut cursor = Cursor(bytes);
    let size = cursor.u32()?;
    let kind = cursor.take(4)?.try_into().map_err(|_| Short)?;
    Ok(match size {
        0 => (kind, 8, None),
        1 => (kind, 16, Some(cursor.u64()?)),
        size => (kind, 8, Some(u64::from(size))),
    })
}

/// The boxes in a body, up to the first damaged one.
pub fn children(mut body: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    std::iter::from_fn(move || {
        let (kind, header, size) = header(body).ok()?;
        let size = usize::try_from(size.unwrap_or(body.len() as u64)).ok()?;
        let header = header as usize;
        let content = body.get(header..size)?;
        body = &body[size..];
        Some((kind, content))
    })
}

/// The first box of a type in a body.
pub fn child<'a>(body: &'a [u8], kind: &[u8; 4]) -> Option<&'a [u8]> {
    children(body).find(|(found, _)| found == kind).map(|(_, content)| content)
}

/// Version and flags of a full box, and a cursor after them.
pub fn full(body: &[u8]) -> Result<(u8, u32, Cursor<'_>), Short> {
    let mut cursor = Cursor(body);
    let word = cursor.u32()?;
    Ok(((word >> 24) as u8, word & 0xff_ffff, cursor))
}
