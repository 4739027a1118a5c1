//! Decodes one stream of a file from a start time: opens the file, seeks, then returns buffer after buffer.

use std::sync::Arc;
use std::time::Duration;

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as app;

use super::aac;
use super::guard::Wake;
use super::live::{Live, Said, Sought};
use super::open::{Wanted, Way};
use super::patience::Patience;
use super::text::{self, Text};
use crate::domain::media::Media;
use crate::engine::RunError;
use crate::engine::source::Source;

/// Time limit for the first buffer after opening and seeking. A file with one keyframe an hour must be decoded from there.
const DEADLINE: Duration = Duration::from_secs(15);

/// Wait before a decoder without output is reopened, once. One in some hundred neither ended nor gave output after its
/// seek, and another seek did not help (measured, GStreamer 1.22).
const AGAIN: Duration = Duration::from_secs(4);

/// The decoder of one stream.
#[derive(Debug)]
pub(super) struct Decoder {
    wish: Wish,
    live: Live,
    out: app::AppSink,
    stage: Stage,
    patience: Patience,
    /// The first buffer has arrived; until then `DEADLINE` applies.
    heard: bool,
    again: bool,
}

/// What to decode, from which time, into which format.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub source: Arc<Source>,
    pub media: Arc<Media>,
    /// Index of the stream in the file.
    pub stream: u32,
    /// Start time, seconds of the item; the first output may be a little earlier.
    pub at: f64,
    pub form: Form,
}

/// Output format of a decoder.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    Picture { deinterlace: bool },
    Sound { channels: u32 },
}

impl Form {
    fn what(self) -> &'static str {
        match self {
            Self::Picture { .. } => "video",
            Self::Sound { .. } => "audio",
        }
    }

    fn text(self, way: Way) -> Result<Text, RunError> {
        Ok(match (self, way) {
            (Self::Picture { .. }, Way::Itself) => {
                return Err(RunError::Internal("GStreamer does not decode video of this container".into()));
            }
            (Self::Picture { .. }, Way::Matroska) => text::DECODE_PICTURE_MATROSKA,
            (Self::Picture { .. }, Way::Mp4) => text::DECODE_PICTURE_MP4,
            (Self::Sound { .. }, Way::Itself) => text::DECODE_SOUND,
            (Self::Sound { .. }, Way::Matroska) => text::DECODE_SOUND_MATROSKA,
            (Self::Sound { .. }, Way::Mp4) => text::DECODE_SOUND_MP4,
        })
    }

    fn set(self, live: &Live) -> Result<(), RunError> {
        match self {
            Self::Picture { deinterlace } => {
                live.element("comb")?.set_property_from_str("mode", if deinterlace { "auto" } else { "disabled" });
            }
            Self::Sound { channels } => live.element("shape")?.set_property("caps", aac::samples(channels)),
        }
        Ok(())
    }
}

#[derive(Debug)]
enum Stage {
    Opening,
    Seeking(Sought),
    Running,
    Ended,
}

/// Result of polling a decoder for output.
#[derive(Debug)]
pub(super) enum Heard {
    /// A buffer and its start, nanoseconds of the item.
    Sample(gst::Sample, i64),
    Nothing,
    End,
}

impl Decoder {
    /// Opens the file and starts decoding towards the requested time.
    pub(super) fn open(wish: Wish, wake: &Wake) -> Result<Self, RunError> {
        let (live, out, stage) = begin(&wish, wake)?;
        Ok(Self { wish, live, out, stage, patience: Patience::begin(), heard: false, again: false })
    }

