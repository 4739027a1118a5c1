//! What a file holds, found out within a deadline.

use std::os::unix::fs::FileExt;

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

/// Describes a file. The caller sets the deadline; dropping the future ends every child.
pub async fn probe(source: &Source) -> Result<Media, ProbeError> {
    let mut head = vec![0; 4096];
    let filled = source.file.read_at(&mut head, 0).map_err(|cause| ProbeError::Unreadable(cause.to_string()))?;
    head.truncate(filled);
    let report = ffprobe::run(source).await?;
    report::media(&report, ffprobe::decodable().await?, &head, source.len)
}
