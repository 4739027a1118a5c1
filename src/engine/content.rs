//! The content of a segment: its bytes, or a recipe for packing them from the file.

use std::sync::Arc;

use bytes::Bytes;

use super::RunError;
use super::packager::Parcel;
use super::source::Source;

#[derive(Clone, Debug)]
pub enum Content {
    Whole(Bytes),
    /// Packed again for every reader, which is faster than keeping a copy.
    Parcel(Arc<Parcel>),
}

impl Content {
    /// Memory used, bytes.
    pub fn weight(&self) -> u64 {
        match self {
            Self::Whole(bytes) => bytes.len() as u64,
            Self::Parcel(parcel) => parcel.weight(),
        }
    }

    /// All bytes. A `Parcel` is packed from the file it was laid out for; the disk is read on a blocking thread.
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

    /// The first bytes: enough to identify the streams.
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
