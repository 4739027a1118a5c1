//! A run: one thread that moves video and audio from the decoders into segments.
//!
//! The thread never blocks on a pipeline: pipelines wake it from their callbacks, and it polls all of them in turn. So no
//! interleaving of video and audio in a file can deadlock it (one pipeline for both did, with ten seconds between
//! keyframes), a request to stop takes effect at once, and one stall timer covers everything.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gstreamer as gst;
use tokio::sync::mpsc;

use super::aac::{self, Aac};
use super::decode::{Decoder, Form, Heard, Wish};
use super::guard::Wake;
use super::laid::{self, Laid};
use super::patience::Patience;
use super::pictures::Pictures;
use super::segment::{Making, Shape};
use super::sound::{FRAME, Sound};
use super::voice;
use crate::domain::grid::{FrameGrid, Grid};
use crate::domain::mpegts::segmenter::{AudioMode, SegmenterSettings, Segmenter};
use crate::domain::plan::AudioPlan;
use crate::domain::time::{TICKS_PER_SECOND, to_seconds};
use crate::engine::captions::Captions;
use crate::engine::{Job, RunError, Segment, TIMELINE_BASE_SECONDS};

/// Time limit without any progress while a segment is due. Slow progress is left to the run's owner.
const STALL: Duration = Duration::from_secs(20);

/// Longest sleep of the thread when nothing wakes it.
const NAP: Duration = Duration::from_millis(100);

/// Segments encoded at once: while one is drained the next is fed.
const OPEN: usize = 2;

/// Largest unfinished segment, bytes.
const BUDGET: usize = 256 << 20;

/// How much before a segment audio decoding starts, seconds: the first frames of a decoder are not yet right.
const SOUND_MARGIN: f64 = 0.2;

/// Control of a run's thread by its owner.
#[derive(Debug, Default)]
pub(super) struct Orders {
    pub stop: AtomicBool,
    /// The last segment it may start.
    pub through: AtomicUsize,
}

/// Decoding and picking of video frames in a run.
struct Sight {
    decoder: Decoder,
    pictures: Pictures<gst::Sample>,
    grid: FrameGrid,
    shape: Shape,
    /// Bitmap subtitles to burn in.
    captions: Option<Captions>,
}

/// Decoding, resampling to the grid and encoding of audio in a run.
struct Hearing {
    decoder: Decoder,
    sound: Sound,
    channels: usize,
    encoder: Aac,
    /// AAC frames not yet added to an open segment.
    ready: VecDeque<(i64, gst::Buffer)>,
}

pub(super) struct Work {
    pub job: Job,
    pub shape: Option<Shape>,
    pub segments: mpsc::Sender<Result<Segment, RunError>>,
    pub orders: Arc<Orders>,
    pub wake: Wake,
    /// The quarantine mark of the file, released with the first segment: by then most faults of a hostile file have shown.
    pub mark: Mutex<Option<Arc<dyn Any + Send + Sync>>>,
}

impl Work {
    /// Runs to the end of the grid, or until the run is dropped.
    pub(super) fn run(self) {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| Line::begin(&self)?.carry()));
        let error = match outcome {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(_) => RunError::Internal("the run panicked".into()),
        };
        if !self.stopped() {
            // A file that was truncated or overwritten fails like a broken one.
            let error = if self.job.source.holds_the_same() { error } else { RunError::SourceChanged };
            let _ = self.segments.blocking_send(Err(error));
        }
    }
}

impl Work {
    /// Opens the bitmap subtitles to burn in, if any.
    fn captions(&self, shape: &Shape) -> Result<Option<Captions>, RunError> {
        let burn = shape.plan.burn.as_ref().filter(|burn| burn.is_bitmap());
        let size = (shape.video.width, shape.video.height);
        burn.map(|burn| Captions::open(&self.job, burn, size, &|| self.stopped())).transpose()
    }

    /// The overlays for these frames.
    fn laid(&self, captions: &mut Captions, shape: &Shape, frames: &Range<u64>) -> Result<Vec<Laid>, RunError> {
        let (from, to) = shape.span(frames);
        let shown = captions.during(from, to, &|| self.stopped())?;
        laid::made(&shown, &shape.video, shape.plan.width, shape.plan.height)
    }

    fn stopped(&self) -> bool {
        self.orders.stop.load(Ordering::SeqCst)
    }
}

fn wish(job: &Job, stream: u32, at: f64, form: Form) -> Wish {
    Wish { source: job.source.clone(), media: job.media.clone(), stream, at, form }
}

