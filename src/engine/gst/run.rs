//! A run: one thread that moves video and audio from the decoders into segments.
//!
//! The thread never blocks on a pipeline: pipelines wake it from their callbacks, and it polls all of them in turn. So no
//! interleaving of video and audio in a file can deadlock it (one pipeline for both did, with ten seconds between
//! keyframes), a request to stop takes effect at once, and one stall timer covers everything.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use gstreamer as gst;
use tokio::sync::{mpsc, watch};

use super::aac::{self, AacEncoder};
use super::audio_segment;
use super::audio_timeline::{AudioTimeline, FRAME_SAMPLES};
use super::copied_audio::CopiedAudio;
use super::decode::{DecodeRequest, Decoder, DecoderOutput, OutputFormat};
use super::downmix::Mixer;
use super::frame_picker::FramePicker;
use super::limiter::Limiter;
use super::overlay::{self, Overlays};
use super::panic_guard::ThreadWaker;
use super::progress;
use super::segment_encoder::{SegmentEncoder, VideoEncoding};
use super::stall_timer::StallTimer;
use super::watermark::decode_watermark;
use crate::domain::bitmap_subtitles::PlacedBitmap;
use crate::domain::grid::{FrameGrid, Grid};
use crate::domain::mpegts::segmenter::AAC_FRAME;
use crate::domain::plan::{AudioPlan, VideoPlan};
use crate::domain::subtitles::AssScript;
use crate::domain::time::FrameRate;
use crate::engine::bitmap_subtitles::BitmapSubtitles;
use crate::engine::video_encoders::EncoderElement;
use crate::engine::{Job, Result, RunError, Segment};

/// Time limit without any progress while a segment is due. Slow progress is left to the run's owner.
const STALL_TIMEOUT: Duration = Duration::from_secs(20);

/// Longest sleep of the thread when nothing wakes it.
const MAX_SLEEP: Duration = Duration::from_millis(100);

/// Segments encoded at once: while one is drained the next is fed.
const MAX_OPEN_SEGMENTS: usize = 2;

/// How much before a segment audio decoding starts, seconds: the first frames of a decoder are not yet right.
const AUDIO_MARGIN_SECONDS: f64 = 0.2;

/// How far after the start of a run a keyframe may be to begin with it, grid frames. Up to a half, the first grid frame shows that keyframe anyway.
/// A little more shows it up to a quarter of a frame early instead of decoding the GOP before it for one frame. Video and audio that
/// ffmpeg encoded into Matroska lie 21 ms apart (1,024 samples at 48 kHz): 0.51 frames at 24 a second.
const KEYFRAME_LEAD_FRAMES: f64 = 0.75;

/// Decoding and picking of video frames in a run.
struct VideoBranch {
    decoder: Decoder,
    frame_picker: FramePicker<gst::Sample>,
    grid: FrameGrid,
    encoding: VideoEncoding,
    /// Bitmap subtitles to burn in.
    bitmap_subtitles: Option<BitmapSubtitles>,
    watermark: Option<PlacedBitmap>,
}

/// Decoding, mixing, placing on the grid, levelling and encoding of audio in a run.
struct AudioBranch {
    decoder: Decoder,
    mixer: Mixer,
    timeline: AudioTimeline,
    /// For levelled audio.
    limiter: Option<Limiter>,
    encoder: AacEncoder,
    /// AAC frames not yet added to an open segment.
    ready_frames: VecDeque<(i64, gst::Buffer)>,
}

/// A run: the job, and its ends of the channels of [`crate::engine::Run`].
#[derive(Debug)]
pub struct RunTask {
    pub job: Job,
    /// None if no video is encoded.
    pub encoder: Option<&'static EncoderElement>,
    /// Text to burn in.
    pub script: Option<Arc<AssScript>>,
    pub segments: mpsc::Sender<Result<Segment>>,
    /// The last segment it may start.
    pub gate: watch::Receiver<usize>,
    #[cfg(test)]
    pub(super) injected_fault: super::panic_guard::InjectedFault,
}

