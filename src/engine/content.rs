//! The content of a segment: its bytes, or a recipe for reading them from the source file.

use std::sync::Arc;

use bytes::Bytes;

use super::RunError;
use super::packager::LazySegment;
use super::source::SourceFile;

#[derive(Clone, Debug)]
pub enum SegmentContent {
    InMemory(Bytes),
    /// A transport stream or CMAF, read again from the file for every reader, which is faster than keeping a copy.
    Lazy(Arc<LazySegment>),
}

impl SegmentContent {
    /// Size of the segment, bytes.
    pub fn size_bytes(&self) -> u64 {
        match self {
            Self::InMemory(bytes) => bytes.len() as u64,
            Self::Lazy(lazy_segment) => lazy_segment.size_bytes(),
        }
    }

    /// Memory used, bytes.
    pub fn memory_bytes(&self) -> u64 {
        match self {
            Self::InMemory(bytes) => bytes.len() as u64,
            Self::Lazy(lazy_segment) => lazy_segment.memory_bytes(),
        }
    }

    /// All bytes. A `Lazy` is read from the file it was laid out for; the disk is read on a blocking thread.
    ///
    /// # Errors
    /// `SourceChanged`, `SourceRead`.
    pub async fn read_all(self, source: &Arc<SourceFile>) -> Result<Bytes, RunError> {
        self.read_with(source, |lazy, source| lazy.read_all(&source).map(Bytes::from)).await
    }

    /// The first bytes: enough to identify the streams.
    pub async fn read_head(self, source: &Arc<SourceFile>) -> Result<Bytes, RunError> {
        self.read_with(source, |lazy, source| lazy.reader(source).next_blocking()).await
    }

    async fn read_with(
        self,
        source: &Arc<SourceFile>,
        read: fn(Arc<LazySegment>, Arc<SourceFile>) -> Result<Bytes, RunError>,
    ) -> Result<Bytes, RunError> {
        let lazy = match self {
            Self::InMemory(bytes) => return Ok(bytes),
            Self::Lazy(lazy) => lazy,
        };
        let source = source.clone();
        let task = tokio::task::spawn_blocking(move || read(lazy, source));
        task.await.map_err(|cause| RunError::Internal(cause.to_string()))?
    }
}

impl From<Vec<u8>> for SegmentContent {
    fn from(bytes: Vec<u8>) -> Self {
        Self::InMemory(bytes.into())
    }
}
