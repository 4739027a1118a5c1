//! Which backend makes a rendition's segments: the packager, GStreamer or ffmpeg.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tokio::sync::OnceCell;

use crate::config::{BackendSetting, Config};
use crate::domain::plan::{EncodeVideo, Rendition, VideoPlan};
use crate::domain::segment_format::SegmentFormat;
use crate::domain::subtitles::TextStyle;
use crate::engine::cmaf_converter::CmafConverter;
use crate::engine::fallback::FallbackBackend;
use crate::engine::ffmpeg::FfmpegBackend;
use crate::engine::ffmpeg_decoders::find_decoder_report;
use crate::engine::ffmpeg_encoders::encoder_report;
use crate::engine::gst::{self, GstBackend};
use crate::engine::hardware_devices::DeviceWatch;
use crate::engine::packager::Packager;
use crate::engine::remote::{Cluster, RemoteBackend};
use crate::engine::renewable_cell::RenewableCell;
use crate::engine::software_encoding::SoftwareEncoding;
use crate::engine::video_decoders::{HardwareDecoder, TRIAL_FORMATS};
use crate::engine::video_encoders::{VideoEncoder, is_hardware_element};
use crate::engine::worker::message::EngineReport;
use crate::engine::worker::{Isolation, WorkerBackend};
use crate::engine::{Backend, RenditionSpec};
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::quarantine::Quarantine;
use crate::service::renditions::element_decoders::{ElementDecoders, TestedFormats};
use crate::service::renditions::local_encoders::reason_against;

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
    /// As in the configuration.
    forbidden_encoders: Vec<String>,
    /// Found at the first start, because querying ffmpeg takes a moment.
    ffmpeg: OnceCell<FfmpegBackend>,
    gstreamer: RenewableCell<std::result::Result<FoundGstreamer, String>>,
    element_decoders: ElementDecoders,
    /// Set by tests: the backend for everything, in any format.
    forced: OnceLock<Arc<dyn Backend>>,
    /// Workers on other machines, with a queue.
    cluster: OnceLock<Arc<Cluster>>,
}

/// GStreamer with all required elements.
#[derive(Clone)]
struct FoundGstreamer {
    backend: Arc<dyn Backend>,
    /// The same backend, if it is in workers: only these decode by hardware.
    workers: Option<WorkerBackend>,
    report: Arc<EngineReport>,
}

/// A backend, and why it was chosen.
#[derive(Clone)]
pub struct ChosenBackend {
    pub backend: Arc<dyn Backend>,
    pub reason: &'static str,
}

impl Service {
    /// Tests the encoders and decoders of both backends again when a device has come or gone below this folder, e.g. `/dev`. Never
    /// returns.
    pub async fn follow_devices(&self, folder: &Path) {
        let mut devices = DeviceWatch::new(folder);
        loop {
            devices.changed().await;
            self.local_encoders.retest().await;
            self.renditions.backends.examine_again().await;
        }
    }
}

impl Backends {
    pub fn new(config: &Config, isolation: Isolation, quarantine: Option<Quarantine>) -> Self {
        Self {
            setting: config.backend,
            program: config.ffmpeg.clone(),
            text_style: config.text_style(),
            isolation,
            quarantine,
            forbidden_encoders: config.forbidden_encoders.clone(),
            ffmpeg: OnceCell::new(),
            gstreamer: RenewableCell::default(),
            element_decoders: ElementDecoders::default(),
            forced: OnceLock::new(),
            cluster: OnceLock::new(),
        }
    }

