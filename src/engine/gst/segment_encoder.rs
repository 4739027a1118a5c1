//! Encodes one segment: frames starting with an IDR, muxed with AAC frames by hlssink2, its output captured in memory.
//!
//! One pipeline makes one segment and ends. splitmuxsink inside hlssink2 handles a GOP only when it is complete, so that in
//! one long pipeline a segment closes only when the next has been gathered (0.9 s instead of 0.55 s to the first one,
//! measured).

use std::io::Write;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use gio::prelude::*;
use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as app;
use gstreamer_video::{VideoFormat, VideoInfo};

use super::aac::FRAME_DURATION;
use super::frame_color::FrameColor;
use super::overlay::Overlays;
use super::panic_guard::ThreadWaker;
use super::progress::progress;
use super::running_pipeline::RunningPipeline;
use super::{audio_segment, burned_text, launch_text, limited_range, overlay};
use crate::domain::grid::FrameGrid;
use crate::domain::media::Video;
use crate::domain::mpegts::segmenter::AAC_FRAME;
use crate::domain::plan::EncodeVideo;
use crate::domain::subtitles::AssScript;
use crate::domain::time::Ticks;
use crate::engine::video_encoders::EncoderElement;
use crate::engine::{MAX_SEGMENT_BYTES, Result, RunError};

/// Largest number of frames queued before the encoder.
const MAX_QUEUED_FRAMES: u64 = 6;

/// How the video of segments is encoded.
#[derive(Clone, Debug)]
pub(super) struct VideoEncoding {
    pub plan: EncodeVideo,
    pub video: Video,
    pub encoder: &'static EncoderElement,
    /// Text to burn in.
    pub script: Option<Arc<AssScript>>,
}

/// A segment being encoded.
#[derive(Debug)]
pub(super) struct SegmentEncoder {
    pub index: usize,
    /// Frames of the grid that are still missing.
    pub video_frames: Range<u64>,
    /// AAC frames that are still missing.
    pub aac_frames: Range<i64>,
    output: SegmentOutput,
}

#[allow(clippy::large_enum_variant, reason = "a run has two at most")]
#[derive(Debug)]
enum SegmentOutput {
    Muxed(MuxPipeline),
    /// Audio only.
    AacFrames(Vec<(Ticks, Vec<u8>)>),
}

/// A pipeline that ends in hlssink2.
#[derive(Debug)]
struct MuxPipeline {
    pipeline: RunningPipeline,
    encoding: VideoEncoding,
    video_input: app::AppSrc,
    audio_input: Option<app::AppSrc>,
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Caps of the frames as they arrive, and as passed to the encoder.
    caps: Option<(gst::Caps, gst::Caps)>,
    /// The frames now passed to the encoder have full range. Those still queued when this changes within a segment may be
    /// converted wrongly.
    is_full_range: Arc<AtomicBool>,
    /// The muxer has written everything.
    has_ended: Arc<AtomicBool>,
}

impl SegmentEncoder {
    /// An audio-only segment of these AAC frames.
    pub(super) fn audio_only(index: usize, aac_frames: Range<i64>) -> Self {
        Self { index, video_frames: 0..0, aac_frames, output: SegmentOutput::AacFrames(Vec::new()) }
    }

