#![doc = include_str!("README.md")]

use std::any::Any;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::Thread;

use tokio::sync::{mpsc, watch};

use crate::domain::media::{Container, Media, Stream};
use crate::domain::plan::{AudioPlan, BurnedSubtitle, EncodeVideo, Rendition, VideoPlan};
use crate::domain::subtitles::{AssScript, TextStyle};
use crate::engine::script::{self, Scripts};
use crate::engine::{Job, Run, RunError, Segment, Transcoder, ffmpeg};

mod aac;
pub mod board;
mod decode;
mod drawn;
pub mod gallery;
pub mod graph;
mod guard;
mod laid;
mod live;
mod open;
mod patience;
mod pictures;
mod run;
mod segment;
mod slots;
mod sound;
mod svg;
#[cfg(test)]
mod tests;
pub mod text;
mod voice;

pub use slots::{SLOTS, Slot, Trial, trials};

use guard::Wake;
use run::{Orders, Work};
use segment::Shape;

/// Raised whenever a change of the pipelines changes their output; part of the backend's version.
const PIPELINES_VERSION: u32 = 4;

/// The GStreamer backend.
#[derive(Clone, Debug)]
pub struct Native {
    version: String,
    scripts: Arc<Scripts>,
    /// Extracts subtitles from files.
    ffmpeg: Option<PathBuf>,
    #[cfg(test)]
    injected: guard::Injected,
}

impl Native {
    /// Initialises GStreamer if that has not happened yet (blocks for some 100 ms).
    ///
    /// # Errors
    /// Why GStreamer does not start, or which element is missing.
    pub fn find() -> Result<Self, String> {
        gstreamer::init().map_err(|cause| cause.to_string())?;
        crate::engine::elements::restrict();
        for element in [
            "qtdemux",
            "matroskademux",
            "decodebin",
            "uridecodebin3",
            "videoconvertscale",
            "deinterlace",
            "avenc_aac",
            "aacparse",
            "h264parse",
            "hlssink2",
        ] {
            if gstreamer::ElementFactory::find(element).is_none() {
                return Err(format!("GStreamer has no {element}"));
            }
        }
        // Tested here, where blocking is fine, and not at the first start.
        slots::chosen("libx264").ok_or("no H.264 encoder of GStreamer works")?;
        let (major, minor, micro, _) = gstreamer::version();
        Ok(Self {
            version: format!("gstreamer {major}.{minor}.{micro} p{PIPELINES_VERSION}"),
            scripts: Arc::default(),
            ffmpeg: ffmpeg::program(),
            #[cfg(test)]
            injected: guard::Injected::default(),
        })
    }
}

impl Native {
    /// Sets the style of plain text to burn in.
    #[must_use]
    pub fn with_text_style(mut self, style: TextStyle) -> Self {
        self.version.push_str(&script::tag(&style));
        self.scripts = Arc::new(Scripts::new(style));
        self
    }
}

impl Transcoder for Native {
    fn name(&self) -> &'static str {
        "gstreamer"
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn encoder(&self, planned: &str) -> Option<&'static str> {
        slots::chosen(planned).map(|slot| slot.element)
    }

    fn audio_encoder(&self) -> &'static str {
        "avenc_aac"
    }

    fn start(&self, mut job: Job, through: usize) -> Result<Run, RunError> {
        if job.first >= job.grid.len() {
            return Err(RunError::Internal(format!("segment {} is past the end", job.first)));
        }
        if let Some(why) = refusal(&job.media, &job.rendition) {
            return Err(RunError::Internal(format!("GStreamer does not make this rendition: {why}")));
        }
        let (shape, burn) = match &job.rendition.video {
            Some(VideoPlan::Encode(plan)) => (Some(shape(&job.media, plan)?), plan.burn.clone()),
            _ => (None, None),
        };
        let (run, segments, mut gate) = Run::channel(through);
        let orders = Arc::new(Orders::default());
        orders.through.store(through, Ordering::SeqCst);
        let mark = Mutex::new(job.mark.take());
        let work = Draft { job, shape, segments, orders: orders.clone(), mark };
        let native = self.clone();
        if burn.as_ref().is_none_or(BurnedSubtitle::is_bitmap) {
            let thread = native.carry(work)?;
            tokio::spawn(async move { obey(&mut gate, &orders, &thread).await });
            return Ok(run);
        }
        // The text is extracted first, which may take a pass over the file.
        tokio::spawn(async move {
            let segments = work.segments.clone();
            let started = tokio::select! {
                () = segments.closed() => return,
                started = native.drawing(work, burn) => started,
            };
            match started {
                Ok(thread) => obey(&mut gate, &orders, &thread).await,
                Err(error) => drop(segments.send(Err(error)).await),
            }
        });
        Ok(run)
    }
}

/// A run whose thread has not started.
struct Draft {
    job: Job,
    shape: Option<Shape>,
    segments: mpsc::Sender<Result<Segment, RunError>>,
    orders: Arc<Orders>,
    mark: Mutex<Option<Arc<dyn Any + Send + Sync>>>,
}

