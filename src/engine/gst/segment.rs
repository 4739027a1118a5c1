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

use super::aac::{self, FRAME_TIME};
use super::guard::Wake;
use super::laid::Laid;
use super::live::{Live, Said};
use super::slots::Slot;
use super::{drawn, laid, text, voice};
use crate::domain::grid::FrameGrid;
use crate::domain::media::{Color, Video};
use crate::domain::plan::EncodeVideo;
use crate::domain::subtitles::AssScript;
use crate::engine::RunError;

/// Largest number of frames queued before the encoder.
const QUEUED: u64 = 6;

/// Largest segment, bytes: 10 s at 200 Mbit/s.
const MOST: usize = 256 << 20;

/// How the video of segments is encoded.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub plan: EncodeVideo,
    pub video: Video,
    pub slot: &'static Slot,
    /// Text to burn in.
    pub script: Option<Arc<AssScript>>,
}

/// A segment being encoded.
#[derive(Debug)]
pub(super) struct Making {
    pub index: usize,
    /// Frames of the grid that are still missing.
    pub frames: Range<u64>,
    /// AAC frames that are still missing.
    pub sounds: Range<i64>,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Muxed(Muxed),
    /// Audio only.
    Frames(Vec<(i64, Vec<u8>)>),
}

/// A pipeline that ends in hlssink2.
#[derive(Debug)]
struct Muxed {
    live: Live,
    picture: app::AppSrc,
    sound: Option<app::AppSrc>,
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Caps of the frames as they arrive, and as passed to the encoder.
    caps: Option<(gst::Caps, gst::Caps)>,
    /// The muxer has written everything.
    ended: Arc<AtomicBool>,
}

impl Making {
    /// An audio-only segment of these AAC frames.
    pub(super) fn of_sound(index: usize, sounds: Range<i64>) -> Self {
        Self { index, frames: 0..0, sounds, body: Body::Frames(Vec::new()) }
    }

    /// A segment of these frames of the grid with these overlays, and these AAC frames if the item has audio.
    pub(super) fn start(
        index: usize,
        shape: &Shape,
        frames: Range<u64>,
        laid: Vec<Laid>,
        sounds: Option<Range<i64>>,
        wake: &Wake,
    ) -> Result<Self, RunError> {
        let (from, to) = shape.span(&frames);
        let script = shape.script.as_ref().filter(|script| drawn::speaks(script, from, to));
        let text = match (script.is_some(), !laid.is_empty(), sounds.is_some()) {
            (true, _, true) => text::SEGMENT_DRAWN,
            (true, _, false) => text::SEGMENT_DRAWN_MUTE,
            (false, true, true) => text::SEGMENT_LAID,
            (false, true, false) => text::SEGMENT_LAID_MUTE,
            (false, false, true) => text::SEGMENT,
            (false, false, false) => text::SEGMENT_MUTE,
        };
        let live = Live::new(text, (shape.slot.launch(), ""), &index.to_string(), wake)?;
        shape.set(&live, frames.end - frames.start)?;
        let bytes = Arc::default();
        keep(&live.element("segment")?, &bytes, wake);
        let ended = Arc::default();
        watch(&live.element("segment")?, &ended, wake)?;
        let picture: app::AppSrc = live.typed("picture")?;
        let drained = wake.clone();
        picture.set_callbacks(
            app::AppSrcCallbacks::builder().need_data(move |_, _| drained.callback("need-data", (), || ())).build(),
        );
        // Wakes the thread at every frame taken, before the queue is empty and the encoder has to wait.
        let taken = wake.clone();
        if let Some(pad) = picture.static_pad("src") {
            pad.add_probe(gst::PadProbeType::BUFFER, move |_, _| {
                taken.callback("taken", gst::PadProbeReturn::Ok, || gst::PadProbeReturn::Ok)
            });
        }
        let sound = sounds.as_ref().map(|_| live.typed::<app::AppSrc>("sound")).transpose()?;
        if let Some(sound) = &sound {
            let caps = gst::Caps::builder("audio/mpeg")
                .field("mpegversion", 4)
                .field("stream-format", "adts")
                .field("framed", true)
                .field("rate", 48_000)
                .build();
            sound.set_caps(Some(&caps));
        }
        if script.is_none() && !laid.is_empty() {
            laid::give(&live, laid, wake)?;
        }
        live.go(gst::State::Playing)?;
        if let Some(script) = script {
            drawn::give(&live, script, from, to)?;
        }
        let body = Body::Muxed(Muxed { live, picture, sound, bytes, caps: None, ended });
        let making = Self { index, frames, sounds: sounds.unwrap_or(0..0), body };
        making.sound_ends()?;
        Ok(making)
    }

