//! Integrated loudness (ITU-R BS.1770, EBU R 128) of an audio stream, measured over excerpts.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::clock::ItemInput;
use super::ffmpeg::argument_list::ArgumentList;
use super::ffmpeg::run_to_end;
use super::process::ChildLimits;
use super::source::SourceFile;
use super::{Result, RunError};
use crate::domain::media::Media;

/// Number of excerpts of an item, spread evenly, and the length of each, seconds. For films the result is usually within
/// 1 LU of the whole, in a hundredth of the time.
const EXCERPTS: u32 = 8;
const EXCERPT_SECONDS: f64 = 12.0;

/// Shorter items are measured whole, seconds.
const MAX_WHOLE_SECONDS: f64 = 120.0;

/// Time limit of a measurement.
const DEADLINE: Duration = Duration::from_secs(15);

const MAX_OUTPUT_BYTES: usize = 4 << 20;

/// The meter's value for silence, LUFS.
const SILENCE_LUFS: f64 = -69.0;

/// Measures the loudness of an audio stream, LUFS; None for silence.
///
/// # Errors
/// `Decode` with ffmpeg's last message; `SourceRead`; `Stalled`; `Internal` when ffmpeg does not start.
pub async fn measure(ffmpeg: &Path, source: &Arc<SourceFile>, media: &Media, stream: u32) -> Result<Option<f64>> {
    let measured = tokio::time::timeout(DEADLINE, measure_excerpts(ffmpeg, source, media, stream)).await;
    measured.map_err(|_| RunError::Stalled(DEADLINE.as_secs()))?
}

/// Dropping the future ends the child.
async fn measure_excerpts(ffmpeg: &Path, source: &Arc<SourceFile>, media: &Media, stream: u32) -> Result<Option<f64>> {
    let starts = starts(media);
    let mut inputs = Vec::new();
    for start in &starts {
        inputs.push(ItemInput::open(source, &media.clock_pieces, start.unwrap_or(0.0)).await?);
    }
    let args = arguments(media, stream, &source.proc_path(), &starts, &inputs);
    let inputs = inputs.into_iter().map(|input| input.file).collect();
    let (text, exit) = run_to_end(ffmpeg, args, inputs, ChildLimits::PROBE, MAX_OUTPUT_BYTES).await?;
    let text = String::from_utf8_lossy(&text);
    let integrated_lufs = text.lines().rev().find_map(|line| line.strip_prefix("lavfi.r128.I=")?.parse::<f64>().ok());
    match integrated_lufs {
        Some(loudness) => Ok(Some(loudness).filter(|loudness| *loudness > SILENCE_LUFS)),
        None => Err(RunError::Decode(exit.last_error("ffmpeg reported no loudness"))),
    }
}

/// The beginnings of the excerpts, seconds of source time; a single None if the item is measured whole.
fn starts(media: &Media) -> Vec<Option<f64>> {
    match media.duration_seconds.filter(|duration| *duration > MAX_WHOLE_SECONDS) {
        None => vec![None],
        Some(duration_seconds) => (0..EXCERPTS)
            .map(|n| Some((duration_seconds - EXCERPT_SECONDS) * f64::from(n) / f64::from(EXCERPTS - 1)))
            .collect(),
    }
}

/// Each excerpt has an input of its own; a pipe begins with it.
fn arguments(media: &Media, stream: u32, path: &str, starts: &[Option<f64>], inputs: &[ItemInput]) -> Vec<String> {
    let mut args = ArgumentList::new("-nostdin -hide_banner -v error");
    for (start, input) in starts.iter().zip(inputs) {
        if let (Some(start), None) = (start, &input.pipe) {
            args.pair("-ss", format!("{start:.3}"));
        }
        if start.is_some() {
            args.pair("-t", EXCERPT_SECONDS);
        }
        args.add_item(media.container, path, input.pipe.as_ref());
    }
    let input_labels: String = (0..starts.len()).map(|n| format!("[{n}:{stream}]")).collect();
    let meter = "ebur128=metadata=1:framelog=verbose,ametadata=mode=print:key=lavfi.r128.I:file=-";
    let graph = format!("{input_labels}concat=n={}:v=0:a=1,{meter}[measured]", starts.len());
    args.pair("-filter_complex", graph).add("-map [measured] -f null /dev/null");
    args.0
}
