//! A response body packaged from a media file while it is sent.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use crate::engine::packager::{LazySegmentReader, LazySegment};
use crate::engine::source::SourceFile;
use crate::error::Error;
use crate::service::library::Library;

/// A segment to be packaged. A route puts it into its response's extensions; the connection makes it the body.
#[derive(Clone)]
pub struct ParcelBody {
    library: Arc<Library>,
    parcel: Arc<LazySegment>,
    source: Arc<SourceFile>,
}

impl ParcelBody {
    pub fn new(library: Arc<Library>, parcel: Arc<LazySegment>, source: Arc<SourceFile>) -> Self {
        Self { library, parcel, source }
    }

    pub(super) fn send(self) -> Sending {
        Sending { library: self.library, way: Way::Here(Box::new(self.parcel.reader(self.source))) }
    }
}

/// A segment being sent.
pub struct Sending {
    library: Arc<Library>,
    way: Way,
}

type Packed = Pin<Box<dyn Future<Output = Result<(LazySegmentReader, Bytes), Error>> + Send>>;

enum Way {
    Here(Box<LazySegmentReader>),
    /// The next bytes are being read from disk.
    Waiting {
        packed: Packed,
        left: u64,
    },
    Over,
}

impl Sending {
    /// Bytes still to come.
    pub(super) fn left(&self) -> u64 {
        match &self.way {
            Way::Here(packing) => packing.remaining_bytes(),
            Way::Waiting { left, .. } => *left,
            Way::Over => 0,
        }
    }

    /// The next bytes, packaged on this thread if the source is in memory, so that they are sent from a warm CPU cache. An
    /// error ends the connection, so the client sees an aborted body and never wrong bytes.
    pub(super) fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        loop {
            match std::mem::replace(&mut self.way, Way::Over) {
                Way::Here(mut packing) => match packing.next_cached().map_err(io::Error::other)? {
                    Some(bytes) => {
                        self.way = Way::Here(packing);
                        return Poll::Ready(Ok(bytes));
                    }
                    None => {
                        let (library, left) = (self.library.clone(), packing.remaining_bytes());
                        let packed = async move {
                            let root = packing.source().root_index;
                            let next = move || match packing.next_blocking() {
                                Ok(bytes) => Ok((*packing, bytes)),
                                Err(error) => Err(Error::internal(error)),
                            };
                            library.run_with_deadline(root, next).await
                        };
                        self.way = Way::Waiting { packed: Box::pin(packed), left };
                    }
                },
                Way::Waiting { mut packed, left } => match packed.as_mut().poll(context) {
                    Poll::Pending => {
                        self.way = Way::Waiting { packed, left };
                        return Poll::Pending;
                    }
                    Poll::Ready(packed) => {
                        let (packing, bytes) = packed.map_err(io::Error::other)?;
                        self.way = Way::Here(Box::new(packing));
                        return Poll::Ready(Ok(bytes));
                    }
                },
                Way::Over => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            }
        }
    }
}
