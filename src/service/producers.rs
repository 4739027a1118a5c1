//! Which backend makes a rendition's segments: the packager, GStreamer in this process, or ffmpeg.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use tokio::sync::OnceCell;

use super::quarantine::Quarantine;
use super::runs::Work;
use crate::config::{BackendSetting, Config};
use crate::domain::plan::{Rendition, VideoPlan};
use crate::domain::subtitles::TextStyle;
use crate::engine::fallback::FallbackBackend;
use crate::engine::ffmpeg::FfmpegBackend;
use crate::engine::gst::{self, GstBackend};
use crate::engine::packager::Packager;
use crate::engine::{Job, Run, RunError, Backend};
use crate::error::{Code, Error, Result};

/// Kinds of work that `auto` distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Video is encoded, with or without audio.
    Picture,
    /// Video is encoded with text burned in.
    Drawn,
    /// Audio only.
    Sound,
}

/// The work that `auto` gives to GStreamer. Ratios of GStreamer to ffmpeg in the bench's row `native`
/// (`tests/bench/README.md`; release build; first segment from the start, first segment in the middle, all segments,
/// processor time): audio 0.73, 0.83, 0.81, 0.89; video from mp4 1.02, 1.03, 1.00, 1.00; with burned-in text 1.04, 0.97,
/// 1.01, 1.00. When both take equally long, ffmpeg is preferred, because it runs in its own process.
const NATIVE: [Kind; 1] = [Kind::Sound];

impl Kind {
    fn of(rendition: &Rendition) -> Self {
        match &rendition.video {
            Some(VideoPlan::Encode(plan)) if plan.burn.is_some() => Self::Drawn,
            Some(_) => Self::Picture,
            None => Self::Sound,
        }
    }

    fn by_gstreamer(self, backend: BackendSetting) -> bool {
        match backend {
            BackendSetting::Ffmpeg => false,
            BackendSetting::Gstreamer => true,
            BackendSetting::Auto => NATIVE.contains(&self),
        }
    }
}

/// The backends of this machine.
pub struct Producers {
    backend: BackendSetting,
    program: PathBuf,
    text_style: TextStyle,
    /// Found at the first start, because querying ffmpeg takes a moment.
    ffmpeg: OnceCell<Arc<dyn Backend>>,
    native: OnceCell<std::result::Result<Arc<Marked>, String>>,
    quarantine: Option<Arc<Quarantine>>,
    /// Set by tests: the backend for everything.
    only: OnceLock<Arc<dyn Backend>>,
}

/// A backend, and why it was chosen.
#[derive(Clone)]
pub struct Chosen {
    pub transcoder: Arc<dyn Backend>,
    pub reason: &'static str,
}

impl Producers {
    pub fn new(config: &Config, quarantine: Option<Arc<Quarantine>>) -> Self {
        let (ffmpeg, native, only) = (OnceCell::new(), OnceCell::new(), OnceLock::new());
        Self {
            backend: config.backend,
            program: config.ffmpeg.clone(),
            text_style: config.text_style.clone(),
            ffmpeg,
            native,
            quarantine,
            only,
        }
    }

    /// Uses `transcoder` for everything. To be called before the first start.
    pub fn set(&self, transcoder: Arc<dyn Backend>) {
        let _ = self.only.set(transcoder);
    }

    /// Finds the backends before the first start.
    ///
    /// # Errors
    /// `TRANSCODER_UNAVAILABLE`.
    pub async fn warm(&self) -> Result<()> {
        if self.backend == BackendSetting::Gstreamer || self.backend == BackendSetting::Auto && !NATIVE.is_empty() {
            let _ = self.native().await;
        }
        self.ffmpeg().await.map(|_| ())
    }

