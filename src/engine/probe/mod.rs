//! Probing: what streams a file has, found out within a deadline.
//!
//! There are two ways. The quick one starts no process: our own readers parse the container's headers, and GStreamer's
//! Discoverer, in a worker that is ready, reports what the decoders see. It handles the common files and gives up when in
//! doubt. Then ffprobe runs, which costs a process (50-80 ms) and handles nearly every file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::domain::media::Media;
use crate::engine::container::bytes::read_up_to;
use crate::engine::container::matroska::TopLevelElements;
use crate::engine::source::SourceFile;

mod avc;
mod coded;
mod container;
mod decoder_info;
mod discontinuous;
mod ends;
mod ffprobe;
mod matroska;
mod mp4;
mod mpegts;
mod outline;
mod raw_audio;
mod readers;
mod report;
mod truncation;

pub use decoder_info::DecoderInfo;
pub(in crate::engine) use decoder_info::color_name;
pub use readers::probe_with_readers;

/// Bytes read from the start of a file.
const HEAD_BYTES: usize = 4096;

/// Why a file could not be described.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ProbeError {
    /// The file's fault: no reader can parse it.
    #[error("not readable as media: {0}")]
    Unreadable(String),
    #[error("no result within the deadline")]
    TimedOut,
    /// The disk's fault.
    #[error("the file could not be read: {0}")]
    Read(String),
    /// Our limit: ffprobe reports more about this file than is read.
    #[error("the report of ffprobe is larger than 4 MiB")]
    ReportTooLarge,
    /// Our fault: the tool is missing or could not be started.
    #[error("the probe could not run: {0}")]
    Unavailable(String),
}

/// The programs a probe may start.
#[derive(Clone, Debug)]
pub struct ProbeTools {
    ffprobe: PathBuf,
}

impl ProbeTools {
    /// The ffprobe that belongs to this ffmpeg: in the same folder, or both from `PATH`.
    pub fn for_ffmpeg(ffmpeg: &Path) -> Self {
        Self { ffprobe: ffmpeg.with_file_name("ffprobe") }
    }
}

/// Describes a file with ffprobe. The caller sets the deadline; dropping the future ends the child. The error is that of
/// ffprobe about the file, or why it could not run.
pub async fn probe_with_ffprobe(tools: &ProbeTools, source: &Arc<SourceFile>) -> Result<Media, ProbeError> {
    let head = read_head(source).await?;
    if let Some(media) = discontinuous::describe(tools, source, &head).await? {
        return Ok(media);
    }
    let report = ffprobe::run_ffprobe(tools, source).await?;
    let media = report::to_media(&report, ffprobe::decodable_codecs(tools).await?, &head, source.len)?;
    Ok(truncation::with_checked_duration(source, raw_audio::with_counted_duration(source, media).await).await)
}

/// Runs the one-time work of the first probe at start-up: listing ffmpeg's decoders.
pub async fn warm(tools: &ProbeTools) {
    if let Err(fault) = ffprobe::decodable_codecs(tools).await {
        tracing::error!(%fault, "media files cannot be probed");
    }
}

/// Offset and length of an attachment of a Matroska file, by its name. Blocks on file I/O.
pub fn find_attachment(source: &SourceFile, name: &str) -> Option<(u64, u64)> {
    let attachments = TopLevelElements::locate(source).and_then(|elements| elements.read_attachments(source)).ok()?;
    let found = attachments.into_iter().find(|attachment| attachment.name.as_deref() == Some(name))?;
    Some((found.offset, found.size))
}

/// Reads the headers of a file with our reader of its format. For the targets in `fuzz`, which need no result.
#[cfg(fuzzing)]
pub fn read_headers(source: &SourceFile) {
    use crate::domain::sniff::Container;
    match source.format.map(|format| format.container) {
        Some(Container::MpegTs) => drop(mpegts::read_outline(source)),
        Some(Container::Matroska | Container::WebM) => drop(matroska::read_outline(source, false)),
        Some(Container::Mp4 | Container::QuickTime) => drop(mp4::read_outline(source)),
        _ => {}
    }
}

/// The first bytes.
async fn read_head(source: &Arc<SourceFile>) -> Result<Vec<u8>, ProbeError> {
    let head = read_blocking(source, |file| read_up_to(file, 0, HEAD_BYTES)).await;
    let head = head.ok_or_else(|| ProbeError::Unavailable("the reader failed".into()))?;
    head.map_err(|cause| ProbeError::Read(cause.to_string()))
}

/// Runs a reader on a blocking thread, because the disk may be asleep. None if it panicked.
async fn read_blocking<T: Send + 'static>(
    source: &Arc<SourceFile>,
    read: impl FnOnce(&Arc<SourceFile>) -> T + Send + 'static,
) -> Option<T> {
    let file = source.clone();
    tokio::task::spawn_blocking(move || read(&file)).await.ok()
}

#[cfg(test)]
mod tests;
