//! One stream of a file, decoded from a place on: opened, sought, then read sample by sample.

use std::time::Duration;

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as app;

use super::guard::Wake;
use super::live::{Live, Said};
use super::patience::Patience;
use super::text;
use crate::domain::media::{Media, Stream, StreamKind};
use crate::engine::RunError;
use crate::engine::source::Source;

/// Longest wait for the first sample after opening or seeking. A file with one keyframe an hour must be decoded from there.
const DEADLINE: Duration = Duration::from_secs(15);

/// When a seek that brought nothing is made once more: one in some hundred was lost before (measured).
const AGAIN: Duration = Duration::from_secs(4);

/// The decoder of one stream.
#[derive(Debug)]
pub(super) struct Decoder {
    live: Live,
    out: app::AppSink,
    stage: Stage,
    seek: Option<gst::ClockTime>,
    patience: Patience,
    /// Something came; until then the deadline counts.
    heard: bool,
    again: bool,
    what: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Opening,
    Running,
    Ended,
}

/// What a decoder has to give.
#[derive(Debug)]
pub(super) enum Heard {
    /// A buffer and where it begins, nanoseconds of the item.
    Sample(gst::Sample, i64),
    Nothing,
    End,
}

impl Decoder {
    /// Opens the stream with index `stream` and goes to `at` seconds of the item, or a little before it.
    pub(super) fn open(source: &Source, media: &Media, stream: u32, at: f64, wake: &Wake) -> Result<Self, RunError> {
        let missing = || RunError::Internal(format!("the file has no stream {stream}"));
        let wanted = media.stream(stream).ok_or_else(missing)?;
        let picture = matches!(wanted.kind, StreamKind::Video(_));
        let text = if picture { text::DECODE_PICTURE } else { text::DECODE_SOUND };
        let mut live = Live::new(text, ("", ""), &stream.to_string(), wake)?;
        live.set_opening(true);
        // Not filesrc and decodebin3: the latter decides how to read when it is linked, before the file is known.
        let decode = live.element("decode")?;
        decode.set_property("uri", format!("file://{}", source.proc_path()));
        choose(&decode, media, wanted, wake);
        let out: app::AppSink = live.typed("out")?;
        let (arrived, prerolled) = (wake.clone(), wake.clone());
        let fine = Ok(gst::FlowSuccess::Ok);
        out.set_callbacks(
            app::AppSinkCallbacks::builder()
                .new_sample(move |_| arrived.callback("sample", Err(gst::FlowError::Error), || fine))
                .new_preroll(move |_| prerolled.callback("preroll", Err(gst::FlowError::Error), || fine))
                .build(),
        );
        let seek = (at > 0.0).then(|| gst::ClockTime::from_nseconds((at * 1e9) as u64));
        let what = if picture { "picture" } else { "sound" };
        let (stage, patience) = (Stage::Opening, Patience::begin());
        Ok(Self { live, out, stage, seek, patience, heard: false, again: false, what })
    }

    /// Sets what is left to be set, then starts.
    pub(super) fn start(&mut self, set: impl FnOnce(&Live) -> Result<(), RunError>) -> Result<(), RunError> {
        set(&self.live)?;
        if self.seek.is_some() {
            return self.live.go(gst::State::Paused);
        }
        self.stage = Stage::Running;
        self.live.go(gst::State::Playing)
    }

    /// Hears what the pipeline said, and brings it where it is to be. True when anything happened.
    pub(super) fn poll(&mut self) -> Result<bool, RunError> {
        let mut moved = false;
        while let Some(said) = self.live.said() {
            moved = true;
            match (said, self.stage) {
                (Said::Fault(text), _) => return Err(RunError::Decode(format!("{}: {text}", self.what))),
                (Said::Settled, Stage::Opening) => self.seek()?,
                _ => {}
            }
        }
        // The message is not to be relied on.
        if self.stage == Stage::Opening && self.live.rests() {
            self.seek()?;
        }
        if !self.heard && self.stage != Stage::Ended {
            let waited = self.patience.spent();
            if waited > DEADLINE {
                let (what, standing) = (self.what, self.standing());
                return Err(RunError::Decode(format!("no {what} within {} s of {standing}", DEADLINE.as_secs())));
            }
            if waited > AGAIN && !self.again && self.seek.is_some() && self.stage == Stage::Running {
                tracing::warn!(what = self.what, "a seek brought nothing and is made again");
                self.again = true;
                self.seek()?;
            }
        }
        Ok(moved)
    }

    /// Flushes what there is and goes on from the place wanted; nothing that was there before can be heard after.
    fn seek(&mut self) -> Result<(), RunError> {
        self.live.seek(self.seek.unwrap_or(gst::ClockTime::ZERO))?;
        self.live.go(gst::State::Playing)?;
        self.stage = Stage::Running;
        Ok(())
    }

    /// How far it has come, for the log.
    pub(super) fn standing(&self) -> String {
        format!("{:?}", self.stage).to_lowercase()
    }

    /// The next sample, when there is one.
    pub(super) fn hear(&mut self) -> Result<Heard, RunError> {
        match self.stage {
            Stage::Opening => return Ok(Heard::Nothing),
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
        let at = at.ok_or_else(|| RunError::Decode(format!("{} without a time", self.what)))?;
        Ok(Heard::Sample(sample, at))
    }
}

/// Nanoseconds of the item; may be negative.
fn stream_time(sample: &gst::Sample, pts: gst::ClockTime) -> Option<i64> {
    let segment = sample.segment()?.downcast_ref::<gst::ClockTime>()?;
    let time = segment.to_stream_time_full(pts)?;
    let nanoseconds = i64::try_from(time.abs().nseconds()).ok()?;
    Some(if time.is_negative() { -nanoseconds } else { nanoseconds })
}

/// Decodes the stream at the wanted one's place among its kind, and no other.
fn choose(decode: &gst::Element, media: &Media, wanted: &Stream, wake: &Wake) {
    let picture = matches!(wanted.kind, StreamKind::Video(_));
    let (kind, indices): (gst::StreamType, Vec<u32>) = if picture {
        (gst::StreamType::VIDEO, media.videos().map(|(stream, _)| stream.index).collect())
    } else {
        (gst::StreamType::AUDIO, media.audios().map(|(stream, _)| stream.index).collect())
    };
    let place = indices.iter().position(|&index| index == wanted.index);
    let (count, wake) = (indices.len(), wake.clone());
    decode.connect("select-stream", false, move |values| {
        let chosen = wake.callback("select-stream", 0, || {
            let collection = values.get(1).and_then(|value| value.get::<gst::StreamCollection>().ok());
            let stream = values.get(2).and_then(|value| value.get::<gst::Stream>().ok());
            let (Some(collection), Some(stream)) = (collection, stream) else { return 0 };
            let alike: Vec<_> = collection.iter().filter(|other| other.stream_type() == kind).collect();
            // Seen differently from how it was probed: which is which cannot be told, and nothing comes.
            let same = alike.len() == count;
            let at = alike.iter().position(|other| other.stream_id() == stream.stream_id());
            i32::from(same && at.is_some() && at == place)
        });
        Some(chosen.to_value())
    });
}
