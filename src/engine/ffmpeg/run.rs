//! A run: one ffmpeg child whose output stream is cut into segments as it arrives.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncReadExt;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout_at};

use super::amr_extraction;
use super::args::{ArgumentOptions, Features, build_arguments, reading_start_seconds};
use crate::domain::plan::{BurnedSubtitle, VideoPlan};
use crate::domain::subtitles::TextStyle;
use crate::engine::ass::{self, ScriptCache};
use crate::engine::clock::ItemInput;
use crate::engine::process::{Child, ChildExit, ChildLimits, InheritedFile, confined_command, spawn};
use crate::engine::versions::parse_ffmpeg_version;
use crate::engine::video_decoders::HardwareDecoder;
use crate::engine::{Backend, Job, RenditionSpec, Run, RunError, Segment};

/// Time limit for a segment that is due.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes read from the pipe at a time: the capacity of a Linux pipe.
const READ_BYTES: usize = 64 << 10;

/// Raised whenever a change of the arguments changes ffmpeg's output; part of the backend's version.
const ARGUMENTS_VERSION: u32 = 9;

/// Up to this many processors, one decoder thread more than ffmpeg's own choice (processors plus one) helps. On two
/// processors a first segment of HEVC is ready a twelfth sooner, because frames wait for their reference frames.
const MAX_EXTRA_THREAD_PROCESSORS: usize = 4;

/// The ffmpeg backend.
#[derive(Clone, Debug)]
pub struct FfmpegBackend {
    program: PathBuf,
    version: String,
    features: Features,
    decoder_threads: Option<usize>,
    scripts: Arc<ScriptCache>,
    /// Hardware that decodes the video of runs; None for software.
    decoder: Option<&'static HardwareDecoder>,
}

impl FfmpegBackend {
    /// Finds `ffmpeg` on the search path and queries its features (one short process; blocks for some 100 ms).
    ///
    /// # Errors
    /// When the search path has no ffmpeg, or it does not run.
    pub fn detect() -> Result<Self, String> {
        Self::with_program(&super::find_program().ok_or("there is no ffmpeg on the search path")?)
    }

    /// Uses the ffmpeg program at this path, or with this name on the search path, and queries its features.
    ///
    /// # Errors
    /// When it does not run or states no version.
    pub fn with_program(program: &Path) -> Result<Self, String> {
        let mut command = confined_command(program);
        let output = command.arg("-filters").output().map_err(|cause| format!("{}: {cause}", program.display()))?;
        let (banner, filters) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
        let version = parse_ffmpeg_version(&banner).ok_or("`ffmpeg -filters` states no version")?;
        let has_filter = |name: &str| filters.lines().any(|line| line.split_whitespace().nth(1) == Some(name));
        let has_zscale = has_filter("zscale");
        let features =
            Features { has_tone_map: has_zscale && has_filter("tonemap"), has_ass: has_filter("ass"), has_zscale };
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let decoder_threads = (2..=MAX_EXTRA_THREAD_PROCESSORS).contains(&processors).then_some(processors + 2);
        let version = format!("ffmpeg {version} a{ARGUMENTS_VERSION}");
        Ok(Self {
            version,
            program: program.to_owned(),
            features,
            decoder_threads,
            scripts: Arc::default(),
            decoder: None,
        })
    }

    /// Sets the style of plain text to burn in.
    #[must_use]
    pub fn with_text_style(mut self, style: TextStyle) -> Self {
        self.version.push_str(&ass::style_tag(&style));
        self.scripts = Arc::new(ScriptCache::new(style));
        self
    }

    /// This backend with hardware that decodes the video of its runs. The frames are those of software, and so are the segments.
    #[must_use]
    pub fn with_decoder(&self, decoder: &'static HardwareDecoder) -> Self {
        Self { decoder: Some(decoder), ..self.clone() }
    }

