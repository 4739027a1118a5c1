//! The content of a segment: its bytes, or a recipe for packing them from the file.

use std::sync::Arc;

use bytes::Bytes;

use super::RunError;
use super::packager::LazySegment;
use super::source::SourceFile;

#[derive(Clone, Debug)]
pub enum SegmentContent {
    InMemory(Bytes),
    /// Packed again for every reader, which is faster than keeping a copy.
    Lazy(Arc<LazySegment>),
}

impl SegmentContent {
    /// Memory used, bytes.
    pub fn memory_bytes(&self) -> u64 {
        match self {
            Self::InMemory(bytes) => bytes.len() as u64,
            Self::Lazy(lazy_segment) => lazy_segment.memory_bytes(),
        }
    }

    /// All bytes. A `Lazy` is packed from the file it was laid out for; the disk is read on a blocking thread.
    ///
    /// # Errors
    /// `SourceChanged`, `SourceRead`.
    pub async fn read_all(self, source: &Arc<SourceFile>) -> Result<Bytes, RunError> {
        match self {
            Self::InMemory(bytes) => Ok(bytes),
            Self::Lazy(lazy_segment) => {
                let source = source.clone();
                run_blocking(move || lazy_segment.read_all(&source).map(Bytes::from)).await
            }
        }
    }

    /// The first bytes: enough to identify the streams.
    ///
    /// # Errors
    /// Those of [`Self::read_all`].
    pub async fn read_head(self, source: &Arc<SourceFile>) -> Result<Bytes, RunError> {
        match self {
            Self::InMemory(bytes) => Ok(bytes),
            Self::Lazy(lazy_segment) => {
                let source = source.clone();
                run_blocking(move || lazy_segment.reader(source).next_blocking()).await
            }
        }
    }
}

async fn run_blocking(read: impl FnOnce() -> Result<Bytes, RunError> + Send + 'static) -> Result<Bytes, RunError> {
    tokio::task::spawn_blocking(read).await.map_err(|cause| RunError::Internal(cause.to_string()))?
}

impl From<Vec<u8>> for SegmentContent {
    fn from(bytes: Vec<u8>) -> Self {
        Self::InMemory(bytes.into())
    }
}
