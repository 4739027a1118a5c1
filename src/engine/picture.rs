//! An image for a watermark or a slate: its bytes in memory, checked before a decoder sees them.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use rustix::fs::MemfdFlags;

use crate::domain::image::{self, ImageFormat};

/// Largest file, bytes.
pub const MOST_BYTES: usize = 4 << 20;

/// A PNG or JPEG of bounded size. Later changes of its file have no effect.
#[derive(Clone, Debug)]
pub struct Picture {
    pub(super) file: Arc<File>,
    form: ImageFormat,
    /// Hash of its bytes, in hex.
    pub digest: String,
}

impl Picture {
    /// Checks the bytes and copies them to memory; None if they are not a PNG or JPEG within the limits.
    ///
    /// # Errors
    /// The system's error when memory cannot be allocated.
    pub fn of(bytes: &[u8]) -> std::io::Result<Option<Self>> {
        let Some((form, ..)) = image::detect(bytes).filter(|_| bytes.len() <= MOST_BYTES) else { return Ok(None) };
        let mut file = File::from(rustix::fs::memfd_create("picture", MemfdFlags::CLOEXEC)?);
        file.write_all(bytes)?;
        let digest = blake3::hash(bytes).to_hex()[..32].to_owned();
        Ok(Some(Self { file: Arc::new(file), form, digest }))
    }

    /// ffmpeg's demuxer and input URL for it. The demuxer is named, so that ffmpeg does not probe.
    pub(super) fn input(&self) -> (&'static str, String) {
        let demuxer = match self.form {
            ImageFormat::Png => "png_pipe",
            ImageFormat::Jpeg => "jpeg_pipe",
        };
        (demuxer, format!("file:/proc/self/fd/{}", self.file.as_raw_fd()))
    }
}
