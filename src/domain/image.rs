//! Detects format and size of a PNG, JPEG or WebP image from its first bytes, before any decoder reads it.

const MAX_SIDE_PIXELS: u32 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageFormat {
    Png,
    Jpeg,
    WebP,
}

/// Format, width and height of an image for a watermark or a slate. None unless it is a PNG or JPEG of at most `MAX_SIDE_PIXELS`
/// on each side: GStreamer's decoder of WebP is not always there.
pub fn detect(bytes: &[u8]) -> Option<(ImageFormat, u32, u32)> {
    detect_within(bytes, MAX_SIDE_PIXELS).filter(|(format, ..)| *format != ImageFormat::WebP)
}

/// Format, width and height. None unless it is a PNG, a JPEG or a WebP without animation, of at most this many pixels on each side.
pub fn detect_within(bytes: &[u8], max_side_pixels: u32) -> Option<(ImageFormat, u32, u32)> {
    let (format, width, height) = parse_png(bytes).or_else(|| parse_jpeg(bytes)).or_else(|| parse_webp(bytes))?;
    let fits = |side: u32| (1..=max_side_pixels).contains(&side);
    (fits(width) && fits(height)).then_some((format, width, height))
}

/// Whether bytes may be an SVG: XML with the tag `svg` near its beginning. Only a parser of SVG can be certain.
pub fn may_be_svg(bytes: &[u8]) -> bool {
    /// Drawing programs write comments and a document type with namespaces before the tag.
    const HEAD_BYTES: usize = 4096;
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    let head = &text[..text.len().min(HEAD_BYTES)];
    head.starts_with(b"<") && head.windows(4).any(|tag| tag == b"<svg")
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

/// Walks the chunks of a WebP up to its bitstream, whose size is the one that is decoded (RFC 9649, sections 2.3 to 2.7).
fn parse_webp(bytes: &[u8]) -> Option<(ImageFormat, u32, u32)> {
    const ANIMATION: u8 = 1 << 1;
    let mut rest = bytes.strip_prefix(b"RIFF")?.get(4..)?.strip_prefix(b"WEBP")?;
    loop {
        let (kind, length) = (rest.get(..4)?, u32::from_le_bytes(rest.get(4..8)?.try_into().ok()?));
        let body = rest.get(8..)?;
        let (width, height) = match kind {
            b"VP8 " => {
                let key_frame = body.get(3..)?.strip_prefix(b"\x9d\x01\x2a")?;
                let side = |at: usize| Some(u16::from_le_bytes(key_frame.get(at..at + 2)?.try_into().ok()?) & 0x3fff);
                (u32::from(side(0)?), u32::from(side(2)?))
            }
            b"VP8L" => {
                let sides = u32::from_le_bytes(body.strip_prefix(b"\x2f")?.get(..4)?.try_into().ok()?);
                ((sides & 0x3fff) + 1, ((sides >> 14) & 0x3fff) + 1)
            }
            b"VP8X" if body.first()? & ANIMATION != 0 => return None,
            _ => {
                // Chunks have an even length.
                rest = body.get(usize::try_from(length).ok()?.checked_next_multiple_of(2)?..)?;
                continue;
            }
        };
        return Some((ImageFormat::WebP, width, height));
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

    fn a_webp(chunks: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
        let mut bytes = b"RIFF\0\0\0\0WEBP".to_vec();
        for (kind, body) in chunks {
            bytes.extend([&kind[..], &(body.len() as u32).to_le_bytes(), body].concat());
            bytes.resize(bytes.len().next_multiple_of(2), 0);
        }
        bytes
    }

    #[test]
    fn the_size_of_a_webp_is_that_of_its_bitstream() {
        let lossy = b"\x30\x01\0\x9d\x01\x2a\x80\x02\x68\x41";
        let lossless = [&b"\x2f"[..], &(((360_u32 - 1) << 14) | (640 - 1)).to_le_bytes()].concat();
        let size_of = |bytes: &[u8]| detect_within(bytes, 10_000);
        assert_eq!(size_of(&a_webp(&[(b"VP8 ", lossy)])), Some((ImageFormat::WebP, 640, 360)));
        assert_eq!(size_of(&a_webp(&[(b"VP8L", &lossless)])), Some((ImageFormat::WebP, 640, 360)));
        let extended = |flags: u8| [&[flags, 0, 0, 0][..], &[0xff; 6]].concat();
        let chunks = |flags: u8| a_webp(&[(b"VP8X", &extended(flags)), (b"ICCP", b"odd"), (b"VP8 ", lossy)]);
        assert_eq!(size_of(&chunks(0x30)), Some((ImageFormat::WebP, 640, 360)), "not that of the canvas");
        assert_eq!(size_of(&chunks(0x02)), None, "an animation");
        assert_eq!(detect(&a_webp(&[(b"VP8 ", lossy)])), None, "no watermark");
        assert_eq!(size_of(&a_webp(&[(b"XXXX", lossy)])), None, "no bitstream");
    }

    #[test]
    fn an_svg_is_known_by_its_tag() {
        let with_type = "\u{feff}\n<?xml version=\"1.0\"?><!-- by --><!DOCTYPE svg [<!ENTITY n \"x\">]>\n<svg:svg/>";
        let late = format!("<!--{}--><svg/>", " ".repeat(4096));
        for (text, expected) in [
            ("<svg/>", true),
            (with_type, true),
            ("<html/>", false),
            ("svg <svg/>", false),
            (&late, false),
            ("", false),
        ] {
            assert_eq!(may_be_svg(text.as_bytes()), expected, "{text}");
        }
        assert!(!may_be_svg(b"\x1f\x8b\x08<svg/>"), "compressed");
    }

    proptest! {
        #[test]
        fn any_bytes_are_inspected_without_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), start in 0..3) {
            let start = match start {
                0 => &JPEG[..10],
                1 => b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0",
                _ => b"",
            };
            bytes.splice(0..0, start.iter().copied());
            detect_within(&bytes, MAX_SIDE_PIXELS);
        }
    }
}
