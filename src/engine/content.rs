//! What a segment consists of: its bytes, or how they are packed out of the file.

use std::sync::Arc;

use bytes::Bytes;

use super::RunError;
use super::packager::Parcel;
use super::source::Source;

/// The content of a segment.
#[derive(Clone, Debug)]
pub enum Content {
    Whole(Bytes),
    /// Packed anew for everybody who reads it, sooner than a copy could be kept for them.
    Parcel(Arc<Parcel>),
}

impl Content {
    /// Memory it takes, bytes.
    pub fn weight(&self) -> u64 {
        match self {
            Self::Whole(bytes) => bytes.len() as u64,
            Self::Parcel(parcel) => parcel.weight(),
        }
    }

    /// All bytes, of a parcel out of the file it was laid out for; waits for the disk off the async threads.
    ///
    /// # Errors
    /// `SourceChanged`, `SourceRead`.
    pub async fn whole(self, source: &Arc<Source>) -> Result<Bytes, RunError> {
        match self {
            Self::Whole(bytes) => Ok(bytes),
            Self::Parcel(parcel) => {
                let source = source.clone();
                blocking(move || parcel.whole(&source).map(Bytes::from)).await
            }
        }
    }

    /// The first bytes: enough to tell what is in it.
    ///
    /// # Errors
    /// Those of [`Self::whole`].
    pub async fn head(self, source: &Arc<Source>) -> Result<Bytes, RunError> {
        match self {
            Self::Whole(bytes) => Ok(bytes),
            Self::Parcel(parcel) => {
                let source = source.clone();
                blocking(move || parcel.pack(source).next_blocking()).await
            }
        }
    }
}

async fn blocking(work: impl FnOnce() -> Result<Bytes, RunError> + Send + 'static) -> Result<Bytes, RunError> {
    tokio::task::spawn_blocking(work).await.map_err(|cause| RunError::Internal(cause.to_string()))?
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Whole(bytes.into())
    }
}
