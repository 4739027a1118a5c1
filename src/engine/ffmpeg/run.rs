//! A run: one ffmpeg child whose output stream is cut into segments as it arrives.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncReadExt;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout_at};

use super::args::{Abilities, Ask, arguments, reading_start};
use super::spawn::{Exit, Inherited, Limits, confined, spawn};
use super::unpack;
use crate::domain::mpegts::segmenter::{AudioMode, SegmenterSettings, Segmenter, FinishedSegment};
use crate::domain::plan::{AudioPlan, BurnedSubtitle, Rendition, VideoPlan};
use crate::domain::subtitles::TextStyle;
use crate::domain::time::TICKS_PER_SECOND;
use crate::engine::clock::{Fed, Feed};
use crate::engine::script::{self, Scripts};
use crate::engine::{Job, Run, RunError, Segment, TIMELINE_BASE_SECONDS, Transcoder};

/// Time limit for a segment that is due, seconds.
const STALL_SECONDS: u64 = 30;

/// Largest size of unfinished segments, bytes: 10 s at 200 Mbit/s.
const BUDGET_BYTES: usize = 256 << 20;

/// Bytes read from the pipe at a time: the capacity of a Linux pipe.
const READ_BYTES: usize = 64 << 10;

/// Raised whenever a change of the arguments changes ffmpeg's output; part of the backend's version.
const ARGUMENTS_VERSION: u32 = 7;

/// Up to this many processors, one decoder thread more than ffmpeg's own choice (processors plus one) helps. On two
/// processors a first segment of HEVC is ready a twelfth sooner, because frames wait for their reference frames.
const FEW: usize = 4;

/// The ffmpeg backend.
#[derive(Clone, Debug)]
pub struct Ffmpeg {
    program: PathBuf,
    version: String,
    abilities: Abilities,
    decoders: Option<usize>,
    scripts: Arc<Scripts>,
}

impl Ffmpeg {
    /// Finds `ffmpeg` on the search path and queries its features (two short processes; blocks for some 100 ms).
    ///
    /// # Errors
    /// When the search path has no ffmpeg, or it does not run.
    pub fn find() -> Result<Self, String> {
        Self::at(&super::program().ok_or("there is no ffmpeg on the search path")?)
    }

    /// Uses the ffmpeg program at this path, or with this name on the search path, and queries its features.
    ///
    /// # Errors
    /// When it does not run or states no version.
    pub fn at(program: &Path) -> Result<Self, String> {
        let ask = |option: &str| -> Result<String, String> {
            let mut command = confined(program);
            command.args(["-hide_banner", option]).stderr(Stdio::null());
            let output = command.output().map_err(|cause| format!("{}: {cause}", program.display()))?;
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let version = ask("-version")?;
        let version = version.split_whitespace().nth(2).ok_or("`ffmpeg -version` states no version")?.to_owned();
        let filters = ask("-filters")?;
        let has = |name: &str| filters.lines().any(|line| line.split_whitespace().nth(1) == Some(name));
        let resize = has("zscale");
        let abilities = Abilities { tone_map: resize && has("tonemap"), text: has("ass"), resize };
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let decoders = (2..=FEW).contains(&processors).then_some(processors + 2);
        let version = format!("ffmpeg {version} a{ARGUMENTS_VERSION}");
        Ok(Self { version, program: program.to_owned(), abilities, decoders, scripts: Arc::default() })
    }

    /// Sets the style of plain text to burn in.
    #[must_use]
    pub fn with_text_style(mut self, style: TextStyle) -> Self {
        self.version.push_str(&script::tag(&style));
        self.scripts = Arc::new(Scripts::new(style));
        self
    }

    fn arguments(
        &self,
        job: &Job,
        fed: Option<&Fed>,
        burn: Option<&str>,
        sound: Option<&str>,
    ) -> Result<Vec<String>, RunError> {
        let picture = job.picture.as_ref().map(|picture| picture.input());
        arguments(&Ask {
            media: &job.media,
            rendition: &job.rendition,
            grid: &job.grid,
            first: job.first,
            input: &job.source.proc_path(),
            fed,
            burn,
            picture: picture.as_ref().map(|(demuxer, path)| (*demuxer, path.as_str())),
            sound,
            abilities: self.abilities,
            decoders: self.decoders,
        })
    }

    pub fn abilities(&self) -> Abilities {
        self.abilities
    }

    pub fn program(&self) -> &std::path::Path {
        &self.program
    }
}

impl Transcoder for Ffmpeg {
    fn name(&self) -> &'static str {
        "ffmpeg"
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn start(&self, job: Job, through: usize) -> Result<Run, RunError> {
        if job.first >= job.grid.len() {
            return Err(RunError::Internal(format!("segment {} is past the end", job.first)));
        }
        // Refuses unsupported plans at once, before anything is extracted from the file.
        self.arguments(&job, None, Some("/proc/self/fd/0"), None)?;
        let (run, segments, gate) = Run::channel(through);
        tokio::spawn(Work { ffmpeg: self.clone(), job, segments, gate }.run());
        Ok(run)
    }
}

/// State of a run's task.
struct Work {
    ffmpeg: Ffmpeg,
    job: Job,
    segments: mpsc::Sender<Result<Segment, RunError>>,
    gate: watch::Receiver<usize>,
}

impl Work {
    async fn run(mut self) {
        if let Err(error) = self.produce().await {
            let _ = self.segments.send(Err(error)).await;
        }
    }

