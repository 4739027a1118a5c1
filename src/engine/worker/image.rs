//! Images checked by workers: whether a decoder reads the whole of one, before a channel shows it.

use std::sync::Arc;

use super::file_job::{FileFault, FileJob};
use super::message::Work;
use super::pool::WorkerPool;
use crate::engine::image::Image;

/// The pipeline's name in quarantine keys.
const PIPELINE: &str = "image";

impl WorkerPool {
    /// Decodes a whole image. `path` is for messages.
    ///
    /// # Errors
    /// [`FileFault`].
    pub async fn check_image(&self, image: &Arc<Image>, path: &str) -> Result<(), FileFault> {
        let key = self.image_key(&image.digest, PIPELINE);
        self.do_file_job(FileJob { key, path, work: Work::Image, file: image.file.clone() }).await
    }
}