/// The state of a run.
struct Line<'a> {
    work: &'a Work,
    sight: Option<Sight>,
    hearing: Option<Hearing>,
    open: VecDeque<Making>,
    /// The segment to open next.
    next: usize,
    /// Time since the last progress.
    patience: Patience,
}

impl<'a> Line<'a> {
    fn begin(work: &'a Work) -> Result<Self, RunError> {
        let Work { job, shape, wake, .. } = work;
        let start = job.grid.segment_start(job.first);
        let at = to_seconds(start);
        let mut hearing = None;
        if let Some(AudioPlan::Encode { stream, channels, kbps, .. }) = job.rendition.audio {
            let decoder = Decoder::open(wish(job, stream, at - SOUND_MARGIN, Form::Sound { channels }), wake)?;
            let first = aac::frame_at(start);
            let encoder = Aac::start(channels, kbps, first, &job.first.to_string(), wake)?;
            let channels = channels as usize;
            let sound = Sound::new(channels, (first - aac::PREROLL) * FRAME as i64);
            hearing = Some(Hearing { decoder, sound, channels, encoder, ready: VecDeque::new() });
        }
        let sight = match (shape, &*job.grid) {
            (None, _) => None,
            (Some(shape), Grid::Frames(frames)) => {
                let (first, rate) = (frames.first_frame(job.first), frames.rate);
                let half = 0.5 / rate.as_f64();
                let form = Form::Picture { deinterlace: shape.plan.deinterlace };
                let decoder = Decoder::open(wish(job, shape.plan.stream, at - half, form), wake)?;
                let pictures = Pictures::new(rate, first, frames.total_frames);
                let captions = work.captions(shape)?;
                Some(Sight { decoder, pictures, grid: frames.clone(), shape: shape.clone(), captions })
            }
            _ => return Err(RunError::Internal("encoded video needs a grid of frames".into())),
        };
        Ok(Self { work, sight, hearing, open: VecDeque::new(), next: job.first, patience: Patience::begin() })
    }

    fn carry(&mut self) -> Result<(), RunError> {
        let last = self.work.job.grid.len();
        // The channel closes without a stop request when the runtime shuts down.
        while !self.work.stopped() && !self.work.segments.is_closed() {
            let mut moved = self.open_next()?;
            moved |= self.see()?;
            moved |= self.hear()?;
            moved |= self.close()?;
            if self.next >= last && self.open.is_empty() {
                return Ok(());
            }
            // A run without an open segment is idle, not stalled.
            if moved || self.open.is_empty() {
                self.patience = Patience::begin();
            }
            if self.patience.spent() > STALL {
                tracing::warn!(standing = self.standing(), "a run makes no progress");
                self.open.iter().for_each(Making::stalled);
                return Err(RunError::Stalled(STALL.as_secs()));
            }
            if !moved {
                std::thread::park_timeout(NAP);
            }
        }
        Ok(())
    }

    /// The stages of its parts, for the log.
    fn standing(&self) -> String {
        let mut out = String::new();
        if let Some(sight) = &self.sight {
            let _ = write!(out, "video {}; ", sight.decoder.standing());
        }
        if let Some(hearing) = &self.hearing {
            let _ = write!(out, "audio {}; ", hearing.decoder.standing());
        }
        for making in &self.open {
            let Making { index, frames, sounds, .. } = making;
            let _ = write!(out, "segment {index} lacks video frames {frames:?} and AAC frames {sounds:?}; ");
        }
        out
    }

    /// The AAC frames of a segment.
    fn sounds(&self, index: usize) -> Range<i64> {
        let grid = &self.work.job.grid;
        aac::frame_at(grid.segment_start(index))..aac::frame_at(grid.segment_start(index + 1))
    }

    /// Opens as many segments as allowed.
    fn open_next(&mut self) -> Result<bool, RunError> {
        let through = self.work.orders.through.load(Ordering::SeqCst);
        let mut moved = false;
        while self.open.len() < OPEN && self.next <= through && self.next < self.work.job.grid.len() {
            let index = self.next;
            let sounds = self.hearing.as_ref().map(|_| self.sounds(index));
            let making = match &mut self.sight {
                Some(Sight { grid, shape, captions, .. }) => {
                    let frames = grid.first_frame(index)..grid.first_frame(index + 1);
                    let laid = match captions {
                        Some(captions) => self.work.laid(captions, shape, &frames)?,
                        None => Vec::new(),
                    };
                    Making::start(index, shape, frames, laid, sounds, &self.work.wake)?
                }
                None => Making::of_sound(index, sounds.unwrap_or(0..0)),
            };
            self.open.push_back(making);
            self.next += 1;
            moved = true;
        }
        Ok(moved)
    }