impl RunTask {
    /// Runs on the calling thread to the end of the grid, or until the run is dropped. Needs no tokio runtime, and must not
    /// be called on one of its async threads. The thread sleeps in `park`: it should be unparked when the gate rises.
    pub fn run(self) {
        let waker = ThreadWaker::for_current_thread(
            #[cfg(test)]
            self.injected_fault.clone(),
        );
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| RunLoop::start(&self, &waker)?.run()));
        let error = match outcome {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(_) => RunError::Internal("the run panicked".into()),
        };
        if !self.is_stopped() {
            // A file that was truncated or overwritten fails like a broken one.
            let error = if self.has_same_content() { error } else { RunError::SourceChanged };
            let _ = self.segments.blocking_send(Err(error));
        }
    }

    /// How its video is encoded; None if none is.
    fn video_encoding(&self) -> Result<Option<VideoEncoding>> {
        let Some(VideoPlan::Encode(plan)) = &self.job.spec.rendition.video else { return Ok(None) };
        let missing = || RunError::Internal(format!("stream {} is not video", plan.stream));
        let mut streams = self.job.spec.media.video_streams();
        let (_, video) = streams.find(|(stream, _)| stream.index == plan.stream).ok_or_else(missing)?;
        let encoder = self.encoder.ok_or_else(|| RunError::Internal("the run has no video encoder".into()))?;
        let (plan, video, script) = (plan.clone(), video.clone(), self.script.clone());
        Ok(Some(VideoEncoding { plan, video, encoder, script }))
    }

    /// Opens the bitmap subtitles to burn in, if any.
    fn open_bitmap_subtitles(&self, encoding: &VideoEncoding) -> Result<Option<BitmapSubtitles>> {
        let burn = encoding.plan.burn.as_ref().filter(|burn| burn.is_bitmap());
        let size = (encoding.video.width, encoding.video.height);
        // Reads the file itself, with a time limit of its own.
        let _reading = progress().reading();
        burn.map(|burn| BitmapSubtitles::open(&self.job, burn, size, &|| self.is_stopped())).transpose()
    }

    /// Decodes the watermark, if the rendition has one.
    fn open_watermark(&self, encoding: &VideoEncoding, waker: &ThreadWaker) -> Result<Option<PlacedBitmap>> {
        let Some(overlay) = &encoding.plan.watermark else { return Ok(None) };
        let missing = || RunError::Internal("the image of the watermark is missing".into());
        let image = self.job.spec.watermark.as_ref().ok_or_else(missing)?;
        decode_watermark(image, overlay, &encoding.plan, waker, &|| self.is_stopped()).map(Some)
    }

    /// The overlays for these frames.
    fn prepare_overlays(
        &self,
        subtitles: Option<&mut BitmapSubtitles>,
        watermark: Option<&PlacedBitmap>,
        encoding: &VideoEncoding,
        frames: &Range<u64>,
    ) -> Result<Overlays> {
        let (start_ms, end_ms) = encoding.time_range_ms(frames);
        let shown = match subtitles {
            Some(subtitles) => {
                let _reading = progress().reading();
                subtitles.shown_between(start_ms, end_ms, &|| self.is_stopped())?
            }
            None => Vec::new(),
        };
        let (width, height) = (encoding.plan.width, encoding.plan.height);
        overlay::prepare_overlays(&shown, watermark, &encoding.video, width, height)
    }

    /// Whether the file is the one that the run was planned for. May read from a slow disk.
    fn has_same_content(&self) -> bool {
        let _reading = progress().reading();
        self.job.spec.source.has_same_content()
    }

    /// Whether its owner is gone.
    fn is_stopped(&self) -> bool {
        self.segments.is_closed()
    }
}

/// Where a run that starts at `start_seconds` begins to decode video, seconds of the item.
pub(super) fn video_start_seconds(start_seconds: f64, rate: FrameRate) -> f64 {
    if start_seconds > 0.0 { start_seconds + KEYFRAME_LEAD_FRAMES / rate.as_f64() } else { 0.0 }
}

pub(super) fn decode_request(job: &Job, stream: u32, start_seconds: f64, format: OutputFormat) -> DecodeRequest {
    DecodeRequest { source: job.spec.source.clone(), media: job.spec.media.clone(), stream, start_seconds, format }
}

