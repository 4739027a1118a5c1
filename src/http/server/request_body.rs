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

type ChunkStream = Pin<Box<dyn Stream<Item = Result<Bytes, warp::Error>> + Send>>;

/// Limits for draining a rejected body: bytes, time, and requests at once.
const DRAIN_BYTES: usize = 16 << 20;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
static DRAINS: Semaphore = Semaphore::const_new(64);

/// A request's body as a stream.
///
/// If it is dropped before its end, the rest is read for a moment and discarded. If the server closed while the client is
/// still sending, the kernel would send RST and lose the response: the client would see a broken connection, not the error.
pub struct RequestBody {
    chunks: Option<ChunkStream>,
    /// `Content-Length`; None for a chunked body.
    declared_bytes: Option<u64>,
}

impl RequestBody {
    pub fn new(
        headers: &HeaderMap,
        body: impl Stream<Item = Result<impl Buf + 'static, warp::Error>> + Send + 'static,
    ) -> Self {
        let declared_bytes = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let is_chunked = headers.contains_key(TRANSFER_ENCODING);
        if !is_chunked && declared_bytes.unwrap_or(0) == 0 {
            return Self { chunks: None, declared_bytes: Some(0) };
        }
        let chunks = body.map(|received| {
            received.map(|mut chunk| {
                let size = chunk.remaining();
                chunk.copy_to_bytes(size)
            })
        });
        Self { chunks: Some(Box::pin(chunks)), declared_bytes: declared_bytes.filter(|_| !is_chunked) }
    }

    pub fn empty() -> Self {
        Self { chunks: None, declared_bytes: Some(0) }
    }

    /// Whether the request has no body.
    pub fn is_empty(&self) -> bool {
        self.declared_bytes == Some(0)
    }

    /// `Content-Length`; None for a chunked body.
    pub fn declared_bytes(&self) -> Option<u64> {
        self.declared_bytes
    }

    /// Rejects a body whose declared length exceeds the limit.
    ///
    /// # Errors
    /// `PAYLOAD_TOO_LARGE`.
    pub fn check_limit(&self, limit: u64) -> Result<()> {
        match self.declared_bytes {
            Some(size) if size > limit => Err(Self::too_large(limit)),
            _ => Ok(()),
        }
    }

    pub fn too_large(limit: u64) -> Error {
        Error::new(Code::PayloadTooLarge, format!("the body is larger than {limit} bytes"))
    }
}

impl Stream for RequestBody {
    type Item = Result<Bytes, warp::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(chunks) = &mut self.chunks else { return Poll::Ready(None) };
        let polled = chunks.as_mut().poll_next(context);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.chunks = None;
        }
        polled
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let (Some(mut chunks), Ok(runtime)) = (self.chunks.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        let Ok(permit) = DRAINS.try_acquire() else { return };
        runtime.spawn(async move {
            let mut remaining = DRAIN_BYTES;
            let drain = async {
                while let Some(Ok(chunk)) = chunks.next().await {
                    remaining = remaining.saturating_sub(chunk.len());
                    if remaining == 0 {
                        break;
                    }
                }
            };
            let _ = tokio::time::timeout(DRAIN_TIMEOUT, drain).await;
            drop(permit);
        });
    }
}
