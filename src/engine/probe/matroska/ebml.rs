//! EBML elements (RFC 8794): their positions, and the numbers and strings in them.

use std::os::unix::fs::FileExt;

use super::super::outline::{NeedsFfprobe, parse_uint};
use crate::engine::source::SourceFile;

/// Maximum size of an element that is read whole.
const MAX_ELEMENT_BYTES: u64 = 1 << 20;

/// An element in the file: id, start of its content, and content length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element {
    pub id: u64,
    pub content_start: u64,
    pub content_len: u64,
}

impl Element {
    pub fn end(&self) -> u64 {
        self.content_start.saturating_add(self.content_len)
    }
}

/// Parses the element header at `position`. Unknown sizes (live recordings) are refused.
pub(super) fn read_element(source: &SourceFile, position: u64) -> Result<Element, NeedsFfprobe> {
    let mut header_bytes = [0; 12];
    let filled = source.file.read_at(&mut header_bytes, position).map_err(|_| NeedsFfprobe("unreadable"))?;
    let (id, id_len) = parse_vint(&header_bytes[..filled], true)?;
    let (len, size_len) = parse_vint(header_bytes[..filled].get(id_len..).unwrap_or_default(), false)?;
    let content_start = position + (id_len + size_len) as u64;
    if content_start.saturating_add(len) > source.len {
        return Err(NeedsFfprobe("truncated"));
    }
    Ok(Element { id, content_start, content_len: len })
}

/// Parses an element header whose content may reach beyond the end of the file. An unknown size becomes `u64::MAX`.
pub(super) fn read_truncated_element(source: &SourceFile, position: u64) -> Option<Element> {
    if position >= source.len {
        return None;
    }
    let mut header_bytes = [0; 12];
    let filled = source.file.read_at(&mut header_bytes, position).ok()?;
    let (id, id_len) = parse_vint(&header_bytes[..filled], true).ok()?;
    let rest = header_bytes[..filled].get(id_len..)?;
    let size_len = rest.first()?.leading_zeros() as usize + 1;
    let len = parse_vint(rest, false).map_or(u64::MAX, |(len, _)| len);
    Some(Element { id, content_start: position + (id_len + size_len) as u64, content_len: len })
}

/// A variable-size integer (RFC 8794 section 4) and its length; ids keep their marker.
pub(super) fn parse_vint(bytes: &[u8], keep_marker: bool) -> Result<(u64, usize), NeedsFfprobe> {
    let first = *bytes.first().ok_or(NeedsFfprobe("an element is truncated"))?;
    let len = first.leading_zeros() as usize + 1;
    if len > 8 || (keep_marker && len > 4) {
        return Err(NeedsFfprobe("not an element"));
    }
    let raw = parse_uint(bytes, 0, len)?;
    if keep_marker {
        return Ok((raw, len));
    }
    let mask = (1u64 << (7 * len)) - 1;
    let value = raw & mask;
    if value == mask { Err(NeedsFfprobe("an unknown size")) } else { Ok((value, len)) }
}

/// Reads the content of a small element.
pub(super) fn read_content(source: &SourceFile, element: Element) -> Result<Vec<u8>, NeedsFfprobe> {
    if element.content_len > MAX_ELEMENT_BYTES {
        return Err(NeedsFfprobe("a header element above 1 MiB"));
    }
    let mut body = vec![0; element.content_len as usize];
    source.file.read_exact_at(&mut body, element.content_start).map_err(|_| NeedsFfprobe("unreadable"))?;
    Ok(body)
}

/// Iterates over the child elements in a content.
pub(super) struct ChildElements<'a>(pub &'a [u8]);

impl<'a> Iterator for ChildElements<'a> {
    type Item = Result<(u64, &'a [u8]), NeedsFfprobe>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let parse_next = || {
            let (id, id_len) = parse_vint(self.0, true)?;
            let (len, size_len) = parse_vint(&self.0[id_len..], false)?;
            let content_start = id_len + size_len;
            let end = usize::try_from(len).ok().and_then(|len| content_start.checked_add(len));
            let body = end
                .and_then(|end| self.0.get(content_start..end))
                .ok_or(NeedsFfprobe("an element runs past its parent"))?;
            Ok((content_start + body.len(), (id, body)))
        };
        match parse_next() {
            Ok((used, child)) => {
                self.0 = &self.0[used..];
                Some(Ok(child))
            }
            Err(error) => {
                self.0 = &[];
                Some(Err(error))
            }
        }
    }
}

pub(super) fn parse_unsigned(value: &[u8]) -> Result<u64, NeedsFfprobe> {
    if value.len() > 8 { Err(NeedsFfprobe("a number is too long")) } else { parse_uint(value, 0, value.len()) }
}

pub(super) fn parse_float(value: &[u8]) -> Result<f64, NeedsFfprobe> {
    match value.len() {
        0 => Ok(0.0),
        4 => Ok(f64::from(f32::from_bits(parse_uint(value, 0, 4)? as u32))),
        8 => Ok(f64::from_bits(parse_uint(value, 0, 8)?)),
        _ => Err(NeedsFfprobe("not a number")),
    }
}

pub(super) fn parse_text(value: &[u8]) -> Option<String> {
    let text: String = String::from_utf8_lossy(value).trim_matches('\0').trim().chars().take(512).collect();
    (!text.is_empty()).then_some(text)
}