/// The state of a run.
struct RunLoop<'a> {
    task: &'a RunTask,
    waker: &'a ThreadWaker,
    video: Option<VideoBranch>,
    audio: Option<AudioBranch>,
    copied_audio: Option<CopiedAudio>,
    open_segments: VecDeque<SegmentEncoder>,
    /// The segment to open next.
    next_segment: usize,
    /// Time since the last progress.
    stall_timer: StallTimer,
}

impl<'a> RunLoop<'a> {
    fn start(task: &'a RunTask, waker: &'a ThreadWaker) -> Result<Self> {
        let job = &task.job;
        let video_encoding = task.video_encoding()?;
        let start = job.spec.grid.segment_start(job.first);
        let start_seconds = start.as_seconds();
        let mut audio = None;
        if let Some(AudioPlan::Encode { stream, channels, kbps, gain_tenths_db }) = job.spec.rendition.audio {
            let request = decode_request(job, stream, start_seconds - AUDIO_MARGIN_SECONDS, OutputFormat::Audio);
            let decoder = Decoder::open(request, waker)?;
            let first = start.div_ceil(AAC_FRAME);
            let encoder = AacEncoder::start(channels, kbps, first, &job.first.to_string(), waker)?;
            let mixer = Mixer::new(channels);
            let timeline = AudioTimeline::new(mixer.channels(), (first - aac::PREROLL_FRAMES) * FRAME_SAMPLES as i64);
            let limiter = gain_tenths_db.map(|gain| Limiter::new(mixer.channels(), gain));
            audio = Some(AudioBranch { decoder, mixer, timeline, limiter, encoder, ready_frames: VecDeque::new() });
        }
        let mut copied_audio = None;
        if let Some(AudioPlan::Copy { stream }) = job.spec.rendition.audio {
            let start_seconds = start_seconds - AUDIO_MARGIN_SECONDS;
            let request = decode_request(job, stream, start_seconds, OutputFormat::CompressedAudio);
            copied_audio = Some(CopiedAudio::open(request, waker)?);
        }
        let video = match (video_encoding, &*job.spec.grid) {
            (None, _) => None,
            (Some(encoding), Grid::Frames(frames)) => {
                let (first, rate) = (frames.first_frame(job.first), frames.rate);
                let format = OutputFormat::Video {
                    deinterlace: encoding.plan.deinterlace,
                    has_frame_per_field: encoding.plan.has_frame_per_field,
                };
                let decode_from = video_start_seconds(start_seconds, rate);
                let request = decode_request(job, encoding.plan.stream, decode_from, format);
                let decoder = Decoder::open(request, waker)?;
                let frame_picker = FramePicker::new(rate, first, frames.total_frames);
                let bitmap_subtitles = task.open_bitmap_subtitles(&encoding)?;
                let watermark = task.open_watermark(&encoding, waker)?;
                let grid = frames.clone();
                Some(VideoBranch { decoder, frame_picker, grid, encoding, bitmap_subtitles, watermark })
            }
            _ => return Err(RunError::Internal("encoded video needs a grid of frames".into())),
        };
        let (open_segments, stall_timer) = (VecDeque::new(), StallTimer::start());
        Ok(Self { task, waker, video, audio, copied_audio, open_segments, next_segment: job.first, stall_timer })
    }

    fn run(&mut self) -> Result<()> {
        let last = self.task.job.spec.grid.len();
        while !self.task.is_stopped() {
            let mut has_progress = self.open_allowed_segments()?;
            has_progress |= self.pull_video()?;
            has_progress |= self.pull_audio()?;
            has_progress |= self.pull_copied_audio()?;
            has_progress |= self.deliver_finished()?;
            if self.next_segment >= last && self.open_segments.is_empty() {
                return Ok(());
            }
            // A run without an open segment is idle, not stalled.
            if has_progress || self.open_segments.is_empty() {
                self.stall_timer = StallTimer::start();
            }
            if self.stall_timer.poll() > STALL_TIMEOUT {
                tracing::warn!(standing = self.describe_stages(), "a run makes no progress");
                self.open_segments.iter().for_each(SegmentEncoder::record_stall);
                return Err(RunError::Stalled(STALL_TIMEOUT.as_secs()));
            }
            if !has_progress {
                std::thread::park_timeout(MAX_SLEEP);
            }
        }
        Ok(())
    }

