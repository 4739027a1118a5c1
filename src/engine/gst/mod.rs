#![doc = include_str!("README.md")]

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::Thread;

use tokio::sync::watch;

use crate::domain::codec::TargetCodec;
use crate::domain::media::{Container, Media};
use crate::domain::plan::{AudioPlan, BurnedSubtitle, EncodeVideo, Rendition, VideoPlan};
use crate::domain::subtitles::{AssScript, TextStyle};
use crate::engine::ass::{self, ScriptCache};
use crate::engine::{Backend, Job, Result, Run, RunError, ffmpeg};

mod aac;
mod audio_segment;
mod audio_timeline;
mod burned_text;
mod decode;
mod encoder_elements;
mod frame_color;
mod frame_picker;
pub mod gallery;
pub mod graph;
pub mod launch_text;
mod limited_range;
mod opener;
mod overlay;
mod panic_guard;
pub mod registry;
mod run;
mod running_pipeline;
mod segment_encoder;
mod stall_timer;
mod svg;
#[cfg(test)]
mod tests;
mod watermark;

pub use encoder_elements::{TrialResult, run_trials};

use panic_guard::ThreadWaker;
use run::RunTask;
use segment_encoder::VideoEncoding;

/// Raised whenever a change of the pipelines changes their output; part of the backend's version.
const PIPELINES_VERSION: u32 = 5;

/// The GStreamer backend.
#[derive(Clone, Debug)]
pub struct GstBackend {
    version: String,
    scripts: Arc<ScriptCache>,
    /// Extracts subtitles from files.
    ffmpeg: Option<PathBuf>,
    #[cfg(test)]
    injected_fault: panic_guard::InjectedFault,
}

impl GstBackend {
    /// Initialises GStreamer if that has not happened yet (blocks for some 100 ms).
    ///
    /// # Errors
    /// Why GStreamer does not start, or which element is missing.
    pub fn detect() -> Result<Self, String> {
        gstreamer::init().map_err(|cause| cause.to_string())?;
        crate::engine::gstreamer_elements::restrict_elements();
        let demuxers = ["qtdemux", "matroskademux", "decodebin", "uridecodebin3"];
        let others = ["videoconvertscale", "deinterlace", "avenc_aac", "aacparse", "h264parse", "hlssink2"];
        for element in demuxers.into_iter().chain(others) {
            if !has_element(element) {
                return Err(format!("GStreamer has no {element}"));
            }
        }
        // Tested here, where blocking is fine, and not at the first start.
        encoder_elements::select_encoder(TargetCodec::H264, "libx264").ok_or("no H.264 encoder of GStreamer works")?;
        let (major, minor, micro, _) = gstreamer::version();
        Ok(Self {
            version: format!("gstreamer {major}.{minor}.{micro} p{PIPELINES_VERSION}"),
            scripts: Arc::default(),
            ffmpeg: ffmpeg::find_program(),
            #[cfg(test)]
            injected_fault: panic_guard::InjectedFault::default(),
        })
    }

    /// Sets the style of plain text to burn in.
    #[must_use]
    pub fn with_text_style(mut self, style: TextStyle) -> Self {
        self.version.push_str(&ass::style_tag(&style));
        self.scripts = Arc::new(ScriptCache::new(style));
        self
    }

    /// Starts the thread of a run.
    fn spawn_run(&self, task: RunTask) -> Result<Thread> {
        let name = format!("run-{}", task.job.first);
        #[cfg(test)]
        let injected_fault = self.injected_fault.clone();
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            let waker = ThreadWaker::for_current_thread(
                #[cfg(test)]
                injected_fault,
            );
            task.run(&waker);
        });
        let thread = thread.map_err(|cause| RunError::Internal(format!("no thread for a run: {cause}")))?;
        Ok(thread.thread().clone())
    }

    /// Starts the thread of a run after extracting the text to burn in.
    async fn spawn_run_with_text(&self, mut task: RunTask, burn: Option<BurnedSubtitle>) -> Result<Thread> {
        if let (Some(burn), Some(video_encoding)) = (burn, &mut task.video_encoding) {
            let missing = || RunError::Internal("there is no ffmpeg to extract the subtitle".into());
            let program = self.ffmpeg.as_ref().ok_or_else(missing)?;
            let file = self.scripts.script_for(program, &task.job, &burn).await?;
            let read = tokio::task::spawn_blocking(move || ass::read_script(&file).map(AssScript::new)).await;
            let read = read.map_err(|cause| RunError::Internal(cause.to_string()))?;
            let script = read.map_err(|cause| RunError::Internal(format!("reading the subtitle script: {cause}")))?;
            video_encoding.script = Some(Arc::new(script));
        }
        self.spawn_run(task)
    }
}

