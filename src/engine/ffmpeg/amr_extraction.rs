//! Extracts AMR audio that ffmpeg would decode only in part.
//!
//! mp4 and 3GP files from phones have several AMR frames in one sample, up to a second's worth. ffmpeg 5.1 decodes the
//! first frame of a sample and drops the others (measured: 22 of 766 frames of a clip). Its demuxer for raw AMR reads
//! frames one by one, so the track is copied into memory as a raw stream and read from there.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use super::{args, run_to_end, to_memory_file};
use crate::domain::media::{Container, Media};
use crate::domain::plan::{AudioPlan, Rendition};
use crate::engine::process::ChildLimits;
use crate::engine::{Job, RunError};

/// Largest track, bytes: eleven hours at the highest rate of AMR-WB.
const MAX_TRACK_BYTES: usize = 128 << 20;

/// Time limit.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// The audio stream that must be extracted before it is encoded, if any.
pub(super) fn amr_stream(media: &Media, rendition: &Rendition) -> Option<u32> {
    let Some(AudioPlan::Encode { stream, .. }) = rendition.audio else { return None };
    let codec = media.stream(stream)?.codec.as_str();
    (media.container == Container::Mp4 && matches!(codec, "amr_nb" | "amr_wb")).then_some(stream)
}

/// Copies the track into memory as a raw AMR stream.
///
/// # Errors
/// `Internal` when ffmpeg does not start or its output cannot be read; `Stalled`.
pub(super) async fn extract_amr(program: &Path, job: &Job, stream: u32) -> Result<File, RunError> {
    let arguments = args::amr_copy_arguments(&job.spec.media, stream, &job.spec.source.proc_path());
    let work = run_to_end(program, arguments, vec![job.spec.source.clone()], ChildLimits::PROBE, MAX_TRACK_BYTES);
    let output = tokio::time::timeout(TIME_LIMIT, work).await;
    let (bytes, _) = output.map_err(|_| RunError::Stalled(TIME_LIMIT.as_secs()))??;
    to_memory_file("audio", &bytes)
        .map_err(|cause| RunError::Internal(format!("storing the audio track in memory: {cause}")))
}
