//! The end of a connection to a source.

use crate::engine::outbound::OutboundError;

/// Why a connection ended; the messages contain no address.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionEnd {
    #[error("{0}")]
    Fetch(#[from] OutboundError),
    #[error("{0}")]
    Unsupported(&'static str),
    #[error("{0}")]
    ProcessingFailed(String),
    #[error("the stream ended")]
    StreamEnded,
    #[error("its video must be encoded")]
    NeedsEncoding,
}
