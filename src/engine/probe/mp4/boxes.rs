//! Boxes (ISO/IEC 14496-12 section 4.2): reads the movie box and iterates over child boxes.

use std::os::unix::fs::FileExt;

use super::super::outline::{Unsure, number};
use crate::engine::source::Source;

/// Maximum size of the movie box; a film of two hours has about 6 MiB.
const MOOV_BYTES: u64 = 48 << 20;
const TOP_LEVEL_BOXES: usize = 256;

/// Reads the movie box; gives up on anything unusual at the top level.
pub(super) fn movie_box(source: &Source) -> Result<Vec<u8>, Unsure> {
    let mut at = 0;
    let mut moov = None;
    for _ in 0..TOP_LEVEL_BOXES {
        if at == source.len {
            return moov.ok_or(Unsure("no movie box"));
        }
        let mut head = [0; 16];
        let filled = source.file.read_at(&mut head, at).map_err(|_| Unsure("unreadable"))?;
        let mut size = number(&head[..filled], 0, 4)?;
        let mut header = 8;
        let kind = head.get(4..8).ok_or(Unsure("a box header is truncated"))?;
        if size == 1 {
            (size, header) = (number(&head[..filled], 8, 8)?, 16);
        } else if size == 0 {
            size = source.len - at;
        }
        let end = at.checked_add(size).filter(|end| *end <= source.len && size >= header);
        let end = end.ok_or(Unsure("a box runs past the end"))?;
        match kind {
            b"ftyp" => {
                let mut brand = [0; 4];
                source.file.read_exact_at(&mut brand, at + header).map_err(|_| Unsure("unreadable"))?;
                if &brand == b"qt  " {
                    return Err(Unsure("QuickTime"));
                }
            }
            b"moov" => {
                if moov.is_some() || size > MOOV_BYTES {
                    return Err(Unsure("an unusual movie box"));
                }
                let mut body = vec![0; (size - header) as usize];
                source.file.read_exact_at(&mut body, at + header).map_err(|_| Unsure("unreadable"))?;
                moov = Some(body);
            }
            b"mdat" | b"free" | b"skip" | b"wide" | b"uuid" | b"udta" => {}
            _ => return Err(Unsure("an unusual box")),
        }
        at = end;
    }
    Err(Unsure("too many boxes"))
}

/// Iterates over the boxes in a body.
pub(super) struct Boxes<'a>(pub &'a [u8]);

impl<'a> Iterator for Boxes<'a> {
    type Item = Result<([u8; 4], &'a [u8]), Unsure>;

    fn next(&mut self) -> Option<Self::Item> {
        // A terminator of four zero bytes ends QuickTime user data.
        if self.0.len() < 8 {
            return None;
        }
        let split = || {
            let mut size = number(self.0, 0, 4)?;
            let mut header = 8;
            if size == 1 {
                (size, header) = (number(self.0, 8, 8)?, 16);
            } else if size == 0 {
                size = self.0.len() as u64;
            }
            let size = usize::try_from(size).map_err(|_| Unsure("a box is too large"))?;
            let body = self.0.get(header..size).ok_or(Unsure("a box runs past its parent"))?;
            let kind = [self.0[4], self.0[5], self.0[6], self.0[7]];
            Ok((size, (kind, body)))
        };
        match split() {
            Ok((size, found)) => {
                self.0 = &self.0[size..];
                Some(Ok(found))
            }
            Err(unsure) => {
                self.0 = &[];
                Some(Err(unsure))
            }
        }
    }
}

pub(super) fn child<'a>(body: &'a [u8], wanted: &[u8; 4]) -> Result<Option<&'a [u8]>, Unsure> {
    for entry in Boxes(body) {
        let (kind, body) = entry?;
        if &kind == wanted {
            return Ok(Some(body));
        }
    }
    Ok(None)
}

pub(super) fn needed<'a>(body: &'a [u8], wanted: &[u8; 4]) -> Result<&'a [u8], Unsure> {
    child(body, wanted)?.ok_or(Unsure("a box is missing"))
}
