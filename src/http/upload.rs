//! A request's body, and what happens to an unread rest.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::{Stream, StreamExt};
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use tokio::sync::Semaphore;

use crate::error::{Code, Error, Result};

type Pieces = Pin<Box<dyn Stream<Item = Result<Bytes, warp::Error>> + Send>>;

/// How much of a refused body is read, for how long, and for how many requests at once.
const LINGER_BYTES: usize = 16 << 20;
const LINGER: Duration = Duration::from_secs(2);
static LINGERING: Semaphore = Semaphore::const_new(64);

/// A body as it arrives.
///
/// One that is dropped before its end is still read for a moment, into nothing: a server that closes while the client is
/// sending makes the system throw away the answer (RST), and the client would see a broken connection for a clear refusal.
pub struct Upload {
    pieces: Option<Pieces>,
    /// As declared; None for a chunked body.
    declared: Option<u64>,
}

impl Upload {
    pub fn new(
        headers: &HeaderMap,
        body: impl Stream<Item = Result<impl Buf + 'static, warp::Error>> + Send + 'static,
    ) -> Self {
        let declared = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let chunked = headers.contains_key(TRANSFER_ENCODING);
        if !chunked && declared.unwrap_or(0) == 0 {
            return Self { pieces: None, declared: Some(0) };
        }
        let pieces = body.map(|piece| {
            piece.map(|mut piece| {
                let size = piece.remaining();
                piece.copy_to_bytes(size)
            })
        });
        Self { pieces: Some(Box::pin(pieces)), declared: declared.filter(|_| !chunked) }
    }

    /// Refuses a body that says of itself that it is too large.
    ///
    /// # Errors
    /// `PAYLOAD_TOO_LARGE`.
    pub fn within(&self, limit: u64) -> Result<()> {
        match self.declared {
            Some(size) if size > limit => Err(too_large(limit)),
            _ => Ok(()),
        }
    }
}

pub fn too_large(limit: u64) -> Error {
    Error::new(Code::PayloadTooLarge, format!("the body is larger than {limit} bytes"))
}

impl Stream for Upload {
    type Item = Result<Bytes, warp::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(pieces) = &mut self.pieces else { return Poll::Ready(None) };
        let polled = pieces.as_mut().poll_next(context);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.pieces = None;
        }
        polled
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let (Some(mut pieces), Ok(runtime)) = (self.pieces.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        let Ok(place) = LINGERING.try_acquire() else { return };
        runtime.spawn(async move {
            let mut left = LINGER_BYTES;
            let read = async {
                while let Some(Ok(piece)) = pieces.next().await {
                    left = left.saturating_sub(piece.len());
                    if left == 0 {
                        break;
                    }
                }
            };
            let _ = tokio::time::timeout(LINGER, read).await;
            drop(place);
        });
    }
}