    /// The stages of its parts, for the log.
    fn describe_stages(&self) -> String {
        let mut out = String::new();
        if let Some(video) = &self.video {
            let _ = write!(out, "video {}; ", video.decoder.stage_name());
        }
        if let Some(audio) = &self.audio {
            let _ = write!(out, "audio {}; ", audio.decoder.stage_name());
        }
        if let Some(copied_audio) = &self.copied_audio {
            let _ = write!(out, "copied audio {}; ", copied_audio.stage_name());
        }
        for segment in &self.open_segments {
            let SegmentEncoder { index, video_frames, aac_frames, .. } = segment;
            let _ = write!(out, "segment {index} lacks video frames {video_frames:?} and AAC frames {aac_frames:?}; ");
        }
        out
    }

    /// The AAC frames of a segment.
    fn aac_frames(&self, index: usize) -> Range<i64> {
        let grid = &self.task.job.spec.grid;
        grid.segment_start(index).div_ceil(AAC_FRAME)..grid.segment_start(index + 1).div_ceil(AAC_FRAME)
    }

    /// A viewer waits for the first segment, so nothing else takes processor time until it is complete.
    fn max_open_segments(&self) -> usize {
        let is_first_open = self.open_segments.front().is_some_and(|segment| segment.index == self.task.job.first);
        if is_first_open { 1 } else { MAX_OPEN_SEGMENTS }
    }

    /// Opens as many segments as allowed.
    fn open_allowed_segments(&mut self) -> Result<bool> {
        let last_allowed = *self.task.gate.borrow();
        let mut has_progress = false;
        while self.open_segments.len() < self.max_open_segments()
            && self.next_segment <= last_allowed
            && self.next_segment < self.task.job.spec.grid.len()
        {
            let index = self.next_segment;
            let aac_frames = self.audio.as_ref().map(|_| self.aac_frames(index));
            let segment = match &mut self.video {
                Some(VideoBranch { grid, encoding, bitmap_subtitles, watermark, .. }) => {
                    let video_frames = grid.first_frame(index)..grid.first_frame(index + 1);
                    let (subtitles, watermark) = (bitmap_subtitles.as_mut(), watermark.as_ref());
                    let overlays = self.task.prepare_overlays(subtitles, watermark, encoding, &video_frames)?;
                    let is_first = index == self.task.job.first;
                    SegmentEncoder::start(index, is_first, encoding, video_frames, overlays, aac_frames, self.waker)?
                }
                None => SegmentEncoder::audio_only(index, aac_frames.unwrap_or(0..0)),
            };
            self.open_segments.push_back(segment);
            self.next_segment += 1;
            has_progress = true;
        }
        Ok(has_progress)
    }

    /// Moves frames from the video decoder into the first segment that lacks some.
    fn pull_video(&mut self) -> Result<bool> {
        let Some(VideoBranch { decoder, frame_picker, grid, .. }) = &mut self.video else { return Ok(false) };
        let mut has_progress = decoder.poll(self.waker)?;
        while let Some(segment) = self.open_segments.iter_mut().find(|segment| !segment.video_frames.is_empty()) {
            if !segment.has_room_for_frame() {
                break;
            }
            if let Some((frame, sample)) = frame_picker.take_frame() {
                debug_assert_eq!(frame, segment.video_frames.start);
                segment.push_frame(grid, &sample)?;
                has_progress = true;
                continue;
            }
            match decoder.next_output()? {
                DecoderOutput::Pending => break,
                DecoderOutput::Sample(sample, start) => frame_picker.push_frame(sample, start),
                DecoderOutput::End => {
                    if !frame_picker.finish() {
                        return Err(RunError::SourceRead(format!("no video for segment {}", segment.index)));
                    }
                }
            }
            has_progress = true;
        }
        Ok(has_progress)
    }

