//! Encodes the frames of a slate: pixels drawn by this program or a decoded image, and a line of text.

use std::sync::Arc;
use std::time::Duration;

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as app;

use super::frame_color::FrameColor;
use super::image_decoder::decode_scaled;
use super::panic_guard::ThreadWaker;
use super::running_pipeline::RunningPipeline;
use super::script_source::read_script;
use super::stall_timer::StallTimer;
use super::{burned_text, check_report, launch_text, progress, select_encoder};
use crate::domain::codec::TargetCodec;
use crate::domain::image;
use crate::domain::mpegts::channel_timeline::StillImage;
use crate::domain::slate_canvas::{SlateCanvas, fit_size};
use crate::domain::subtitles::AssScript;
use crate::engine::image::Image;
use crate::engine::still_image::{FRAMES, MAX_KBPS, StillJob};
use crate::engine::video_encoders::EncoderElement;
use crate::engine::worker::message::EngineReport;
use crate::engine::{Result, RunError};

/// The encoder to prefer (ffmpeg's name), as in runs.
const PREFERRED_ENCODER: &str = "libx264";

const FRAME_MS: u64 = 40;

/// Time limit of the encode, counted while the machine gives this thread a turn.
const ENCODE_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest sleep of the thread while nothing wakes it.
const MAX_SLEEP: Duration = Duration::from_millis(50);

/// A slate to encode in this process.
#[derive(Debug)]
pub struct StillTask {
    /// Width and height, even numbers.
    pub size: (u32, u32),
    pub encoder: &'static EncoderElement,
    /// Scaled to fit; None for the built-in drawing.
    pub image: Option<Arc<Image>>,
    /// A line of text, shown all the time.
    pub script: Option<Arc<AssScript>>,
}

/// The encoder for a slate.
///
/// # Errors
/// Why GStreamer cannot make it on this machine.
pub fn select_still_encoder(job: &StillJob, report: &EngineReport) -> Result<&'static EncoderElement, String> {
    check_report(report)?;
    let decoders: &[&str] = if job.image.is_some() { &["pngdec", "avdec_mjpeg"] } else { &[] };
    let renderers: &[&str] = if job.script.is_some() { &["assrender"] } else { &[] };
    if let Some(missing) = decoders.iter().chain(renderers).find(|element| !report.has(element)) {
        return Err(format!("this GStreamer has no {missing}"));
    }
    let encoder = select_encoder(TargetCodec::H264, PREFERRED_ENCODER, report);
    encoder.ok_or_else(|| "no H.264 encoder of GStreamer works".to_owned())
}

impl StillTask {
    /// The task of a job of this process.
    ///
    /// # Errors
    /// `Internal` when the text cannot be read back.
    pub fn from_job(job: &StillJob, encoder: &'static EncoderElement) -> Result<Self> {
        let image = job.image.as_ref().map(|(image, _)| image.clone());
        let script = job.script.as_ref().map(|script| read_script(script)).transpose()?;
        Ok(Self { size: job.size, encoder, image, script })
    }

    /// Encodes it. Blocks for some 100 ms; both steps have a time limit.
    ///
    /// # Errors
    /// `Decode` for the image, `Encoder` for the rest.
    pub fn encode(&self) -> Result<StillImage> {
        let waker = ThreadWaker::for_current_thread(
            #[cfg(test)]
            super::panic_guard::InjectedFault::default(),
        );
        let canvas = self.draw(&waker)?;
        let text = if self.script.is_some() { launch_text::STILL_WITH_TEXT } else { launch_text::STILL };
        let pipeline = RunningPipeline::new(text, (self.encoder.launch, ""), "slate", &waker)?;
        self.configure(&pipeline)?;
        let output: app::AppSink = pipeline.element_of_type("out")?;
        let sample_waker = waker.clone();
        let callbacks = app::AppSinkCallbacks::builder().new_sample(move |_| {
            sample_waker.run_callback("sample", Err(gst::FlowError::Error), || Ok(gst::FlowSuccess::Ok))
        });
        output.set_callbacks(callbacks.build());
        pipeline.set_state(gst::State::Playing)?;
        if let Some(script) = &self.script {
            burned_text::send_script(&pipeline, script, 0, i64::from(FRAMES) * FRAME_MS.cast_signed())?;
        }
        push_frames(&pipeline.element_of_type("canvas")?, canvas)?;
        let frames = collect_frames(&pipeline, &output)?;
        if frames.len() != FRAMES as usize {
            return Err(RunError::Encoder(format!("the encoder gave {} frames of {FRAMES}", frames.len())));
        }
        Ok(StillImage { frames })
    }