    /// The options for a job that is read from the item alone.
    fn argument_options<'a>(&self, job: &'a Job) -> ArgumentOptions<'a> {
        let RenditionSpec { source, media, rendition, grid, watermark, .. } = &*job.spec;
        ArgumentOptions {
            media,
            rendition,
            grid,
            first: job.first,
            input: source.proc_path(),
            pipe_input: None,
            subtitle_path: None,
            watermark: watermark.as_ref().map(|image| image.ffmpeg_input()),
            amr_path: None,
            features: self.features,
            decoder_threads: self.decoder_threads,
            decoder: self.decoder,
        }
    }

    pub fn program(&self) -> &Path {
        &self.program
    }
}

impl Backend for FfmpegBackend {
    fn name(&self) -> &'static str {
        "ffmpeg"
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn hardware_decoder(&self) -> Option<&'static str> {
        self.decoder.map(|decoder| decoder.name)
    }

    fn start(&self, job: Job, last_allowed: usize) -> Result<Run, RunError> {
        if job.first >= job.spec.grid.len() {
            return Err(RunError::Internal(format!("segment {} is past the end", job.first)));
        }
        // Refuses unsupported plans at once, before anything is extracted from the file.
        build_arguments(&ArgumentOptions { subtitle_path: Some("/proc/self/fd/0"), ..self.argument_options(&job) })?;
        let (run, segments, gate) = Run::channel(last_allowed);
        let mut task = RunTask { ffmpeg: self.clone(), job, segments, gate };
        tokio::spawn(async move {
            if let Err(error) = task.make_segments().await {
                let _ = task.segments.send(Err(error)).await;
            }
        });
        Ok(run)
    }
}

/// State of a run's task.
struct RunTask {
    ffmpeg: FfmpegBackend,
    job: Job,
    segments: mpsc::Sender<Result<Segment, RunError>>,
    gate: watch::Receiver<usize>,
}

impl RunTask {
    /// Runs to the end of the grid, to the end of the source, or until the run is dropped.
    async fn make_segments(&mut self) -> Result<(), RunError> {
        let mut child = tokio::select! {
            () = self.segments.closed() => return Ok(()),
            child = self.start_child() => child?,
        };
        let mut segmenter = self.job.spec.segmenter(self.job.first);
        let mut bytes = BytesMut::with_capacity(READ_BYTES);
        let mut deadline = Instant::now() + STALL_TIMEOUT;
        let mut exit = None;
        while exit.is_none() && !segmenter.is_done() {
            if *self.gate.borrow_and_update() < segmenter.current_segment() {
                // Not reading blocks the child at its next write: this pauses the run.
                tokio::select! {
                    () = self.segments.closed() => return Ok(()),
                    changed = self.gate.changed() => if changed.is_err() { return Ok(()) },
                }
                deadline = Instant::now() + STALL_TIMEOUT;
                continue;
            }
            bytes.clear();
            let read = tokio::select! {
                () = self.segments.closed() => return Ok(()),
                read = timeout_at(deadline, child.stdout.read_buf(&mut bytes)) => read,
            };
            let read = read.map_err(|_| RunError::Stalled(STALL_TIMEOUT.as_secs()))?;
            let byte_count = read.map_err(|cause| RunError::Internal(format!("reading from ffmpeg: {cause}")))?;
            let finished_segments = if byte_count > 0 {
                segmenter.push(&bytes).map_err(|cause| RunError::Decode(cause.to_string()))?
            } else if exit.insert(child.wait().await).is_success() {
                segmenter.finish().map_err(|cause| RunError::SourceRead(cause.to_string()))?
            } else {
                Vec::new()
            };
            if finished_segments.is_empty() && exit.is_none() {
                continue;
            }
            let source = self.job.spec.source.clone();
            // On a blocking thread because a network mount may hang.
            let is_unchanged = tokio::task::spawn_blocking(move || source.has_same_content());
            if !is_unchanged.await.unwrap_or(false) {
                return Err(RunError::SourceChanged);
            }
            for finished in finished_segments {
                let segment = Segment { index: finished.index, content: finished.bytes.into() };
                // An error means the run was dropped, which the next turn notices.
                let _ = self.segments.send(Ok(segment)).await;
            }
            deadline = Instant::now() + STALL_TIMEOUT;
        }
        match exit {
            Some(exit) if !exit.is_success() => Err(classify_failure(&exit)),
            Some(exit) if segmenter.current_segment() == self.job.first => {
                let reason = exit.last_error("the source file ends before it");
                Err(RunError::SourceRead(format!("no output for segment {}: {reason}", self.job.first)))
            }
            _ => Ok(()),
        }
    }