impl Native {
    /// Starts the thread of a run.
    fn carry(&self, draft: Draft) -> Result<Thread, RunError> {
        let name = format!("run-{}", draft.job.first);
        #[cfg(test)]
        let injected = self.injected.clone();
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            let wake = Wake::here(
                #[cfg(test)]
                injected,
            );
            let Draft { job, shape, segments, orders, mark } = draft;
            Work { job, shape, segments, orders, wake, mark }.run();
        });
        let thread = thread.map_err(|cause| RunError::Internal(format!("no thread for a run: {cause}")))?;
        Ok(thread.thread().clone())
    }

    /// Starts the thread of a run after extracting the text to burn in.
    async fn drawing(&self, mut draft: Draft, burn: Option<BurnedSubtitle>) -> Result<Thread, RunError> {
        if let (Some(burn), Some(shape)) = (burn, &mut draft.shape) {
            let program = self
                .ffmpeg
                .as_ref()
                .ok_or_else(|| RunError::Internal("there is no ffmpeg to extract the subtitle".into()))?;
            let file = self.scripts.of(program, &draft.job, &burn).await?;
            let read = tokio::task::spawn_blocking(move || script::read(&file).map(AssScript::new)).await;
            let read = read.map_err(|cause| RunError::Internal(cause.to_string()))?;
            shape.script = Some(Arc::new(
                read.map_err(|cause| RunError::Internal(format!("reading the subtitle script: {cause}")))?,
            ));
        }
        self.carry(draft)
    }
}

/// Forwards the limit set by the owner of a run to its thread, and stops the thread when the owner is gone.
async fn obey(gate: &mut watch::Receiver<usize>, orders: &Orders, thread: &Thread) {
    orders.through.store(*gate.borrow(), Ordering::SeqCst);
    thread.unpark();
    while gate.changed().await.is_ok() {
        orders.through.store(*gate.borrow_and_update(), Ordering::SeqCst);
        thread.unpark();
    }
    orders.stop.store(true, Ordering::SeqCst);
    thread.unpark();
}

fn shape(media: &Media, plan: &EncodeVideo) -> Result<Shape, RunError> {
    let missing = || RunError::Internal(format!("stream {} is not video", plan.stream));
    let (_, video) = media.video_streams().find(|(stream, _)| stream.index == plan.stream).ok_or_else(missing)?;
    let slot = slots::chosen(&plan.encoder)
        .ok_or_else(|| RunError::Encoder("no H.264 encoder works on this machine".into()))?;
    Ok(Shape { plan: plan.clone(), video: video.clone(), slot, script: None })
}

/// Why this backend leaves a rendition to ffmpeg; None if it can make it.
pub fn refusal(media: &Media, rendition: &Rendition) -> Option<&'static str> {
    match &rendition.video {
        Some(VideoPlan::Copy { .. }) => return Some("ffmpeg copies video in an eighth of the processor time"),
        Some(VideoPlan::Encode(plan)) if plan.tone_map.is_some() => {
            return Some("no element of GStreamer maps HDR to SDR without a graphics card");
        }
        Some(VideoPlan::Encode(plan)) if plan.watermark.is_some() => return Some("watermarks are overlaid by ffmpeg"),
        Some(VideoPlan::Encode(EncodeVideo { burn: Some(burn), .. })) => match burn {
            BurnedSubtitle::Embedded { stream, bitmap: true } if !can_be_laid(media, *stream) => {
                return Some("PGS and VobSub are read from Matroska files only");
            }
            burn if burn.is_bitmap() && !laid::here() => {
                return Some("this GStreamer has no overlaycomposition to burn in bitmap subtitles");
            }
            burn if !burn.is_bitmap() && !drawn::here() => {
                return Some("this GStreamer has no assrender to burn in text subtitles");
            }
            _ => {}
        },
        Some(VideoPlan::Encode(_)) | None => {}
    }
    if let Some(AudioPlan::Copy { .. }) = rendition.audio {
        return Some("copied audio keeps the frame grid of its source, which ffmpeg's muxer knows");
    }
    if let Some(AudioPlan::Encode { gain_tenths_db: Some(_), .. }) = rendition.audio {
        return Some("audio is levelled by ffmpeg's limiter");
    }
    if !media.clock_pieces.is_empty() {
        return Some("its pieces are put on one clock, in a pipe that ffmpeg reads");
    }
    match media.container {
        Container::Mp4 | Container::Matroska | Container::Webm => {}
        // Times start at the first clock reference, and a seek is a guess.
        Container::MpegTs | Container::MpegPs => return Some("a stream's times do not start at its first frame"),
        _ if rendition.video.is_some() => return Some("seeking in this container is not exact"),
        Container::Flac | Container::Wav | Container::Ogg => {}
        _ => return Some("seeking in this container is not exact"),
    }
    (media.start_seconds.abs() > 0.001).then_some("its clock does not start at 0")
}

/// Whether this stream contains bitmap subtitles that can be read: PGS or VobSub in Matroska.
fn can_be_laid(media: &Media, stream: u32) -> bool {
    let known = |stream: &Stream| matches!(stream.codec.as_str(), "hdmv_pgs_subtitle" | "dvd_subtitle");
    matches!(media.container, Container::Matroska | Container::Webm) && media.stream(stream).is_some_and(known)
}
