//! An NFO file in memory, parsed where a hostile one does no harm.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::ffmpeg::to_memory_file;
use super::{Result, RunError};
use crate::domain::nfo::{MAX_BYTES, Nfo};

/// A copy of an NFO file. Later changes of the file have no effect.
#[derive(Clone, Debug)]
pub struct NfoFile {
    pub(super) file: Arc<File>,
    /// Hash of its bytes, in hex.
    pub digest: String,
}

impl NfoFile {
    /// Copies the bytes to memory.
    ///
    /// # Errors
    /// When the system gives no memory.
    pub fn from_bytes(bytes: &[u8]) -> std::io::Result<Self> {
        let digest = blake3::hash(bytes).to_hex()[..32].to_owned();
        Ok(Self { file: Arc::new(to_memory_file("nfo", bytes)?), digest })
    }

    /// Its records, parsed in this process.
    ///
    /// # Errors
    /// Those of [`parse_nfo_file`].
    pub fn parse(&self) -> Result<Vec<Nfo>> {
        parse_nfo_file(&self.file)
    }
}

/// The records of an NFO file. Reads no more than the longest one that is accepted.
///
/// # Errors
/// `Decode` with the reason for a file that is broken; `SourceRead`.
pub fn parse_nfo_file(file: &File) -> Result<Vec<Nfo>> {
    let unreadable = |cause: std::io::Error| RunError::SourceRead(cause.to_string());
    let len = file.metadata().map_err(unreadable)?.len().min(MAX_BYTES as u64 + 1) as usize;
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, 0).map_err(unreadable)?;
    Nfo::parse(&bytes).map_err(|error| RunError::Decode(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_parsed_from_its_descriptor() {
        let parse = |bytes: &[u8]| NfoFile::from_bytes(bytes).unwrap().parse();
        assert_eq!(parse(b"<movie><title>A</title></movie>").unwrap()[0].title.as_deref(), Some("A"));
        let reason = |bytes: &[u8]| match parse(bytes) {
            Err(RunError::Decode(reason)) => reason,
            other => panic!("{other:?}"),
        };
        assert!(reason(b"<movie>").contains("cut off"));
        assert!(reason(b"").contains("no movie"));
        assert!(reason(&vec![b'x'; 50 << 20]).contains("larger than 1 MiB"));
        let [first, second] = [&b"<movie/>"[..], b"<movie />"].map(|bytes| NfoFile::from_bytes(bytes).unwrap().digest);
        assert_ne!(first, second);
    }
}
