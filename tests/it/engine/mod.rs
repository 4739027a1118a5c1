mod audio_parity;
mod bitmap_subtitles;
mod burn_in;
mod cmaf;
mod cmaf_checker;
mod cmaf_copy;
mod cmaf_encode;
mod cmaf_films;
mod containers;
mod copy;
mod encode;
mod gstreamer_backend;
mod index;
mod leaks;
mod lifecycle;
mod nfo;
mod package;
mod picture_parity;
mod seams;
mod stills;
mod workers;

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use hearthcast::domain::codec::TargetCodec;
use hearthcast::domain::grid::Grid;
use hearthcast::domain::media::{Container, Media, StreamKind};
use hearthcast::domain::plan::{AudioPlan, EncodeVideo, Rendition, VideoPlan};
use hearthcast::domain::time::FrameRate;
use hearthcast::engine::ffmpeg::FfmpegBackend;
use hearthcast::engine::gst::{self, GstBackend};
use hearthcast::engine::image::Image;
use hearthcast::engine::packager::Package;
use hearthcast::engine::source::SourceFile;
use hearthcast::engine::worker::message::{EngineReport, TrialScope};
use hearthcast::engine::{Backend, Job, RenditionSpec, Run, RunError, Segment};

use crate::kit::media;
use crate::kit::wait::MAX_WAIT;

const FPS25: FrameRate = FrameRate { num: 25, den: 1 };

/// The report about GStreamer on this machine.
fn engine_report() -> &'static Arc<EngineReport> {
    static REPORT: LazyLock<Arc<EngineReport>> = LazyLock::new(|| Arc::new(gst::examine(TrialScope::All).unwrap()));
    &REPORT
}

/// The ffmpeg backend, which queries this machine's ffmpeg once.
fn ffmpeg_backend() -> &'static FfmpegBackend {
    static BACKEND: LazyLock<FfmpegBackend> = LazyLock::new(|| FfmpegBackend::detect().unwrap());
    &BACKEND
}

/// The media files of the corpus with these extensions, by name; none without a corpus. Files that cannot be probed and the long
/// film are left out. `CORPUS_ONLY` selects by a part of the file name.
fn corpus_films(extensions: &[&str]) -> Vec<(String, PathBuf)> {
    let Some(corpus) = std::env::var_os("HEARTHCAST_CORPUS") else { return Vec::new() };
    let filter = std::env::var("CORPUS_ONLY").unwrap_or_default();
    let mut films = Vec::new();
    for part in ["video", "audio", "broken"] {
        for entry in std::fs::read_dir(Path::new(&corpus).join(part)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let extension = path.extension().and_then(|text| text.to_str()).unwrap_or_default().to_lowercase();
            let is_selected = !name.starts_with("2h") && name.contains(&filter);
            if !is_selected || !extensions.contains(&&*extension) {
                continue;
            }
            let report = media::ffprobe(&path, &["-show_streams", "-show_format"]);
            if report["streams"].as_array().is_some_and(|streams| !streams.is_empty()) {
                films.push((format!("{part}/{name}"), path));
            }
        }
    }
    films.sort();
    films
}

/// A film and the rendition to be made of it.
struct Bench {
    folder: tempfile::TempDir,
    source: Arc<SourceFile>,
    media: Arc<Media>,
    /// The backend that makes the segments; ffmpeg by default.
    backend: Arc<dyn Backend>,
    rendition: Arc<Rendition>,
    grid: Arc<Grid>,
    package: Option<Arc<Package>>,
    watermark: Option<Arc<Image>>,
}

impl Bench {
    /// A film of flashes and beeps, to be encoded completely.
    fn of_new_film(name: &str, container: Container, seconds: u32, encoder_args: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        media::flash_and_beep(&path, seconds, encoder_args);
        Self::of_file(folder, &path, container, FPS25, f64::from(seconds))
    }

