//! Text subtitle streams taken out of a media file.
//!
//! ffmpeg reads the container and hands the stream over as text; the parsing is ours (`domain::subtitles`).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;

use super::RunError;
use super::ffmpeg::args::{OTHER_DEMUXERS, demuxer};
use super::ffmpeg::spawn::{Limits, spawn};
use super::source::Source;
use crate::domain::media::Media;
use crate::domain::subtitles::{Format, MAX_BYTES};

/// How long a whole file may take to be read: subtitles lie between the pictures from its start to its end.
const DEADLINE: Duration = Duration::from_secs(600);

/// The whole text of stream `stream` (ffmpeg's index), in the format it is carried in.
///
/// # Errors
/// `Internal` when ffmpeg does not start, `Decode` when it gives nothing, `Stalled` after ten minutes.
pub async fn extract(
    ffmpeg: &Path,
    source: &Arc<Source>,
    media: &Media,
    stream: u32,
    format: Format,
) -> Result<Vec<u8>, RunError> {
    let args = arguments(&source.proc_path(), demuxer(media.container), stream, format);
    let started = spawn(ffmpeg, args, vec![source.clone()], Limits::TRANSCODE).await;
    let mut child = started.map_err(|cause| RunError::Internal(format!("ffmpeg: {cause}")))?;
    let mut text = Vec::new();
    let work = async {
        let read = (&mut child.stdout).take(MAX_BYTES as u64).read_to_end(&mut text).await;
        if text.len() >= MAX_BYTES {
            child.kill();
        }
        (read, child.wait().await)
    };
    let (read, exit) = tokio::time::timeout(DEADLINE, work).await.map_err(|_| RunError::Stalled(DEADLINE.as_secs()))?;
    read.map_err(|cause| RunError::Internal(format!("ffmpeg's output: {cause}")))?;
    // A damaged file ends in an error and still has the lines before the damage.
    if text.is_empty() && !exit.success() {
        return Err(RunError::Decode(exit.stderr.last().cloned().unwrap_or_default()));
    }
    Ok(text)
}

/// The argument vector: numbers and names out of enums only, the file as a descriptor.
fn arguments(input: &str, demuxer: Option<&str>, stream: u32, format: Format) -> Vec<String> {
    let (encoder, muxer) = match format {
        Format::Srt => ("subrip", "srt"),
        Format::Vtt => ("webvtt", "webvtt"),
        Format::Ass => ("ass", "ass"),
    };
    let (input, map) = (format!("file:{input}"), format!("0:{stream}"));
    // The demuxer by name: no probing can take the file for something that names other files.
    let reader = match demuxer {
        Some(name) => ["-f", name],
        None => ["-format_whitelist", OTHER_DEMUXERS],
    };
    let before = ["-nostdin", "-hide_banner", "-loglevel", "error", "-protocol_whitelist", "file"];
    let after = ["-i", &input, "-map", &map, "-map_metadata", "-1", "-c:s", encoder, "-f", muxer, "pipe:1"];
    before.into_iter().chain(reader).chain(after).map(str::to_owned).collect()
}