    /// Moves frames from the video decoder into the first segment that lacks some.
    fn see(&mut self) -> Result<bool, RunError> {
        let Some(Sight { decoder, pictures, grid, .. }) = &mut self.sight else { return Ok(false) };
        let mut moved = decoder.poll(&self.work.wake)?;
        while let Some(making) = self.open.iter_mut().find(|making| !making.frames.is_empty()) {
            if !making.wants_picture() {
                break;
            }
            if let Some((frame, sample)) = pictures.take() {
                debug_assert_eq!(frame, making.frames.start);
                making.push_picture(grid, &sample)?;
                moved = true;
                continue;
            }
            match decoder.hear()? {
                Heard::Nothing => break,
                Heard::Sample(sample, at) => pictures.offer(sample, at),
                Heard::End => {
                    if !pictures.finish() {
                        return Err(RunError::SourceRead(format!("no video for segment {}", making.index)));
                    }
                }
            }
            moved = true;
        }
        Ok(moved)
    }

    /// Moves samples from the audio decoder into the encoder, and AAC frames into their segments.
    fn hear(&mut self) -> Result<bool, RunError> {
        let Some(hearing) = &mut self.hearing else { return Ok(false) };
        let Hearing { decoder, sound, channels, encoder, ready } = hearing;
        let mut moved = decoder.poll(&self.work.wake)?;
        let end = self.open.back().map_or(i64::MIN, |making| making.sounds.end);
        while encoder.wants().is_some_and(|frame| frame < end + aac::DELAY) {
            if let Some(samples) = sound.take() {
                encoder.push(&samples)?;
                moved = true;
                continue;
            }
            match decoder.hear()? {
                Heard::Nothing => break,
                Heard::Sample(sample, at) => sound.offer(&voice::samples(&sample, *channels)?, at),
                Heard::End => sound.finish(),
            }
            moved = true;
        }
        while let Some(frame) = encoder.frame()? {
            ready.push_back(frame);
            moved = true;
        }
        for making in &mut self.open {
            while let Some((frame, buffer)) = ready.pop_front_if(|(frame, _)| *frame < making.sounds.end) {
                if frame >= making.sounds.start {
                    making.push_sound(buffer)?;
                }
            }
        }
        Ok(moved)
    }

    /// Delivers finished segments, in order.
    fn close(&mut self) -> Result<bool, RunError> {
        let mut moved = false;
        for making in &mut self.open {
            moved |= making.poll()?;
        }
        while let Some(making) = self.open.pop_front_if(|making| making.closed()) {
            let index = making.index;
            let bytes = match &self.sight {
                Some(_) => self.canonical(index, &making.into_bytes())?,
                None => making.into_bytes(),
            };
            if !self.work.job.source.holds_the_same() {
                return Err(RunError::SourceChanged);
            }
            self.work.mark.lock().unwrap_or_else(PoisonError::into_inner).take();
            let segment = Segment { index, content: bytes.into() };
            if self.work.segments.blocking_send(Ok(segment)).is_err() {
                self.work.orders.stop.store(true, Ordering::SeqCst);
            }
            moved = true;
        }
        Ok(moved)
    }

    /// Rewrites a muxed segment with fixed PIDs, our own tables and continuous counters, and verifies that every frame
    /// is at its planned time.
    fn canonical(&self, index: usize, bytes: &[u8]) -> Result<Vec<u8>, RunError> {
        let mut cutter = Segmenter::new(SegmenterSettings {
            grid: self.work.job.grid.clone(),
            first_segment: index,
            base_timestamp: TIMELINE_BASE_SECONDS * TICKS_PER_SECOND,
            has_video: true,
            audio: self.hearing.as_ref().map(|_| AudioMode::Encoded),
            budget_bytes: BUDGET,
        });
        let fault = |cause| RunError::Encoder(format!("segment {index}: {cause}"));
        let mut pieces = cutter.push(bytes).map_err(fault)?;
        pieces.extend(cutter.finish().map_err(fault)?);
        let piece = pieces.into_iter().find(|piece| piece.index == index);
        piece.map(|piece| piece.bytes).ok_or_else(|| RunError::Encoder(format!("segment {index} came out empty")))
    }
}
