//! What a file holds, found out within a deadline.
//!
//! Two ways. The quick one starts no process: our own readers take the container's headers, and GStreamer's
//! Discoverer says what the decoders see. It answers for the common files and gives up on everything it is not sure
//! of; then ffprobe is asked, which costs a process (50-80 ms) and knows nearly everything.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::domain::media::{Container, Media};
use crate::engine::source::Source;

mod avc;
mod bare;
mod container;
mod cut;
mod discover;
mod ends;
mod ffprobe;
mod jumping;
mod matroska;
mod mp4;
mod mpegts;
mod outline;
mod quick;
mod report;
mod seen;

/// Why a file could not be described.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ProbeError {
    /// The file's fault: no reader makes sense of it.
    #[error("not readable as media: {0}")]
    Unreadable(String),
    #[error("no answer within the deadline")]
    TimedOut,
    /// The disk's fault.
    #[error("the file could not be read: {0}")]
    Read(String),
    /// Ours: ffprobe writes more about this file than is read.
    #[error("the report of ffprobe is larger than 4 MiB")]
    ReportTooLarge,
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

/// What is to be held as long as a file is read in this process, whoever waits for it or does not.
pub type Held = Box<dyn Any + Send>;

/// Describes a plain file without starting a process.
///
/// # Errors
/// Why ffprobe must be asked.
pub async fn quick(tools: &Tools, source: &Arc<Source>, held: Held) -> Result<Media, &'static str> {
    let head = head(source).await.map_err(|_| "unreadable")?;
    let decodable = ffprobe::decodable(tools).await.map_err(|_| "no list of decoders")?;
    let media = quick::media(source, &head, decodable, held).await.map_err(|unsure| unsure.0)?;
    Ok(match media.container {
        Container::Matroska | Container::Webm => cut::by_cues(source, media).await,
        _ => media,
    })
}

/// Describes a file by ffprobe. The caller sets the deadline; dropping the future ends the child.
///
/// # Errors
/// What it says of the file, or why it could not run.
pub async fn thorough(tools: &Tools, source: &Arc<Source>) -> Result<Media, ProbeError> {
    let head = head(source).await?;
    if let Some(media) = jumping::media(tools, source, &head).await? {
        return Ok(media);
    }
    let report = ffprobe::run(tools, source).await?;
    let media = report::media(&report, ffprobe::decodable(tools).await?, &head, source.len)?;
    Ok(cut::corrected(source, bare::counted(source, media).await).await)
}

/// Pays ahead what the first probe of a process would: GStreamer's start (0.2 s) and ffmpeg's list of decoders.
pub async fn warm(tools: &Tools) {
    let starting = tokio::task::spawn_blocking(discover::warm);
    if let Err(fault) = ffprobe::decodable(tools).await {
        tracing::error!(%fault, "media files cannot be probed");
    }
    let _ = starting.await;
}

/// Where the bytes of a file attached to a Matroska file lie, by its name: offset and length. Blocks on the file system.
pub fn attached(source: &Source, name: &str) -> Option<(u64, u64)> {
    matroska::attached(source, name).ok().flatten()
}

/// The first bytes, read off the async threads: the disk may be asleep.
async fn head(source: &Arc<Source>) -> Result<Vec<u8>, ProbeError> {
    let source = source.clone();
    let reading = tokio::task::spawn_blocking(move || {
        let mut head = vec![0; 4096];
        let filled = source.read_blocking(&mut head, 0)?;
        head.truncate(filled);
        Ok(head)
    });
    let read: std::io::Result<_> = reading.await.map_err(|cause| ProbeError::Unavailable(cause.to_string()))?;
    read.map_err(|cause| ProbeError::Read(cause.to_string()))
}

#[cfg(test)]
mod tests;
