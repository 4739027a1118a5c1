//! The body of an answer: what warp made, or a file's bytes read as the client takes them.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::engine::source::Source;
use crate::error::Error;
use crate::service::library::Library;

/// Bytes of a file handed on at a time.
const PIECE_BYTES: u64 = 256 * 1024;

type Reading = Pin<Box<dyn Future<Output = Result<Vec<u8>, Error>> + Send>>;

/// A run of a file's bytes. A route puts it into its answer's extensions; the accept loop makes it the body.
#[derive(Clone)]
pub struct FileBody {
    library: Arc<Library>,
    source: Arc<Source>,
    offset: u64,
    left: u64,
}

impl FileBody {
    pub fn new(library: Arc<Library>, source: Arc<Source>, offset: u64, len: u64) -> Self {
        Self { library, source, offset, left: len }
    }
}

/// Every body the accept loop sends.
pub enum Outgoing<B> {
    /// What warp made.
    Plain(B),
    File {
        file: FileBody,
        reading: Option<Reading>,
    },
}

impl<B> Outgoing<B> {
    /// Takes the file out of an answer that carries one.
    pub fn of(response: http::Response<B>) -> http::Response<Self> {
        let (mut head, body) = response.into_parts();
        let body = match head.extensions.remove::<FileBody>() {
            Some(file) => Self::File { file, reading: None },
            None => Self::Plain(body),
        };
        http::Response::from_parts(head, body)
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Outgoing<B>
where
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match self.get_mut() {
            Self::Plain(body) => Pin::new(body).poll_frame(context).map_err(Into::into),
            Self::File { file, reading } => {
                let piece = ready!(file.poll_piece(reading, context));
                Poll::Ready(piece.map(|piece| piece.map(Frame::data).map_err(Into::into)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Plain(body) => body.is_end_stream(),
            Self::File { file, .. } => file.left == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Plain(body) => body.size_hint(),
            Self::File { file, .. } => SizeHint::with_exact(file.left),
        }
    }
}

impl FileBody {
    /// The next bytes. An error ends the connection, so that the client sees a cut and never wrong bytes.
    fn poll_piece(
        &mut self,
        reading: &mut Option<Reading>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Bytes>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let len = self.left.min(PIECE_BYTES) as usize;
        let piece = match reading {
            None => {
                let mut piece = vec![0; len];
                match self.source.read_cached(&mut piece, self.offset) {
                    Ok(Some(filled)) => {
                        piece.truncate(filled);
                        Ok(piece)
                    }
                    Ok(None) => {
                        let (library, source, offset) = (self.library.clone(), self.source.clone(), self.offset);
                        let read = async move { library.read(&source, offset, len).await };
                        ready!(reading.insert(Box::pin(read)).as_mut().poll(context)).map_err(io::Error::other)
                    }
                    Err(cause) => Err(cause),
                }
            }
            Some(read) => ready!(read.as_mut().poll(context)).map_err(io::Error::other),
        };
        *reading = None;
        Poll::Ready(Some(piece.and_then(|piece| {
            if piece.len() < len {
                self.library.forget(&self.source);
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file shrank while it was sent"));
            }
            self.offset += len as u64;
            self.left -= len as u64;
            Ok(Bytes::from(piece))
        })))
    }
}
