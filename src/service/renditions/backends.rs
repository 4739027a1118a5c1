//! Which backend makes a rendition's segments: the packager, GStreamer or ffmpeg.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use tokio::sync::OnceCell;

use crate::config::{BackendSetting, Config};
use crate::domain::plan::{Rendition, VideoPlan};
use crate::domain::segment_format::SegmentFormat;
use crate::domain::subtitles::TextStyle;
use crate::engine::cmaf_converter::CmafConverter;
use crate::engine::fallback::FallbackBackend;
use crate::engine::ffmpeg::FfmpegBackend;
use crate::engine::gst::{self, GstBackend};
use crate::engine::packager::Packager;
use crate::engine::worker::message::EngineReport;
use crate::engine::worker::{Isolation, WorkerBackend};
use crate::engine::{Backend, RenditionSpec};
use crate::error::{Code, Error, Result};
use crate::service::quarantine::Quarantine;

/// Kinds of work that `auto` distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkKind {
    /// Video is copied, with or without audio.
    CopiedVideo,
    /// Video is encoded, with or without audio.
    Video,
    /// Video is encoded with text or bitmaps burned in.
    VideoWithSubtitles,
    /// Audio only.
    AudioOnly,
}

/// The backend that `auto` takes for a kind of work, and why.
struct AutoChoice {
    uses_gstreamer: bool,
    reason: &'static str,
}

impl WorkKind {
    const ALL: [Self; 4] = [Self::CopiedVideo, Self::Video, Self::VideoWithSubtitles, Self::AudioOnly];

    fn of_rendition(rendition: &Rendition) -> Self {
        match &rendition.video {
            Some(VideoPlan::Copy { .. }) => Self::CopiedVideo,
            Some(VideoPlan::Encode(plan)) if plan.burn.is_some() => Self::VideoWithSubtitles,
            Some(VideoPlan::Encode(_)) => Self::Video,
            None => Self::AudioOnly,
        }
    }

    /// By bench row `backends` (`tests/bench/README.md`): GStreamer where its first segment and the first after a jump come no later,
    /// and a whole film takes at most a sixth longer.
    fn auto_choice(self) -> AutoChoice {
        let (uses_gstreamer, reason) = match self {
            Self::CopiedVideo => (false, "ffmpeg copies video in an eighth of the processor time"),
            Self::Video => (true, "GStreamer starts faster"),
            Self::VideoWithSubtitles => (false, "ffmpeg burns subtitles in with less processor time"),
            Self::AudioOnly => (true, "GStreamer is faster"),
        };
        AutoChoice { uses_gstreamer, reason }
    }
}

/// The backends of this machine.
pub struct Backends {
    setting: BackendSetting,
    program: PathBuf,
    text_style: TextStyle,
    isolation: Isolation,
    quarantine: Option<Quarantine>,
    /// Found at the first start, because querying ffmpeg takes a moment.
    ffmpeg: OnceCell<Arc<dyn Backend>>,
    gstreamer: OnceCell<std::result::Result<FoundGstreamer, String>>,
    /// Set by tests: the backend for everything, in any format.
    forced: OnceLock<Arc<dyn Backend>>,
}

/// GStreamer with all required elements.
struct FoundGstreamer {
    backend: Arc<dyn Backend>,
    report: Arc<EngineReport>,
}

/// A backend, and why it was chosen.
#[derive(Clone)]
pub struct ChosenBackend {
    pub backend: Arc<dyn Backend>,
    pub reason: &'static str,
}