    fn draw(&self, waker: &ThreadWaker) -> Result<SlateCanvas> {
        let (width, height) = self.size;
        let Some(image) = &self.image else { return Ok(SlateCanvas::fireplace(width, height)) };
        let bytes =
            image.read_bytes().map_err(|cause| RunError::Internal(format!("the image of the slate: {cause}")))?;
        let (_, image_width, image_height) =
            image::detect(&bytes).ok_or_else(|| RunError::Decode("not a PNG or JPEG".into()))?;
        let scaled = fit_size((image_width, image_height), self.size);
        let pixels = decode_scaled(bytes, scaled, waker, &|| false)?;
        Ok(SlateCanvas::with_image(width, height, scaled, &pixels))
    }

    fn configure(&self, pipeline: &RunningPipeline) -> Result<()> {
        let color = FrameColor::converted_rgb();
        let encoder = pipeline.element("video_encoder")?;
        self.encoder.configure(&encoder, MAX_KBPS, u64::from(FRAMES));
        // The frames are shown in the order in which they are encoded.
        if encoder.find_property("bframes").is_some() {
            encoder.set_property_from_str("bframes", "0");
        }
        self.encoder.describe_color(&encoder, &color.description);
        let mut raw_caps = raw_caps(self.size, self.encoder.format);
        raw_caps.make_mut().iter_mut().for_each(|structure| color.set_output(structure));
        pipeline.element("raw_caps")?.set_property("caps", raw_caps);
        let input: app::AppSrc = pipeline.element_of_type("canvas")?;
        input.set_caps(Some(&self::raw_caps(self.size, "RGBA")));
        Ok(())
    }
}

fn raw_caps((width, height): (u32, u32), format: &str) -> gst::Caps {
    gst::Caps::builder("video/x-raw")
        .field("format", format)
        .field("width", width as i32)
        .field("height", height as i32)
        .field("framerate", gst::Fraction::new(25, 1))
        .field("pixel-aspect-ratio", gst::Fraction::new(1, 1))
        .field("interlace-mode", "progressive")
        .build()
}

/// Queues the same pixels as every frame.
fn push_frames(input: &app::AppSrc, canvas: SlateCanvas) -> Result<()> {
    let refused = |flow: gst::FlowError| RunError::Encoder(format!("the encoder refuses a frame: {flow}"));
    let pixels = gst::Buffer::from_slice(canvas.pixels);
    for frame in 0..u64::from(FRAMES) {
        let mut buffer = pixels.copy();
        if let Some(buffer) = buffer.get_mut() {
            buffer.set_pts(gst::ClockTime::from_mseconds(frame * FRAME_MS));
            buffer.set_duration(gst::ClockTime::from_mseconds(FRAME_MS));
        }
        input.push_buffer(buffer).map_err(refused)?;
    }
    input.end_of_stream().map_err(refused)?;
    Ok(())
}

/// The access units of the encoder, to its end.
fn collect_frames(pipeline: &RunningPipeline, output: &app::AppSink) -> Result<Vec<Vec<u8>>> {
    let mut frames = Vec::new();
    let mut stall_timer = StallTimer::start();
    loop {
        // The time limit bounds the encode.
        progress().add(1);
        if let Some(text) = pipeline.next_error() {
            return Err(RunError::Encoder(text));
        }
        while let Some(sample) = output.try_pull_sample(gst::ClockTime::ZERO) {
            let map = sample.buffer().and_then(|buffer| buffer.map_readable().ok());
            let bytes = map.ok_or_else(|| RunError::Encoder("a frame of the slate has no bytes".into()))?;
            frames.push(with_delimiter(&bytes));
        }
        if output.is_eos() {
            return Ok(frames);
        }
        if stall_timer.poll() > ENCODE_TIMEOUT {
            pipeline.record_stall();
            return Err(RunError::Stalled(ENCODE_TIMEOUT.as_secs()));
        }
        std::thread::park_timeout(MAX_SLEEP);
    }
}

/// An access unit (ITU-T H.264 annex B) that begins with a delimiter; some encoders write none.
fn with_delimiter(access_unit: &[u8]) -> Vec<u8> {
    const DELIMITER: [u8; 6] = [0, 0, 0, 1, 9, 0xf0];
    let has_one = access_unit.starts_with(&DELIMITER[..5]) || access_unit.starts_with(&DELIMITER[1..5]);
    if has_one { access_unit.to_vec() } else { [&DELIMITER[..], access_unit].concat() }
}

#[cfg(test)]
mod tests;
