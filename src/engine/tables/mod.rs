//! What containers say of their samples, read without trust.
//!
//! Own small readers, because the crates hang on damaged files or lack fragments (measured). The index and the packager
//! stand on the same tables.

pub mod bytes;
pub mod matroska;
pub mod mp4;

/// Why tables are of no use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The stream cannot be cut, however it is read.
    Final(String),
    /// This reader cannot tell; reading the whole stream may.
    Unread(&'static str),
}

impl Refusal {
    /// In words, for the log.
    pub fn why(&self) -> &str {
        match self {
            Self::Final(why) => why,
            Self::Unread(why) => why,
        }
    }
}

impl From<bytes::Short> for Refusal {
    fn from(_: bytes::Short) -> Self {
        Self::Unread("the tables are cut short or damaged")
    }
}
