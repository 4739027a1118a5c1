//! The `[Fonts]` section of a script: the built-in font, or the fonts attached to a Matroska file. libass reads them
//! there in both backends.

use std::fmt::Write as _;
use std::sync::LazyLock;

use crate::domain::media::Container;
use crate::engine::source::Source;
use crate::engine::tables::bytes::{Disk, ReadAt};
use crate::engine::tables::matroska::attached;

/// Largest total size of a file's fonts, bytes. Further fonts are skipped, and libass substitutes others.
const MOST: u64 = 16 << 20;

/// Media types of fonts (RFC 9559 section 21.2), old names included.
const KINDS: [&str; 8] = [
    "application/x-font-ttf",
    "application/x-font-otf",
    "application/x-truetype-font",
    "application/vnd.ms-opentype",
    "font/ttf",
    "font/otf",
    "font/sfnt",
    "font/collection",
];

/// The section with the built-in font.
pub(super) fn built_in() -> &'static str {
    static BUILT_IN: LazyLock<String> = LazyLock::new(|| {
        let mut out = String::from("\n[Fonts]\nfontname: hearthcast-sans.ttf\n");
        written(&mut out, include_bytes!("../../../assets/fonts/HearthcastSans.ttf"));
        out
    });
    &BUILT_IN
}

/// The section with the fonts attached to a file; empty if it has none or they cannot be read.
pub(super) fn section(source: &Source, container: Container) -> String {
    let mut out = String::new();
    if !matches!(container, Container::Matroska | Container::Webm) {
        return out;
    }
    let file = Disk::of(&source.file);
    let mut room = MOST;
    for (number, font) in attached(&file).unwrap_or_default().into_iter().enumerate() {
        let ending = font.name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
        let is_font = KINDS.contains(&font.kind.as_str()) || matches!(ending.as_deref(), Some("ttf" | "otf" | "ttc"));
        if !is_font || font.size > room {
            continue;
        }
        let Ok(bytes) = file.exact(font.offset, font.size as usize) else { continue };
        room -= font.size;
        if out.is_empty() {
            out.push_str("\n[Fonts]\n");
        }
        // Not its own name, which is untrusted text; libass finds a font by the names inside it.
        let _ = writeln!(out, "fontname: font{number}.ttf");
        written(&mut out, &bytes);
    }
    out
}

/// Appends bytes in the encoding of embedded files in ASS: six bits a character starting at `!`, 80 characters a line.
fn written(out: &mut String, bytes: &[u8]) {
    let mut line = 0;
    for three in bytes.chunks(3) {
        let bits = three.iter().chain([0, 0].iter()).take(3).fold(0u32, |sum, &byte| sum << 8 | u32::from(byte));
        // One byte takes two characters, two bytes three.
        for sign in 0..=three.len() {
            out.push(char::from(33 + (bits >> (18 - 6 * sign) & 0x3f) as u8));
        }
        line += three.len() + 1;
        if line >= 80 {
            out.push('\n');
            line = 0;
        }
    }
    if line > 0 {
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_signs_of_six_bits() {
        let mut out = String::new();
        written(&mut out, b"\x00\x01\x02\xff");
        assert_eq!(out, "!!%#`Q\n");
        out.clear();
        written(&mut out, &[0; 61]);
        assert_eq!(out, format!("{}\n{}\n", "!".repeat(80), "!!"));
    }
}
