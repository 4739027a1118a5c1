//! Writes boxes of the ISO base media file format (ISO/IEC 14496-12 section 4.2).

/// Appends a box: its size, its type, then what `body` appends. A box in memory is far below 4 GiB, so the size always has
/// 32 bits.
pub fn push_box(out: &mut Vec<u8>, kind: &[u8; 4], body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(kind);
    body(out);
    let size = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&size.to_be_bytes());
}

/// Appends a full box: like [`push_box`], with a version and the lower 24 bits of `flags` before the body.
pub fn push_full_box(out: &mut Vec<u8>, kind: &[u8; 4], version: u8, flags: u32, body: impl FnOnce(&mut Vec<u8>)) {
    push_box(out, kind, |out| {
        push_u32(out, u32::from(version) << 24 | flags & 0xff_ffff);
        body(out);
    });
}

/// Appends a number of 16 bits, big endian.
pub fn push_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends a number of 32 bits, big endian.
pub fn push_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Reads boxes back, for tests.
#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::domain::bytes::{ByteCursor, Truncated, records};
    use std::fmt::Write;

    /// The boxes in a body; panics unless they fill it.
    pub fn children(body: &[u8]) -> Vec<([u8; 4], &[u8])> {
        records(body, 1, take_box).collect::<Result<_, _>>().expect("whole boxes")
    }

    fn take_box<'a>(rest: &mut ByteCursor<'a>) -> Result<([u8; 4], &'a [u8]), Truncated> {
        let size = rest.u32()?;
        let kind = rest.take(4)?.try_into().map_err(|_| Truncated)?;
        Ok((kind, rest.take(size.checked_sub(8).ok_or(Truncated)? as usize)?))
    }

    /// The body of the box at a path of types; panics if it is missing.
    pub fn find<'a>(body: &'a [u8], path: &[&[u8; 4]]) -> &'a [u8] {
        path.iter().fold(body, |body, kind| {
            children(body).into_iter().find(|(found, _)| found == *kind).expect("the box is missing").1
        })
    }

    /// Every box: its type, its size, and its body as hexadecimal digits, 32 bytes a line, unless that consists of boxes.
    pub fn dump(body: &[u8], depth: usize) -> String {
        let mut text = String::new();
        for (kind, body) in children(body) {
            let name = kind.escape_ascii();
            write!(text, "{:1$}{name} {2}", "", depth * 2, body.len() + 8).unwrap();
            if [b"moov", b"trak", b"mdia", b"minf", b"dinf", b"stbl", b"mvex", b"moof", b"traf"].contains(&&kind) {
                text.push('\n');
                text += &dump(body, depth + 1);
                continue;
            }
            for (n, line) in body.chunks(32).enumerate() {
                let indent = if n > 0 { depth * 2 + 4 } else { 0 };
                write!(text, "{}{:indent$}", if n > 0 { "\n" } else { "" }, "").unwrap();
                for word in line.chunks(4) {
                    text.push(' ');
                    word.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
                }
            }
            text.push('\n');
        }
        text
    }

    #[test]
    fn boxes_nest_and_state_their_sizes() {
        let mut out = b"before".to_vec();
        push_box(&mut out, b"moov", |out| {
            push_full_box(out, b"full", 1, 0xff00_0002, |out| push_u16(out, 0x0304));
            push_box(out, b"free", |_| {});
        });
        assert_eq!(&out[6..], b"\0\0\0\x1emoov\0\0\0\x0efull\x01\0\0\x02\x03\x04\0\0\0\x08free");
        assert_eq!(find(&out[6..], &[b"moov", b"full"]), [1, 0, 0, 2, 3, 4]);
    }
}