    /// Moves samples from the audio decoder into the encoder, and AAC frames into their segments.
    fn pull_audio(&mut self) -> Result<bool> {
        let Some(audio) = &mut self.audio else { return Ok(false) };
        let AudioBranch { decoder, mixer, timeline, limiter, encoder, ready_frames } = audio;
        let mut has_progress = decoder.poll(self.waker)?;
        let end_frame = self.open_segments.back().map_or(i64::MIN, |segment| segment.aac_frames.end);
        while encoder.next_needed_frame().is_some_and(|frame| frame < end_frame + aac::DELAY_FRAMES) {
            if let Some(samples) = timeline.take_frame() {
                let levelled = match limiter {
                    Some(limiter) => limiter.push_frame(samples),
                    None => Some(samples),
                };
                if let Some(samples) = levelled {
                    encoder.push(&samples)?;
                }
                has_progress = true;
                continue;
            }
            match decoder.next_output()? {
                DecoderOutput::Pending => break,
                DecoderOutput::Sample(sample, start) => {
                    timeline.push_samples(&audio_segment::read_samples(&sample, mixer)?, start)
                }
                DecoderOutput::End => timeline.finish(),
            }
            has_progress = true;
        }
        while let Some(frame) = encoder.take_frame()? {
            ready_frames.push_back(frame);
            has_progress = true;
        }
        for segment in &mut self.open_segments {
            while let Some((frame, buffer)) = ready_frames.pop_front_if(|(frame, _)| *frame < segment.aac_frames.end) {
                if frame >= segment.aac_frames.start {
                    segment.push_aac_frame(buffer)?;
                }
            }
        }
        Ok(has_progress)
    }

    /// Reads the copied audio of the open segments.
    fn pull_copied_audio(&mut self) -> Result<bool> {
        let (Some(copied_audio), Some(last)) = (&mut self.copied_audio, self.open_segments.back()) else {
            return Ok(false);
        };
        copied_audio.pull_until(self.task.job.spec.grid.segment_start(last.index + 1), self.waker)
    }

    /// Delivers finished segments, in order.
    fn deliver_finished(&mut self) -> Result<bool> {
        let mut has_progress = false;
        for segment in &self.open_segments {
            segment.poll()?;
        }
        let grid = &self.task.job.spec.grid;
        let lacks_audio = |audio: &CopiedAudio, index| !audio.is_read_until(grid.segment_start(index + 1));
        while let Some(segment_encoder) = self.open_segments.pop_front_if(|segment| {
            segment.is_finished() && !self.copied_audio.as_ref().is_some_and(|audio| lacks_audio(audio, segment.index))
        }) {
            let index = segment_encoder.index;
            let mut bytes = segment_encoder.into_bytes();
            if let Some(copied_audio) = &mut self.copied_audio {
                bytes = copied_audio.insert_into(&bytes, grid.segment_start(index), grid.segment_start(index + 1));
            }
            if self.video.is_some() {
                bytes = self.canonicalize(index, &bytes)?;
            }
            if !self.task.has_same_content() {
                return Err(RunError::SourceChanged);
            }
            let segment = Segment { index, content: bytes.into() };
            // An error means the run was dropped, which the main loop notices.
            let _ = self.task.segments.blocking_send(Ok(segment));
            has_progress = true;
        }
        Ok(has_progress)
    }

    /// Rewrites a muxed segment with fixed PIDs, our own tables and continuous counters, and verifies that every frame
    /// is at its planned time.
    fn canonicalize(&self, index: usize, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut segmenter = self.task.job.spec.segmenter(index);
        let to_run_error = |cause| RunError::Encoder(format!("segment {index}: {cause}"));
        let mut finished_segments = segmenter.push(bytes).map_err(to_run_error)?;
        finished_segments.extend(segmenter.finish().map_err(to_run_error)?);
        let segment = finished_segments.into_iter().find(|segment| segment.index == index);
        segment.map(|segment| segment.bytes).ok_or_else(|| RunError::Encoder(format!("segment {index} came out empty")))
    }
}
