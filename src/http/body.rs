//! The body of a response: a body made by warp, a byte range of a file, or a segment packaged from a file while it is sent.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::parcel::{ParcelBody, Sending};
use super::wire::{Piece, RUN_BYTES, Run, Runs};
use crate::engine::source::SourceFile;
use crate::error::Error;
use crate::service::library::Library;

/// Bytes read at a time from a file that is not in the page cache.
const COLD_BYTES: u64 = 256 * 1024;

pub(super) type Fetch = Pin<Box<dyn Future<Output = Result<Fetched, Error>> + Send>>;

/// The result of waiting for the file system.
pub(super) enum Fetched {
    /// This many bytes are in the page cache now, so the kernel can send them.
    Warm(u64),
    /// The bytes themselves, of a file on a network file system.
    Bytes(Vec<u8>),
}

/// A byte range of a file. A route puts it into its response's extensions; the connection makes it the body.
#[derive(Clone)]
pub struct FileBody {
    library: Arc<Library>,
    source: Arc<SourceFile>,
    offset: u64,
    left: u64,
}

impl FileBody {
    pub fn new(library: Arc<Library>, source: Arc<SourceFile>, offset: u64, len: u64) -> Self {
        Self { library, source, offset, left: len }
    }
}

/// The body of any response.
pub enum Outgoing<B> {
    /// A body made by warp.
    Plain(B),
    File {
        file: FileBody,
        runs: Runs,
        fetch: Option<Fetch>,
    },
    Parcel(Sending),
}

impl<B> Outgoing<B> {
    /// Replaces the body by the [`FileBody`] or [`ParcelBody`] in the response's extensions, if there is one.
    pub fn of(response: http::Response<B>, runs: Runs) -> http::Response<Self> {
        let (mut head, body) = response.into_parts();
        let body = if let Some(file) = head.extensions.remove::<FileBody>() {
            Self::File { file, runs, fetch: None }
        } else if let Some(parcel) = head.extensions.remove::<ParcelBody>() {
            Self::Parcel(parcel.send())
        } else {
            Self::Plain(body)
        };
        http::Response::from_parts(head, body)
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Outgoing<B>
where
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Piece;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match self.get_mut() {
            Self::Plain(body) => {
                let frame = ready!(Pin::new(body).poll_frame(context));
                Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(Piece::Bytes)).map_err(Into::into)))
            }
            Self::File { file, .. } if file.left == 0 => Poll::Ready(None),
            Self::File { file, runs, fetch } => {
                let piece = ready!(file.poll_piece(runs, fetch, context));
                Poll::Ready(Some(piece.map(Frame::data).map_err(Into::into)))
            }
            Self::Parcel(parcel) if parcel.left() == 0 => Poll::Ready(None),
            Self::Parcel(parcel) => {
                let piece = ready!(parcel.poll_piece(context));
                Poll::Ready(Some(piece.map(|bytes| Frame::data(Piece::Bytes(bytes))).map_err(Into::into)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Plain(body) => body.is_end_stream(),
            Self::File { file, .. } => file.left == 0,
            Self::Parcel(parcel) => parcel.left() == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Plain(body) => body.size_hint(),
            Self::File { file, .. } => SizeHint::with_exact(file.left),
            Self::Parcel(parcel) => SizeHint::with_exact(parcel.left()),
        }
    }
}

impl FileBody {
    /// The next bytes of the file. An error ends the connection, so the client sees an aborted body and never wrong bytes.
    fn poll_piece(
        &mut self,
        runs: &Runs,
        fetch: &mut Option<Fetch>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Piece>> {
        let fetched = match fetch {
            Some(fetch) => ready!(fetch.as_mut().poll(context)),
            None => {
                let run = self.left.min(RUN_BYTES);
                if self.source.is_cached(self.offset, run) {
                    Ok(Fetched::Warm(run))
                } else {
                    ready!(fetch.insert(self.fetch()).as_mut().poll(context))
                }
            }
        };
        *fetch = None;
        let (piece, len) = match fetched.map_err(io::Error::other)? {
            Fetched::Warm(len) => {
                let run = Run { source: self.source.clone(), offset: self.offset, left: len };
                (Piece::of_run(runs, run), len)
            }
            Fetched::Bytes(bytes) => {
                let len = bytes.len() as u64;
                (Piece::Bytes(bytes.into()), len)
            }
        };
        if len < self.left.min(COLD_BYTES) {
            self.library.evict(&self.source);
            let cause = io::Error::new(io::ErrorKind::UnexpectedEof, "the file shrank while it was sent");
            return Poll::Ready(Err(cause));
        }
        self.offset += len;
        self.left -= len;
        Poll::Ready(Ok(piece))
    }

    /// Reads from the file system off the async threads.
    fn fetch(&self) -> Fetch {
        let (library, source, offset) = (self.library.clone(), self.source.clone(), self.offset);
        let len = self.left.min(COLD_BYTES);
        Box::pin(async move {
            if source.is_local {
                library.read_ahead(&source, offset, len).await.map(Fetched::Warm)
            } else {
                library.read(&source, offset, len as usize).await.map(Fetched::Bytes)
            }
        })
    }
}
