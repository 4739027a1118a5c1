//! Decodes one stream of a file from a start time: opens the file, seeks unless it is fed, then returns buffer after buffer.

use std::sync::Arc;
use std::time::Duration;

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as app;
use gstreamer_video::VideoMeta;

use super::frame_skipping;
use super::held_stream::HeldStream;
use super::item_clock::ItemClock;
use super::launch_text::{self, LaunchText};
use super::opener::{Opener, SelectedStream};
use super::panic_guard::ThreadWaker;
use super::pes_feed::PesFeed;
use super::progress::progress;
use super::running_pipeline::{RunningPipeline, SeekResult};
use super::stall_timer::StallTimer;
use crate::domain::media::{Media, StreamKind};
use crate::engine::source::SourceFile;
use crate::engine::{Result, RunError};

/// Time limit for the first buffer after opening and seeking. A file with one keyframe an hour must be decoded from there.
const FIRST_OUTPUT_TIMEOUT: Duration = Duration::from_secs(15);

/// Waits before a decoder without output is reopened. One in some hundred neither ended nor gave output after its seek, more
/// on a busy machine, and another seek did not help (measured, GStreamer 1.22).
const REOPEN_AFTER: [Duration; 2] = [Duration::from_secs(4), Duration::from_secs(8)];

/// The decoder of one stream.
#[derive(Debug)]
pub(super) struct Decoder {
    request: DecodeRequest,
    pipeline: RunningPipeline,
    output: app::AppSink,
    clock: ItemClock,
    stage: Stage,
    stall_timer: StallTimer,
    /// The first buffer has arrived; until then `FIRST_OUTPUT_TIMEOUT` applies.
    has_output: bool,
    reopen_count: usize,
}

/// The stream to decode, the start time and the output format.
#[derive(Clone, Debug)]
pub(super) struct DecodeRequest {
    pub source: Arc<SourceFile>,
    pub media: Arc<Media>,
    /// Index of the stream in the file.
    pub stream: u32,
    /// Decoding begins at the keyframe at or before this time, seconds of the item.
    pub start_seconds: f64,
    pub format: OutputFormat,
}

/// Output format of a decoder. Audio is interleaved 32-bit float at 48 kHz, with the channels of the source.
#[derive(Clone, Copy, Debug)]
pub(super) enum OutputFormat {
    Video {
        deinterlace: bool,
        /// As [`EncodeVideo::has_frame_per_field`](crate::domain::plan::EncodeVideo::has_frame_per_field).
        has_frame_per_field: bool,
    },
    Audio,
    /// Frames as they are stored, one per buffer.
    CompressedAudio,
}

impl OutputFormat {
    fn kind_name(self) -> &'static str {
        match self {
            Self::Video { .. } => "video",
            Self::Audio | Self::CompressedAudio => "audio",
        }
    }

    fn launch_text(self, opener: Opener) -> Result<LaunchText> {
        Ok(match (self, opener) {
            (Self::Video { .. }, Opener::Decodebin3) => {
                return Err(RunError::Internal("GStreamer does not decode video of this container".into()));
            }
            (Self::Video { .. }, Opener::Avi) => launch_text::DECODE_VIDEO_AVI,
            (Self::Video { .. }, Opener::Matroska) => launch_text::DECODE_VIDEO_MATROSKA,
            (Self::Video { .. }, Opener::Mp4) => launch_text::DECODE_VIDEO_MP4,
            (Self::Video { .. }, Opener::PesFeed) => launch_text::DECODE_VIDEO_PES,
            (Self::Audio, Opener::Decodebin3) => launch_text::DECODE_AUDIO,
            (Self::Audio, Opener::Avi) => launch_text::DECODE_AUDIO_AVI,
            (Self::Audio, Opener::Matroska) => launch_text::DECODE_AUDIO_MATROSKA,
            (Self::Audio, Opener::Mp4) => launch_text::DECODE_AUDIO_MP4,
            (Self::Audio, Opener::PesFeed) => launch_text::DECODE_AUDIO_PES,
            (Self::CompressedAudio, Opener::Decodebin3) => {
                return Err(RunError::Internal("GStreamer does not copy audio of this container".into()));
            }
            (Self::CompressedAudio, Opener::Avi) => launch_text::COPY_AUDIO_AVI,
            (Self::CompressedAudio, Opener::Matroska) => launch_text::COPY_AUDIO_MATROSKA,
            (Self::CompressedAudio, Opener::Mp4) => launch_text::COPY_AUDIO_MP4,
            (Self::CompressedAudio, Opener::PesFeed) => launch_text::COPY_AUDIO_PES,
        })
    }

    fn configure(self, pipeline: &RunningPipeline) -> Result<()> {
        match self {
            Self::Video { deinterlace, has_frame_per_field } => {
                let deinterlacer = pipeline.element("deinterlacer")?;
                deinterlacer.set_property_from_str("mode", if deinterlace { "auto" } else { "disabled" });
                deinterlacer.set_property_from_str("fields", if has_frame_per_field { "all" } else { "top" });
            }
            Self::Audio | Self::CompressedAudio => {}
        }
        Ok(())
    }
}

