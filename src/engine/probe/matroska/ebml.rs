//! EBML elements (RFC 8794): their positions, and the numbers and strings in them.

use std::os::unix::fs::FileExt;

use super::super::outline::{Unsure, number};
use crate::engine::source::Source;

/// Maximum size of an element that is read whole.
const ELEMENT_BYTES: u64 = 1 << 20;

/// An element in the file: id, start of its content, and content length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element {
    pub id: u64,
    pub at: u64,
    pub len: u64,
}

impl Element {
    pub fn end(&self) -> u64 {
        self.at.saturating_add(self.len)
    }
}

/// Parses the element header at `at`. Unknown sizes (live recordings) are refused.
pub(super) fn element(source: &Source, at: u64) -> Result<Element, Unsure> {
    let mut head = [0; 12];
    let filled = source.file.read_at(&mut head, at).map_err(|_| Unsure("unreadable"))?;
    let (id, id_len) = vint(&head[..filled], true)?;
    let (len, size_len) = vint(head[..filled].get(id_len..).unwrap_or_default(), false)?;
    let at = at + (id_len + size_len) as u64;
    if at.saturating_add(len) > source.len {
        return Err(Unsure("truncated"));
    }
    Ok(Element { id, at, len })
}

/// Parses an element header whose content may reach beyond the end of the file. An unknown size becomes `u64::MAX`.
pub(super) fn loose(source: &Source, at: u64) -> Option<Element> {
    if at >= source.len {
        return None;
    }
    let mut head = [0; 12];
    let filled = source.file.read_at(&mut head, at).ok()?;
    let (id, id_len) = vint(&head[..filled], true).ok()?;
    let rest = head[..filled].get(id_len..)?;
    let size_len = rest.first()?.leading_zeros() as usize + 1;
    let len = vint(rest, false).map_or(u64::MAX, |(len, _)| len);
    Some(Element { id, at: at + (id_len + size_len) as u64, len })
}

/// A variable-size integer (RFC 8794 section 4) and its length; ids keep their marker.
pub(super) fn vint(bytes: &[u8], keep_marker: bool) -> Result<(u64, usize), Unsure> {
    let first = *bytes.first().ok_or(Unsure("an element is truncated"))?;
    let len = first.leading_zeros() as usize + 1;
    if len > 8 || (keep_marker && len > 4) {
        return Err(Unsure("not an element"));
    }
    let raw = number(bytes, 0, len)?;
    if keep_marker {
        return Ok((raw, len));
    }
    let mask = (1u64 << (7 * len)) - 1;
    let value = raw & mask;
    if value == mask { Err(Unsure("an unknown size")) } else { Ok((value, len)) }
}

/// Reads the content of a small element.
pub(super) fn whole(source: &Source, part: Element) -> Result<Vec<u8>, Unsure> {
    if part.len > ELEMENT_BYTES {
        return Err(Unsure("a header element above 1 MiB"));
    }
    let mut body = vec![0; part.len as usize];
    source.file.read_exact_at(&mut body, part.at).map_err(|_| Unsure("unreadable"))?;
    Ok(body)
}

/// Iterates over the child elements in a content.
pub(super) struct Inside<'a>(pub &'a [u8]);

impl<'a> Iterator for Inside<'a> {
    type Item = Result<(u64, &'a [u8]), Unsure>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let split = || {
            let (id, id_len) = vint(self.0, true)?;
            let (len, size_len) = vint(&self.0[id_len..], false)?;
            let from = id_len + size_len;
            let end = usize::try_from(len).ok().and_then(|len| from.checked_add(len));
            let body = end.and_then(|end| self.0.get(from..end)).ok_or(Unsure("an element runs past its parent"))?;
            Ok((from + body.len(), (id, body)))
        };
        match split() {
            Ok((used, found)) => {
                self.0 = &self.0[used..];
                Some(Ok(found))
            }
            Err(unsure) => {
                self.0 = &[];
                Some(Err(unsure))
            }
        }
    }
}

pub(super) fn unsigned(value: &[u8]) -> Result<u64, Unsure> {
    if value.len() > 8 { Err(Unsure("a number is too long")) } else { number(value, 0, value.len()) }
}

pub(super) fn float(value: &[u8]) -> Result<f64, Unsure> {
    match value.len() {
        0 => Ok(0.0),
        4 => Ok(f64::from(f32::from_bits(number(value, 0, 4)? as u32))),
        8 => Ok(f64::from_bits(number(value, 0, 8)?)),
        _ => Err(Unsure("not a number")),
    }
}

pub(super) fn text(value: &[u8]) -> Option<String> {
    let text: String = String::from_utf8_lossy(value).trim_matches('\0').trim().chars().take(512).collect();
    (!text.is_empty()).then_some(text)
}