impl Backend for GstBackend {
    fn name(&self) -> &'static str {
        "gstreamer"
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn video_encoder(&self, plan: &EncodeVideo) -> Option<&'static str> {
        encoder_elements::select_encoder(plan.codec, &plan.encoder).map(|encoder| encoder.gstreamer.element)
    }

    fn audio_encoder(&self) -> &'static str {
        "avenc_aac"
    }

    fn start(&self, mut job: Job, last_allowed: usize) -> Result<Run> {
        if job.first >= job.spec.grid.len() {
            return Err(RunError::Internal(format!("segment {} is past the end", job.first)));
        }
        if let Some(reason) = refusal_reason(&job.spec.media, &job.spec.rendition) {
            return Err(RunError::Internal(format!("GStreamer does not make this rendition: {reason}")));
        }
        let (video_encoding, burn) = match &job.spec.rendition.video {
            Some(VideoPlan::Encode(plan)) => (Some(resolve_video_encoding(&job.spec.media, plan)?), plan.burn.clone()),
            _ => (None, None),
        };
        let (run, segments, gate) = Run::channel(last_allowed);
        let quarantine_mark = Mutex::new(job.quarantine_mark.take());
        let task = RunTask { job, video_encoding, segments, gate: gate.clone(), quarantine_mark };
        let backend = self.clone();
        if burn.as_ref().is_none_or(BurnedSubtitle::is_bitmap) {
            tokio::spawn(wake_on_change(gate, backend.spawn_run(task)?));
            return Ok(run);
        }
        // The text is extracted first, which may take a pass over the file.
        tokio::spawn(async move {
            let segments = task.segments.clone();
            let started = tokio::select! {
                () = segments.closed() => return,
                started = backend.spawn_run_with_text(task, burn) => started,
            };
            match started {
                Ok(thread) => wake_on_change(gate, thread).await,
                Err(error) => drop(segments.send(Err(error)).await),
            }
        });
        Ok(run)
    }
}

/// Wakes the thread of a run when its owner raises the limit or is gone.
async fn wake_on_change(mut gate: watch::Receiver<usize>, thread: Thread) {
    while gate.changed().await.is_ok() {
        thread.unpark();
    }
    thread.unpark();
}

fn resolve_video_encoding(media: &Media, plan: &EncodeVideo) -> Result<VideoEncoding> {
    let missing = || RunError::Internal(format!("stream {} is not video", plan.stream));
    let (_, video) = media.video_streams().find(|(stream, _)| stream.index == plan.stream).ok_or_else(missing)?;
    let encoder = encoder_elements::select_encoder(plan.codec, &plan.encoder)
        .ok_or_else(|| RunError::Encoder("no H.264 encoder works on this machine".into()))?;
    Ok(VideoEncoding { plan: plan.clone(), video: video.clone(), encoder: &encoder.gstreamer, script: None })
}

/// Whether this GStreamer has an element.
fn has_element(name: &str) -> bool {
    gstreamer::init().is_ok() && gstreamer::ElementFactory::find(name).is_some()
}

/// Why this backend leaves a rendition to ffmpeg; None if it can make it.
pub fn refusal_reason(media: &Media, rendition: &Rendition) -> Option<&'static str> {
    match &rendition.video {
        Some(VideoPlan::Copy { .. }) => return Some("ffmpeg copies video in an eighth of the processor time"),
        Some(VideoPlan::Encode(plan)) if plan.tone_map.is_some() => {
            return Some("no element of GStreamer maps HDR to SDR without a graphics card");
        }
        Some(VideoPlan::Encode(plan)) if plan.watermark.is_some() && !can_overlay_watermarks() => {
            return Some("this GStreamer lacks overlaycomposition, pngdec or avdec_mjpeg to overlay a watermark");
        }
        Some(VideoPlan::Encode(EncodeVideo { burn: Some(burn), .. })) => match burn {
            BurnedSubtitle::Embedded { stream, bitmap: true } if !can_overlay_subtitles(media, *stream) => {
                return Some("bitmap subtitles are read from Matroska (PGS, VobSub) and mp4 files (VobSub) only");
            }
            burn if burn.is_bitmap() && !has_element("overlaycomposition") => {
                return Some("this GStreamer has no overlaycomposition to burn in bitmap subtitles");
            }
            burn if !burn.is_bitmap() && !has_element("assrender") => {
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

/// Whether this GStreamer has the elements that decode and overlay watermarks.
fn can_overlay_watermarks() -> bool {
    ["overlaycomposition", "pngdec", "avdec_mjpeg"].into_iter().all(has_element)
}

/// Whether this stream contains bitmap subtitles that can be read: PGS or VobSub in Matroska, VobSub in mp4.
fn can_overlay_subtitles(media: &Media, stream: u32) -> bool {
    let codec = media.stream(stream).map(|stream| stream.codec.as_str());
    match media.container {
        Container::Matroska | Container::Webm => matches!(codec, Some("hdmv_pgs_subtitle" | "dvd_subtitle")),
        Container::Mp4 => codec == Some("dvd_subtitle"),
        _ => false,
    }
}
