//! The ffmpeg backend: a subprocess; the baseline that must always be available.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use rustix::fs::MemfdFlags;

mod amr_extraction;
pub mod args;
mod confine;
pub mod ingest_input;
pub mod run;
pub mod spawn;

pub use run::FfmpegBackend;

/// The first `ffmpeg` on the search path.
pub fn find_program() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join("ffmpeg")).find(|path| path.is_file())
}

/// A file in memory with these bytes, for children to read by its descriptor.
pub(super) fn to_memory_file(name: &str, bytes: &[u8]) -> std::io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file)
}