impl Backends {
    pub fn new(config: &Config, isolation: Isolation, quarantine: Option<Quarantine>) -> Self {
        Self {
            setting: config.backend,
            program: config.ffmpeg.clone(),
            text_style: config.text_style(),
            isolation,
            quarantine,
            ffmpeg: OnceCell::new(),
            gstreamer: OnceCell::new(),
            forced: OnceLock::new(),
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
        let uses_gstreamer = match self.setting {
            BackendSetting::Gstreamer => true,
            BackendSetting::Ffmpeg => false,
            BackendSetting::Auto => WorkKind::ALL.into_iter().any(|kind| kind.auto_choice().uses_gstreamer),
        };
        if uses_gstreamer {
            let _ = self.gstreamer().await;
        }
        self.ffmpeg().await.map(|_| ())
    }

    /// The backend for a rendition. All but the packager make CMAF by conversion.
    ///
    /// # Errors
    /// `TRANSCODER_UNAVAILABLE`.
    pub async fn choose(&self, spec: &RenditionSpec) -> Result<ChosenBackend> {
        let chosen = self.choose_backend(spec).await?;
        if spec.rendition.format != SegmentFormat::Fmp4 || spec.package.is_some() || self.forced.get().is_some() {
            return Ok(chosen);
        }
        Ok(ChosenBackend { backend: Arc::new(CmafConverter::new(chosen.backend)), ..chosen })
    }

    async fn choose_backend(&self, spec: &RenditionSpec) -> Result<ChosenBackend> {
        if spec.package.is_some() {
            return Ok(ChosenBackend {
                backend: Arc::new(Packager),
                reason: "copied from the file without re-encoding",
            });
        }
        if let Some(forced) = self.forced.get() {
            return Ok(ChosenBackend { backend: forced.clone(), reason: "only backend available" });
        }
        let (gstreamer, reason) = match self.choose_gstreamer(spec).await {
            Ok(chosen) => chosen,
            Err(reason) => return Ok(ChosenBackend { backend: self.ffmpeg().await?, reason }),
        };
        let Ok(ffmpeg) = self.ffmpeg().await else {
            return Ok(ChosenBackend { backend: gstreamer, reason: "ffmpeg is missing" });
        };
        Ok(ChosenBackend { backend: Arc::new(FallbackBackend::new(gstreamer, ffmpeg)), reason })
    }

    /// GStreamer for a rendition, and why; the error is why ffmpeg makes it.
    async fn choose_gstreamer(
        &self,
        spec: &RenditionSpec,
    ) -> std::result::Result<(Arc<dyn Backend>, &'static str), &'static str> {
        let reason = match self.setting {
            BackendSetting::Ffmpeg => return Err("configured"),
            BackendSetting::Gstreamer => "configured",
            BackendSetting::Auto => {
                let choice = WorkKind::of_rendition(&spec.rendition).auto_choice();
                if !choice.uses_gstreamer {
                    return Err(choice.reason);
                }
                choice.reason
            }
        };
        let found = self.gstreamer().await.map_err(|_| "GStreamer is not available")?;
        if let Some(reason) = gst::refusal_reason(&spec.media, &spec.rendition, &found.report) {
            return Err(reason);
        }
        if self.quarantine.as_ref().is_some_and(|quarantine| quarantine.refuses_run(spec)) {
            return Err("this file is in quarantine after a crash");
        }
        Ok((found.backend.clone(), reason))
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

    /// GStreamer with all required elements; missing ones are logged once. An examination that failed is repeated at the
    /// next start.
    async fn gstreamer(&self) -> std::result::Result<&FoundGstreamer, String> {
        let found = self.gstreamer.get_or_try_init(|| async {
            let report = self.isolation.examine().await?;
            if let Err(cause) = gst::check_report(&report) {
                tracing::warn!(cause, "the GStreamer backend is not available");
                return Ok(Err(cause));
            }
            let style = self.text_style.clone();
            let backend: Arc<dyn Backend> = match &self.isolation {
                Isolation::Process(pool) => Arc::new(WorkerBackend::new(pool.clone(), report.clone(), style)),
                Isolation::None => Arc::new(GstBackend::new(report.clone()).with_text_style(style)),
            };
            Ok::<_, String>(Ok(FoundGstreamer { backend, report }))
        });
        let found = found.await.inspect_err(|cause| tracing::warn!(cause, "GStreamer could not be examined"))?;
        found.as_ref().map_err(Clone::clone)
    }
}
