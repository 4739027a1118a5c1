//! The sample tables of containers, read from untrusted files.
//!
//! These are our own small readers, because the crates hang on damaged files or lack fragments (measured). The keyframe
//! index and the packager use the same tables.

pub mod bytes;
pub mod matroska;
pub mod mp4;
pub mod ogg;

/// Why the tables of a file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The stream cannot be cut, whatever reads it.
    Final(String),
    /// This reader does not support the file; reading the whole stream may succeed.
    Unread(&'static str),
}

impl Refusal {
    /// The reason, for the log.
    pub fn why(&self) -> &str {
        match self {
            Self::Final(why) => why,
            Self::Unread(why) => why,
        }
    }
}

impl From<bytes::Short> for Refusal {
    fn from(_: bytes::Short) -> Self {
        Self::Unread("the tables are truncated or damaged")
    }
}
