//! An image for a watermark or a slate: its bytes in memory, checked before a decoder sees them.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
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
        let Some((format, digest)) = check(bytes) else { return Ok(None) };
        let file = to_memory_file("picture", bytes)?;
        Ok(Some(Self { file: Arc::new(file), format, digest }))
    }

    /// The image in a file in memory that another process made; None as in [`Self::from_bytes`].
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn from_file(file: File) -> std::io::Result<Option<Self>> {
        let checked = check(&read_file(&file)?);
        Ok(checked.map(|(format, digest)| Self { file: Arc::new(file), format, digest }))
    }

    /// Its bytes.
    ///
    /// # Errors
    /// When its file in memory cannot be read.
    pub(super) fn read_bytes(&self) -> std::io::Result<Vec<u8>> {
        read_file(&self.file)
    }

    /// ffmpeg's demuxer and input URL for it. The demuxer is named, so that ffmpeg does not probe.
    pub(super) fn ffmpeg_input(&self) -> (&'static str, String) {
        let demuxer = match self.format {
            ImageFormat::Png => "png_pipe",
            ImageFormat::Jpeg => "jpeg_pipe",
            ImageFormat::WebP => "webp_pipe",
        };
        (demuxer, format!("file:/proc/self/fd/{}", self.file.as_raw_fd()))
    }
}

/// Format and digest of an image; None if it is not a PNG or JPEG within the limits.
fn check(bytes: &[u8]) -> Option<(ImageFormat, String)> {
    let (format, ..) = image::detect(bytes).filter(|_| bytes.len() <= MAX_BYTES)?;
    Some((format, blake3::hash(bytes).to_hex()[..32].to_owned()))
}

/// The bytes of a file, at most [`MAX_BYTES`] and one.
fn read_file(file: &File) -> std::io::Result<Vec<u8>> {
    let size = file.metadata()?.len().min(MAX_BYTES as u64 + 1) as usize;
    let mut bytes = vec![0; size];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_rebuilt_from_its_file() {
        let png = [&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], &[0, 0, 0, 9, 0, 0, 0, 7, 8, 6, 0, 0, 0], b"rest"].concat();
        let image = Image::from_bytes(&png).unwrap().unwrap();
        let rebuilt = Image::from_file(image.file.try_clone().unwrap()).unwrap().unwrap();
        assert_eq!((rebuilt.read_bytes().unwrap(), rebuilt.digest), (png, image.digest));
        let too_large = to_memory_file("large", &vec![0; MAX_BYTES + 1]).unwrap();
        assert!(Image::from_file(too_large).unwrap().is_none());
        let no_image = to_memory_file("text", b"<svg/>").unwrap();
        assert!(Image::from_file(no_image).unwrap().is_none());
    }
}
