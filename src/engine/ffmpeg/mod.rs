//! The ffmpeg backend: a subprocess; the baseline that must always be available.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use rustix::fs::MemfdFlags;
use tokio::io::AsyncReadExt;

use super::process::{ChildExit, ChildLimits, InheritedFile, spawn};
use super::{Result, RunError};

mod amr_extraction;
pub mod args;
pub mod argument_list;
pub mod demuxers;
pub mod ingest_input;
pub mod run;
pub mod tone_map;

pub use run::FfmpegBackend;

/// The first `ffmpeg` on the search path.
pub fn find_program() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join("ffmpeg")).find(|path| path.is_file())
}

/// Runs ffmpeg and returns the first `max_bytes` of its output, and its exit; more output ends it. Dropping the future ends
/// the child.
///
/// # Errors
/// `Internal` when it does not start or its output cannot be read.
pub(super) async fn run_to_end(
    program: &Path,
    args: Vec<String>,
    inherit: Vec<InheritedFile>,
    limits: ChildLimits,
    max_bytes: usize,
) -> Result<(Vec<u8>, ChildExit)> {
    let started = spawn(program, args, inherit, limits).await;
    let mut child = started.map_err(|cause| RunError::Internal(format!("ffmpeg does not start: {cause}")))?;
    let mut output = Vec::new();
    let read = (&mut child.stdout).take(max_bytes as u64).read_to_end(&mut output).await;
    if output.len() >= max_bytes {
        child.kill();
    }
    let exit = child.wait().await;
    read.map_err(|cause| RunError::Internal(format!("ffmpeg's output: {cause}")))?;
    Ok((output, exit))
}

/// A file in memory with these bytes, for children to read by its descriptor.
pub(super) fn to_memory_file(name: &str, bytes: &[u8]) -> std::io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file)
}
