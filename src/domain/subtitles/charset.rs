//! Decodes subtitle files, which use every encoding of the last thirty years.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// Bytes examined to guess the encoding.
const SAMPLE_BYTES: usize = 4096;

/// Decodes a subtitle file by byte order mark, otherwise as UTF-16 if its zero bytes suggest it, otherwise as UTF-8 if
/// valid, otherwise as Windows-1252 (a superset of Latin-1). Line ends become `\n`, and NUL becomes U+FFFD as WebVTT
/// requires.
pub fn decode(bytes: &[u8]) -> String {
    let (encoding, skip) = Encoding::for_bom(bytes).unwrap_or_else(|| (guess_encoding(bytes), 0));
    let (text, _) = encoding.decode_without_bom_handling(&bytes[skip..]);
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' => {
                chars.next_if_eq(&'\n');
                out.push('\n');
            }
            '\0' => out.push('\u{fffd}'),
            // A byte order mark in the middle comes from concatenated files.
            '\u{feff}' => {}
            c => out.push(c),
        }
    }
    out
}

fn guess_encoding(bytes: &[u8]) -> &'static Encoding {
    let sample = &bytes[..bytes.len().min(SAMPLE_BYTES)];
    let zeros = |offset: usize| sample.iter().skip(offset).step_by(2).filter(|&&byte| byte == 0).count();
    let (even, odd) = (zeros(0), zeros(1));
    if even + odd > sample.len() / 5 {
        return if odd > even { UTF_16LE } else { UTF_16BE };
    }
    if std::str::from_utf8(bytes).is_ok() { UTF_8 } else { WINDOWS_1252 }
}

/// True if a file's first bytes can be text. Bitmap subtitles and media with a text file name are not.
pub fn is_text(head: &[u8]) -> bool {
    if Encoding::for_bom(head).is_some() {
        return true;
    }
    let text = decode(head);
    let is_unprintable = |c: &char| *c == '\u{fffd}' || (c.is_control() && !matches!(c, '\n' | '\t' | '\u{c}'));
    text.chars().filter(is_unprintable).count() * 20 <= text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16(text: &str, bom: bool, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        bom.then_some(0xfeff).into_iter().chain(text.encode_utf16()).flat_map(bytes).collect()
    }

    #[test]
    fn every_usual_encoding_is_read() {
        let text = "1\n00:00:01,000 --> 00:00:02,000\nCafé\n";
        assert_eq!(decode(text.as_bytes()), text);
        assert_eq!(decode(&[b"\xef\xbb\xbf", text.as_bytes()].concat()), text);
        for bom in [true, false] {
            assert_eq!(decode(&utf16(text, bom, u16::to_le_bytes)), text);
            assert_eq!(decode(&utf16(text, bom, u16::to_be_bytes)), text);
        }
        assert_eq!(decode(b"Caf\xe9 \x80"), "Café €");
    }

    #[test]
    fn line_ends_and_nul_are_normalised() {
        assert_eq!(decode(b"a\r\nb\rc\nd\0e"), "a\nb\nc\nd\u{fffd}e");
    }

    #[test]
    fn media_under_a_text_name_is_not_text() {
        assert!(is_text(b"1\r\n00:00:01,000 --> 00:00:02,000\r\nCaf\xe9\r\n"));
        assert!(is_text(&utf16("hello there", false, u16::to_le_bytes)));
        assert!(is_text(b""));
        assert!(!is_text(b"PG\0\0\x03\x84\0\0\0\0\x16\0\x13\x01\x02\0\x80\x10\0\0"));
        assert!(!is_text(b"\0\0\0\x20ftypisom\0\0\x02\0isomiso2avc1mp41\0\0\0\x08free"));
    }
}
