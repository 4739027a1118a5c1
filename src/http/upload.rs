//! A request's body, and draining of the part a handler leaves unread.

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

/// Limits for draining a rejected body: bytes, time, and requests at once.
const LINGER_BYTES: usize = 16 << 20;
const LINGER: Duration = Duration::from_secs(2);
static LINGERING: Semaphore = Semaphore::const_new(64);

/// A request's body as a stream.
///
/// If it is dropped before its end, the rest is read for a moment and discarded. If the server closed while the client is
/// still sending, the kernel would send RST and lose the response: the client would see a broken connection, not the error.
pub struct Upload {
    pieces: Option<Pieces>,
    /// `Content-Length`; None for a chunked body.
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

    /// Rejects a body whose declared length exceeds the limit.
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
