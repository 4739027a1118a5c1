//! Why a session failed, for its status and for whoever asks for its assets.

use jiff::Timestamp;

use crate::engine::RunError;
use crate::error::{Code, Error};

/// Why a session failed.
#[derive(Clone, Debug)]
pub struct Failure {
    pub error: RunError,
    pub at: Timestamp,
}

/// What a client is told of a producer's end; the log has the cause already.
pub(super) fn refusal(error: &RunError) -> Error {
    let code = match error {
        RunError::Decode(_) => Code::DecodeFailed,
        RunError::Encoder(_) => Code::EncoderFailed,
        RunError::SourceRead(_) => Code::SourceReadFailed,
        RunError::SourceChanged => Code::SourceChanged,
        RunError::SourceEnded => Code::AssetNotFound,
        RunError::Stalled(_) => Code::SegmentTimeout,
        RunError::Internal(_) => Code::Internal,
    };
    Error::new(code, told(error)).with_cause(error)
}

/// A producer's end in words for a viewer.
pub fn told(error: &RunError) -> &'static str {
    match error {
        RunError::Decode(_) => "the file could not be decoded",
        RunError::Encoder(_) => "the encoder failed",
        RunError::SourceRead(_) => "the file could not be read",
        RunError::SourceChanged => "the file changed while it was played",
        RunError::SourceEnded => "the file ends before this segment",
        RunError::Stalled(_) => "the transcoder made nothing for too long",
        RunError::Internal(_) => "internal error",
    }
}
