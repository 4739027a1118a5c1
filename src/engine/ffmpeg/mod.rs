//! The ffmpeg backend: a subprocess; the baseline that must always be available.

use std::path::PathBuf;

mod amr_extraction;
pub mod args;
mod confine;
pub mod demuxers;
pub mod ingest_input;
pub mod run;
pub mod spawn;

pub use run::FfmpegBackend;

/// The first `ffmpeg` on the search path.
pub fn find_program() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join("ffmpeg")).find(|path| path.is_file())
}
