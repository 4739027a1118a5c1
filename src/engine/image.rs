//! An image for a watermark or a slate: its bytes in memory, checked before a decoder sees them.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use super::ffmpeg::to_memory_file;
use crate::domain::image::{self, ImageFormat};

/// Largest file, bytes.
pub const MAX_BYTES: usize = 4 << 20;

/// A PNG or JPEG of bounded size. Later changes of its file have no effect.
#[derive(Clone, Debug)]
pub struct Image {
    pub(super) file: Arc<File>,
    format: ImageFormat,
    /// Hash of its bytes, in hex.
    pub digest: String,
}

impl Image {
    /// Checks the bytes and copies them to memory; None if they are not a PNG or JPEG within the limits.
    pub fn from_bytes(bytes: &[u8]) -> std::io::Result<Option<Self>> {
        let Some((format, ..)) = image::detect(bytes).filter(|_| bytes.len() <= MAX_BYTES) else { return Ok(None) };
        let file = to_memory_file("picture", bytes)?;
        let digest = blake3::hash(bytes).to_hex()[..32].to_owned();
        Ok(Some(Self { file: Arc::new(file), format, digest }))
    }

    /// ffmpeg's demuxer and input URL for it. The demuxer is named, so that ffmpeg does not probe.
    pub(super) fn ffmpeg_input(&self) -> (&'static str, String) {
        let demuxer = match self.format {
            ImageFormat::Png => "png_pipe",
            ImageFormat::Jpeg => "jpeg_pipe",
        };
        (demuxer, format!("file:/proc/self/fd/{}", self.file.as_raw_fd()))
    }
}
