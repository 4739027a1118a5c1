//! The `[Fonts]` section of a script: the built-in font, or the fonts attached to a Matroska file. libass reads them
//! there in both backends.

use std::fmt::Write as _;
use std::sync::LazyLock;

use crate::domain::media::Container;
use crate::engine::container::bytes::ReadAt;
use crate::engine::container::matroska::TopLevelElements;
use crate::engine::source::SourceFile;

/// Largest total size of a file's fonts, bytes. Further fonts are skipped, and libass substitutes others.
const MAX_FONT_BYTES: u64 = 16 << 20;

/// Media types of fonts (RFC 9559 section 21.2), old names included.
const FONT_MEDIA_TYPES: &str = "application/x-font-ttf application/x-font-otf application/x-truetype-font \
    application/vnd.ms-opentype font/ttf font/otf font/sfnt font/collection";

/// The section with the built-in font.
pub(super) fn built_in_section() -> &'static str {
    static BUILT_IN: LazyLock<String> = LazyLock::new(|| {
        let mut out = String::from("\n[Fonts]\nfontname: hearthcast-sans.ttf\n");
        push_encoded(&mut out, include_bytes!("../../../assets/fonts/HearthcastSans.ttf"));
        out
    });
    &BUILT_IN
}

/// The section with the fonts attached to a file; empty if it has none or they cannot be read.
pub(super) fn attached_section(source: &SourceFile, container: Container) -> String {
    let mut out = String::new();
    if !matches!(container, Container::Matroska | Container::Webm) {
        return out;
    }
    let mut remaining_bytes = MAX_FONT_BYTES;
    let attachments = TopLevelElements::locate(source).and_then(|elements| elements.read_attachments(source));
    for (number, font) in attachments.unwrap_or_default().into_iter().enumerate() {
        let name = font.name.unwrap_or_default();
        let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
        let is_font = font.media_type.is_some_and(|stated| FONT_MEDIA_TYPES.split(' ').any(|listed| listed == stated))
            || matches!(extension.as_deref(), Some("ttf" | "otf" | "ttc"));
        if !is_font || font.size > remaining_bytes {
            continue;
        }
        let Ok(bytes) = source.read_exact(font.offset, font.size as usize) else { continue };
        remaining_bytes -= font.size;
        if out.is_empty() {
            out.push_str("\n[Fonts]\n");
        }
        // Not its own name, which is untrusted text; libass finds a font by the names inside it.
        let _ = writeln!(out, "fontname: font{number}.ttf");
        push_encoded(&mut out, &bytes);
    }
    out
}

/// Appends bytes in the encoding of embedded files in ASS: six bits a character starting at `!`, 80 characters a line.
fn push_encoded(out: &mut String, bytes: &[u8]) {
    let mut line_chars = 0;
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().chain([0, 0].iter()).take(3).fold(0u32, |sum, &byte| sum << 8 | u32::from(byte));
        // One byte takes two characters, two bytes three.
        for position in 0..=chunk.len() {
            out.push(char::from(33 + (bits >> (18 - 6 * position) & 0x3f) as u8));
        }
        line_chars += chunk.len() + 1;
        if line_chars >= 80 {
            out.push('\n');
            line_chars = 0;
        }
    }
    if line_chars > 0 {
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_characters_of_six_bits() {
        let mut out = String::new();
        push_encoded(&mut out, b"\x00\x01\x02\xff");
        assert_eq!(out, "!!%#`Q\n");
        out.clear();
        push_encoded(&mut out, &[0; 61]);
        assert_eq!(out, format!("{}\n{}\n", "!".repeat(80), "!!"));
    }
}