    /// Prepares what ffmpeg cannot read from the item itself, and starts it.
    async fn start_child(&self) -> Result<Child, RunError> {
        let RenditionSpec { source, media, rendition, grid, watermark, .. } = &*self.job.spec;
        let program = &self.ffmpeg.program;
        let subtitle = self.subtitle_file().await?;
        let amr_track = match amr_extraction::amr_stream(media, rendition) {
            None => None,
            Some(stream) => {
                Some(Arc::new(amr_extraction::extract_amr(program, &self.job, stream).await?) as InheritedFile)
            }
        };
        let start_seconds = reading_start_seconds(media, rendition, grid, self.job.first);
        let input = ItemInput::open(source, &media.clock_pieces, start_seconds).await?;
        let descriptor_path = |file: &Option<InheritedFile>| {
            file.as_ref().map(|file| format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()))
        };
        let args = build_arguments(&ArgumentOptions {
            pipe_input: input.pipe.as_ref(),
            subtitle_path: descriptor_path(&subtitle).as_deref(),
            amr_path: descriptor_path(&amr_track).as_deref(),
            ..self.ffmpeg.argument_options(&self.job)
        })?;
        let watermark = watermark.as_ref().map(|image| image.file.clone() as InheritedFile);
        let inherit = std::iter::once(input.file).chain(subtitle).chain(amr_track).chain(watermark).collect();
        let limits = ChildLimits::TRANSCODE.with_loopback_port(source.loopback_port());
        let spawned = spawn(program, args, inherit, limits).await;
        spawned.map_err(|cause| RunError::Internal(format!("ffmpeg does not start: {cause}")))
    }

    /// The file of the subtitle to burn in: a script, or the bitmap sidecar. None if ffmpeg reads it from the item itself.
    async fn subtitle_file(&self) -> Result<Option<InheritedFile>, RunError> {
        let Some(VideoPlan::Encode(plan)) = &self.job.spec.rendition.video else { return Ok(None) };
        match &plan.burn {
            None | Some(BurnedSubtitle::Embedded { bitmap: true, .. }) => Ok(None),
            Some(BurnedSubtitle::Sidecar { bitmap: true, .. }) => {
                let missing = || RunError::Internal("the subtitle file is missing".into());
                Ok(Some(self.job.spec.sidecar.clone().ok_or_else(missing)? as InheritedFile))
            }
            Some(text) => Ok(Some(self.ffmpeg.scripts.script_for(&self.ffmpeg.program, &self.job, text).await?)),
        }
    }
}

/// The kind of failure, judged by ffmpeg's error messages.
fn classify_failure(exit: &ChildExit) -> RunError {
    let last_error = exit.last_error("ffmpeg gave no error message");
    if let Some(signal) = exit.signal {
        return RunError::Decode(format!("ffmpeg was ended by signal {signal}"));
    }
    let mentions = |words: &[&str]| exit.error_lines.iter().any(|line| words.iter().any(|word| line.contains(word)));
    if mentions(&["opening encoder", "Unknown encoder", "Could not open encoder"]) {
        RunError::Encoder(last_error)
    } else if mentions(&["Input/output error", "Invalid data found when processing input", "moov atom not found"]) {
        RunError::SourceRead(last_error)
    } else {
        RunError::Decode(last_error)
    }
}
