//! A response body packaged from a media file while it is sent: bytes, and ranges of the file that the kernel sends.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::connection::{BodyChunk, FileRangeQueue, FileRanges, MAX_RANGE_BYTES};
use crate::engine::packager::{LazySegmentReader, SegmentPart};
use crate::engine::source::SourceFile;
use crate::error::Error;
use crate::service::library::Library;

/// A segment to be packaged, or a byte range of one. A route puts it into its response's extensions; the connection makes it
/// the body.
#[derive(Clone)]
pub struct LazySegmentBody {
    library: Arc<Library>,
    reader: LazySegmentReader,
}

impl LazySegmentBody {
    pub fn new(library: Arc<Library>, reader: LazySegmentReader) -> Self {
        Self { library, reader }
    }

    pub(super) fn into_stream(self, file_ranges: FileRangeQueue) -> LazySegmentStream {
        LazySegmentStream { library: self.library, file_ranges, state: StreamState::Ready(Box::new(self.reader)) }
    }
}

/// A segment being sent.
pub struct LazySegmentStream {
    library: Arc<Library>,
    file_ranges: FileRangeQueue,
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

    /// The next part. If the source is in memory, bytes are packaged on this thread, so that they are sent from a warm CPU
    /// cache, and ranges of the file are queued for the kernel. An error ends the connection, so the client sees an aborted
    /// body and never wrong bytes.
    pub(super) fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<io::Result<BodyChunk>> {
        loop {
            match std::mem::replace(&mut self.state, StreamState::Finished) {
                StreamState::Ready(mut reader) => {
                    match reader.next_part_cached(MAX_RANGE_BYTES).map_err(io::Error::other)? {
                        Some(part) => {
                            let chunk = self.chunk_of(part, reader.source());
                            self.state = StreamState::Ready(reader);
                            return Poll::Ready(Ok(chunk));
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
                    }
                }
                StreamState::Waiting { mut pending, remaining } => match pending.as_mut().poll(context) {
                    Poll::Pending => {
                        self.state = StreamState::Waiting { pending, remaining };
                        return Poll::Pending;
                    }
                    Poll::Ready(result) => {
                        let (reader, bytes) = result.map_err(io::Error::other)?;
                        self.state = StreamState::Ready(Box::new(reader));
                        return Poll::Ready(Ok(BodyChunk::Bytes(bytes)));
                    }
                },
                StreamState::Finished => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            }
        }
    }

    fn chunk_of(&self, part: SegmentPart, source: &Arc<SourceFile>) -> BodyChunk {
        match part {
            SegmentPart::Bytes(bytes) => BodyChunk::Bytes(bytes),
            SegmentPart::FileRanges(ranges) => {
                BodyChunk::queue_ranges(&self.file_ranges, FileRanges::new(source.clone(), ranges))
            }
        }
    }
}
