//! EBML elements (RFC 8794).

use super::bytes::{ByteCursor, Truncated, records};

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
    let extra_bytes = Some(first.leading_zeros() as usize).filter(|count| *count < 4).ok_or(Truncated)?;
    Ok(cursor.take(extra_bytes)?.iter().fold(u32::from(first), |id, &byte| id << 8 | u32::from(byte)))
}

/// A variable-length size or number; None for "unknown".
pub fn parse_vint(cursor: &mut ByteCursor) -> Result<Option<u64>, Truncated> {
    let first = cursor.u8()?;
    let extra_bytes = Some(first.leading_zeros() as usize).filter(|count| *count < 8).ok_or(Truncated)?;
    let mask = (1u64 << (7 - extra_bytes)) - 1;
    let value = cursor.take(extra_bytes)?.iter().fold(u64::from(first) & mask, |sum, &byte| sum << 8 | u64::from(byte));
    let unknown = (1u64 << (7 * (extra_bytes + 1))) - 1;
    Ok((value != unknown).then_some(value))
}

/// Parses an element's header, which is at `position` in the file.
pub fn parse_header(cursor: &mut ByteCursor, position: u64) -> Result<Element, Truncated> {
    let before = cursor.0.len();
    let id = parse_id(cursor)?;
    let size = parse_vint(cursor)?;
    Ok(Element { id, body: position + (before - cursor.0.len()) as u64, size })
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
