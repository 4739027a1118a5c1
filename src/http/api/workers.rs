//! `GET /api/stream/v2-workers`: the encoders, backends and workers of this server, for diagnostics.

use std::collections::BTreeMap;

use crate::config::{BackendSetting, IsolationSetting};
use crate::domain::time::format_timestamp;
use crate::domain::worker::SandboxReport;
use crate::engine::encoder_speed::EncodeSpeed;
use crate::engine::ffmpeg_decoders::{DecoderReport, WorkingDecoder};
use crate::engine::ffmpeg_encoders::EncoderReport;
use crate::engine::versions;
use crate::http::api::prelude::*;
use crate::service::renditions::local_encoders::OptionalCodec;
use crate::service::sessions::failure_message;
use crate::service::workers::RemoteWorkers;

pub(super) mod enrolment;
mod remote;
pub(super) mod runs;

use remote::{NodeView, RemoteWorkerView};

/// The encoders and backends of this server.
#[derive(Serialize, ToSchema)]
pub struct WorkersView {
    local: LocalView,
    /// Machines with connected workers; empty without `queue`.
    nodes: Vec<NodeView>,
    /// Connected workers on other machines; empty without `queue`.
    workers: Vec<RemoteWorkerView>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalView {
    #[schema(example = "transcoding")]
    kind: &'static str,
    /// The processes that read media.
    boundary: &'static str,
    /// `available` or `unsupported`.
    status: &'static str,
    protocol: ProtocolView,
    /// Encoders that passed a test encode of one frame, best first.
    supported_encoders: Vec<&'static str>,
    encoders: Vec<EncoderView>,
    /// Encoders that failed the test encode, and why.
    rejected_encoders: Vec<RejectedView>,
    /// Hardware that decoded video like software does, in one format at least.
    hardware_decoders: Vec<DecoderView>,
    /// Hardware that did not, and why.
    rejected_decoders: Vec<RejectedView>,
    /// The codecs besides H.264 in which sessions in fMP4 are encoded for clients that prefer them.
    optional_codecs: Vec<OptionalCodecView>,
    max_concurrent_jobs: usize,
    active_job_count: usize,
    /// Requests that wait for a segment. Sessions are not queued: one beyond the limit is refused.
    queue_length: usize,
    /// The last failure of a backend, even if another backend took over.
    last_error: Option<ErrorView>,
    pipelines: PipelinesView,
    transcoder: TranscoderView,
    fallback: FallbackView,
    /// Where GStreamer runs: `process` (in the workers of `pool`) or `none` (in the server process).
    isolation: &'static str,
    /// The worker processes of this server; null if `isolation` is `none`.
    pool: Option<PoolView>,
}

/// The worker processes of this server.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolView {
    /// Workers that wait for work.
    ready: usize,
    busy: usize,
    /// Workers that ended before their work was done, or were recycled, since the server started.
    restarted: u64,
    /// Their number by cause: `crashed`, `killed`, `stopped`, `stuck`, `storage`, `recycled`.
    causes: BTreeMap<String, u64>,
    /// Files that no worker reads again: see `GET /api/quarantine`.
    quarantined: usize,
    /// The confinement of the workers; null before the first one has started.
    sandbox: Option<SandboxView>,
    last_death: Option<DeathView>,
}

/// The confinement of a worker.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Sandbox)]
pub struct SandboxView {
    /// Version of the kernel's Landlock interface; null if the kernel has none.
    landlock_abi: Option<u32>,
    /// Whether a seccomp filter is in force.
    seccomp: bool,
    /// Gaps on this kernel, one sentence each.
    gaps: Vec<String>,
}

/// The end of a worker.
#[derive(Serialize, ToSchema)]
#[schema(as = WorkerDeath)]
pub struct DeathView {
    /// How it ended.
    cause: String,
    #[schema(format = DateTime)]
    at: String,
}

