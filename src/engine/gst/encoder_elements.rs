//! The encoder elements that work here, each tested by encoding a frame.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as app;

use super::frame_color::{COLOR_OPTIONS_START, ColorDescription};
use super::launch_text;
use super::panic_guard::ThreadWaker;
use super::progress;
use super::running_pipeline::RunningPipeline;
use crate::domain::codec::TargetCodec;
use crate::engine::video_encoders::{EncoderElement, VIDEO_ENCODERS, VideoEncoder, encoder_elements};
use crate::engine::worker::message::EngineReport;
use crate::engine::{Result, RunError};

/// Time limit of a trial. A sleeping graphics card may need seconds.
const TRIAL_DEADLINE: Duration = Duration::from_secs(8);

/// Result of testing an encoder: success, or why it cannot be used.
pub type TrialResult = Result<(), String>;

/// Results of the trials made so far, by rank.
static TRIAL_RESULTS: [OnceLock<TrialResult>; VIDEO_ENCODERS.len()] = [const { OnceLock::new() }; VIDEO_ENCODERS.len()];

/// The trial of every encoder in the order of the table; each is made once per process. Blocks for up to 8 s each.
pub fn run_trials() -> impl Iterator<Item = (&'static VideoEncoder, &'static TrialResult)> {
    let trials = VIDEO_ENCODERS.iter().zip(&TRIAL_RESULTS);
    trials.map(|(encoder, trial)| (encoder, trial.get_or_init(|| encoder.run_trial())))
}

/// The encoder to use where a plan names `planned` (ffmpeg's name): the same one if it passed its trial, otherwise the best
/// one of the codec that did. Touches no element.
pub fn select_encoder(codec: TargetCodec, planned: &str, report: &EngineReport) -> Option<&'static EncoderElement> {
    let trials = VIDEO_ENCODERS.iter().zip(&report.encoder_faults);
    let working =
        trials.filter(|(encoder, fault)| encoder.codec == codec && fault.is_none()).map(|(encoder, _)| encoder);
    working.clone().find(|encoder| encoder.name == planned).or_else(|| working.clone().next())?.gstreamer.as_ref()
}

/// The element with this name, e.g. `x264enc`.
pub(super) fn find_encoder(element: &str) -> Result<&'static EncoderElement> {
    let found = encoder_elements().find(|(_, found)| found.element == element);
    found.map(|(_, found)| found).ok_or_else(|| RunError::Internal(format!("there is no encoder {element}")))
}

impl VideoEncoder {
    /// Tests whether the element exists and encodes.
    fn run_trial(&self) -> TrialResult {
        let Some(gstreamer) = &self.gstreamer else { return Err("only ffmpeg uses it".into()) };
        if gst::ElementFactory::find(gstreamer.element).is_none() {
            return Err("not part of this GStreamer".into());
        }
        gstreamer.encode_test_frames(self.codec).map_err(|error| error.to_string())
    }
}

impl EncoderElement {
    fn encode_test_frames(&self, codec: TargetCodec) -> Result<()> {
        let waker = ThreadWaker::for_current_thread(
            #[cfg(test)]
            super::panic_guard::InjectedFault::default(),
        );
        let pipeline = RunningPipeline::new(launch_text::TRIAL, (self.launch, ""), self.element, &waker)?;
        let encoder = pipeline.element("video_encoder")?;
        self.check_properties(&encoder)?;
        self.configure(&encoder, 1000, 2);
        let output: app::AppSink = pipeline.element_of_type("out")?;
        pipeline.set_state(gst::State::Playing)?;
        let deadline = Instant::now() + TRIAL_DEADLINE;
        while Instant::now() < deadline {
            // A sleeping graphics card is not a fault: the deadline bounds the trial, not the heartbeat.
            progress().add(1);
            if let Some(text) = pipeline.next_error() {
                return Err(RunError::Encoder(text));
            }
            let Some(sample) = output.try_pull_sample(gst::ClockTime::from_mseconds(20)) else { continue };
            let map = sample.buffer().and_then(|buffer| buffer.map_readable().ok());
            let bytes = map.as_deref().unwrap_or_default();
            return codec.check_output(bytes).map_err(|fault| RunError::Encoder(fault.into()));
        }
        Err(RunError::Encoder(format!("no output within {} s", TRIAL_DEADLINE.as_secs())))
    }

