//! EBML elements (RFC 8794).

use crate::engine::container::ContainerError;
use crate::engine::container::bytes::{ByteCursor, ReadAt, Truncated};

/// Maximum size of an element that is read whole; the Cues of 160 keyframes take some 4 KiB.
const MAX_ELEMENT_BYTES: u64 = 32 << 20;

/// An element's position in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element {
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
    if extra_bytes > 3 {
        return Err(Truncated);
    }
    Ok(cursor.take(extra_bytes)?.iter().fold(u32::from(first), |id, &byte| id << 8 | u32::from(byte)))
}

/// A variable-length size or number; None for "unknown".
pub(super) fn parse_vint(cursor: &mut ByteCursor) -> Result<Option<u64>, Truncated> {
    let first = cursor.u8()?;
    let extra_bytes = first.leading_zeros() as usize;
    if extra_bytes > 7 {
        return Err(Truncated);
    }
    let mask = (1u64 << (7 - extra_bytes)) - 1;
    let value = cursor.take(extra_bytes)?.iter().fold(u64::from(first) & mask, |sum, &byte| sum << 8 | u64::from(byte));
    let unknown = (1u64 << (7 * (extra_bytes + 1))) - 1;
    Ok((value != unknown).then_some(value))
}

pub(super) fn read_element(file: &(impl ReadAt + ?Sized), position: u64) -> Result<Element, Truncated> {
    let mut header_bytes = [0; 12];
    let read = file.read_at(&mut header_bytes, position);
    parse_header(&mut ByteCursor(&header_bytes[..read]), position)
}

/// Parses an element's header, which is at `position` in the file.
pub(super) fn parse_header(cursor: &mut ByteCursor, position: u64) -> Result<Element, Truncated> {
    let before = cursor.0.len();
    let id = parse_id(cursor)?;
    let size = parse_vint(cursor)?;
    Ok(Element { id, body: position + (before - cursor.0.len()) as u64, size })
}

pub(super) fn read_body(file: &(impl ReadAt + ?Sized), element: Element) -> Result<Vec<u8>, ContainerError> {
    let size = element
        .size
        .filter(|&size| size <= MAX_ELEMENT_BYTES)
        .ok_or(ContainerError::Unsupported("an element is too large"))?;
    Ok(file.read_exact(element.body, size as usize)?)
}

/// The child elements of a body, up to the first damaged one.
pub(super) fn children(bytes: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    let mut cursor = ByteCursor(bytes);
    std::iter::from_fn(move || {
        let id = parse_id(&mut cursor).ok()?;
        let size = parse_vint(&mut cursor).ok()??;
        Some((id, cursor.take(usize::try_from(size).ok()?).ok()?))
    })
}

pub(super) fn parse_uint(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}
