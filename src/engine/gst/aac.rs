//! AAC frames for a whole run, from one encoder, so that no segment starts with a fresh encoder.
//!
//! Frames are counted, not timed: the encoder's timestamps are rounded, and a frame that starts exactly on a segment
//! boundary fell into either segment (measured). A frame decodes to the samples pushed one frame before it (the
//! encoder's delay). The first four are the encoder's warm-up and are dropped.

use std::time::Duration;

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as app;

use super::guard::Wake;
use super::live::{Live, Said};
use super::sound::{FRAME, RATE};
use super::text;
use crate::domain::mpegts::segmenter::AAC_FRAME_TICKS;
use crate::engine::RunError;

/// AAC frames encoded and dropped before the first one kept.
pub(super) const PREROLL: i64 = 4;

/// Frames of samples the encoder must get beyond a frame before that frame comes out.
pub(super) const DELAY: i64 = 4;

/// Largest number of frames queued before the encoder.
const QUEUED: u64 = 16;

/// The launch text of the AAC encoder.
pub(super) const ENCODER: &str = include_str!("../../../pipelines/encoders/avenc_aac.launch");

/// The audio encoder of a run.
#[derive(Debug)]
pub(super) struct Aac {
    live: Live,
    input: app::AppSrc,
    out: app::AppSink,
    /// Number of the frame of samples pushed next.
    pushed: i64,
    /// Number of the AAC frame that comes out next.
    coming: i64,
    /// Number of the first AAC frame kept.
    first: i64,
}

/// The first frame on the grid of 1,920 ticks that starts at or after `ticks`.
pub(super) fn frame_at(ticks: i64) -> i64 {
    -(-ticks).div_euclid(AAC_FRAME_TICKS)
}

/// Start of an AAC frame, ticks.
pub(super) fn start_of(frame: i64) -> i64 {
    frame * AAC_FRAME_TICKS
}

impl Aac {
    /// Starts an encoder whose first frame is `first`; `of` is part of the pipeline's name.
    pub(super) fn start(channels: u32, kbps: u32, first: i64, of: &str, wake: &Wake) -> Result<Self, RunError> {
        let live = Live::new(text::ENCODE_SOUND, ("", ENCODER), of, wake)?;
        let kbps = i32::try_from(kbps.max(32)).unwrap_or(i32::MAX / 1000);
        live.element("audio_encoder")?.set_property_from_str("bitrate", &(kbps * 1000).to_string());
        let input: app::AppSrc = live.typed("in")?;
        input.set_caps(Some(&samples(channels)));
        let drained = wake.clone();
        input.set_callbacks(
            app::AppSrcCallbacks::builder().need_data(move |_, _| drained.callback("need-data", (), || ())).build(),
        );
        let out: app::AppSink = live.typed("out")?;
        let arrived = wake.clone();
        let fine = Ok(gst::FlowSuccess::Ok);
        out.set_callbacks(
            app::AppSinkCallbacks::builder()
                .new_sample(move |_| arrived.callback("frame", Err(gst::FlowError::Error), || fine))
                .build(),
        );
        live.go(gst::State::Playing)?;
        let pushed = first - PREROLL;
        // The first frame that comes out decodes to the samples before the first ones pushed.
        Ok(Self { live, input, out, pushed, coming: pushed - 1, first })
    }

    /// Number of the frame of samples to push next, if the encoder has room.
    pub(super) fn wants(&self) -> Option<i64> {
        (self.input.current_level_buffers() < QUEUED).then_some(self.pushed)
    }

    pub(super) fn push(&mut self, samples: &[f32]) -> Result<(), RunError> {
        let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        let mut buffer = gst::Buffer::from_mut_slice(bytes);
        let time = |frame: i64| {
            // Plus an hour, so that the preroll of the first segment has valid times too.
            let samples = (frame * FRAME as i64 + 3600 * RATE).max(0) as u64;
            gst::ClockTime::from_nseconds((u128::from(samples) * 1_000_000_000 / RATE as u128) as u64)
        };
        if let Some(buffer) = buffer.get_mut() {
            buffer.set_pts(time(self.pushed));
            buffer.set_duration(time(self.pushed + 1) - time(self.pushed));
        }
        self.pushed += 1;
        self.input
            .push_buffer(buffer)
            .map_err(|flow| RunError::Encoder(format!("the AAC encoder refuses samples: {flow}")))?;
        Ok(())
    }

    /// The next AAC frame to keep, with its number; it includes the ADTS header.
    pub(super) fn frame(&mut self) -> Result<Option<(i64, gst::Buffer)>, RunError> {
        while let Some(said) = self.live.said() {
            if let Said::Fault(text) = said {
                return Err(RunError::Encoder(format!("audio: {text}")));
            }
        }
        while let Some(sample) = self.out.try_pull_sample(gst::ClockTime::ZERO) {
            let frame = self.coming;
            self.coming += 1;
            if frame >= self.first {
                let buffer = sample.buffer_owned();
                return buffer
                    .map(|buffer| Some((frame, buffer)))
                    .ok_or_else(|| RunError::Encoder("an AAC frame has no bytes".into()));
            }
        }
        Ok(None)
    }
}

/// Caps of all raw audio here: interleaved 32-bit float at [`RATE`].
pub(super) fn samples(channels: u32) -> gst::Caps {
    let mask: u64 = match channels {
        1 => 0x4,
        6 => 0x3f,
        8 => 0xc3f,
        _ => 0x3,
    };
    gst::Caps::builder("audio/x-raw")
        .field("format", "F32LE")
        .field("layout", "interleaved")
        .field("rate", RATE as i32)
        .field("channels", channels as i32)
        .field_if("channel-mask", gst::Bitmask::new(mask), channels > 1)
        .build()
}

/// Duration of an AAC frame, rounded down to nanoseconds.
pub(super) const FRAME_TIME: Duration = Duration::from_nanos(21_333_333);
