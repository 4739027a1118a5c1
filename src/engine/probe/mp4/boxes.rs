//! Boxes (ISO/IEC 14496-12 section 4.2): reads the movie box and iterates over child boxes.

use std::os::unix::fs::FileExt;

use super::super::outline::{NeedsFfprobe, parse_uint};
use crate::engine::source::SourceFile;

/// Maximum size of the movie box; a film of two hours has about 6 MiB.
const MAX_MOOV_BYTES: u64 = 48 << 20;
const MAX_TOP_LEVEL_BOXES: usize = 256;

/// Reads the movie box; gives up on anything unusual at the top level.
pub(super) fn read_movie_box(source: &SourceFile) -> Result<Vec<u8>, NeedsFfprobe> {
    let mut position = 0;
    let mut moov = None;
    for _ in 0..MAX_TOP_LEVEL_BOXES {
        if position == source.len {
            return moov.ok_or(NeedsFfprobe("no movie box"));
        }
        let mut header_bytes = [0; 16];
        let filled = source.file.read_at(&mut header_bytes, position).map_err(|_| NeedsFfprobe("unreadable"))?;
        let mut size = parse_uint(&header_bytes[..filled], 0, 4)?;
        let mut header_len = 8;
        let box_type = header_bytes.get(4..8).ok_or(NeedsFfprobe("a box header is truncated"))?;
        if size == 1 {
            (size, header_len) = (parse_uint(&header_bytes[..filled], 8, 8)?, 16);
        } else if size == 0 {
            size = source.len - position;
        }
        let end = position.checked_add(size).filter(|end| *end <= source.len && size >= header_len);
        let end = end.ok_or(NeedsFfprobe("a box runs past the end"))?;
        match box_type {
            b"ftyp" => {
                let mut brand = [0; 4];
                source.file.read_exact_at(&mut brand, position + header_len).map_err(|_| NeedsFfprobe("unreadable"))?;
                if &brand == b"qt  " {
                    return Err(NeedsFfprobe("QuickTime"));
                }
            }
            b"moov" => {
                if moov.is_some() || size > MAX_MOOV_BYTES {
                    return Err(NeedsFfprobe("an unusual movie box"));
                }
                let mut body = vec![0; (size - header_len) as usize];
                source.file.read_exact_at(&mut body, position + header_len).map_err(|_| NeedsFfprobe("unreadable"))?;
                moov = Some(body);
            }
            b"mdat" | b"free" | b"skip" | b"wide" | b"uuid" | b"udta" => {}
            _ => return Err(NeedsFfprobe("an unusual box")),
        }
        position = end;
    }
    Err(NeedsFfprobe("too many boxes"))
}

/// Iterates over the boxes in a body.
pub(super) struct ChildBoxes<'a>(pub &'a [u8]);

impl<'a> Iterator for ChildBoxes<'a> {
    type Item = Result<([u8; 4], &'a [u8]), NeedsFfprobe>;

    fn next(&mut self) -> Option<Self::Item> {
        // A terminator of four zero bytes ends QuickTime user data.
        if self.0.len() < 8 {
            return None;
        }
        let parse_next = || {
            let mut size = parse_uint(self.0, 0, 4)?;
            let mut header_len = 8;
            if size == 1 {
                (size, header_len) = (parse_uint(self.0, 8, 8)?, 16);
            } else if size == 0 {
                size = self.0.len() as u64;
            }
            let size = usize::try_from(size).map_err(|_| NeedsFfprobe("a box is too large"))?;
            let body = self.0.get(header_len..size).ok_or(NeedsFfprobe("a box runs past its parent"))?;
            let box_type = [self.0[4], self.0[5], self.0[6], self.0[7]];
            Ok((size, (box_type, body)))
        };
        match parse_next() {
            Ok((size, entry)) => {
                self.0 = &self.0[size..];
                Some(Ok(entry))
            }
            Err(error) => {
                self.0 = &[];
                Some(Err(error))
            }
        }
    }
}

pub(super) fn find_child<'a>(body: &'a [u8], expected: &[u8; 4]) -> Result<Option<&'a [u8]>, NeedsFfprobe> {
    for entry in ChildBoxes(body) {
        let (box_type, body) = entry?;
        if &box_type == expected {
            return Ok(Some(body));
        }
    }
    Ok(None)
}

pub(super) fn require_child<'a>(body: &'a [u8], expected: &[u8; 4]) -> Result<&'a [u8], NeedsFfprobe> {
    find_child(body, expected)?.ok_or(NeedsFfprobe("a box is missing"))
}
