//! EBML elements (RFC 8794).

use crate::engine::tables::Refusal;
use crate::engine::tables::bytes::{Cursor, ReadAt, Short};

/// Maximum size of an element that is read whole; the Cues of 160 keyframes take some 4 KiB.
const MOST_ELEMENT: u64 = 32 << 20;

/// An element's position in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub id: u32,
    pub body: u64,
    /// None: unknown, to the end of the parent element.
    pub size: Option<u64>,
}

impl Placed {
    pub fn end(self) -> u64 {
        self.size.map_or(u64::MAX, |size| self.body.saturating_add(size))
    }
}

/// An element's id with its marker bits, as RFC 9559 lists ids.
fn id(cursor: &mut Cursor) -> Result<u32, Short> {
    let first = cursor.u8()?;
    let more = first.leading_zeros() as usize;
    if more > 3 {
        return Err(Short);
    }
    Ok(cursor.take(more)?.iter().fold(u32::from(first), |id, &byte| id << 8 | u32::from(byte)))
}

/// A variable-length size or number; None for "unknown".
pub(super) fn vint(cursor: &mut Cursor) -> Result<Option<u64>, Short> {
    let first = cursor.u8()?;
    let more = first.leading_zeros() as usize;
    if more > 7 {
        return Err(Short);
    }
    let mask = (1u64 << (7 - more)) - 1;
    let value = cursor.take(more)?.iter().fold(u64::from(first) & mask, |sum, &byte| sum << 8 | u64::from(byte));
    let unknown = (1u64 << (7 * (more + 1))) - 1;
    Ok((value != unknown).then_some(value))
}

pub(super) fn element(file: &(impl ReadAt + ?Sized), at: u64) -> Result<Placed, Short> {
    let mut head = [0; 12];
    let read = file.read_at(&mut head, at);
    header(&mut Cursor(&head[..read]), at)
}

/// Parses an element's header, which is at `at` in the file.
pub(super) fn header(cursor: &mut Cursor, at: u64) -> Result<Placed, Short> {
    let before = cursor.0.len();
    let id = id(cursor)?;
    let size = vint(cursor)?;
    Ok(Placed { id, body: at + (before - cursor.0.len()) as u64, size })
}

pub(super) fn body(file: &(impl ReadAt + ?Sized), element: Placed) -> Result<Vec<u8>, Refusal> {
    let size = element.size.filter(|&size| size <= MOST_ELEMENT).ok_or(Refusal::Unread("an element is too large"))?;
    Ok(file.exact(element.body, size as usize)?)
}

/// The child elements of a body, up to the first damaged one.
pub(super) fn children(bytes: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    let mut cursor = Cursor(bytes);
    std::iter::from_fn(move || {
        let id = id(&mut cursor).ok()?;
        let size = vint(&mut cursor).ok()??;
        Some((id, cursor.take(usize::try_from(size).ok()?).ok()?))
    })
}

pub(super) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}
