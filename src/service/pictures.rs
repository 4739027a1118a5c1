//! Pictures of the library that channels show: read and looked at when they are needed.

use std::sync::Arc;

use crate::engine::picture::{MOST_BYTES, Picture};
use crate::error::{Code, Error, Result};
use crate::service::Service;

impl Service {
    /// A picture by its request path.
    ///
    /// # Errors
    /// Those of opening a path; `UNSUPPORTED_MEDIA_TYPE` for what is no PNG or JPEG of at most 4 MiB and 4096 pixels a
    /// side.
    pub(super) async fn picture(&self, path: &str) -> Result<Arc<Picture>> {
        let located = self.roots.locate(path)?;
        let roots = self.roots.clone();
        let reading = self.library.within_deadline(located.root, move || {
            let source = roots.open_file(&located.path)?;
            let mut bytes = vec![0; MOST_BYTES + 1];
            let unreadable = |cause: std::io::Error| {
                Error::new(Code::SourceReadFailed, "the picture could not be read").with_cause(cause)
            };
            let filled = source.read_blocking(&mut bytes, 0).map_err(unreadable)?;
            Picture::of(&bytes[..filled]).map_err(Error::internal)
        });
        let wrong =
            || Error::new(Code::UnsupportedMediaType, "it is no PNG or JPEG of at most 4 MiB and 4096 pixels a side");
        reading.await?.map(Arc::new).ok_or_else(wrong)
    }

    /// Looks whether a picture named in a request can be shown.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` naming the field, for what cannot; what only fails now is told as it is.
    pub(super) async fn check_picture(&self, field: &str, path: &str) -> Result<()> {
        match self.picture(path).await {
            Ok(_) => Ok(()),
            Err(fault) if matches!(fault.code, Code::StorageTimeout | Code::SourceReadFailed | Code::Internal) => {
                Err(fault)
            }
            Err(fault) => Err(Error::field(field, format!("must be a picture of the library: {}", fault.message))),
        }
    }
}
