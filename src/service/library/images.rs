//! Images of the library that channels show (slates, watermarks), read and checked when they are needed.

use std::sync::Arc;

use super::Library;
use crate::engine::image::{Image, MAX_BYTES};
use crate::error::{Code, Error, Result};

impl Library {
    /// An image by its request path.
    ///
    /// # Errors
    /// Those of opening a path; `UNSUPPORTED_MEDIA_TYPE` for a file that is not a PNG or JPEG of at most 4 MiB and
    /// 4096x4096.
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
        let unsupported =
            || Error::new(Code::UnsupportedMediaType, "not a PNG or JPEG of at most 4 MiB and 4096x4096 pixels");
        image.await?.map(Arc::new).ok_or_else(unsupported)
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
