//! The common parts of trials of encoders and decoders: waiting for output, and comparing frames.

use std::time::{Duration, Instant};

use gstreamer as gst;
use gstreamer_video::{VideoFrameExt, VideoFrameRef, VideoInfo};

use super::panic_guard::ThreadWaker;
use super::progress;
use super::running_pipeline::RunningPipeline;
use crate::engine::{Result, RunError};

/// Time limit of a trial. A sleeping graphics card may need seconds.
const TRIAL_DEADLINE: Duration = Duration::from_secs(8);

/// Time for the next output in one wait.
pub(super) const POLL_INTERVAL: gst::ClockTime = gst::ClockTime::from_mseconds(20);

/// The waker of a trial, which polls.
pub(super) fn trial_waker() -> ThreadWaker {
    ThreadWaker::for_current_thread(
        #[cfg(test)]
        super::panic_guard::InjectedFault::default(),
    )
}

/// Polls until there is a value, an error of the pipeline, or no time left.
pub(super) fn wait_for<T>(pipeline: &RunningPipeline, mut poll: impl FnMut() -> Option<T>) -> Result<T> {
    let deadline = Instant::now() + TRIAL_DEADLINE;
    while Instant::now() < deadline {
        // A sleeping graphics card is not a fault: the deadline bounds the trial, not the heartbeat.
        progress().add(1);
        if let Some(text) = pipeline.next_error() {
            return Err(RunError::Encoder(text));
        }
        if let Some(value) = poll() {
            return Ok(value);
        }
    }
    Err(RunError::Encoder(format!("no output within {} s", TRIAL_DEADLINE.as_secs())))
}

/// PSNR of two frames of 8 bits, dB, over all planes; 100 at most, None if they differ in size.
pub(super) fn frame_psnr(a: &gst::Sample, b: &gst::Sample) -> Option<f64> {
    let (info_a, info_b) = (VideoInfo::from_caps(a.caps()?).ok()?, VideoInfo::from_caps(b.caps()?).ok()?);
    let a = VideoFrameRef::from_buffer_ref_readable(a.buffer()?, &info_a).ok()?;
    let b = VideoFrameRef::from_buffer_ref_readable(b.buffer()?, &info_b).ok()?;
    if (a.format(), a.width(), a.height()) != (b.format(), b.width(), b.height()) {
        return None;
    }
    let (mut squared_errors, mut samples) = (0_u64, 0_usize);
    for component in 0..a.n_components() {
        let plane = a.format_info().plane()[component as usize];
        let (width, height) = (a.comp_width(component) as usize, a.comp_height(component) as usize);
        let rows = |frame: &VideoFrameRef<&gst::BufferRef>| {
            let stride = usize::try_from(frame.plane_stride().get(plane as usize).copied()?).ok()?;
            Some((frame.comp_data(component).ok()?.to_vec(), stride))
        };
        let ((data_a, stride_a), (data_b, stride_b)) = (rows(&a)?, rows(&b)?);
        for row in 0..height {
            let (row_a, row_b) =
                (data_a.get(row * stride_a..)?.get(..width)?, data_b.get(row * stride_b..)?.get(..width)?);
            squared_errors += row_a.iter().zip(row_b).map(|(&a, &b)| u64::from(a.abs_diff(b)).pow(2)).sum::<u64>();
        }
        samples += width * height;
    }
    let psnr = 10.0 * (255.0_f64.powi(2) * samples as f64 / squared_errors as f64).log10();
    // A report in JSON has no infinity.
    Some(psnr.min(100.0))
}
