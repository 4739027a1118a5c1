//! NFO files parsed by workers.

use super::file_job::{FileFault, FileJob};
use super::message::Work;
use super::pool::WorkerPool;
use crate::domain::nfo::Nfo;
use crate::engine::nfo_file::NfoFile;

impl WorkerPool {
    /// The records of an NFO file. `path` is for messages.
    ///
    /// # Errors
    /// [`FileFault`].
    pub async fn parse_nfo(&self, nfo: &NfoFile, path: &str) -> Result<Vec<Nfo>, FileFault> {
        let key = self.nfo_key(&nfo.digest);
        self.do_file_job(FileJob { key, path, work: Work::Nfo, file: nfo.file.clone() }).await
    }
}
