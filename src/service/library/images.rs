//! Images of the library that channels show (slates, watermarks), read and checked when they are needed.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use super::Library;
use crate::engine::image::{Image, MAX_BYTES};
use crate::engine::worker::{FileFault, Isolation};
use crate::error::{Code, Error, Result};

/// Results of checks kept.
const MAX_RESULTS: NonZeroUsize = NonZeroUsize::new(64).expect("not zero");

/// Decodes images where GStreamer runs, each once.
#[derive(Debug)]
pub(super) struct ImageChecks {
    isolation: Isolation,
    /// By the hash of the image: why it is broken; None if it is not.
    results: Mutex<LruCache<String, Option<String>>>,
}

impl ImageChecks {
    pub(super) fn new(isolation: Isolation) -> Self {
        Self { isolation, results: Mutex::new(LruCache::new(MAX_RESULTS)) }
    }

    /// Whether an image can be shown. One that could not be checked counts as intact.
    async fn check(&self, image: &Arc<Image>, path: &str) -> Result<(), String> {
        if let Some(known) = self.results().get(&image.digest) {
            return known.clone().map_or(Ok(()), Err);
        }
        let fault = match self.isolation.check_image(image, path).await {
            Ok(()) => None,
            Err(FileFault::Broken(reason)) => Some(reason),
            Err(FileFault::Unchecked(cause)) => {
                tracing::info!(media.path = path, cause, "an image was not checked by decoding it");
                return Ok(());
            }
        };
        self.results().put(image.digest.clone(), fault.clone());
        fault.map_or(Ok(()), Err)
    }

    fn results(&self) -> MutexGuard<'_, LruCache<String, Option<String>>> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Library {
    /// An image by its request path, which a decoder has read.
    ///
    /// # Errors
    /// Those of opening a path; `UNSUPPORTED_MEDIA_TYPE` for a file that is not a PNG or JPEG of at most 4 MiB and
    /// 4096x4096, or that cannot be decoded.
    pub(in crate::service) async fn load_image(&self, path: &str) -> Result<Arc<Image>> {
        let located = self.roots.locate(path)?;
        let roots = self.roots.clone();
        let image = self.run_with_deadline(located.root_index, move || {
            let source = roots.open_file(&located.path)?;
            let mut bytes = vec![0; MAX_BYTES + 1];
            let unreadable = |cause: std::io::Error| {
                Error::new(Code::SourceReadFailed, "the image could not be read").with_cause(cause)
            };
            let byte_count = source.read_blocking(&mut bytes, 0).map_err(unreadable)?;
            Image::from_bytes(&bytes[..byte_count]).map_err(Error::internal)
        });
        let unsupported = |message: String| Error::new(Code::UnsupportedMediaType, message);
        let wrong_format = || unsupported("not a PNG or JPEG of at most 4 MiB and 4096x4096 pixels".to_owned());
        let image = image.await?.map(Arc::new).ok_or_else(wrong_format)?;
        if let Some(checks) = &self.image_checks {
            let checked = checks.check(&image, path).await;
            checked.map_err(|reason| unsupported(format!("the image is broken: {reason}")))?;
        }
        Ok(image)
    }

    /// Checks that an image in a request can be shown.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` naming the field if it cannot; temporary errors are returned as they are.
    pub(in crate::service) async fn check_image(&self, field: &str, path: &str) -> Result<()> {
        match self.load_image(path).await {
            Ok(_) => Ok(()),
            Err(fault) if matches!(fault.code, Code::StorageTimeout | Code::SourceReadFailed | Code::Internal) => {
                Err(fault)
            }
            Err(fault) => {
                Err(Error::invalid_field(field, format!("must be an image of the library: {}", fault.message)))
            }
        }
    }
}
