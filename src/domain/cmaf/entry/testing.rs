//! Helpers of the tests.

use super::{child, take_box};
use crate::domain::bytes::ByteCursor;
use crate::domain::cmaf::boxes::push_box;

/// Size of a visual sample entry with its header, before its boxes.
const VISUAL_ENTRY_BYTES: usize = 86;

pub fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    data_encoding::HEXLOWER.decode(digits.as_bytes()).unwrap()
}

/// A visual sample entry without the boxes that ffmpeg writes and this server does not: `fiel`, and `pasp` of square
/// pixels.
pub fn without_needless_boxes(entry: &[u8]) -> Vec<u8> {
    let (kind, body) = take_box(&mut ByteCursor(entry)).unwrap();
    let mut out = Vec::new();
    push_box(&mut out, &kind, |out| {
        out.extend(&body[..VISUAL_ENTRY_BYTES - 8]);
        for (kind, content) in super::children(&body[VISUAL_ENTRY_BYTES - 8..]) {
            if &kind != b"fiel" && !(&kind == b"pasp" && content == [0, 0, 0, 1, 0, 0, 0, 1]) {
                push_box(out, &kind, |out| out.extend(content));
            }
        }
    });
    out
}

/// The content of a box in a visual sample entry.
pub fn visual_box<'a>(entry: &'a [u8], kind: &[u8; 4]) -> Option<&'a [u8]> {
    child(&entry[VISUAL_ENTRY_BYTES..], kind)
}

/// An audio sample entry with another `channelcount`, because ffmpeg writes 2 for most codecs.
pub fn with_channels(mut entry: Vec<u8>, channels: u8) -> Vec<u8> {
    entry[25] = channels;
    entry
}