#[derive(Serialize, ToSchema)]
pub struct ProtocolView {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EncoderView {
    name: &'static str,
    codec: &'static str,
    /// `software` or `hardware`.
    kind: &'static str,
    device: Option<String>,
    verified: bool,
    /// Why it is not used now although it works: it is forbidden, or rests after a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_used: Option<String>,
}

/// Hardware that decodes video, beside a hardware encoder of the same device.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = HardwareDecoder)]
pub struct DecoderView {
    /// ffmpeg's name of the interface, e.g. `vaapi`.
    name: &'static str,
    device: Option<String>,
    /// The formats that were decoded like in software, for people.
    formats: Vec<&'static str>,
    /// The other formats, and why.
    rejected_formats: Vec<RejectedView>,
    /// Those that GStreamer's elements decoded like in software, so that it decodes and encodes these films alone. A format is tested
    /// when a film first needs it.
    gstreamer_formats: Vec<&'static str>,
    /// Those that they did not, and why. ffmpeg decodes these.
    gstreamer_rejected_formats: Vec<RejectedView>,
    /// Why it is not used now although it works: it is forbidden, or rests after a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_used: Option<String>,
}

/// A codec besides H.264.
#[derive(Serialize, ToSchema)]
#[schema(as = OptionalCodec)]
pub struct OptionalCodecView {
    /// `hevc` or `av1`.
    codec: &'static str,
    /// The encoder; null if none works.
    encoder: Option<&'static str>,
    /// The configured value: `auto`, `on` or `off`.
    setting: &'static str,
    /// Whether it is used for clients that prefer it.
    enabled: bool,
    /// Seconds of 1080p at 25 frames per second that the encoder was measured to encode in a second; null if it was not
    /// measured, if that failed, or if it is less than one.
    speed: Option<f64>,
    /// Why it is used or not.
    reason: String,
}

#[derive(Serialize, ToSchema)]
pub struct RejectedView {
    name: &'static str,
    reason: String,
}

#[derive(Serialize, ToSchema)]
pub struct ErrorView {
    message: String,
    #[schema(format = DateTime)]
    at: String,
}

#[derive(Serialize, ToSchema)]
pub struct PipelinesView {
    native: &'static str,
    version: String,
    /// The configured backend: `auto`, `gstreamer` or `ffmpeg`.
    backend: &'static str,
    /// Which backend encodes, and why. The diagnostics of a session name the backend it uses.
    reason: &'static str,
}

#[derive(Serialize, ToSchema)]
pub struct TranscoderView {
    name: &'static str,
    version: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FallbackView {
    /// `local-subprocess` or `unsupported-state`.
    mode: &'static str,
    /// `worker-fallback-used` or `local-transcoder-missing`.
    reason: &'static str,
    user_message: &'static str,
}

#[utoipa::path(get, path = "/api/stream/v2-workers", responses(
    (status = 200, description = "The encoders and backends of this server", body = WorkersView)))]
pub async fn workers(service: Arc<Service>, _call: Call) -> Result<Response> {
    let report = service.local_encoders.report().await;
    let codecs = service.local_encoders.optional_codecs().await;
    let decoders = service.local_encoders.decoders().await;
    Ok(reply::json(&workers_view(&report, &decoders, &codecs, &service)))
}