#[derive(Debug)]
enum Stage {
    /// Until the demuxer has read the headers.
    Opening(HeldStream),
    /// The same for decodebin3, which only seeks when it has prerolled.
    Prerolling,
    Seeking(SeekResult),
    Running,
    Ended,
}

/// Result of polling a decoder for output.
#[derive(Debug)]
pub(super) enum DecoderOutput {
    /// A buffer and its start, nanoseconds of the item.
    Sample(gst::Sample, i64),
    Pending,
    End,
}

impl Decoder {
    /// Opens the file and starts decoding towards the requested time.
    pub(super) fn open(request: DecodeRequest, wake: &ThreadWaker) -> Result<Self> {
        let (pipeline, output, stage) = start_pipeline(&request, wake)?;
        let (clock, stall_timer) = (ItemClock::for_stream(&request.media, request.stream), StallTimer::start());
        Ok(Self { request, pipeline, output, clock, stage, stall_timer, has_output: false, reopen_count: 0 })
    }

    /// Handles bus messages and advances opening and seeking. True if anything happened.
    pub(super) fn poll(&mut self, wake: &ThreadWaker) -> Result<bool> {
        let mut has_progress = false;
        if let Some(text) = self.pipeline.next_error() {
            return Err(RunError::Decode(format!("{}: {text}", self.request.format.kind_name())));
        }
        self.seek_if_ready();
        let seek_result = if let Stage::Seeking(pending) = &self.stage { pending.get().copied() } else { None };
        if seek_result == Some(true) {
            self.pipeline.set_state(gst::State::Playing)?;
            self.stage = Stage::Running;
            has_progress = true;
        }
        if !self.has_output && !matches!(self.stage, Stage::Ended) {
            let waited = self.stall_timer.poll();
            if waited > FIRST_OUTPUT_TIMEOUT {
                let (kind_name, stage_name) = (self.request.format.kind_name(), self.stage_name());
                self.pipeline.record_stall();
                let seconds = FIRST_OUTPUT_TIMEOUT.as_secs();
                return Err(RunError::Decode(format!("no {kind_name} within {seconds} s of {stage_name}")));
            }
            if seek_result == Some(false) && self.reopen_count > 0 {
                return Err(RunError::SourceRead("the source file is not seekable".into()));
            }
            let is_due = REOPEN_AFTER.get(self.reopen_count).is_some_and(|wait| waited > *wait);
            if is_due || seek_result == Some(false) {
                tracing::warn!(
                    what = self.request.format.kind_name(),
                    standing = self.stage_name(),
                    "a decoder gives no output and is reopened"
                );
                self.pipeline.record_stall();
                (self.pipeline, self.output, self.stage) = start_pipeline(&self.request, wake)?;
                (self.reopen_count, self.stall_timer) = (self.reopen_count + 1, StallTimer::start());
            }
        }
        Ok(has_progress)
    }

    /// Starts a flushing seek to the requested time once the file is open; buffers from before it are discarded.
    fn seek_if_ready(&mut self) {
        let start_seconds = self.request.start_seconds;
        let seek_result = match &self.stage {
            Stage::Opening(stream) => {
                let Some(pad) = stream.pad() else { return };
                let segment = pad.sticky_event::<gst::event::Segment>(0);
                let position = self.clock.seek_position(start_seconds, segment.as_ref().map(|event| event.segment()));
                stream.release();
                self.pipeline.seek_from(&pad, position)
            }
            Stage::Prerolling if self.pipeline.is_prerolled() => {
                self.pipeline.seek(self.clock.seek_position(start_seconds, None))
            }
            _ => return,
        };
        self.stage = Stage::Seeking(seek_result);
    }

