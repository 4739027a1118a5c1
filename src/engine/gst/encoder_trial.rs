//! The trial of an encoder element: software encodes a frame; hardware encodes two seconds of video, whose frames are decoded in
//! software and compared with the source.

use std::sync::OnceLock;

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as app;

use super::launch_text::{self, LaunchText};
use super::running_pipeline::RunningPipeline;
use super::trial::{POLL_INTERVAL, frame_psnr, trial_waker, wait_for};
use crate::domain::codec::TargetCodec;
use crate::engine::hardware_trial::{FRAMES, GOP_FRAMES, MAX_KBPS, MIN_PSNR_DB, judge_frames};
use crate::engine::video_encoders::{EncoderElement, VIDEO_ENCODERS, VideoEncoder};
use crate::engine::worker::message::TrialScope;
use crate::engine::{Result, RunError};

/// A kind of generated video for the trial of hardware. Frames reach an encoder in the format of its row and as progressive,
/// whatever the file is. HDR is left to ffmpeg, which maps its tones.
struct TrialSource {
    /// For people.
    name: &'static str,
    format: &'static str,
    /// As in caps.
    interlace_mode: &'static str,
}

const TRIAL_SOURCES: [TrialSource; 3] = [
    TrialSource { name: "8-bit", format: "I420", interlace_mode: "progressive" },
    TrialSource { name: "10-bit", format: "I420_10LE", interlace_mode: "progressive" },
    TrialSource { name: "interlaced", format: "I420", interlace_mode: "interleaved" },
];

/// Result of testing an encoder: success, or why it cannot be used.
type TrialResult = Result<(), String>;

/// The trial of every encoder in the order of the table; each is made once per process. Blocks for up to 8 s for each software
/// encoder and 24 s for each hardware encoder.
pub fn run_trials(scope: TrialScope) -> impl Iterator<Item = (&'static VideoEncoder, TrialResult)> {
    static RESULTS: [OnceLock<TrialResult>; VIDEO_ENCODERS.len()] = [const { OnceLock::new() }; VIDEO_ENCODERS.len()];
    VIDEO_ENCODERS.iter().zip(&RESULTS).map(move |(encoder, result)| {
        if encoder.is_hardware && scope == TrialScope::Software {
            return (encoder, Err("a test of the hardware encoders crashed or stopped".into()));
        }
        (encoder, result.get_or_init(|| encoder.run_trial()).clone())
    })
}

impl VideoEncoder {
    /// Tests whether the element exists and encodes.
    fn run_trial(&self) -> TrialResult {
        let Some(element) = &self.gstreamer else { return Err("only ffmpeg uses it".into()) };
        if gst::ElementFactory::find(element.element).is_none() {
            return Err("not part of this GStreamer".into());
        }
        let tested = match self.is_hardware {
            true => TRIAL_SOURCES.iter().try_for_each(|source| element.compare_output(source)),
            false => element.encode_test_frames(self.codec),
        };
        tested.map_err(|error| error.to_string())
    }
}

impl EncoderElement {
    fn encode_test_frames(&self, codec: TargetCodec) -> Result<()> {
        let pipeline = self.trial_pipeline(launch_text::TRIAL)?;
        let output: app::AppSink = pipeline.element_of_type("out")?;
        pipeline.set_state(gst::State::Playing)?;
        let sample = wait_for(&pipeline, || output.try_pull_sample(POLL_INTERVAL))?;
        let map = sample.buffer().and_then(|buffer| buffer.map_readable().ok());
        codec.check_output(map.as_deref().unwrap_or_default()).map_err(|fault| RunError::Encoder(fault.into()))
    }

    /// Encodes generated video of this kind, decodes the output, and compares the frames.
    fn compare_output(&self, source: &TrialSource) -> Result<()> {
        let pipeline = self.trial_pipeline(launch_text::HARDWARE_TRIAL)?;
        let caps = |format: &str| {
            let rate = gst::Fraction::new(25, 1);
            let caps = gst::Caps::builder("video/x-raw").field("format", format).field("framerate", rate);
            caps.field("width", 640).field("height", 360)
        };
        let source_caps = caps(source.format).field("interlace-mode", source.interlace_mode);
        pipeline.element("source_caps")?.set_property("caps", source_caps.build());
        pipeline.element("raw_caps")?.set_property("caps", caps(self.format).build());
        let expected: app::AppSink = pipeline.element_of_type("expected")?;
        let output: app::AppSink = pipeline.element_of_type("out")?;
        pipeline.set_state(gst::State::Playing)?;
        let psnrs = wait_for(&pipeline, {
            let mut psnrs = Vec::new();
            move || {
                if let Some(decoded) = output.try_pull_sample(POLL_INTERVAL) {
                    let original = expected.try_pull_sample(gst::ClockTime::from_seconds(1));
                    psnrs.push(original.and_then(|original| frame_psnr(&decoded, &original)).unwrap_or_default());
                }
                output.is_eos().then(|| std::mem::take(&mut psnrs))
            }
        })?;
        judge_frames(&psnrs, FRAMES, MIN_PSNR_DB).map_err(|fault| match source.name {
            "8-bit" => RunError::Encoder(fault),
            name => RunError::Encoder(format!("{fault} ({name} video)")),
        })
    }

    fn trial_pipeline(&self, text: LaunchText) -> Result<RunningPipeline> {
        let pipeline = RunningPipeline::new(text, (self.launch, ""), self.element, &trial_waker())?;
        let encoder = pipeline.element("video_encoder")?;
        self.check_properties(&encoder)?;
        self.configure(&encoder, MAX_KBPS, GOP_FRAMES.into());
        Ok(pipeline)
    }

    /// Checks that the element has the properties of its row: without them it would encode at any rate.
    fn check_properties(&self, encoder: &gst::Element) -> Result<()> {
        let mut properties = self.rate.map(|(name, _)| name).into_iter().chain(self.keyframe_interval);
        match properties.find(|name| encoder.find_property(name).is_none()) {
            Some(name) => Err(RunError::Encoder(format!("{} has no property {name}", self.element))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::gst::gallery::default_encoder;

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

    #[test]
    fn other_video_or_a_part_of_it_fails_the_trial_of_hardware() {
        crate::engine::gst::initialize().unwrap();
        let x264 = default_encoder();
        for source in &TRIAL_SOURCES {
            assert_eq!(EncoderElement { ..*x264 }.compare_output(source).map_err(|error| error.to_string()), Ok(()));
        }
        let fault_with = |filter: &str| {
            let launch = format!("{filter} ! {}", x264.launch).leak();
            EncoderElement { launch, ..*x264 }.compare_output(&TRIAL_SOURCES[1]).unwrap_err().to_string()
        };
        let darker = fault_with("videobalance contrast=0.3");
        assert!(darker.contains("its video differs from the source") && darker.ends_with("(10-bit video)"), "{darker}");
        let short = fault_with("identity eos-after=21");
        assert!(short.contains("only 20 of 50 encoded frames could be decoded"), "{short}");
        let failing = fault_with("identity error-after=5");
        assert!(!failing.contains("PSNR") && !failing.contains("could be decoded"), "{failing}");
    }
}
