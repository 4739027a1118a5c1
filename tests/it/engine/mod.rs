mod captions;
mod copy;
mod draw;
mod encode;
mod index;
mod leaks;
mod life;
mod native;
mod package;
mod seams;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hearthcast::domain::grid::Grid;
use hearthcast::domain::media::{Container, Media, StreamKind};
use hearthcast::domain::plan::{AudioPlan, EncodeVideo, Rendition, VideoPlan};
use hearthcast::domain::time::FrameRate;
use hearthcast::engine::ffmpeg::FfmpegBackend;
use hearthcast::engine::gst::GstBackend;
use hearthcast::engine::packager::Package;
use hearthcast::engine::source::SourceFile;
use hearthcast::engine::{Job, Run, RunError, Segment, Backend};

use crate::kit::film;

const FPS25: FrameRate = FrameRate { num: 25, den: 1 };

/// A film and the rendition to be made of it.
struct Bench {
    folder: tempfile::TempDir,
    source: Arc<SourceFile>,
    media: Arc<Media>,
    /// The backend that makes the segments; ffmpeg by default.
    producer: Arc<dyn Backend>,
    rendition: Arc<Rendition>,
    grid: Arc<Grid>,
    package: Option<Arc<Package>>,
}

impl Bench {
    /// A film of flashes and beeps, to be encoded completely.
    fn encoding(name: &str, container: Container, seconds: u32, made_by: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        film::flash_and_beep(&path, seconds, made_by);
        Self::over(folder, &path, container, FPS25, f64::from(seconds))
    }

    fn over(folder: tempfile::TempDir, path: &Path, container: Container, rate: FrameRate, seconds: f64) -> Self {
        let media = film::media(path, container);
        let stream = |video: bool| {
            if video { media.video_streams().next().map(|s| s.0.index) } else { media.audio_streams().next().map(|s| s.0.index) }
        };
        let video = stream(true).map(|stream| {
            VideoPlan::Encode(EncodeVideo {
                stream,
                width: 320,
                height: 180,
                frame_rate,
                deinterlace: false,
                tone_map: None,
                burn: None,
                watermark: None,
                max_kbps: 2000,
                encoder: "libx264".into(),
            })
        });
        let audio = stream(false).map(|stream| AudioPlan::Encode { stream, channels: 2, kbps: 128, gain_tenths_db: None });
        let grid = if video.is_some() { Grid::from_frame_rate(rate, 2.0, seconds) } else { Grid::from_step(2.0, seconds) };
        Self {
            source: film::open(path),
            folder,
            media: Arc::new(media),
            producer: Arc::new(FfmpegBackend::detect().unwrap()),
            rendition: Arc::new(Rendition { video, audio }),
            grid: Arc::new(grid),
            package: None,
        }
    }

    /// Switches to GStreamer in this process.
    fn natively(mut self) -> Self {
        self.producer = Arc::new(GstBackend::detect().unwrap());
        self
    }

    fn job(&self, first: usize) -> Job {
        Job {
            source: self.source.clone(),
            sidecar: None,
            watermark: None,
            package: self.package.clone(),
            media: self.media.clone(),
            rendition: self.rendition.clone(),
            grid: self.grid.clone(),
            first,
            quarantine_mark: None,
        }
    }

    fn start(&self, first: usize, through: usize) -> Run {
        self.producer.start(self.job(first), through).unwrap()
    }

    /// All segments, made by one run.
    async fn all(&self) -> Vec<Made> {
        self.made(0, usize::MAX).await
    }

    /// One segment, made by its own run.
    async fn one(&self, index: usize) -> Made {
        self.made(index, index).await.swap_remove(0)
    }

    /// The segments of one run, up to `through`.
    async fn made(&self, first: usize, through: usize) -> Vec<Made> {
        let mut run = self.start(first, through);
        let mut segments = Vec::new();
        while first + segments.len() <= through
            && let Some(segment) = next(&mut run).await
        {
            segments.push(Made::of(segment.unwrap(), &self.source).await);
        }
        segments
    }

    fn write<'a>(&self, name: &str, segments: impl IntoIterator<Item = &'a Made>) -> PathBuf {
        let path = self.folder.path().join(name);
        let bytes: Vec<u8> = segments.into_iter().flat_map(|segment| segment.bytes.iter().copied()).collect();
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

/// A segment with its bytes.
struct Made {
    index: usize,
    bytes: Bytes,
}

impl Made {
    async fn of(segment: Segment, source: &Arc<SourceFile>) -> Self {
        Self { index: segment.index, bytes: segment.content.read_all(source).await.unwrap() }
    }
}

async fn next(run: &mut Run) -> Option<Result<Segment, RunError>> {
    tokio::time::timeout(Duration::from_secs(60), run.next()).await.expect("a segment within a minute")
}
