//! Audio of the source copied frame by frame, each frame at its own time.
//!
//! GStreamer demuxes and parses; segments are muxed without audio, and the frames inserted afterwards. So they need no muxer
//! that knows their codec, and a frame that begins before 0 keeps its time.

use std::collections::VecDeque;

use gstreamer as gst;

use super::decode::{DecodeRequest, Decoder, DecoderOutput};
use super::panic_guard::ThreadWaker;
use crate::domain::mpegts::audio_insertion::{AudioFrame, insert_audio};
use crate::domain::mpegts::segmenter::MAX_PRIMING;
use crate::domain::time::Ticks;
use crate::engine::packager::AdtsConfig;
use crate::engine::{Result, RunError, TIMELINE_BASE};

/// Most frames kept for segments that are not complete; frames arrive no faster than the video they belong to.
const MAX_WAITING_FRAMES: usize = 8192;

/// Whether this codec can be copied into a transport stream, and its stream type there (ISO/IEC 13818-1 table 2-34).
pub(super) fn stream_type(codec: &str) -> Option<u8> {
    match codec {
        "mp3" => Some(0x03),
        "aac" => Some(0x0f),
        _ => None,
    }
}

/// The copied audio of a run.
#[derive(Debug)]
pub(super) struct CopiedAudio {
    decoder: Decoder,
    stream_type: u8,
    /// Caps of the frames, and the header to write before each if they have none.
    format: Option<(gst::Caps, Option<AdtsConfig>)>,
    /// Frames of segments that are not delivered yet.
    frames: VecDeque<AudioFrame>,
    /// Start of the last frame read; the end of time after the end of the stream.
    read_until: Ticks,
}

impl CopiedAudio {
    pub(super) fn open(request: DecodeRequest, wake: &ThreadWaker) -> Result<Self> {
        let codec = request.media.stream(request.stream).map_or("unknown", |stream| &stream.codec);
        let unsupported = || RunError::Internal(format!("{codec} audio is not copied"));
        let stream_type = stream_type(codec).ok_or_else(unsupported)?;
        let decoder = Decoder::open(request, wake)?;
        Ok(Self { decoder, stream_type, format: None, frames: VecDeque::new(), read_until: Ticks::MIN })
    }

    /// Reads the frames that begin before `end`. True if anything happened.
    pub(super) fn pull_until(&mut self, end: Ticks, wake: &ThreadWaker) -> Result<bool> {
        let mut has_progress = self.decoder.poll(wake)?;
        while self.read_until < end {
            match self.decoder.next_output()? {
                DecoderOutput::Pending => break,
                DecoderOutput::End => self.read_until = Ticks::MAX,
                DecoderOutput::Sample(sample, nanoseconds) => {
                    let start = Ticks::from_units(nanoseconds, 1_000_000_000);
                    let bytes = self.read_frame(&sample)?;
                    self.frames.push_back(AudioFrame { start, bytes });
                    self.read_until = self.read_until.max(start);
                }
            }
            if self.frames.len() > MAX_WAITING_FRAMES {
                self.frames.pop_front();
            }
            has_progress = true;
        }
        Ok(has_progress)
    }

    /// Whether all frames that begin before `end` have been read.
    pub(super) fn is_read_until(&self, end: Ticks) -> bool {
        self.read_until >= end
    }

    /// A segment from `start` to `end` with its frames; the item's first one begins with the priming. Segments must follow
    /// each other.
    pub(super) fn insert_into(&mut self, video: &[u8], start: Ticks, end: Ticks) -> Vec<u8> {
        let start = if start == Ticks::ZERO { -MAX_PRIMING } else { start };
        let count = self.frames.partition_point(|frame| frame.start < end);
        let frames = self.frames.drain(..count).filter(|frame| frame.start >= start).collect();
        insert_audio(video, self.stream_type, TIMELINE_BASE, frames)
    }

    pub(super) fn stage_name(&self) -> &'static str {
        self.decoder.stage_name()
    }

    /// The bytes of a frame with its header.
    fn read_frame(&mut self, sample: &gst::Sample) -> Result<Vec<u8>> {
        let missing = || RunError::Decode("an audio frame has no bytes or caps".into());
        let caps = sample.caps().ok_or_else(missing)?;
        if self.format.as_ref().is_none_or(|(known, _)| known.as_ref() != caps) {
            self.format = Some((caps.to_owned(), adts_config(caps)?));
        }
        let map = sample.buffer().and_then(|buffer| buffer.map_readable().ok()).ok_or_else(missing)?;
        let Some((_, Some(config))) = &self.format else { return Ok(map.to_vec()) };
        let oversized = || RunError::Decode("an AAC frame is too long for an ADTS header".into());
        Ok([&config.frame_header(map.len()).ok_or_else(oversized)?[..], &map].concat())
    }
}

/// The header of each frame; None for frames that have one: MP3, and AAC in ADTS.
fn adts_config(caps: &gst::CapsRef) -> Result<Option<AdtsConfig>> {
    let structure = caps.structure(0);
    let is_raw = structure.and_then(|fields| fields.get::<&str>("stream-format").ok()) == Some("raw");
    let Some(fields) = structure.filter(|_| is_raw) else { return Ok(None) };
    let record = fields.get::<gst::Buffer>("codec_data").ok();
    let record = record.as_ref().and_then(|record| record.map_readable().ok());
    let record = record.ok_or_else(|| RunError::Decode("the AAC has no configuration".into()))?;
    let config = AdtsConfig::parse(&record);
    config.map(Some).map_err(|cause| RunError::Decode(cause.reason().into()))
}