    /// Checks that the element has the properties of its row: without them it would encode at any rate.
    fn check_properties(&self, encoder: &gst::Element) -> Result<()> {
        let mut properties = self.rate.map(|(name, _)| name).into_iter().chain(self.keyframe_interval);
        match properties.find(|name| encoder.find_property(name).is_none()) {
            Some(name) => Err(RunError::Encoder(format!("{} has no property {name}", self.element))),
            None => Ok(()),
        }
    }

    /// Sets the bit rate and the keyframe interval, frames, if the element has such properties.
    pub(super) fn configure(&self, encoder: &gst::Element, max_kbps: u32, keyframe_interval: u64) {
        let set_property = |name: &str, value: u64| {
            if encoder.find_property(name).is_some() {
                encoder.set_property_from_str(name, &value.to_string());
            }
        };
        if let Some((property, units_per_kbit)) = self.rate {
            set_property(property, u64::from(max_kbps.max(100)) * u64::from(units_per_kbit));
        }
        if let Some(property) = self.keyframe_interval {
            set_property(property, keyframe_interval.clamp(1, 1000));
        }
        // With constant quality the bit rate is still a ceiling: over 2 s, as for ffmpeg.
        set_property("vbv-buf-capacity", 2000);
    }

    /// Makes x264enc write this colour description, also where nothing is specified: by itself it then states what GStreamer
    /// assumes for the size. Other elements write the colorimetry of their caps.
    pub(super) fn describe_color(&self, encoder: &gst::Element, description: &ColorDescription) {
        if self.element == "x264enc" {
            let options = encoder.property::<Option<String>>("option-string").unwrap_or_default();
            let constant_options = options.split(COLOR_OPTIONS_START).next().unwrap_or_default();
            encoder.set_property("insert-vui", false);
            encoder.set_property("option-string", format!("{constant_options}{}", description.x264_options()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::gst::gallery::default_encoder;

    #[test]
    fn an_encoder_that_failed_its_trial_is_replaced_by_the_best_that_works() {
        let report_with = |works: fn(&str) -> bool| EngineReport {
            encoder_faults: VIDEO_ENCODERS.iter().map(|encoder| (!works(encoder.name)).then(String::new)).collect(),
            ..EngineReport::default()
        };
        let select = |planned, report: &EngineReport| {
            select_encoder(TargetCodec::H264, planned, report).map(|encoder| encoder.element)
        };
        let software = report_with(|name| name.starts_with("lib"));
        assert_eq!(select("libopenh264", &software), Some("openh264enc"));
        assert_eq!(select("h264_nvenc", &software), Some("x264enc"));
        assert_eq!(select("libx264", &report_with(|_| true)), Some("x264enc"), "the planned one first");
        assert_eq!(select("libx264", &EngineReport::default()), None, "nothing was tested");
        assert_eq!(select_encoder(TargetCodec::Hevc, "libx265", &software), None, "GStreamer encodes H.264 only");
    }

    #[test]
    fn an_encoder_without_a_property_of_its_row_fails_its_trial() {
        crate::engine::gst::initialize().unwrap();
        let x264 = default_encoder();
        let trial = |element: EncoderElement| element.encode_test_frames(TargetCodec::H264);
        let misspelt = trial(EncoderElement { rate: Some(("bit-rate", 1)), ..*x264 }).unwrap_err().to_string();
        assert!(misspelt.contains("x264enc has no property bit-rate"), "{misspelt}");
        let misspelt = trial(EncoderElement { keyframe_interval: Some("gop"), ..*x264 }).unwrap_err().to_string();
        assert!(misspelt.contains("x264enc has no property gop"), "{misspelt}");
        assert!(trial(EncoderElement { ..*x264 }).is_ok());
    }
}
