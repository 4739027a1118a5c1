//! Decodes an image to pixels of a given size, by a decoder of its format that this program names.

use std::time::Duration;

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as app;
use gstreamer_video::prelude::*;
use gstreamer_video::{VideoFrameRef, VideoInfo};

use super::launch_text;
use super::panic_guard::ThreadWaker;
use super::progress;
use super::running_pipeline::RunningPipeline;
use super::stall_timer::StallTimer;
use crate::domain::image::{self, ImageFormat};
use crate::domain::slate_canvas::fit_size;
use crate::engine::image::Image;
use crate::engine::{Result, RunError};

/// Time limit of decoding and scaling.
const DECODE_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest sleep of the thread while nothing wakes it.
const MAX_SLEEP: Duration = Duration::from_millis(50);

/// Largest side of the pixels that a check makes.
const CHECK_SIDE: u32 = 256;

/// Decodes a whole image, to learn whether it can be shown. Blocks for some milliseconds.
///
/// # Errors
/// Those of decoding: `Decode` if it is broken.
pub fn check_image(image: &Image) -> Result<()> {
    let wake = ThreadWaker::for_current_thread(
        #[cfg(test)]
        super::panic_guard::InjectedFault::default(),
    );
    let bytes = image.read_bytes().map_err(|cause| RunError::Internal(cause.to_string()))?;
    let (_, width, height) = image::detect(&bytes).ok_or_else(|| RunError::Decode("not a PNG or JPEG".into()))?;
    decode_scaled(bytes, fit_size((width, height), (CHECK_SIDE, CHECK_SIDE)), &wake, &|| false).map(drop)
}

/// The image scaled to this size, RGBA without padding. Takes some milliseconds; ends early when `is_stopped`.
///
/// # Errors
/// `Decode` for an image that is broken; `Internal` for one that this GStreamer cannot read; `Stalled`.
pub(super) fn decode_scaled(
    bytes: Vec<u8>,
    (width, height): (u32, u32),
    wake: &ThreadWaker,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Vec<u8>> {
    let (format, ..) = image::detect(&bytes).ok_or_else(|| RunError::Decode("not a PNG or JPEG".into()))?;
    // pngdec of GStreamer 1.22 takes the samples of other pixels for opacity.
    if format == ImageFormat::Png && bytes.get(24..26) == Some(&[16, 2][..]) {
        return Err(RunError::Internal("GStreamer misreads PNG with 16 bits per sample and no opacity".into()));
    }
    let (text, media_type) = match format {
        ImageFormat::Png => (launch_text::DECODE_PNG, "image/png"),
        ImageFormat::Jpeg => (launch_text::DECODE_JPEG, "image/jpeg"),
        ImageFormat::WebP => return Err(RunError::Internal("WebP is left to ffmpeg".into())),
    };
    let pipeline = RunningPipeline::new(text, ("", ""), "image", wake)?;
    let raw_caps = gst::Caps::builder("video/x-raw")
        .field("format", "RGBA")
        .field("width", width as i32)
        .field("height", height as i32)
        .field("pixel-aspect-ratio", gst::Fraction::new(1, 1))
        .build();
    pipeline.element("raw_caps")?.set_property("caps", raw_caps);
    let input: app::AppSrc = pipeline.element_of_type("in")?;
    // The buffer is one whole image, so avdec_mjpeg needs no parser.
    input.set_caps(Some(&gst::Caps::builder(media_type).field("parsed", true).build()));
    let output: app::AppSink = pipeline.element_of_type("out")?;
    let image_waker = wake.clone();
    let callbacks = app::AppSinkCallbacks::builder().new_sample(move |_| {
        image_waker.run_callback("image", Err(gst::FlowError::Error), || Ok(gst::FlowSuccess::Ok))
    });
    output.set_callbacks(callbacks.build());
    pipeline.set_state(gst::State::Playing)?;
    let pushed = input.push_buffer(gst::Buffer::from_mut_slice(bytes)).and_then(|_| input.end_of_stream());
    pushed.map_err(|flow| RunError::Decode(flow.to_string()))?;
    let mut stall_timer = StallTimer::start();
    loop {
        // The time limit bounds the decoder, which counts nothing by itself.
        progress().add(1);
        if let Some(text) = pipeline.next_error() {
            return Err(RunError::Decode(text));
        }
        if let Some(sample) = output.try_pull_sample(gst::ClockTime::ZERO) {
            return copy_pixels(&sample).ok_or_else(|| RunError::Internal("the decoder gave no pixels".into()));
        }
        if output.is_eos() {
            return Err(RunError::Decode("the decoder gave no image".into()));
        }
        if is_stopped() {
            return Err(RunError::Internal("the run was stopped".into()));
        }
        if stall_timer.poll() > DECODE_TIMEOUT {
            return Err(RunError::Stalled(DECODE_TIMEOUT.as_secs()));
        }
        std::thread::park_timeout(MAX_SLEEP);
    }
}

fn copy_pixels(sample: &gst::Sample) -> Option<Vec<u8>> {
    let frame_info = VideoInfo::from_caps(sample.caps()?).ok()?;
    let frame = VideoFrameRef::from_buffer_ref_readable(sample.buffer()?, &frame_info).ok()?;
    let (row_bytes, height) = (frame.width() as usize * 4, frame.height() as usize);
    let stride = usize::try_from(*frame.plane_stride().first()?).ok().filter(|stride| *stride >= row_bytes)?;
    let rows = frame.plane_data(0).ok()?.chunks(stride).take(height);
    let pixels: Vec<u8> = rows.flat_map(|row| row.get(..row_bytes).unwrap_or_default()).copied().collect();
    (pixels.len() == row_bytes * height).then_some(pixels)
}