    /// A segment of these frames of the grid with these overlays, and these AAC frames if the item has audio. A run's first one
    /// is encoded faster.
    pub(super) fn start(
        index: usize,
        is_first: bool,
        encoding: &VideoEncoding,
        video_frames: Range<u64>,
        overlays: Overlays,
        aac_frames: Option<Range<i64>>,
        wake: &ThreadWaker,
    ) -> Result<Self> {
        let (start_ms, end_ms) = encoding.time_range_ms(&video_frames);
        let script = encoding.script.as_ref().filter(|script| burned_text::has_text(script, start_ms, end_ms));
        let text = match (script.is_some(), !overlays.is_empty(), aac_frames.is_some()) {
            (true, true, true) => launch_text::SEGMENT_WITH_TEXT_AND_BITMAPS,
            (true, true, false) => launch_text::SEGMENT_WITH_TEXT_AND_BITMAPS_WITHOUT_AUDIO,
            (true, false, true) => launch_text::SEGMENT_WITH_TEXT,
            (true, false, false) => launch_text::SEGMENT_WITH_TEXT_WITHOUT_AUDIO,
            (false, true, true) => launch_text::SEGMENT_WITH_BITMAPS,
            (false, true, false) => launch_text::SEGMENT_WITH_BITMAPS_WITHOUT_AUDIO,
            (false, false, true) => launch_text::SEGMENT,
            (false, false, false) => launch_text::SEGMENT_WITHOUT_AUDIO,
        };
        let pipeline = RunningPipeline::new(text, (encoding.encoder.launch, ""), &index.to_string(), wake)?;
        encoding.configure(&pipeline, video_frames.end - video_frames.start, is_first)?;
        let is_full_range = Arc::<AtomicBool>::default();
        limited_range::convert_frames(&pipeline, encoding.scaled_frame_info()?, is_full_range.clone(), wake)?;
        let bytes = Arc::default();
        capture_output(&pipeline.element("segment")?, &bytes, wake);
        let has_ended = Arc::default();
        watch_end(&pipeline.element("segment")?, &has_ended, wake)?;
        let video_input: app::AppSrc = pipeline.element_of_type("video")?;
        wake.wake_on_demand(&video_input);
        // Wakes the thread at every frame taken, before the queue is empty and the encoder has to wait.
        let frame_taken_waker = wake.clone();
        let count_progress = || {
            progress().add(1);
            gst::PadProbeReturn::Ok
        };
        if let Some(pad) = video_input.static_pad("src") {
            pad.add_probe(gst::PadProbeType::BUFFER, move |_, _| {
                frame_taken_waker.run_callback("taken", gst::PadProbeReturn::Ok, count_progress)
            });
        }
        let audio_input = aac_frames.as_ref().map(|_| pipeline.element_of_type::<app::AppSrc>("audio")).transpose()?;
        if let Some(audio_input) = &audio_input {
            let caps = gst::Caps::builder("audio/mpeg")
                .field("mpegversion", 4)
                .field("stream-format", "adts")
                .field("framed", true)
                .field("rate", 48_000)
                .build();
            audio_input.set_caps(Some(&caps));
        }
        if !overlays.is_empty() {
            overlay::attach_overlays(&pipeline, overlays, wake)?;
        }
        pipeline.set_state(gst::State::Playing)?;
        if let Some(script) = script {
            burned_text::send_script(&pipeline, script, start_ms, end_ms)?;
        }
        let (encoding, caps) = (encoding.clone(), None);
        let muxed = MuxPipeline { pipeline, encoding, video_input, audio_input, bytes, caps, is_full_range, has_ended };
        let output = SegmentOutput::Muxed(muxed);
        let encoder = Self { index, video_frames, aac_frames: aac_frames.unwrap_or(0..0), output };
        encoder.end_audio_if_complete()?;
        Ok(encoder)
    }

    /// Whether the encoder has room for a frame.
    pub(super) fn has_room_for_frame(&self) -> bool {
        let SegmentOutput::Muxed(muxed) = &self.output else { return false };
        !self.video_frames.is_empty() && muxed.video_input.current_level_buffers() < MAX_QUEUED_FRAMES
    }

    /// Adds the frame `self.video_frames.start`.
    pub(super) fn push_frame(&mut self, grid: &FrameGrid, sample: &gst::Sample) -> Result<()> {
        let SegmentOutput::Muxed(muxed) = &mut self.output else { return Ok(()) };
        let frame = self.video_frames.start;
        muxed.push_frame(grid, frame, sample)?;
        self.video_frames.start += 1;
        if self.video_frames.is_empty() {
            let refused = |flow| RunError::Encoder(format!("the video does not end: {flow}"));
            muxed.video_input.end_of_stream().map_err(refused)?;
        }
        Ok(())
    }

    /// Adds the AAC frame `self.aac_frames.start`.
    pub(super) fn push_aac_frame(&mut self, mut buffer: gst::Buffer) -> Result<()> {
        let start = AAC_FRAME * self.aac_frames.start;
        self.aac_frames.start += 1;
        match &mut self.output {
            SegmentOutput::AacFrames(aac_frames) => {
                let map = buffer.map_readable().map_err(|_| RunError::Encoder("an AAC frame has no bytes".into()))?;
                aac_frames.push((start, map.to_vec()));
                Ok(())
            }
            SegmentOutput::Muxed(MuxPipeline { audio_input: None, .. }) => Ok(()),
            SegmentOutput::Muxed(MuxPipeline { audio_input: Some(audio_input), .. }) => {
                let writable = buffer.make_mut();
                writable.set_pts(clock_time(start));
                writable.set_dts(None);
                writable.set_duration(gst::ClockTime::from_nseconds(FRAME_DURATION.as_nanos() as u64));
                let refused = |flow| RunError::Encoder(format!("the muxer refuses audio: {flow}"));
                audio_input.push_buffer(buffer).map_err(refused)?;
                self.end_audio_if_complete()
            }
        }
    }

