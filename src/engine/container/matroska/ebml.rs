//! EBML elements, read from a file.

pub use crate::domain::ebml::*;
use crate::engine::container::ContainerError;
use crate::engine::container::bytes::{ByteCursor, ReadAt, Truncated};

pub fn read_element(file: &(impl ReadAt + ?Sized), position: u64) -> Result<Element, Truncated> {
    let mut header_bytes = [0; 12];
    let read = file.read_at(&mut header_bytes, position);
    parse_header(&mut ByteCursor(&header_bytes[..read]), position)
}

/// Reads an element of at most `max_bytes` whole.
pub fn read_body(file: &(impl ReadAt + ?Sized), element: Element, max_bytes: u64) -> Result<Vec<u8>, ContainerError> {
    let size = element.size.filter(|&size| size <= max_bytes);
    Ok(file.read_exact(element.body, size.ok_or(ContainerError::Unsupported("an element is too large"))? as usize)?)
}