    /// Gives runs to workers on other machines as well. To be called before the first start.
    pub fn use_cluster(&self, cluster: Arc<Cluster>) {
        let _ = self.cluster.set(cluster);
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
        let mut chosen = self.choose_backend(spec).await?;
        if let Some(cluster) = self.cluster.get().filter(|_| RemoteBackend::is_suitable(spec)) {
            chosen.backend = Arc::new(RemoteBackend::new(chosen.backend, cluster.clone()));
        }
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
            Ok((gstreamer, reason)) => (Some(gstreamer), reason),
            Err(reason) => (None, reason),
        };
        let ffmpeg = match (self.ffmpeg().await, &gstreamer) {
            (Ok(ffmpeg), _) => ffmpeg,
            (Err(_), Some(gstreamer)) => {
                return Ok(ChosenBackend { backend: gstreamer.clone(), reason: "ffmpeg is missing" });
            }
            (Err(fault), None) => return Err(fault),
        };
        if let Some((plan, hardware, software)) = self.hardware_of(spec).await {
            let software = Arc::new(SoftwareEncoding::new(ffmpeg.clone(), software));
            let has_hardware =
                |backend: &Arc<dyn Backend>| backend.video_encoder(plan).is_some_and(is_hardware_element);
            let is_gstreamer = gstreamer.as_ref().is_some_and(has_hardware);
            let (primary, reason) = match gstreamer {
                Some(gstreamer) if is_gstreamer => (gstreamer, reason),
                // Without the encoder it would encode in software.
                Some(gstreamer) if self.setting == BackendSetting::Gstreamer => {
                    return Ok(ChosenBackend { backend: Arc::new(FallbackBackend::new(gstreamer, software)), reason });
                }
                _ => (ffmpeg, "ffmpeg has a hardware encoder"),
            };
            let backend = FallbackBackend::new(primary, software).with_hardware(self.program.clone(), hardware);
            return Ok(match self.decoder_of(spec, plan) {
                Some(decoder) => {
                    let element = if is_gstreamer { self.element_decoder(spec, plan, decoder).await } else { None };
                    let decoding: Arc<dyn Backend> = match element {
                        Some(backend) => Arc::new(backend),
                        None => Arc::new(self.find_ffmpeg().await?.with_decoder(decoder)),
                    };
                    let backend = FallbackBackend::new(decoding, Arc::new(backend))
                        .with_hardware(self.program.clone(), decoder.name);
                    ChosenBackend { backend: Arc::new(backend), reason: "hardware decodes and encodes" }
                }
                None => ChosenBackend { backend: Arc::new(backend), reason },
            });
        }
        let backend = match gstreamer {
            Some(gstreamer) => Arc::new(FallbackBackend::new(gstreamer, ffmpeg)),
            None => ffmpeg,
        };
        Ok(ChosenBackend { backend, reason })
    }

    /// The plan that names a hardware encoder, that encoder, and the software encoder that takes over when it fails; None if no
    /// hardware is planned.
    async fn hardware_of<'a>(&self, spec: &'a RenditionSpec) -> Option<(&'a EncodeVideo, &'static str, &'static str)> {
        let Some(VideoPlan::Encode(plan)) = &spec.rendition.video else { return None };
        let hardware = VideoEncoder::of_name(&plan.encoder).filter(|encoder| encoder.is_hardware)?;
        let software = encoder_report(&self.program).await.best_software(hardware.codec)?;
        Some((plan, hardware.name, software.name))
    }

    /// The hardware that decodes the video of a plan with a hardware encoder.
    fn decoder_of(&self, spec: &RenditionSpec, plan: &EncodeVideo) -> Option<&'static HardwareDecoder> {
        let (encoder, stream) = (VideoEncoder::of_name(&plan.encoder)?, spec.media.stream(plan.stream)?);
        let decoder = find_decoder_report(&self.program)?.find(encoder, stream)?;
        reason_against(&self.program, &self.forbidden_encoders, decoder.name).is_none().then_some(decoder)
    }

    /// The formats in which GStreamer's elements of this hardware were tested.
    pub fn tested_formats(&self, decoder: &HardwareDecoder) -> TestedFormats {
        self.element_decoders.tested_formats(decoder)
    }

    /// GStreamer's backend that decodes by this hardware, if its trial has passed.
    async fn element_decoder(
        &self,
        spec: &RenditionSpec,
        plan: &EncodeVideo,
        decoder: &'static HardwareDecoder,
    ) -> Option<WorkerBackend> {
        let stream = spec.media.stream(plan.stream)?;
        let format = TRIAL_FORMATS.iter().find(|format| format.is_of(stream))?;
        let workers = self.gstreamer().await.ok()?.workers?;
        self.element_decoders.find(&workers, &self.program, decoder, format)
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
        Ok((found.backend, reason))
    }

    async fn ffmpeg(&self) -> Result<Arc<dyn Backend>> {
        if let Some(forced) = self.forced.get() {
            return Ok(forced.clone());
        }
        Ok(Arc::new(self.find_ffmpeg().await?.clone()))
    }

    async fn find_ffmpeg(&self) -> Result<&FfmpegBackend> {
        let backend = self.ffmpeg.get_or_try_init(|| async {
            let program = self.program.clone();
            let backend = tokio::task::spawn_blocking(move || FfmpegBackend::with_program(&program))
                .await
                .map_err(Error::internal)?;
            let missing = |why| Error::new(Code::TranscoderUnavailable, "no usable ffmpeg was found").with_cause(why);
            Ok::<_, Error>(backend.map_err(missing)?.with_text_style(self.text_style.clone()))
        });
        backend.await
    }

    /// GStreamer with all required elements; missing ones are logged once. An examination that failed is repeated at the
    /// next start.
    async fn gstreamer(&self) -> std::result::Result<FoundGstreamer, String> {
        let found = self.gstreamer.get_or_try_find(async {
            let report = self.isolation.examine().await?;
            if let Err(cause) = gst::check_report(&report) {
                tracing::warn!(cause, "the GStreamer backend is not available");
                return Ok(Err(cause));
            }
            let style = self.text_style.clone();
            let workers = match &self.isolation {
                Isolation::Process(pool) => Some(WorkerBackend::new(pool.clone(), report.clone(), style.clone())),
                Isolation::None => None,
            };
            let backend: Arc<dyn Backend> = match &workers {
                Some(workers) => Arc::new(workers.clone()),
                None => Arc::new(GstBackend::new(report.clone()).with_text_style(style)),
            };
            Ok::<_, String>(Ok(FoundGstreamer { backend, workers, report }))
        });
        found.await.inspect_err(|cause| tracing::warn!(cause, "GStreamer could not be examined"))?
    }

    /// Examines GStreamer again, unless it was never needed. Renditions in progress keep their backend.
    async fn examine_again(&self) {
        if self.gstreamer.found().is_none() {
            return;
        }
        if let Err(cause) = self.isolation.examine_again().await {
            tracing::warn!(cause, "GStreamer could not be examined again");
            return;
        }
        self.gstreamer.forget();
        self.element_decoders.forget();
        // So that no viewer waits for it.
        let _ = self.gstreamer().await;
    }
}
