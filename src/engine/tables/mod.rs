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
pub enum TableError {
    /// The stream cannot be cut, whatever reads it.
    Uncuttable(String),
    /// This reader does not support the file; reading the whole stream may succeed.
    Unsupported(&'static str),
}

impl TableError {
    /// The reason, for the log.
    pub fn reason(&self) -> &str {
        match self {
            Self::Uncuttable(why) => why,
            Self::Unsupported(why) => why,
        }
    }
}

impl From<bytes::Truncated> for TableError {
    fn from(_: bytes::Truncated) -> Self {
        Self::Unsupported("the tables are truncated or damaged")
    }
}
