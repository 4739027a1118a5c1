//! Writes boxes of the ISO base media file format (ISO/IEC 14496-12 section 4.2).

/// Appends a box whose content `body` writes.
pub fn push_box(out: &mut Vec<u8>, kind: &[u8; 4], body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([0; 4]);
    out.extend(kind);
    body(out);
    let size = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&size.to_be_bytes());
}

/// Appends a full box: a box with a version and flags.
pub fn push_full_box(out: &mut Vec<u8>, kind: &[u8; 4], version: u8, flags: u32, body: impl FnOnce(&mut Vec<u8>)) {
    push_box(out, kind, |out| {
        out.extend((u32::from(version) << 24 | flags & 0xff_ffff).to_be_bytes());
        body(out);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_nested_boxes_are_right() {
        let mut out = vec![9];
        push_box(&mut out, b"moov", |out| push_full_box(out, b"mvhd", 1, 2, |out| out.push(7)));
        assert_eq!(out, [&[9, 0, 0, 0, 21][..], b"moov", &[0, 0, 0, 13], b"mvhd", &[1, 0, 0, 2, 7]].concat());
    }
}