    fn end_audio_if_complete(&self) -> Result<()> {
        if let SegmentOutput::Muxed(MuxPipeline { audio_input: Some(audio_input), .. }) = &self.output
            && self.aac_frames.is_empty()
        {
            audio_input.end_of_stream().map_err(|flow| RunError::Encoder(format!("the audio does not end: {flow}")))?;
        }
        Ok(())
    }

    /// Handles the messages of its pipeline.
    pub(super) fn poll(&self) -> Result<()> {
        let SegmentOutput::Muxed(muxed) = &self.output else { return Ok(()) };
        muxed.pipeline.next_error().map_or(Ok(()), |text| Err(RunError::Encoder(text)))
    }

    /// Keeps the graph of a segment that never finished, for diagnostics.
    pub(super) fn record_stall(&self) {
        if let SegmentOutput::Muxed(muxed) = &self.output {
            muxed.pipeline.record_stall();
        }
    }

    /// Whether all its bytes are written.
    pub(super) fn is_finished(&self) -> bool {
        match &self.output {
            SegmentOutput::Muxed(muxed) => muxed.has_ended.load(Ordering::SeqCst),
            SegmentOutput::AacFrames(_) => self.aac_frames.is_empty(),
        }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        match self.output {
            SegmentOutput::Muxed(muxed) => {
                std::mem::take(&mut *muxed.bytes.lock().unwrap_or_else(PoisonError::into_inner))
            }
            SegmentOutput::AacFrames(aac_frames) => audio_segment::mux_segment(&aac_frames),
        }
    }
}

impl MuxPipeline {
    fn push_frame(&mut self, grid: &FrameGrid, frame: u64, sample: &gst::Sample) -> Result<()> {
        let missing = || RunError::Decode("a decoded frame has no bytes or caps".into());
        let (caps, buffer) = (sample.caps().ok_or_else(missing)?, sample.buffer().ok_or_else(missing)?);
        if self.caps.as_ref().is_none_or(|(from, _)| from != caps) {
            let color = FrameColor::new(caps, &self.encoding.video);
            self.encoding.configure_color(&self.pipeline, &color)?;
            self.is_full_range.store(color.is_full_range, Ordering::SeqCst);
            let mut encoder_caps = caps.to_owned();
            for structure in encoder_caps.make_mut().iter_mut() {
                if let Some(colorimetry) = color.input {
                    structure.set("colorimetry", colorimetry.to_string());
                }
                structure.set("framerate", gst::Fraction::new(grid.rate.num as i32, grid.rate.den as i32));
                // Frames that are still interlaced are encoded as progressive.
                structure.set("interlace-mode", "progressive");
                structure.remove_field("field-order");
            }
            self.video_input.set_caps(Some(&encoder_caps));
            self.caps = Some((caps.to_owned(), encoder_caps));
        }
        let (start, end) = (clock_time(grid.rate.frame_start(frame)), clock_time(grid.rate.frame_start(frame + 1)));
        let mut buffer = buffer.copy();
        if let Some(buffer) = buffer.get_mut() {
            buffer.set_pts(start);
            buffer.set_dts(None);
            buffer.set_duration(end - start);
        }
        let refused = |flow| RunError::Encoder(format!("the encoder refuses a frame: {flow}"));
        self.video_input.push_buffer(buffer).map_err(refused)?;
        Ok(())
    }
}

impl VideoEncoding {
    /// The time these frames cover, milliseconds of the item.
    pub(super) fn time_range_ms(&self, frames: &Range<u64>) -> (i64, i64) {
        let start_ms = |frame| self.plan.frame_rate.frame_start(frame).as_ms_floor();
        (start_ms(frames.start), start_ms(frames.end))
    }

    fn configure(&self, pipeline: &RunningPipeline, frames: u64, is_first: bool) -> Result<()> {
        let direction = match (self.video.rotation, self.video.is_mirrored) {
            (90, false) => "90r",
            (180, false) => "180",
            (270, false) => "90l",
            (90, true) => "ur-ll",
            (180, true) => "vert",
            (270, true) => "ul-lr",
            (_, true) => "horiz",
            (_, false) => "identity",
        };
        pipeline.element("rotate")?.set_property_from_str("video-direction", direction);
        // After encoding, scaling costs most, and most sources are larger than the rendition. With other chroma formats `bilinear2`
        // moves luma by a tenth of a code value more.
        let method = if self.video.chroma == "4:2:0" { "bilinear2" } else { "catrom" };
        pipeline.element("scale")?.set_property_from_str("method", method);
        let encoder = pipeline.element("video_encoder")?;
        self.encoder.configure(&encoder, self.plan.max_kbps, frames);
        if is_first {
            self.encoder.first_segment.iter().for_each(|(name, value)| encoder.set_property_from_str(name, value));
        }
        Ok(())
    }