    /// Name of its stage, for the log.
    pub(super) fn stage_name(&self) -> &'static str {
        match self.stage {
            Stage::Opening(_) | Stage::Prerolling => "opening",
            Stage::Seeking(_) => "seeking",
            Stage::Running => "running",
            Stage::Ended => "ended",
        }
    }

    /// The next buffer, if there is one. Does not block.
    pub(super) fn next_output(&mut self) -> Result<DecoderOutput> {
        match self.stage {
            Stage::Opening(_) | Stage::Prerolling | Stage::Seeking(_) => return Ok(DecoderOutput::Pending),
            Stage::Ended => return Ok(DecoderOutput::End),
            Stage::Running => {}
        }
        let Some(sample) = self.output.try_pull_sample(gst::ClockTime::ZERO) else {
            if self.output.is_eos() {
                self.stage = Stage::Ended;
                return Ok(DecoderOutput::End);
            }
            return Ok(DecoderOutput::Pending);
        };
        if !self.has_output {
            self.has_output = true;
            self.pipeline.set_detecting(false);
        }
        let pts = sample.buffer().and_then(|buffer| buffer.pts());
        let start = pts.zip(sample.segment()).and_then(|(pts, segment)| self.clock.item_nanoseconds(segment, pts));
        let start = start.ok_or_else(|| {
            RunError::Decode(format!("a decoded {} buffer has no timestamp", self.request.format.kind_name()))
        })?;
        Ok(DecoderOutput::Sample(sample, start))
    }
}

/// Builds and starts the pipeline: to PAUSED first if it must seek.
fn start_pipeline(request: &DecodeRequest, wake: &ThreadWaker) -> Result<(RunningPipeline, app::AppSink, Stage)> {
    let missing = || RunError::Internal(format!("the file has no stream {}", request.stream));
    let selected = SelectedStream::find(&request.media, request.stream).ok_or_else(missing)?;
    let opener = Opener::for_stream(&request.media, request.stream);
    let mut pipeline =
        RunningPipeline::new(request.format.launch_text(opener)?, ("", ""), &request.stream.to_string(), wake)?;
    pipeline.set_detecting(opener != Opener::PesFeed);
    let must_seek = request.start_seconds > 0.0 && opener != Opener::PesFeed;
    let held_stream = (must_seek && opener != Opener::Decodebin3).then(HeldStream::default);
    opener.configure(&pipeline, &request.source, selected, held_stream.as_ref(), wake)?;
    let output: app::AppSink = pipeline.element_of_type("out")?;
    let (sample_waker, preroll_waker) = (wake.clone(), wake.clone());
    let count_progress = || {
        progress().add(1);
        Ok(gst::FlowSuccess::Ok)
    };
    output.set_callbacks(
        app::AppSinkCallbacks::builder()
            .new_sample(move |_| sample_waker.run_callback("sample", Err(gst::FlowError::Error), count_progress))
            .new_preroll(move |_| preroll_waker.run_callback("preroll", Err(gst::FlowError::Error), count_progress))
            .build(),
    );
    request.format.configure(&pipeline)?;
    if let Some(StreamKind::Video(video)) = request.media.stream(request.stream).map(|stream| &stream.kind) {
        let clock = ItemClock::for_stream(&request.media, request.stream);
        accept_padded_frames(&output, wake);
        frame_skipping::skip_before(&pipeline, video, clock, request.start_seconds, wake);
    }
    let (stage, state) = match (must_seek, held_stream) {
        (true, Some(stream)) => (Stage::Opening(stream), gst::State::Paused),
        (true, None) => (Stage::Prerolling, gst::State::Paused),
        // A feed starts where decoding must start.
        (false, _) => (Stage::Running, gst::State::Playing),
    };
    #[cfg(test)]
    if wake.take_injected("standing") {
        return Ok((pipeline, output, stage));
    }
    pipeline.set_state(state)?;
    if opener == Opener::PesFeed {
        let (source, media) = (request.source.clone(), request.media.clone());
        let feed = PesFeed { source, media, stream: request.stream, start_seconds: request.start_seconds };
        feed.start(&pipeline, wake)?;
    }
    Ok((pipeline, output, stage))
}

/// Tells the decoder that frames may have padded rows: libav then decodes into the buffers it hands on, and copies no frame (3 MB
/// each for 1080p).
fn accept_padded_frames(output: &app::AppSink, wake: &ThreadWaker) {
    let Some(pad) = output.static_pad("sink") else { return };
    let wake = wake.clone();
    pad.add_probe(gst::PadProbeType::QUERY_DOWNSTREAM, move |_, info| {
        wake.run_callback("query", gst::PadProbeReturn::Ok, || {
            let Some(gst::PadProbeData::Query(query)) = &mut info.data else { return gst::PadProbeReturn::Ok };
            let gst::QueryViewMut::Allocation(allocation) = query.view_mut() else { return gst::PadProbeReturn::Ok };
            allocation.add_allocation_meta::<VideoMeta>(None);
            gst::PadProbeReturn::Handled
        })
    });
}
