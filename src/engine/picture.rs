//! A picture that is laid over others or stands alone: its bytes in memory, looked at before a decoder sees them.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use rustix::fs::MemfdFlags;

use crate::domain::picture::{self, Form};

/// Longest file, bytes.
pub const MOST_BYTES: usize = 4 << 20;

/// A PNG or JPEG of bounded size. What becomes of its file changes nothing.
#[derive(Clone, Debug)]
pub struct Picture {
    pub(super) file: Arc<File>,
    form: Form,
    /// Its content, in hex.
    pub digest: String,
}

impl Picture {
    /// None for bytes that are no such picture.
    ///
    /// # Errors
    /// What the system says when there is no memory for it.
    pub fn of(bytes: &[u8]) -> std::io::Result<Option<Self>> {
        let Some((form, ..)) = picture::look(bytes).filter(|_| bytes.len() <= MOST_BYTES) else { return Ok(None) };
        let mut file = File::from(rustix::fs::memfd_create("picture", MemfdFlags::CLOEXEC)?);
        file.write_all(bytes)?;
        let digest = blake3::hash(bytes).to_hex()[..32].to_owned();
        Ok(Some(Self { file: Arc::new(file), form, digest }))
    }

    /// The demuxer and the address that ffmpeg reads it by; the demuxer by name, so that nothing is guessed.
    pub(super) fn input(&self) -> (&'static str, String) {
        let demuxer = match self.form {
            Form::Png => "png_pipe",
            Form::Jpeg => "jpeg_pipe",
        };
        (demuxer, format!("file:/proc/self/fd/{}", self.file.as_raw_fd()))
    }
}