    /// Sets what depends on the colours of the decoded frames.
    fn configure_color(&self, pipeline: &RunningPipeline, color: &FrameColor) -> Result<()> {
        let (width, height) = self.scaled_size();
        let mut caps = gst::Caps::builder("video/x-raw")
            .field("format", self.encoder.format)
            .field("width", width as i32)
            .field("height", height as i32)
            .field("pixel-aspect-ratio", gst::Fraction::new(1, 1))
            .build();
        caps.make_mut().iter_mut().for_each(|structure| color.set_output(structure));
        pipeline.element("raw_caps")?.set_property("caps", caps);
        self.encoder.describe_color(&pipeline.element("video_encoder")?, &color.description);
        Ok(())
    }

    /// The size of frames between scaling and rotation.
    fn scaled_size(&self) -> (u32, u32) {
        let EncodeVideo { width, height, .. } = self.plan;
        if matches!(self.video.rotation, 90 | 270) { (height, width) } else { (width, height) }
    }

    fn scaled_frame_info(&self) -> Result<VideoInfo> {
        let (width, height) = self.scaled_size();
        let frame_info = VideoInfo::builder(VideoFormat::from_string(self.encoder.format), width, height).build();
        frame_info.map_err(|cause| RunError::Internal(format!("frames of {width}x{height}: {cause}")))
    }
}

/// A time of the item, rounded up to nanoseconds because the muxer rounds down to ticks.
fn clock_time(time: Ticks) -> gst::ClockTime {
    gst::ClockTime::from_nseconds((time.0.max(0) as u64 * 100_000).div_ceil(9))
}

/// Captures hlssink2's segment in memory; its playlist is discarded.
fn capture_output(segment: &gst::Element, bytes: &Arc<Mutex<Vec<u8>>>, wake: &ThreadWaker) {
    let (bytes, fragment_waker) = (bytes.clone(), wake.clone());
    segment.connect("get-fragment-stream", false, move |_| {
        let buffer = SegmentBuffer(bytes.clone());
        let stream = fragment_waker.run_callback("fragment", None, || Some(gio::WriteOutputStream::new(buffer)));
        Some(stream.map(|stream| stream.upcast::<gio::OutputStream>()).to_value())
    });
    let waker = wake.clone();
    segment.connect("get-playlist-stream", false, move |_| {
        let stream = waker.run_callback("playlist", None, || Some(gio::WriteOutputStream::new(std::io::sink())));
        Some(stream.map(|stream| stream.upcast::<gio::OutputStream>()).to_value())
    });
    segment.connect("delete-fragment", false, |_| None);
}

/// Sets `has_ended` when the end of the stream leaves the muxer. The sink after it writes on the same thread, so that all
/// bytes are written by then. splitmuxsink also reports a closed fragment, but not always: of some 300 segments on a busy
/// machine two were never reported, all threads idle after the end (GStreamer 1.22, measured).
fn watch_end(segment: &gst::Element, has_ended: &Arc<AtomicBool>, wake: &ThreadWaker) -> Result<()> {
    let missing = || RunError::Internal("hlssink2 has no muxer".into());
    let bin = segment.downcast_ref::<gst::Bin>().ok_or_else(missing)?;
    let is_muxer = |element: &gst::Element| element.factory().is_some_and(|factory| factory.name() == "mpegtsmux");
    let muxer = bin.iterate_recurse().into_iter().flatten().find(is_muxer).ok_or_else(missing)?;
    let out = muxer.static_pad("src").ok_or_else(missing)?;
    let (has_ended, wake) = (has_ended.clone(), wake.clone());
    out.add_probe(gst::PadProbeType::EVENT_DOWNSTREAM, move |_, info| {
        let is_end =
            || matches!(&info.data, Some(gst::PadProbeData::Event(event)) if event.type_() == gst::EventType::Eos);
        wake.run_callback("end", gst::PadProbeReturn::Ok, || {
            if is_end() {
                has_ended.store(true, Ordering::SeqCst);
            }
            gst::PadProbeReturn::Ok
        })
    });
    Ok(())
}

/// A bounded buffer for the bytes of a segment.
struct SegmentBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for SegmentBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buffer.len() + bytes.len() > MAX_SEGMENT_BYTES {
            return Err(std::io::Error::other("the segment is larger than 256 MiB"));
        }
        buffer.extend_from_slice(bytes);
        progress().add(1);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