    /// Handles bus messages and advances opening and seeking. True if anything happened.
    pub(super) fn poll(&mut self, wake: &Wake) -> Result<bool, RunError> {
        let mut moved = false;
        while let Some(said) = self.live.said() {
            moved = true;
            match (said, &self.stage) {
                (Said::Fault(text), _) => {
                    return Err(RunError::Decode(format!("{}: {text}", self.wish.form.what())));
                }
                (Said::Settled, Stage::Opening) => self.seek(),
                _ => {}
            }
        }
        // The message may be missing, so the state is checked too.
        if matches!(self.stage, Stage::Opening) && self.live.rests() {
            self.seek();
        }
        let sought = match &self.stage {
            Stage::Seeking(sought) => sought.get().copied(),
            _ => None,
        };
        if sought == Some(true) {
            self.live.go(gst::State::Playing)?;
            self.stage = Stage::Running;
            moved = true;
        }
        if !self.heard && !matches!(self.stage, Stage::Ended) {
            let waited = self.patience.spent();
            if waited > DEADLINE {
                let (what, standing) = (self.wish.form.what(), self.standing());
                self.live.stalled();
                return Err(RunError::Decode(format!("no {what} within {} s of {standing}", DEADLINE.as_secs())));
            }
            if sought == Some(false) && self.again {
                return Err(RunError::SourceRead("the source file is not seekable".into()));
            }
            if (waited > AGAIN || sought == Some(false)) && !self.again {
                tracing::warn!(
                    what = self.wish.form.what(),
                    standing = self.standing(),
                    "a decoder gives no output and is reopened"
                );
                self.live.stalled();
                (self.live, self.out, self.stage) = begin(&self.wish, wake)?;
                (self.again, self.patience) = (true, Patience::begin());
            }
        }
        Ok(moved)
    }

    /// Starts a flushing seek to the requested time; buffers from before it are discarded.
    fn seek(&mut self) {
        self.stage = Stage::Seeking(self.live.seek(gst::ClockTime::from_nseconds((self.wish.at * 1e9) as u64)));
    }

    /// Name of its stage, for the log.
    pub(super) fn standing(&self) -> &'static str {
        match self.stage {
            Stage::Opening => "opening",
            Stage::Seeking(_) => "seeking",
            Stage::Running => "running",
            Stage::Ended => "ended",
        }
    }

    /// The next buffer, if there is one. Does not block.
    pub(super) fn hear(&mut self) -> Result<Heard, RunError> {
        match self.stage {
            Stage::Opening | Stage::Seeking(_) => return Ok(Heard::Nothing),
            Stage::Ended => return Ok(Heard::End),
            Stage::Running => {}
        }
        let Some(sample) = self.out.try_pull_sample(gst::ClockTime::ZERO) else {
            if self.out.is_eos() {
                self.stage = Stage::Ended;
                return Ok(Heard::End);
            }
            return Ok(Heard::Nothing);
        };
        if !self.heard {
            self.heard = true;
            self.live.set_opening(false);
        }
        let at = sample.buffer().and_then(|buffer| buffer.pts()).and_then(|pts| stream_time(&sample, pts));
        let at =
            at.ok_or_else(|| RunError::Decode(format!("a decoded {} buffer has no timestamp", self.wish.form.what())))?;
        Ok(Heard::Sample(sample, at))
    }
}

/// Builds and starts the pipeline: to PAUSED first if it must seek.
fn begin(wish: &Wish, wake: &Wake) -> Result<(Live, app::AppSink, Stage), RunError> {
    let missing = || RunError::Internal(format!("the file has no stream {}", wish.stream));
    let wanted = Wanted::of(&wish.media, wish.stream).ok_or_else(missing)?;
    let way = Way::of(&wish.media);
    let mut live = Live::new(wish.form.text(way)?, ("", ""), &wish.stream.to_string(), wake)?;
    live.set_opening(true);
    way.open(&live, &wish.source, wanted, wake)?;
    let out: app::AppSink = live.typed("out")?;
    let (arrived, prerolled) = (wake.clone(), wake.clone());
    let fine = Ok(gst::FlowSuccess::Ok);
    out.set_callbacks(
        app::AppSinkCallbacks::builder()
            .new_sample(move |_| arrived.callback("sample", Err(gst::FlowError::Error), || fine))
            .new_preroll(move |_| prerolled.callback("preroll", Err(gst::FlowError::Error), || fine))
            .build(),
    );
    wish.form.set(&live)?;
    let (stage, state) = match wish.at > 0.0 {
        true => (Stage::Opening, gst::State::Paused),
        false => (Stage::Running, gst::State::Playing),
    };
    #[cfg(test)]
    if wake.hit("standing") {
        return Ok((live, out, stage));
    }
    live.go(state)?;
    Ok((live, out, stage))
}

/// The stream time of a buffer, nanoseconds of the item; may be negative.
fn stream_time(sample: &gst::Sample, pts: gst::ClockTime) -> Option<i64> {
    let segment = sample.segment()?.downcast_ref::<gst::ClockTime>()?;
    let time = segment.to_stream_time_full(pts)?;
    let nanoseconds = i64::try_from(time.abs().nseconds()).ok()?;
    Some(if time.is_negative() { -nanoseconds } else { nanoseconds })
}
