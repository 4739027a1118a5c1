//! A response body packaged from a media file while it is sent.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use crate::engine::packager::{LazySegment, LazySegmentReader};
use crate::engine::source::SourceFile;
use crate::error::Error;
use crate::service::library::Library;

/// A segment to be packaged. A route puts it into its response's extensions; the connection makes it the body.
#[derive(Clone)]
pub struct LazySegmentBody {
    library: Arc<Library>,
    segment: Arc<LazySegment>,
    source: Arc<SourceFile>,
}

impl LazySegmentBody {
    pub fn new(library: Arc<Library>, segment: Arc<LazySegment>, source: Arc<SourceFile>) -> Self {
        Self { library, segment, source }
    }

    pub(super) fn into_stream(self) -> LazySegmentStream {
        let reader = Box::new(self.segment.reader(self.source));
        LazySegmentStream { library: self.library, state: StreamState::Ready(reader) }
    }
}

/// A segment being sent.
pub struct LazySegmentStream {
    library: Arc<Library>,
    state: StreamState,
}

type PendingRead = Pin<Box<dyn Future<Output = Result<(LazySegmentReader, Bytes), Error>> + Send>>;

enum StreamState {
    Ready(Box<LazySegmentReader>),
    /// The next bytes are being read from disk.
    Waiting {
        pending: PendingRead,
        remaining: u64,
    },
    Finished,
}

impl LazySegmentStream {
    /// Bytes still to come.
    pub(super) fn remaining(&self) -> u64 {
        match &self.state {
            StreamState::Ready(reader) => reader.remaining_bytes(),
            StreamState::Waiting { remaining, .. } => *remaining,
            StreamState::Finished => 0,
        }
    }

    /// The next bytes, packaged on this thread if the source is in memory, so that they are sent from a warm CPU cache. An
    /// error ends the connection, so the client sees an aborted body and never wrong bytes.
    pub(super) fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        loop {
            match std::mem::replace(&mut self.state, StreamState::Finished) {
                StreamState::Ready(mut reader) => match reader.next_cached().map_err(io::Error::other)? {
                    Some(bytes) => {
                        self.state = StreamState::Ready(reader);
                        return Poll::Ready(Ok(bytes));
                    }
                    None => {
                        let (library, remaining) = (self.library.clone(), reader.remaining_bytes());
                        let pending = async move {
                            let root = reader.source().root_index;
                            let read_next = move || match reader.next_blocking() {
                                Ok(bytes) => Ok((*reader, bytes)),
                                Err(error) => Err(Error::internal(error)),
                            };
                            library.run_with_deadline(root, read_next).await
                        };
                        self.state = StreamState::Waiting { pending: Box::pin(pending), remaining };
                    }
                },
                StreamState::Waiting { mut pending, remaining } => match pending.as_mut().poll(context) {
                    Poll::Pending => {
                        self.state = StreamState::Waiting { pending, remaining };
                        return Poll::Pending;
                    }
                    Poll::Ready(result) => {
                        let (reader, bytes) = result.map_err(io::Error::other)?;
                        self.state = StreamState::Ready(Box::new(reader));
                        return Poll::Ready(Ok(bytes));
                    }
                },
                StreamState::Finished => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            }
        }
    }
}
