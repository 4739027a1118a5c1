//! The body of a response: a body made by warp, a byte range of a file, a segment packaged from a file while it is sent, or the body
//! of another server's response.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::connection::{BodyChunk, FileRangeQueue, FileRanges, MAX_RANGE_BYTES};
use super::lazy_segment::{LazySegmentBody, LazySegmentStream};
use crate::engine::source::SourceFile;
use crate::error::Error;
use crate::service::library::Library;

/// A body that another server sends.
pub type ReceivedBody = Pin<Box<dyn Body<Data = Bytes, Error = BodyError> + Send>>;
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// A body that is passed on while it is received. A route puts it into its response's extensions, which must be cloned; only the
/// first one to take it gets it.
#[derive(Clone)]
pub struct ForwardedBody(Arc<Mutex<Option<ReceivedBody>>>);

impl ForwardedBody {
    pub fn new(body: impl Body<Data = Bytes, Error = BodyError> + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::pin(body)))))
    }

    fn take(&self) -> Option<ReceivedBody> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Bytes read at a time from a file that is not in the page cache.
const UNCACHED_READ_BYTES: u64 = 256 * 1024;

pub(super) type PendingFetch = Pin<Box<dyn Future<Output = Result<FetchResult, Error>> + Send>>;

/// The result of waiting for the file system.
pub(super) enum FetchResult {
    /// This many bytes are in the page cache now, so the kernel can send them.
    Cached(u64),
    /// The bytes themselves, of a file on a network file system.
    Bytes(Vec<u8>),
}

/// A byte range of a file. A route puts it into its response's extensions; the connection makes it the body.
#[derive(Clone)]
pub struct FileBody {
    library: Arc<Library>,
    source: Arc<SourceFile>,
    offset: u64,
    remaining: u64,
}

impl FileBody {
    pub fn new(library: Arc<Library>, source: Arc<SourceFile>, offset: u64, len: u64) -> Self {
        Self { library, source, offset, remaining: len }
    }
}

/// The body of any response.
pub enum ResponseBody<B> {
    /// A body made by warp.
    Plain(B),
    File {
        file: FileBody,
        file_ranges: FileRangeQueue,
        fetch: Option<PendingFetch>,
    },
    LazySegment(LazySegmentStream),
    Received(ReceivedBody),
}

impl<B> ResponseBody<B> {
    /// Replaces the body by the [`FileBody`], [`LazySegmentBody`] or [`ForwardedBody`] in the response's extensions, if there is one.
    pub fn from_response(response: http::Response<B>, file_ranges: FileRangeQueue) -> http::Response<Self> {
        let (mut head, body) = response.into_parts();
        let body = if let Some(file) = head.extensions.remove::<FileBody>() {
            Self::File { file, file_ranges, fetch: None }
        } else if let Some(segment) = head.extensions.remove::<LazySegmentBody>() {
            Self::LazySegment(segment.into_stream(file_ranges))
        } else if let Some(body) = head.extensions.remove::<ForwardedBody>().and_then(|body| body.take()) {
            Self::Received(body)
        } else {
            Self::Plain(body)
        };
        http::Response::from_parts(head, body)
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for ResponseBody<B>
where
    B::Error: Into<BodyError>,
{
    type Data = BodyChunk;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match self.get_mut() {
            Self::Plain(body) => {
                let frame = ready!(Pin::new(body).poll_frame(context));
                Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(BodyChunk::Bytes)).map_err(Into::into)))
            }
            Self::Received(body) => {
                let frame = ready!(body.as_mut().poll_frame(context));
                Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(BodyChunk::Bytes))))
            }
            Self::File { file, .. } if file.remaining == 0 => Poll::Ready(None),
            Self::File { file, file_ranges, fetch } => {
                let chunk = ready!(file.poll_chunk(file_ranges, fetch, context));
                Poll::Ready(Some(chunk.map(Frame::data).map_err(Into::into)))
            }
            Self::LazySegment(segment) if segment.remaining() == 0 => Poll::Ready(None),
            Self::LazySegment(segment) => {
                let chunk = ready!(segment.poll_chunk(context));
                Poll::Ready(Some(chunk.map(Frame::data).map_err(Into::into)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Plain(body) => body.is_end_stream(),
            Self::Received(body) => body.is_end_stream(),
            Self::File { file, .. } => file.remaining == 0,
            Self::LazySegment(segment) => segment.remaining() == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Plain(body) => body.size_hint(),
            Self::Received(body) => body.size_hint(),
            Self::File { file, .. } => SizeHint::with_exact(file.remaining),
            Self::LazySegment(segment) => SizeHint::with_exact(segment.remaining()),
        }
    }
}

impl FileBody {
    /// The next bytes of the file. An error ends the connection, so the client sees an aborted body and never wrong bytes.
    fn poll_chunk(
        &mut self,
        file_ranges: &FileRangeQueue,
        fetch: &mut Option<PendingFetch>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<BodyChunk>> {
        let fetched = match fetch {
            Some(fetch) => ready!(fetch.as_mut().poll(context)),
            None => {
                let range_len = self.remaining.min(MAX_RANGE_BYTES);
                if self.source.is_cached(self.offset, range_len) {
                    Ok(FetchResult::Cached(range_len))
                } else {
                    ready!(fetch.insert(self.fetch()).as_mut().poll(context))
                }
            }
        };
        *fetch = None;
        let (chunk, len) = match fetched.map_err(io::Error::other)? {
            FetchResult::Cached(len) => {
                let ranges = FileRanges::new(self.source.clone(), [(self.offset, len)]);
                (BodyChunk::queue_ranges(file_ranges, ranges), len)
            }
            FetchResult::Bytes(bytes) => {
                let len = bytes.len() as u64;
                (BodyChunk::Bytes(bytes.into()), len)
            }
        };
        if len < self.remaining.min(UNCACHED_READ_BYTES) {
            self.library.evict(&self.source);
            let cause = io::Error::new(io::ErrorKind::UnexpectedEof, "the file shrank while it was sent");
            return Poll::Ready(Err(cause));
        }
        self.offset += len;
        self.remaining -= len;
        Poll::Ready(Ok(chunk))
    }

    /// Reads from the file system off the async threads.
    fn fetch(&self) -> PendingFetch {
        let (library, source, offset) = (self.library.clone(), self.source.clone(), self.offset);
        let len = self.remaining.min(UNCACHED_READ_BYTES);
        Box::pin(async move {
            if source.is_local {
                library.read_ahead(&source, offset, len).await.map(FetchResult::Cached)
            } else {
                library.read(&source, offset, len as usize).await.map(FetchResult::Bytes)
            }
        })
    }
}