    /// Runs to the end of the grid, to the end of the source, or until the run is dropped.
    async fn produce(&mut self) -> Result<(), RunError> {
        let drawn = tokio::select! {
            () = self.segments.closed() => return Ok(()),
            drawn = self.drawn() => drawn?,
        };
        let sound = match unpack::needed(&self.job.media, &self.job.rendition) {
            None => None,
            Some(stream) => tokio::select! {
                () = self.segments.closed() => return Ok(()),
                sound = unpack::unpacked(&self.ffmpeg.program, &self.job, stream) => Some(Arc::new(sound?) as Inherited),
            },
        };
        let feed = match self.job.media.clock_pieces.is_empty() {
            true => None,
            false => tokio::select! {
                () = self.segments.closed() => return Ok(()),
                feed = self.feed() => Some(feed?),
            },
        };
        let path =
            |file: &Option<Inherited>| file.as_ref().map(|file| format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()));
        let fed = feed.as_ref().map(Feed::fed);
        let args = self.ffmpeg.arguments(&self.job, fed.as_ref(), path(&drawn).as_deref(), path(&sound).as_deref())?;
        let picture = self.job.picture.as_ref().map(|picture| picture.file.clone() as Inherited);
        // Afterwards only the child has the read end of the pipe open, so that the feed ends with the child.
        let input = feed.map_or_else(|| self.job.source.clone() as Inherited, |feed| feed.inherited());
        let inherit = std::iter::once(input).chain(drawn).chain(sound).chain(picture).collect();
        let started = spawn(&self.ffmpeg.program, args, inherit, Limits::TRANSCODE).await;
        let mut child = started.map_err(|cause| RunError::Internal(format!("ffmpeg does not start: {cause}")))?;
        let mut cutter = Segmenter::new(cut(&self.job));
        let mut bytes = BytesMut::with_capacity(READ_BYTES);
        let mut deadline = Instant::now() + Duration::from_secs(STALL_SECONDS);
        while !cutter.is_done() {
            if *self.gate.borrow_and_update() < cutter.current_segment() {
                // Not reading blocks the child at its next write: this pauses the run.
                tokio::select! {
                    () = self.segments.closed() => return Ok(()),
                    changed = self.gate.changed() => if changed.is_err() { return Ok(()) },
                }
                deadline = Instant::now() + Duration::from_secs(STALL_SECONDS);
                continue;
            }
            bytes.clear();
            let read = tokio::select! {
                () = self.segments.closed() => return Ok(()),
                read = timeout_at(deadline, child.stdout.read_buf(&mut bytes)) => read,
            };
            let read = read.map_err(|_| RunError::Stalled(STALL_SECONDS))?;
            if read.map_err(|cause| RunError::Internal(format!("reading from ffmpeg: {cause}")))? == 0 {
                let exit = child.wait().await;
                return self.ended(&mut cutter, &exit).await;
            }
            let pieces = cutter.push(&bytes).map_err(|cause| RunError::Decode(cause.to_string()))?;
            if !pieces.is_empty() {
                self.deliver(pieces).await?;
                deadline = Instant::now() + Duration::from_secs(STALL_SECONDS);
            }
        }
        Ok(())
    }