fn workers_view(
    report: &EncoderReport,
    decoders: &DecoderReport,
    codecs: &[OptionalCodec],
    service: &Service,
) -> WorkersView {
    let status = service.renditions.health();
    let available = report.can_transcode();
    let (mode, reason, user_message) = if available {
        let message = "Local transcoding is the baseline path and is in use.";
        ("local-subprocess", "worker-fallback-used", message)
    } else {
        let message = "The local transcoder is missing: files play directly or not at all.";
        ("unsupported-state", "local-transcoder-missing", message)
    };
    let encoders = report.working.iter().map(|encoder| EncoderView {
        name: encoder.name,
        codec: encoder.codec.as_str(),
        kind: if encoder.is_hardware { "hardware" } else { "software" },
        device: encoder.device(),
        verified: true,
        not_used: service.local_encoders.reason_against(encoder.name).filter(|_| encoder.is_hardware),
    });
    let rejected = report.rejected.iter().map(|one| RejectedView { name: one.name, reason: one.reason.clone() });
    let rejected_decoders =
        decoders.rejected.iter().map(|one| RejectedView { name: one.name, reason: one.reason.clone() });
    let backend_reason = match service.config.backend {
        BackendSetting::Auto => {
            "GStreamer encodes what it was measured to start faster; ffmpeg does the rest and takes over on failure"
        }
        BackendSetting::Gstreamer => {
            "GStreamer encodes what it supports; ffmpeg does the rest and takes over on failure"
        }
        BackendSetting::Ffmpeg => "ffmpeg encodes video and audio",
    };
    let local = LocalView {
        kind: "transcoding",
        boundary: match service.config.isolation {
            IsolationSetting::Process => "confined worker processes and the local transcoder subprocess",
            IsolationSetting::None => "GStreamer in the server process, and the local transcoder subprocess",
        },
        status: if available { "available" } else { "unsupported" },
        protocol: ProtocolView { name: "media-worker", version: "0.1-draft" },
        supported_encoders: report.working.iter().map(|encoder| encoder.name).collect(),
        encoders: encoders.collect(),
        rejected_encoders: rejected.collect(),
        hardware_decoders: decoders.working.iter().map(|working| decoder_view(working, service)).collect(),
        rejected_decoders: rejected_decoders.collect(),
        optional_codecs: codecs.iter().map(OptionalCodecView::from).collect(),
        max_concurrent_jobs: service.config.limits.concurrent_jobs,
        active_job_count: service.renditions.active_jobs(),
        queue_length: status.waiting_requests(),
        last_error: status
            .last_fault()
            .map(|(at, error)| ErrorView { message: failure_message(&error).to_owned(), at: format_timestamp(at) }),
        pipelines: PipelinesView {
            native: "gstreamer",
            version: versions::gstreamer_version(),
            backend: service.config.backend.as_str(),
            reason: backend_reason,
        },
        transcoder: TranscoderView { name: "ffmpeg", version: report.version.clone() },
        fallback: FallbackView { mode, reason, user_message },
        isolation: service.config.isolation.as_str(),
        pool: pool_view(service),
    };
    let remote = service.remote_workers.as_ref().map(|workers| workers.cluster.workers()).unwrap_or_default();
    WorkersView {
        local,
        nodes: remote.iter().map(NodeView::from).collect(),
        workers: remote.iter().map(RemoteWorkerView::from).collect(),
    }
}

fn decoder_view(working: &WorkingDecoder, service: &Service) -> DecoderView {
    let rejected = working.rejected_formats.iter();
    let tested = service.renditions.backends.tested_formats(working.decoder);
    DecoderView {
        name: working.decoder.name,
        device: working.decoder.device(),
        formats: working.formats.iter().map(|format| format.name).collect(),
        rejected_formats: rejected
            .map(|(format, reason)| RejectedView { name: format.name, reason: reason.clone() })
            .collect(),
        gstreamer_formats: tested.passed,
        gstreamer_rejected_formats: tested
            .rejected
            .into_iter()
            .map(|(name, reason)| RejectedView { name, reason })
            .collect(),
        not_used: service.local_encoders.reason_against(working.decoder.name),
    }
}

/// The remote workers of a server with a queue.
fn remote_workers(service: &Service) -> Result<&Arc<RemoteWorkers>> {
    let missing = || Error::new(Code::NotFound, "this server has no queue for remote workers");
    service.remote_workers.as_ref().ok_or_else(missing)
}

fn pool_view(service: &Service) -> Option<PoolView> {
    if service.config.isolation == IsolationSetting::None {
        return None;
    }
    let status = service.isolation.status();
    Some(PoolView {
        ready: status.ready,
        busy: status.busy,
        restarted: status.restarted,
        causes: status.causes.into_iter().map(|(cause, count)| (cause.to_owned(), count)).collect(),
        quarantined: service.quarantine.len(),
        sandbox: Some(status.sandbox).filter(|report| *report != SandboxReport::default()).map(SandboxView::from),
        last_death: status.last_death.map(|death| DeathView { cause: death.text, at: format_timestamp(death.at) }),
    })
}

impl From<&OptionalCodec> for OptionalCodecView {
    fn from(codec: &OptionalCodec) -> Self {
        let speed = match codec.speed {
            Some(EncodeSpeed::RealTime(speed)) => Some((speed * 10.0).round() / 10.0),
            _ => None,
        };
        Self {
            codec: codec.codec.as_str(),
            encoder: codec.encoder.map(|encoder| encoder.name),
            setting: codec.setting.as_str(),
            enabled: codec.is_used(),
            speed,
            reason: codec.reason(),
        }
    }
}

impl From<SandboxReport> for SandboxView {
    fn from(SandboxReport { landlock_abi, seccomp, gaps }: SandboxReport) -> Self {
        Self { landlock_abi, seccomp, gaps }
    }
}
