//! AAC frames for a whole run, from one encoder, so that no segment starts with a fresh encoder.
//!
//! Frames are counted, not timed: the encoder's timestamps are rounded, and a frame that starts exactly on a segment
//! boundary fell into either segment (measured). A frame decodes to the samples pushed one frame before it (the
//! encoder's delay). The first four are the encoder's warm-up and are dropped.

use std::time::Duration;

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as app;

use super::audio_timeline::{FRAME_SAMPLES, SAMPLE_RATE};
use super::launch_text;
use super::panic_guard::ThreadWaker;
use super::progress::progress;
use super::running_pipeline::RunningPipeline;
use crate::engine::{Result, RunError};

/// AAC frames encoded and dropped before the first one kept.
pub(super) const PREROLL_FRAMES: i64 = 4;

/// Frames of samples the encoder must get beyond a frame before that frame comes out.
pub(super) const DELAY_FRAMES: i64 = 4;

/// Largest number of frames queued before the encoder.
const MAX_QUEUED_FRAMES: u64 = 16;

/// The launch text of the AAC encoder.
pub(super) const ENCODER_LAUNCH: &str = include_str!("../../../pipelines/encoders/avenc_aac.launch");

/// The audio encoder of a run.
#[derive(Debug)]
pub(super) struct AacEncoder {
    pipeline: RunningPipeline,
    input: app::AppSrc,
    output: app::AppSink,
    /// Number of the frame of samples pushed next.
    next_input_frame: i64,
    /// Number of the AAC frame that comes out next.
    next_output_frame: i64,
    /// Number of the first AAC frame kept.
    first_frame: i64,
}

impl AacEncoder {
    /// Starts an encoder whose first frame is `first_frame`; `label` is part of the pipeline's name.
    pub(super) fn start(channels: u32, kbps: u32, first_frame: i64, label: &str, wake: &ThreadWaker) -> Result<Self> {
        let pipeline = RunningPipeline::new(launch_text::ENCODE_AUDIO, ("", ENCODER_LAUNCH), label, wake)?;
        let kbps = i32::try_from(kbps.max(32)).unwrap_or(i32::MAX / 1000);
        pipeline.element("audio_encoder")?.set_property_from_str("bitrate", &(kbps * 1000).to_string());
        let input: app::AppSrc = pipeline.element_of_type("in")?;
        input.set_caps(Some(&sample_caps(channels)));
        wake.wake_on_demand(&input);
        let output: app::AppSink = pipeline.element_of_type("out")?;
        let frame_waker = wake.clone();
        let count_progress = || {
            progress().add(1);
            Ok(gst::FlowSuccess::Ok)
        };
        output.set_callbacks(
            app::AppSinkCallbacks::builder()
                .new_sample(move |_| frame_waker.run_callback("frame", Err(gst::FlowError::Error), count_progress))
                .build(),
        );
        pipeline.set_state(gst::State::Playing)?;
        let next_input_frame = first_frame - PREROLL_FRAMES;
        // The first frame that comes out decodes to the samples before the first ones pushed.
        Ok(Self { pipeline, input, output, next_input_frame, next_output_frame: next_input_frame - 1, first_frame })
    }

    /// Number of the frame of samples to push next, if the encoder has room.
    pub(super) fn next_needed_frame(&self) -> Option<i64> {
        (self.input.current_level_buffers() < MAX_QUEUED_FRAMES).then_some(self.next_input_frame)
    }

    pub(super) fn push(&mut self, samples: &[f32]) -> Result<()> {
        let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        let mut buffer = gst::Buffer::from_mut_slice(bytes);
        let clock_time = |frame: i64| {
            // Plus an hour, so that the preroll of the first segment has valid times too.
            let samples = (frame * FRAME_SAMPLES as i64 + 3600 * SAMPLE_RATE).max(0) as u64;
            gst::ClockTime::from_nseconds((u128::from(samples) * 1_000_000_000 / SAMPLE_RATE as u128) as u64)
        };
        if let Some(buffer) = buffer.get_mut() {
            buffer.set_pts(clock_time(self.next_input_frame));
            buffer.set_duration(clock_time(self.next_input_frame + 1) - clock_time(self.next_input_frame));
        }
        self.next_input_frame += 1;
        let refused = |flow| RunError::Encoder(format!("the AAC encoder refuses samples: {flow}"));
        self.input.push_buffer(buffer).map_err(refused)?;
        Ok(())
    }

    /// The next AAC frame to keep, with its number; it includes the ADTS header.
    pub(super) fn take_frame(&mut self) -> Result<Option<(i64, gst::Buffer)>> {
        if let Some(text) = self.pipeline.next_error() {
            return Err(RunError::Encoder(format!("audio: {text}")));
        }
        while let Some(sample) = self.output.try_pull_sample(gst::ClockTime::ZERO) {
            let frame = self.next_output_frame;
            self.next_output_frame += 1;
            if frame >= self.first_frame {
                let buffer = sample.buffer_owned();
                return buffer
                    .map(|buffer| Some((frame, buffer)))
                    .ok_or_else(|| RunError::Encoder("an AAC frame has no bytes".into()));
            }
        }
        Ok(None)
    }
}

/// Caps of the samples to encode: interleaved 32-bit float at [`SAMPLE_RATE`].
fn sample_caps(channels: u32) -> gst::Caps {
    let mask: u64 = match channels {
        1 => 0x4,
        6 => 0x3f,
        8 => 0xc3f,
        _ => 0x3,
    };
    gst::Caps::builder("audio/x-raw")
        .field("format", "F32LE")
        .field("layout", "interleaved")
        .field("rate", SAMPLE_RATE as i32)
        .field("channels", channels as i32)
        .field_if("channel-mask", gst::Bitmask::new(mask), channels > 1)
        .build()
}

/// Duration of an AAC frame, rounded down to nanoseconds.
pub(super) const FRAME_DURATION: Duration = Duration::from_nanos(21_333_333);