    /// Whether the encoder has room for a frame.
    pub(super) fn wants_picture(&self) -> bool {
        let Body::Muxed(muxed) = &self.body else { return false };
        !self.frames.is_empty() && muxed.picture.current_level_buffers() < QUEUED
    }

    /// Adds the frame `self.frames.start`.
    pub(super) fn push_picture(&mut self, grid: &FrameGrid, sample: &gst::Sample) -> Result<(), RunError> {
        let Body::Muxed(muxed) = &mut self.body else { return Ok(()) };
        let frame = self.frames.start;
        muxed.push_picture(grid, frame, sample)?;
        self.frames.start += 1;
        if self.frames.is_empty() {
            let refused = |flow| RunError::Encoder(format!("the video does not end: {flow}"));
            muxed.picture.end_of_stream().map_err(refused)?;
        }
        Ok(())
    }

    /// Adds the AAC frame `self.sounds.start`.
    pub(super) fn push_sound(&mut self, mut buffer: gst::Buffer) -> Result<(), RunError> {
        let at = aac::start_of(self.sounds.start);
        self.sounds.start += 1;
        match &mut self.body {
            Body::Frames(frames) => {
                let map = buffer.map_readable().map_err(|_| RunError::Encoder("an AAC frame has no bytes".into()))?;
                frames.push((at, map.to_vec()));
                Ok(())
            }
            Body::Muxed(Muxed { sound: None, .. }) => Ok(()),
            Body::Muxed(Muxed { sound: Some(sound), .. }) => {
                let made = buffer.make_mut();
                made.set_pts(time(at));
                made.set_dts(None);
                made.set_duration(gst::ClockTime::from_nseconds(FRAME_TIME.as_nanos() as u64));
                sound
                    .push_buffer(buffer)
                    .map_err(|flow| RunError::Encoder(format!("the muxer refuses audio: {flow}")))?;
                self.sound_ends()
            }
        }
    }

    fn sound_ends(&self) -> Result<(), RunError> {
        if let Body::Muxed(Muxed { sound: Some(sound), .. }) = &self.body
            && self.sounds.is_empty()
        {
            sound.end_of_stream().map_err(|flow| RunError::Encoder(format!("the audio does not end: {flow}")))?;
        }
        Ok(())
    }

    /// Handles the pipeline's bus messages. True if there were any.
    pub(super) fn poll(&mut self) -> Result<bool, RunError> {
        let Body::Muxed(muxed) = &mut self.body else { return Ok(false) };
        let mut moved = false;
        while let Some(said) = muxed.live.said() {
            moved = true;
            match said {
                Said::Fault(text) => return Err(RunError::Encoder(text)),
                Said::Settled | Said::Ended => {}
            }
        }
        Ok(moved)
    }

    /// Keeps the graph of a segment that never finished, for diagnostics.
    pub(super) fn stalled(&self) {
        if let Body::Muxed(muxed) = &self.body {
            muxed.live.stalled();
        }
    }

    /// Whether all its bytes are written.
    pub(super) fn closed(&self) -> bool {
        match &self.body {
            Body::Muxed(muxed) => muxed.ended.load(Ordering::SeqCst),
            Body::Frames(_) => self.sounds.is_empty(),
        }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        match self.body {
            Body::Muxed(muxed) => std::mem::take(&mut *muxed.bytes.lock().unwrap_or_else(PoisonError::into_inner)),
            Body::Frames(frames) => voice::segment(&frames),
        }
    }
}

impl Muxed {
    fn push_picture(&mut self, grid: &FrameGrid, frame: u64, sample: &gst::Sample) -> Result<(), RunError> {
        let lost = || RunError::Decode("a decoded frame has no bytes or caps".into());
        let (caps, buffer) = (sample.caps().ok_or_else(lost)?, sample.buffer().ok_or_else(lost)?);
        if self.caps.as_ref().is_none_or(|(from, _)| from != caps) {
            let mut told = caps.to_owned();
            for structure in told.make_mut().iter_mut() {
                structure.set("framerate", gst::Fraction::new(grid.rate.num as i32, grid.rate.den as i32));
                // Frames that are still interlaced are encoded as progressive.
                structure.set("interlace-mode", "progressive");
                structure.remove_field("field-order");
            }
            self.picture.set_caps(Some(&told));
            self.caps = Some((caps.to_owned(), told));
        }
        let (at, end) = (time(grid.rate.frame_start_ticks(frame)), time(grid.rate.frame_start_ticks(frame + 1)));
        let mut buffer = buffer.copy();
        if let Some(buffer) = buffer.get_mut() {
            buffer.set_pts(at);
            buffer.set_dts(None);
            buffer.set_duration(end - at);
        }
        let refused = |flow| RunError::Encoder(format!("the encoder refuses a frame: {flow}"));
        self.picture.push_buffer(buffer).map_err(refused)?;
        Ok(())
    }
}