    /// Opens the feed of the item on one continuous clock, from where reading starts.
    async fn feed(&self) -> Result<Feed, RunError> {
        let Job { source, media, rendition, grid, first, .. } = &self.job;
        let from = reading_start(media, rendition, grid, *first);
        let opened = Feed::open(source, &media.clock_pieces, from).await;
        opened.map_err(|cause| RunError::SourceRead(format!("the file cannot be put on one clock: {cause}")))
    }

    /// The file of the subtitle to burn in: a script, or the bitmap sidecar. None if ffmpeg reads it from the item itself.
    async fn drawn(&self) -> Result<Option<Inherited>, RunError> {
        let Some(VideoPlan::Encode(plan)) = &self.job.rendition.video else { return Ok(None) };
        match &plan.burn {
            None | Some(BurnedSubtitle::Embedded { bitmap: true, .. }) => Ok(None),
            Some(BurnedSubtitle::Sidecar { bitmap: true, .. }) => {
                let missing = || RunError::Internal("the subtitle file is missing".into());
                Ok(Some(self.job.sidecar.clone().ok_or_else(missing)? as Inherited))
            }
            Some(text) => Ok(Some(self.ffmpeg.scripts.of(&self.ffmpeg.program, &self.job, text).await?)),
        }
    }

    /// Handles a child that ended before the end of the grid.
    async fn ended(&mut self, cutter: &mut Segmenter, exit: &Exit) -> Result<(), RunError> {
        if !exit.success() {
            self.check_unchanged().await?;
            return Err(blame(exit));
        }
        let pieces = cutter.finish().map_err(|cause| RunError::SourceRead(cause.to_string()))?;
        self.deliver(pieces).await?;
        if cutter.current_segment() == self.job.first {
            self.check_unchanged().await?;
            let why = exit.stderr.last().map_or("the source file ends before it", String::as_str);
            return Err(RunError::SourceRead(format!("no output for segment {}: {why}", self.job.first)));
        }
        Ok(())
    }

    async fn deliver(&mut self, pieces: Vec<FinishedSegment>) -> Result<(), RunError> {
        if !pieces.is_empty() {
            self.check_unchanged().await?;
        }
        for piece in pieces {
            let segment = Segment { index: piece.index, content: piece.bytes.into() };
            // An error means the run was dropped, which the main loop notices.
            let _ = self.segments.send(Ok(segment)).await;
        }
        Ok(())
    }

    async fn check_unchanged(&self) -> Result<(), RunError> {
        let source = self.job.source.clone();
        // On a blocking thread because a network mount may hang.
        let unchanged = tokio::task::spawn_blocking(move || source.holds_the_same());
        if unchanged.await.unwrap_or(false) { Ok(()) } else { Err(RunError::SourceChanged) }
    }
}

fn cut(job: &Job) -> SegmenterSettings {
    let Rendition { video, audio } = &*job.rendition;
    SegmenterSettings {
        grid: job.grid.clone(),
        first_segment: job.first,
        base_timestamp: TIMELINE_BASE_SECONDS * TICKS_PER_SECOND,
        has_video: video.is_some(),
        audio: audio.as_ref().map(|plan| match plan {
            AudioPlan::Copy { .. } => AudioMode::Copied,
            AudioPlan::Encode { .. } => AudioMode::Encoded,
        }),
        budget_bytes: BUDGET_BYTES,
    }
}

/// The kind of failure, judged by ffmpeg's error messages.
fn blame(exit: &Exit) -> RunError {
    let said = exit.stderr.last().cloned().unwrap_or_else(|| "ffmpeg gave no error message".into());
    if let Some(signal) = exit.signal {
        return RunError::Decode(format!("ffmpeg was ended by signal {signal}"));
    }
    let any = |words: &[&str]| exit.stderr.iter().any(|line| words.iter().any(|word| line.contains(word)));
    if any(&["opening encoder", "Unknown encoder", "Could not open encoder"]) {
        RunError::Encoder(said)
    } else if any(&["Input/output error", "Invalid data found when processing input", "moov atom not found"]) {
        RunError::SourceRead(said)
    } else {
        RunError::Decode(said)
    }
}
