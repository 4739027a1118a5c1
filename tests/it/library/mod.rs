//! The library over HTTP: paths, folders, bytes, and the catalogue.

mod albums;
mod artwork;
mod browse;
mod bytes;
pub(crate) mod catalogue;
mod marks;
mod media_folders;
mod paths;
mod previews;
mod scene_breaks;
mod visibility;

use std::path::Path;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// `len` bytes that are recognised as MP4; the content repeats every 251 bytes.
pub fn mp4_bytes(len: usize) -> Vec<u8> {
    let mut bytes = b"\0\0\0\x14ftypisom\0\0\x02\0isom\0\0\0\0mdat".to_vec();
    let start = bytes.len();
    bytes.extend((start..len.max(start)).map(|position| (position % 251) as u8));
    bytes.truncate(len);
    bytes
}

/// URL of a file's bytes.
pub fn file_url(path: &Path) -> String {
    file_url_of_text(path.to_str().unwrap())
}

pub fn file_url_of_text(path: &str) -> String {
    format!("/api/stream/file?path={}", utf8_percent_encode(path, NON_ALPHANUMERIC))
}
