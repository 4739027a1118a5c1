//! H.264 encoder elements: launch texts in `pipelines/encoders/`, best first, each tested by encoding a frame.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as app;

use super::launch_text;
use super::panic_guard::ThreadWaker;
use super::running_pipeline::{BusEvent, RunningPipeline};
use crate::engine::RunError;

/// Time limit of a trial. A sleeping graphics card may need seconds.
const TRIAL_DEADLINE: Duration = Duration::from_secs(8);

/// An H.264 encoder that can fill `{video_encoder}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderElement {
    /// Name of the element, and of its launch text.
    pub element: &'static str,
    /// Name of the same encoder in ffmpeg and in plans.
    pub plan: &'static str,
    pub hardware: bool,
    launch: &'static str,
    format: &'static str,
    /// Property of the bit rate, and how many of its units make one kbit/s.
    rate: (&'static str, u32),
    /// Property of the keyframe interval, if it has one.
    distance: Option<&'static str>,
}

macro_rules! encoder_element {
    ($element:literal, $plan:literal, $hardware:literal, $format:literal, $rate:expr, $distance:expr) => {
        EncoderElement {
            element: $element,
            plan: $plan,
            hardware: $hardware,
            launch: include_str!(concat!("../../../pipelines/encoders/", $element, ".launch")),
            format: $format,
            rate: $rate,
            distance: $distance,
        }
    };
}

/// Best first: hardware before software, because it leaves the processor to other viewers.
pub static ENCODER_ELEMENTS: [EncoderElement; 7] = [
    encoder_element!("nvh264enc", "h264_nvenc", true, "NV12", ("max-bitrate", 1), Some("gop-size")),
    encoder_element!("qsvh264enc", "h264_qsv", true, "NV12", ("bitrate", 1), Some("gop-size")),
    encoder_element!("vah264enc", "h264_vaapi", true, "NV12", ("bitrate", 1), Some("key-int-max")),
    encoder_element!("vaapih264enc", "h264_vaapi", true, "NV12", ("bitrate", 1), Some("keyframe-period")),
    encoder_element!("v4l2h264enc", "h264_v4l2m2m", true, "NV12", ("", 0), None),
    encoder_element!("x264enc", "libx264", false, "I420", ("bitrate", 1), Some("key-int-max")),
    encoder_element!("openh264enc", "libopenh264", false, "I420", ("bitrate", 1000), Some("gop-size")),
];

/// Result of testing an encoder: success, or why it cannot be used.
pub type TrialResult = Result<(), String>;

/// Results of the trials made so far, by rank.
static TRIAL_RESULTS: [OnceLock<TrialResult>; ENCODER_ELEMENTS.len()] =
    [const { OnceLock::new() }; ENCODER_ELEMENTS.len()];

/// The trial of every encoder, best first; each is made once per process. Blocks for up to 8 s each.
pub fn run_trials() -> impl Iterator<Item = (&'static EncoderElement, &'static TrialResult)> {
    ENCODER_ELEMENTS
        .iter()
        .zip(&TRIAL_RESULTS)
        .map(|(encoder, trial)| (encoder, trial.get_or_init(|| encoder.run_trial())))
}

/// The encoder to use where a plan names `planned` (ffmpeg's name): the same one if it works, otherwise the best one that
/// does. Tests no more encoders than necessary.
pub(super) fn select_encoder(planned: &str) -> Option<&'static EncoderElement> {
    let is_planned = |encoder: &&EncoderElement| encoder.plan == planned;
    let ranked = ENCODER_ELEMENTS
        .iter()
        .filter(is_planned)
        .chain(ENCODER_ELEMENTS.iter().filter(|encoder| !is_planned(encoder)));
    let is_working = |encoder: &&EncoderElement| {
        let rank = ENCODER_ELEMENTS.iter().position(|candidate| candidate == *encoder).unwrap_or(0);
        TRIAL_RESULTS[rank].get_or_init(|| encoder.run_trial()).is_ok()
    };
    let mut ranked = ranked;
    ranked.find(is_working)
}

impl EncoderElement {
    /// Tests whether the element exists and encodes.
    fn run_trial(&self) -> TrialResult {
        if gst::ElementFactory::find(self.element).is_none() {
            return Err("not part of this GStreamer".into());
        }
        self.encode_test_frames().map_err(|error| error.to_string())
    }

    fn encode_test_frames(&self) -> Result<(), RunError> {
        let waker = ThreadWaker::for_current_thread(
            #[cfg(test)]
            super::panic_guard::InjectedFault::default(),
        );
        let pipeline = RunningPipeline::new(launch_text::TRIAL, (self.launch, ""), self.element, &waker)?;
        self.configure(&pipeline.element("video_encoder")?, 1000, 2);
        let output: app::AppSink = pipeline.element_of_type("out")?;
        pipeline.set_state(gst::State::Playing)?;
        let deadline = Instant::now() + TRIAL_DEADLINE;
        while Instant::now() < deadline {
            if let Some(BusEvent::Error(text)) = pipeline.next_event() {
                return Err(RunError::Encoder(text));
            }
            let Some(sample) = output.try_pull_sample(gst::ClockTime::from_mseconds(20)) else { continue };
            let map = sample.buffer().and_then(|buffer| buffer.map_readable().ok());
            let has_start_code = map.is_some_and(|map| map.windows(3).any(|bytes| bytes == [0, 0, 1]));
            return if has_start_code {
                Ok(())
            } else {
                Err(RunError::Encoder("encoding a frame gave no H.264 output".into()))
            };
        }
        Err(RunError::Encoder(format!("no output within {} s", TRIAL_DEADLINE.as_secs())))
    }

    pub fn launch(&self) -> &'static str {
        self.launch
    }

    /// The pixel format it needs, e.g. `NV12`.
    pub fn format(&self) -> &'static str {
        self.format
    }

    /// Sets the bit rate and the keyframe interval, frames, if the element has such properties.
    pub(super) fn configure(&self, encoder: &gst::Element, max_kbps: u32, keyframe_interval: u64) {
        let set_property = |name: &str, value: u64| {
            if encoder.find_property(name).is_some() {
                encoder.set_property_from_str(name, &value.to_string());
            }
        };
        set_property(self.rate.0, u64::from(max_kbps.max(100)) * u64::from(self.rate.1));
        if let Some(property) = self.distance {
            set_property(property, keyframe_interval.clamp(1, 1000));
        }
        // With constant quality the bit rate is still a ceiling: over 2 s, as for ffmpeg.
        set_property("vbv-buf-capacity", 2000);
    }
}
