//! Extracts text subtitle streams from a media file.
//!
//! ffmpeg reads the container and writes the stream as text; the parsing is ours (`domain::subtitles`).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::RunError;
use super::ffmpeg::argument_list::ArgumentList;
use super::ffmpeg::run_to_end;
use super::process::ChildLimits;
use super::source::SourceFile;
use crate::domain::media::{Container, Media};
use crate::domain::subtitles::{MAX_BYTES, SubtitleFormat};

/// Time limit for reading a whole file: subtitles are interleaved from its start to its end.
const DEADLINE: Duration = Duration::from_secs(600);

/// Extracts the whole text of stream `stream` (ffmpeg's index) in `format`, the format it is stored in.
///
/// # Errors
/// `Internal` when ffmpeg does not start, `Decode` when it fails without output, `Stalled` after ten minutes.
pub async fn extract(
    ffmpeg: &Path,
    source: &Arc<SourceFile>,
    media: &Media,
    stream: u32,
    format: SubtitleFormat,
) -> Result<Vec<u8>, RunError> {
    let args = extraction_args(&source.proc_path(), media.container, stream, format);
    let work = run_to_end(ffmpeg, args, vec![source.clone()], ChildLimits::TRANSCODE, MAX_BYTES);
    let output = tokio::time::timeout(DEADLINE, work).await;
    let (text, exit) = output.map_err(|_| RunError::Stalled(DEADLINE.as_secs()))??;
    // With a damaged file ffmpeg fails, but the lines before the damage are still useful.
    if text.is_empty() && !exit.is_success() {
        return Err(RunError::Decode(exit.last_error("")));
    }
    Ok(text)
}

/// The argument vector: only numbers and names from enums, the file as a descriptor.
fn extraction_args(input: &str, container: Container, stream: u32, format: SubtitleFormat) -> Vec<String> {
    let (encoder, muxer) = match format {
        SubtitleFormat::Srt => ("subrip", "srt"),
        SubtitleFormat::WebVtt => ("webvtt", "webvtt"),
        SubtitleFormat::Ass => ("ass", "ass"),
    };
    let mut args = ArgumentList::new("-nostdin -hide_banner -loglevel error");
    args.add_item(container, input, None).pair("-map", format!("0:{stream}")).add("-map_metadata -1");
    args.pair("-c:s", encoder).pair("-f", muxer).add("pipe:1");
    args.0
}
