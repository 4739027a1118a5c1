//! Readers of containers, one per container, for untrusted files.
//!
//! These are our own small readers, because the crates hang on damaged files or lack fragments (measured). Probe,
//! keyframe index, packager and bitmap subtitles are views of them. Transport streams are read by `domain::mpegts`.

pub mod avc;
pub mod avi;
pub mod bytes;
pub mod matroska;
pub mod mp4;
pub mod ogg;

/// Why a file cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerError {
    /// The stream cannot be cut, whatever reads it.
    Uncuttable(&'static str),
    /// This reader does not support the file; reading the whole stream may succeed.
    Unsupported(&'static str),
}

impl ContainerError {
    /// Why, as logged.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Uncuttable(why) | Self::Unsupported(why) => why,
        }
    }
}

/// Fails with `error` if `condition` holds.
pub fn refuse_if<E>(condition: bool, error: E) -> Result<(), E> {
    if condition { Err(error) } else { Ok(()) }
}

impl From<bytes::Truncated> for ContainerError {
    fn from(_: bytes::Truncated) -> Self {
        Self::Unsupported("the tables are truncated or damaged")
    }
}
