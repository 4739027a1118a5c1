//! Detects format and size of a PNG or JPEG image from its first bytes, before any decoder reads it.

const MAX_SIDE_PIXELS: u32 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageFormat {
    Png,
    Jpeg,
}

/// Format, width and height. None unless it is a PNG or JPEG of at most `MAX_SIDE_PIXELS` on each side.
pub fn detect(bytes: &[u8]) -> Option<(ImageFormat, u32, u32)> {
    let (format, width, height) = parse_png(bytes).or_else(|| parse_jpeg(bytes))?;
    let fits = |side: u32| (1..=MAX_SIDE_PIXELS).contains(&side);
    (fits(width) && fits(height)).then_some((format, width, height))
}

/// PNG begins with its header (PNG, third edition, section 5.6).
fn parse_png(bytes: &[u8]) -> Option<(ImageFormat, u32, u32)> {
    let head = bytes.strip_prefix(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")?;
    let side = |at: usize| head.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    Some((ImageFormat::Png, side(0)?, side(4)?))
}

/// Walks the JPEG segments up to the frame header (ITU-T T.81 section B.2.2).
fn parse_jpeg(bytes: &[u8]) -> Option<(ImageFormat, u32, u32)> {
    let mut rest = bytes.strip_prefix(b"\xff\xd8")?;
    loop {
        let (marker, body) = match rest {
            [0xff, 0xff, ..] => {
                rest = &rest[1..];
                continue;
            }
            [0xff, marker, after @ ..] => (*marker, after),
            _ => return None,
        };
        let length = usize::from(u16::from_be_bytes(body.get(..2)?.try_into().ok()?));
        let side = |at: usize| body.get(at..at + 2)?.try_into().ok().map(u16::from_be_bytes).map(u32::from);
        match marker {
            // Frame headers; 0xc4, 0xc8 and 0xcc are tables and reserved markers.
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                return Some((ImageFormat::Jpeg, side(5)?, side(3)?));
            }
            0xd8..=0xda => return None,
            _ => rest = body.get(length.max(2)..)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn a_png(width: u32, height: u32) -> Vec<u8> {
        [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(), &width.to_be_bytes(), &height.to_be_bytes(), &[8, 2, 0, 0, 0]]
            .concat()
    }

    const JPEG: &[u8] =
        b"\xff\xd8\xff\xe0\0\x06JF\0\0\xff\xff\xc4\0\x03\0\xff\xc2\0\x11\x08\x01\x02\x03\x04\x03\x01\x22\0";

    #[test]
    fn format_and_size_are_read_from_the_first_bytes() {
        assert_eq!(detect(&a_png(640, 360)), Some((ImageFormat::Png, 640, 360)));
        assert_eq!(detect(JPEG), Some((ImageFormat::Jpeg, 0x304, 0x102)));
        let truncated = JPEG[..24].to_vec();
        for wrong in [a_png(4097, 1), a_png(1, 0), b"<svg/>".to_vec(), b"GIF89a".to_vec(), Vec::new(), truncated] {
            assert_eq!(detect(&wrong), None, "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_inspected_without_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), jpeg: bool) {
            if jpeg {
                bytes.splice(0..0, JPEG[..10].iter().copied());
            }
            detect(&bytes);
        }
    }
}
