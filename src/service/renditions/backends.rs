//! Which backend makes a rendition's segments: the packager, GStreamer in this process, or ffmpeg.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use tokio::sync::OnceCell;

use crate::config::{BackendSetting, Config};
use crate::domain::plan::{EncodeVideo, Rendition, VideoPlan};
use crate::domain::subtitles::TextStyle;
use crate::engine::fallback::FallbackBackend;
use crate::engine::ffmpeg::FfmpegBackend;
use crate::engine::gst::{self, GstBackend};
use crate::engine::packager::Packager;
use crate::engine::worker::message::EngineReport;
use crate::engine::{Backend, Job, RenditionSpec, Run, RunError};
use crate::error::{Code, Error, Result};
use crate::service::media::quarantine::Quarantine;

/// Kinds of work that `auto` distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkKind {
    /// Video is encoded, with or without audio.
    Video,
    /// Video is encoded with text burned in.
    VideoWithText,
    /// Audio only.
    AudioOnly,
}

/// The work that `auto` gives to GStreamer, because it is faster there than in ffmpeg: bench row `backends`
/// (`tests/bench/README.md`). When both take equally long, ffmpeg is preferred, because it runs in its own process.
const GSTREAMER_WORK: [WorkKind; 1] = [WorkKind::AudioOnly];

impl WorkKind {
    fn of_rendition(rendition: &Rendition) -> Self {
        match &rendition.video {
            Some(VideoPlan::Encode(plan)) if plan.burn.is_some() => Self::VideoWithText,
            Some(_) => Self::Video,
            None => Self::AudioOnly,
        }
    }

    fn uses_gstreamer(self, setting: BackendSetting) -> bool {
        match setting {
            BackendSetting::Ffmpeg => false,
            BackendSetting::Gstreamer => true,
            BackendSetting::Auto => GSTREAMER_WORK.contains(&self),
        }
    }
}

/// The backends of this machine.
pub struct Backends {
    setting: BackendSetting,
    program: PathBuf,
    text_style: TextStyle,
    /// Found at the first start, because querying ffmpeg takes a moment.
    ffmpeg: OnceCell<Arc<dyn Backend>>,
    gstreamer: OnceCell<std::result::Result<Arc<QuarantinedBackend>, String>>,
    quarantine: Option<Arc<Quarantine>>,
    /// Set by tests: the backend for everything.
    forced: OnceLock<Arc<dyn Backend>>,
}

/// A backend, and why it was chosen.
#[derive(Clone)]
pub struct ChosenBackend {
    pub backend: Arc<dyn Backend>,
    pub reason: &'static str,
}

impl Backends {
    pub fn new(config: &Config, quarantine: Option<Arc<Quarantine>>) -> Self {
        let (ffmpeg, gstreamer, forced) = (OnceCell::new(), OnceCell::new(), OnceLock::new());
        Self {
            setting: config.backend,
            program: config.ffmpeg.clone(),
            text_style: config.text_style(),
            ffmpeg,
            gstreamer,
            quarantine,
            forced,
        }
    }

    /// Uses `backend` for everything, whatever ffmpeg this machine has. To be called before the first start.
    pub fn force(&self, backend: Arc<dyn Backend>) {
        let _ = self.forced.set(backend);
    }

    /// Finds the backends before the first start.
    ///
    /// # Errors
    /// `TRANSCODER_UNAVAILABLE`.
    pub async fn find_backends(&self) -> Result<()> {
        if self.setting == BackendSetting::Gstreamer
            || self.setting == BackendSetting::Auto && !GSTREAMER_WORK.is_empty()
        {
            let _ = self.gstreamer().await;
        }
        self.ffmpeg().await.map(|_| ())
    }

