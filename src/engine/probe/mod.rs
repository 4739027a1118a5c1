//! What a file holds, found out within a deadline.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::domain::media::Media;
use crate::engine::source::Source;

mod ffprobe;
mod report;

/// Why a file could not be described.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ProbeError {
    /// The file's fault: no reader makes sense of it.
    #[error("not readable as media: {0}")]
    Unreadable(String),
    #[error("no answer within the deadline")]
    TimedOut,
    /// Ours: the tool is missing or could not be started.
    #[error("the probe could not run: {0}")]
    Unavailable(String),
}

/// The programs a probe may start.
#[derive(Clone, Debug)]
pub struct Tools {
    ffprobe: PathBuf,
}

impl Tools {
    /// The ffprobe that belongs to this ffmpeg: in the same folder, or both from `PATH`.
    pub fn beside(ffmpeg: &Path) -> Self {
        Self { ffprobe: ffmpeg.with_file_name("ffprobe") }
    }
}

/// Describes a file. The caller sets the deadline; dropping the future ends every child.
pub async fn probe(tools: &Tools, source: &Source) -> Result<Media, ProbeError> {
    let mut head = vec![0; 4096];
    let filled = source.file.read_at(&mut head, 0).map_err(|cause| ProbeError::Unreadable(cause.to_string()))?;
    head.truncate(filled);
    let report = ffprobe::run(tools, source).await?;
    report::media(&report, ffprobe::decodable(tools).await?, &head, source.len)
}
