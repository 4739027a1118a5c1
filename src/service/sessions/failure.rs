//! Why a session failed or ended, for its status and for requests for its assets.

use jiff::Timestamp;

use crate::engine::RunError;
use crate::error::{Code, Error};

/// A session's failure.
#[derive(Clone, Debug)]
pub struct SessionFailure {
    pub error: RunError,
    pub failed_at: Timestamp,
}

/// The API error for a failed run; its cause is already in the log.
pub(super) fn failure_error(error: &RunError) -> Error {
    let code = match error {
        RunError::Decode(_) => Code::DecodeFailed,
        RunError::Encoder(_) => Code::EncoderFailed,
        RunError::SourceRead(_) => Code::SourceReadFailed,
        RunError::SourceChanged => Code::SourceChanged,
        RunError::SourceEnded => Code::AssetNotFound,
        RunError::Stalled(_) => Code::SegmentTimeout,
        RunError::WorkerLost { .. } | RunError::Internal(_) => Code::Internal,
    };
    Error::new(code, failure_message(error)).with_cause(error)
}

/// The error for a request for an asset of an ended session.
pub fn session_ended_error() -> Error {
    Error::new(Code::SessionEnded, "the session has ended")
}

/// The message about a failed run, for viewers.
pub fn failure_message(error: &RunError) -> &'static str {
    match error {
        RunError::Decode(_) => "the file could not be decoded",
        RunError::Encoder(_) => "the encoder failed",
        RunError::SourceRead(_) => "the file could not be read",
        RunError::SourceChanged => "the file changed during playback",
        RunError::SourceEnded => "the file ends before this segment",
        RunError::Stalled(_) => "the backend produced no segment in time",
        RunError::WorkerLost { .. } => "the media worker ended",
        RunError::Internal(_) => "internal error",
    }
}