    /// The backend for a rendition.
    ///
    /// # Errors
    /// `TRANSCODER_UNAVAILABLE`.
    pub async fn choose(&self, spec: &RenditionSpec) -> Result<ChosenBackend> {
        if spec.package.is_some() {
            return Ok(ChosenBackend {
                backend: Arc::new(Packager),
                reason: "copied from the file without re-encoding",
            });
        }
        if let Some(forced) = self.forced.get() {
            return Ok(ChosenBackend { backend: forced.clone(), reason: "only backend available" });
        }
        let use_ffmpeg = |backend, reason| Ok(ChosenBackend { backend, reason });
        if self.setting == BackendSetting::Ffmpeg {
            return use_ffmpeg(self.ffmpeg().await?, "configured");
        }
        let Ok(gstreamer) = self.gstreamer().await else {
            return use_ffmpeg(self.ffmpeg().await?, "GStreamer elements are missing");
        };
        if let Some(reason) = gst::refusal_reason(&spec.media, &spec.rendition, &gstreamer.report) {
            return use_ffmpeg(self.ffmpeg().await?, reason);
        }
        if !WorkKind::of_rendition(&spec.rendition).uses_gstreamer(self.setting) {
            return use_ffmpeg(self.ffmpeg().await?, "GStreamer measured no better for this kind of work");
        }
        let gstreamer: Arc<dyn Backend> = gstreamer;
        let Ok(ffmpeg) = self.ffmpeg().await else {
            return Ok(ChosenBackend { backend: gstreamer, reason: "ffmpeg is missing" });
        };
        let reason = match self.setting {
            BackendSetting::Gstreamer => "configured",
            _ => "GStreamer measured better for this kind of work",
        };
        Ok(ChosenBackend { backend: Arc::new(FallbackBackend::new(gstreamer, ffmpeg)), reason })
    }

    async fn ffmpeg(&self) -> Result<Arc<dyn Backend>> {
        if let Some(forced) = self.forced.get() {
            return Ok(forced.clone());
        }
        let backend = self.ffmpeg.get_or_try_init(|| async {
            let program = self.program.clone();
            let backend = tokio::task::spawn_blocking(move || FfmpegBackend::with_program(&program))
                .await
                .map_err(Error::internal)?;
            let missing = |why| Error::new(Code::TranscoderUnavailable, "no usable ffmpeg was found").with_cause(why);
            let backend = backend.map_err(missing)?.with_text_style(self.text_style.clone());
            Ok::<_, Error>(Arc::new(backend) as Arc<dyn Backend>)
        });
        backend.await.cloned()
    }

    /// GStreamer with all required elements; missing ones are logged once.
    async fn gstreamer(&self) -> std::result::Result<Arc<QuarantinedBackend>, String> {
        let found = self.gstreamer.get_or_init(|| async {
            let examined = tokio::task::spawn_blocking(gst::examine).await;
            let report = examined.unwrap_or_else(|cause| Err(cause.to_string()));
            let with_quarantine = |report: EngineReport| {
                gst::check_report(&report)?;
                let report = Arc::new(report);
                let backend = GstBackend::new(report.clone()).with_text_style(self.text_style.clone());
                Ok(Arc::new(QuarantinedBackend { backend, report, quarantine: self.quarantine.clone() }))
            };
            report
                .and_then(with_quarantine)
                .inspect_err(|cause| tracing::warn!(cause, "the GStreamer backend is not available"))
        });
        found.await.clone()
    }
}

/// GStreamer, with a quarantine mark for every file before it is read: a file that crashes the server is left to ffmpeg
/// afterwards.
struct QuarantinedBackend {
    backend: GstBackend,
    report: Arc<EngineReport>,
    quarantine: Option<Arc<Quarantine>>,
}

impl Backend for QuarantinedBackend {
    fn name(&self) -> &'static str {
        self.backend.name()
    }

    fn version(&self) -> &str {
        self.backend.version()
    }

    fn video_encoder(&self, plan: &EncodeVideo) -> Option<&'static str> {
        self.backend.video_encoder(plan)
    }

    fn audio_encoder(&self) -> &'static str {
        self.backend.audio_encoder()
    }

    fn start(&self, job: Job, last_allowed: usize) -> std::result::Result<Run, RunError> {
        let quarantine = self.quarantine.as_ref();
        let mark = quarantine.map(|quarantine| quarantine.mark_reading(&job.spec.fingerprint, &job.spec.source.path));
        if matches!(mark, Some(None)) {
            return Err(RunError::Internal("the server crashed while it read this file".into()));
        }
        self.backend.start(job, last_allowed)
    }
}
