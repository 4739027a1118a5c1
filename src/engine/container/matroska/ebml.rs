//! EBML elements (RFC 8794).

use crate::engine::container::bytes::{ByteCursor, ReadAt, Truncated, records};
use crate::engine::container::{ContainerError, refuse_if};

/// An element's position in the file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Element {
    pub id: u32,
    pub body: u64,
    /// None: unknown, to the end of the parent element.
    pub size: Option<u64>,
}

impl Element {
    pub fn end(self) -> u64 {
        self.size.map_or(u64::MAX, |size| self.body.saturating_add(size))
    }
}

/// An element's id with its marker bits, as RFC 9559 lists ids.
fn parse_id(cursor: &mut ByteCursor) -> Result<u32, Truncated> {
    let first = cursor.u8()?;
    let extra_bytes = first.leading_zeros() as usize;
    refuse_if(extra_bytes > 3, Truncated)?;
    Ok(cursor.take(extra_bytes)?.iter().fold(u32::from(first), |id, &byte| id << 8 | u32::from(byte)))
}

/// A variable-length size or number; None for "unknown".
pub fn parse_vint(cursor: &mut ByteCursor) -> Result<Option<u64>, Truncated> {
    let first = cursor.u8()?;
    let extra_bytes = first.leading_zeros() as usize;
    refuse_if(extra_bytes > 7, Truncated)?;
    let mask = (1u64 << (7 - extra_bytes)) - 1;
    let value = cursor.take(extra_bytes)?.iter().fold(u64::from(first) & mask, |sum, &byte| sum << 8 | u64::from(byte));
    let unknown = (1u64 << (7 * (extra_bytes + 1))) - 1;
    Ok((value != unknown).then_some(value))
}

pub fn read_element(file: &(impl ReadAt + ?Sized), position: u64) -> Result<Element, Truncated> {
    let mut header_bytes = [0; 12];
    let read = file.read_at(&mut header_bytes, position);
    parse_header(&mut ByteCursor(&header_bytes[..read]), position)
}

/// Parses an element's header, which is at `position` in the file.
pub fn parse_header(cursor: &mut ByteCursor, position: u64) -> Result<Element, Truncated> {
    let before = cursor.0.len();
    let id = parse_id(cursor)?;
    let size = parse_vint(cursor)?;
    Ok(Element { id, body: position + (before - cursor.0.len()) as u64, size })
}

/// Reads an element of at most `max_bytes` whole.
pub fn read_body(file: &(impl ReadAt + ?Sized), element: Element, max_bytes: u64) -> Result<Vec<u8>, ContainerError> {
    let size = element.size.filter(|&size| size <= max_bytes);
    Ok(file.read_exact(element.body, size.ok_or(ContainerError::Unsupported("an element is too large"))? as usize)?)
}

/// The child elements of a body, up to the first damaged one.
pub fn elements(body: &[u8]) -> impl Iterator<Item = Result<(u32, &[u8]), Truncated>> {
    records(body, 1, take_element)
}

fn take_element<'a>(rest: &mut ByteCursor<'a>) -> Result<(u32, &'a [u8]), Truncated> {
    let header = parse_header(rest, 0)?;
    let size = usize::try_from(header.size.ok_or(Truncated)?).map_err(|_| Truncated)?;
    Ok((header.id, rest.take(size)?))
}

/// The child elements before the first damaged one.
pub fn children(body: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    elements(body).map_while(Result::ok)
}

/// The first child with this id.
pub fn child(body: &[u8], child_id: u32) -> Option<&[u8]> {
    children(body).find(|(id, _)| *id == child_id).map(|(_, bytes)| bytes)
}

pub fn parse_uint(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

/// A string without padding, at most 512 characters; None if it is empty.
pub fn parse_text(bytes: &[u8]) -> Option<String> {
    let text: String = String::from_utf8_lossy(bytes).trim_matches('\0').trim().chars().take(512).collect();
    (!text.is_empty()).then_some(text)
}