    fn of_file(
        folder: tempfile::TempDir,
        path: &Path,
        container: Container,
        frame_rate: FrameRate,
        seconds: f64,
    ) -> Self {
        let media = media::probe_media(path, container);
        let stream = |video: bool| {
            if video {
                media.video_streams().next().map(|s| s.0.index)
            } else {
                media.audio_streams().next().map(|s| s.0.index)
            }
        };
        let video = stream(true).map(|stream| {
            VideoPlan::Encode(EncodeVideo {
                stream,
                width: 320,
                height: 180,
                frame_rate,
                deinterlace: false,
                has_frame_per_field: false,
                tone_map: None,
                burn: None,
                watermark: None,
                max_kbps: 2000,
                codec: TargetCodec::H264,
                encoder: "libx264".into(),
            })
        });
        let audio =
            stream(false).map(|stream| AudioPlan::Encode { stream, channels: 2, kbps: 128, gain_tenths_db: None });
        let grid = if video.is_some() {
            Grid::from_frame_rate(frame_rate, 2.0, seconds)
        } else {
            Grid::from_step(2.0, seconds)
        };
        Self {
            source: media::open(path),
            folder,
            media: Arc::new(media),
            backend: Arc::new(ffmpeg_backend().clone()),
            rendition: Arc::new(Rendition { video, audio, ..Rendition::default() }),
            grid: Arc::new(grid),
            package: None,
            watermark: None,
        }
    }

    /// Switches to GStreamer in this process.
    fn with_gstreamer(mut self) -> Self {
        self.backend = Arc::new(GstBackend::new(engine_report().clone()));
        self
    }

    fn job(&self, first: usize) -> Job {
        self.job_with_sidecar(None, first)
    }

    fn job_with_sidecar(&self, sidecar: Option<&Arc<SourceFile>>, first: usize) -> Job {
        let spec = RenditionSpec {
            source: self.source.clone(),
            fingerprint: "f_0".to_owned(),
            media: self.media.clone(),
            rendition: self.rendition.clone(),
            grid: self.grid.clone(),
            sidecar: sidecar.cloned(),
            watermark: self.watermark.clone(),
            package: self.package.clone(),
        };
        Job::new(Arc::new(spec), first)
    }

    fn start(&self, first: usize, through: usize) -> Run {
        self.backend.start(self.job(first), through).unwrap()
    }

    /// All segments, made by one run.
    async fn all_segments(&self) -> Vec<SegmentBytes> {
        self.run_segments(0, usize::MAX).await
    }

    /// One segment, made by its own run.
    async fn single_segment(&self, index: usize) -> SegmentBytes {
        self.run_segments(index, index).await.swap_remove(0)
    }

    /// The segments of one run, up to `through`.
    async fn run_segments(&self, first: usize, through: usize) -> Vec<SegmentBytes> {
        let mut run = self.start(first, through);
        let mut segments = Vec::new();
        while first + segments.len() <= through
            && let Some(segment) = next_segment(&mut run).await
        {
            segments.push(SegmentBytes::read(segment.unwrap(), &self.source).await);
        }
        segments
    }

    fn write_joined<'a>(&self, name: &str, segments: impl IntoIterator<Item = &'a SegmentBytes>) -> PathBuf {
        let path = self.folder.path().join(name);
        let bytes: Vec<u8> = segments.into_iter().flat_map(|segment| segment.bytes.iter().copied()).collect();
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

/// A segment with its bytes.
struct SegmentBytes {
    index: usize,
    bytes: Bytes,
}

impl SegmentBytes {
    async fn read(segment: Segment, source: &Arc<SourceFile>) -> Self {
        Self { index: segment.index, bytes: segment.content.read_all(source).await.unwrap() }
    }
}

async fn next_segment(run: &mut Run) -> Option<Result<Segment, RunError>> {
    tokio::time::timeout(MAX_WAIT, run.next()).await.expect("a segment")
}