impl Shape {
    /// The time these frames cover, milliseconds of the item.
    pub(super) fn span(&self, frames: &Range<u64>) -> (i64, i64) {
        let when = |frame| self.plan.frame_rate.frame_start_ticks(frame) / 90;
        (when(frames.start), when(frames.end))
    }

    fn set(&self, live: &Live, frames: u64) -> Result<(), RunError> {
        let EncodeVideo { width, height, .. } = self.plan;
        let (turned, direction) = match (self.video.rotation, self.video.is_mirrored) {
            (90, false) => (true, "90r"),
            (180, false) => (false, "180"),
            (270, false) => (true, "90l"),
            (90, true) => (true, "ur-ll"),
            (180, true) => (false, "vert"),
            (270, true) => (true, "ul-lr"),
            (_, true) => (false, "horiz"),
            (_, false) => (false, "identity"),
        };
        let (width, height) = if turned { (height, width) } else { (width, height) };
        let shape = gst::Caps::builder("video/x-raw")
            .field("format", self.slot.format())
            .field("width", width as i32)
            .field("height", height as i32)
            .field("pixel-aspect-ratio", gst::Fraction::new(1, 1))
            .field_if_some("colorimetry", limited(&self.video.color))
            .build();
        live.element("shape")?.set_property("caps", shape);
        live.element("turn")?.set_property_from_str("video-direction", direction);
        // After encoding, scaling costs most, and most sources are larger than the rendition.
        live.element("scale")?.set_property_from_str("method", "catrom");
        self.slot.set(&live.element("video_encoder")?, self.plan.max_kbps, frames);
        Ok(())
    }
}

/// The colorimetry to convert full-range video to: the limited range that every screen expects.
fn limited(color: &Color) -> Option<&'static str> {
    (color.range.as_deref() == Some("full")).then_some(match color.matrix.as_deref() {
        Some("bt709") => "bt709",
        _ => "bt601",
    })
}

/// A time of the item, rounded up to nanoseconds because the muxer rounds down to ticks.
fn time(ticks: i64) -> gst::ClockTime {
    gst::ClockTime::from_nseconds((ticks.max(0) as u64 * 100_000).div_ceil(9))
}

/// Captures hlssink2's segment in memory; its playlist is discarded.
fn keep(segment: &gst::Element, bytes: &Arc<Mutex<Vec<u8>>>, wake: &Wake) {
    let (bytes, fragment) = (bytes.clone(), wake.clone());
    segment.connect("get-fragment-stream", false, move |_| {
        let memory = Memory(bytes.clone());
        let stream = fragment.callback("fragment", None, || Some(gio::WriteOutputStream::new(memory)));
        Some(stream.map(|stream| stream.upcast::<gio::OutputStream>()).to_value())
    });
    let playlist = wake.clone();
    segment.connect("get-playlist-stream", false, move |_| {
        let stream = playlist.callback("playlist", None, || Some(gio::WriteOutputStream::new(std::io::sink())));
        Some(stream.map(|stream| stream.upcast::<gio::OutputStream>()).to_value())
    });
    segment.connect("delete-fragment", false, |_| None);
}

/// Sets `ended` when the end of the stream leaves the muxer. The sink after it writes on the same thread, so that all bytes
/// are written by then. splitmuxsink also reports a closed fragment, but not always: of some 300 segments on a busy machine
/// two were never reported, all threads idle after the end (GStreamer 1.22, measured).
fn watch(segment: &gst::Element, ended: &Arc<AtomicBool>, wake: &Wake) -> Result<(), RunError> {
    let missing = || RunError::Internal("hlssink2 has no muxer".into());
    let bin = segment.downcast_ref::<gst::Bin>().ok_or_else(missing)?;
    let is_muxer = |element: &gst::Element| element.factory().is_some_and(|factory| factory.name() == "mpegtsmux");
    let muxer = bin.iterate_recurse().into_iter().flatten().find(is_muxer).ok_or_else(missing)?;
    let out = muxer.static_pad("src").ok_or_else(missing)?;
    let (ended, wake) = (ended.clone(), wake.clone());
    out.add_probe(gst::PadProbeType::EVENT_DOWNSTREAM, move |_, info| {
        let over =
            || matches!(&info.data, Some(gst::PadProbeData::Event(event)) if event.type_() == gst::EventType::Eos);
        wake.callback("end", gst::PadProbeReturn::Ok, || {
            if over() {
                ended.store(true, Ordering::SeqCst);
            }
            gst::PadProbeReturn::Ok
        })
    });
    Ok(())
}

/// A bounded buffer for the bytes of a segment.
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() + bytes.len() > MOST {
            return Err(std::io::Error::other("the segment is larger than 256 MiB"));
        }
        kept.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