    /// The backend for a rendition.
    ///
    /// # Errors
    /// `TRANSCODER_UNAVAILABLE`.
    pub async fn choose(&self, work: &Work) -> Result<Chosen> {
        if work.package.is_some() {
            return Ok(Chosen { transcoder: Arc::new(Packager), reason: "copied from the file without re-encoding" });
        }
        if let Some(only) = self.only.get() {
            return Ok(Chosen { transcoder: only.clone(), reason: "only backend available" });
        }
        let by_ffmpeg = |transcoder, reason| Ok(Chosen { transcoder, reason });
        if self.backend == BackendSetting::Ffmpeg {
            return by_ffmpeg(self.ffmpeg().await?, "configured");
        }
        if let Some(why) = gst::refusal_reason(&work.media, &work.rendition) {
            return by_ffmpeg(self.ffmpeg().await?, why);
        }
        if !Kind::of(&work.rendition).by_gstreamer(self.backend) {
            return by_ffmpeg(self.ffmpeg().await?, "GStreamer measured no better for this kind of work");
        }
        let Ok(native) = self.native().await else {
            return by_ffmpeg(self.ffmpeg().await?, "GStreamer elements are missing");
        };
        let native: Arc<dyn Backend> = native;
        let Ok(ffmpeg) = self.ffmpeg().await else {
            return Ok(Chosen { transcoder: native, reason: "ffmpeg is missing" });
        };
        let reason = match self.backend {
            BackendSetting::Gstreamer => "configured",
            _ => "GStreamer measured better for this kind of work",
        };
        Ok(Chosen { transcoder: Arc::new(FallbackBackend::new(native, ffmpeg)), reason })
    }

    async fn ffmpeg(&self) -> Result<Arc<dyn Backend>> {
        if let Some(only) = self.only.get() {
            return Ok(only.clone());
        }
        let found = self.ffmpeg.get_or_try_init(|| async {
            let program = self.program.clone();
            let found = tokio::task::spawn_blocking(move || FfmpegBackend::with_program(&program)).await.map_err(Error::internal)?;
            let missing =
                |cause| Error::new(Code::TranscoderUnavailable, "no usable ffmpeg was found").with_cause(cause);
            let found = found.map_err(missing)?.with_text_style(self.text_style.clone());
            Ok::<_, Error>(Arc::new(found) as Arc<dyn Backend>)
        });
        found.await.cloned()
    }

    /// GStreamer with all required elements; missing ones are logged once.
    async fn native(&self) -> std::result::Result<Arc<Marked>, String> {
        let found = self.native.get_or_init(|| async {
            let found = tokio::task::spawn_blocking(GstBackend::detect).await.unwrap_or_else(|cause| Err(cause.to_string()));
            let marked = |native: GstBackend| {
                let native = native.with_text_style(self.text_style.clone());
                Arc::new(Marked { native, quarantine: self.quarantine.clone() })
            };
            found.map(marked).inspect_err(|cause| tracing::warn!(cause, "the GStreamer backend is not available"))
        });
        found.await.clone()
    }
}

/// GStreamer, with a quarantine mark for every file before it is read: a file that crashes the server is left to ffmpeg
/// afterwards.
struct Marked {
    native: GstBackend,
    quarantine: Option<Arc<Quarantine>>,
}

impl Backend for Marked {
    fn name(&self) -> &'static str {
        self.native.name()
    }

    fn version(&self) -> &str {
        self.native.version()
    }

    fn video_encoder(&self, planned: &str) -> Option<&'static str> {
        self.native.video_encoder(planned)
    }

    fn audio_encoder(&self) -> &'static str {
        self.native.audio_encoder()
    }

    fn start(&self, mut job: Job, through: usize) -> std::result::Result<Run, RunError> {
        if let Some(quarantine) = &self.quarantine {
            let name = job.source.fingerprint().map_err(|cause| RunError::SourceRead(cause.to_string()))?;
            let mark = quarantine.enter(name, &job.source.path);
            let mark = mark.ok_or_else(|| RunError::Internal("the server crashed while it read this file".into()))?;
            job.quarantine_mark = Some(Arc::new(mark));
        }
        self.native.start(job, through)
    }
}
