//! The JSON form of the status of a session.

use jiff::Timestamp;

use super::start_response::audio_action;
use crate::domain::plan::{AudioPlan, Rendition, VideoPlan};
use crate::domain::playlist::PlaylistTrack;
use crate::domain::session::SessionState;
use crate::domain::time::{format_timestamp, round_to_ms};
use crate::engine::RunError;
use crate::http::api::prelude::*;
use crate::service::renditions::planner::Rung;
use crate::service::sessions::{EndedSession, Session, SessionFailure, SessionStatus, failure_message};

/// The response while the first segment is not ready yet.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Preparing {
    status: &'static str,
    ready: bool,
    /// Progress towards the first segment, percent.
    progress: u8,
    retry_after_ms: u32,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct StatusBody {
    session_id: String,
    /// The segment at the start position is ready and the session has not ended.
    ready: bool,
    /// Progress towards `ready`, percent.
    progress: u8,
    error: Option<FailureBody>,
    mode: &'static str,
    /// `starting`, `running`, `paused`, `complete`, `failed` or `stopped`.
    state: &'static str,
    diagnostics: Diagnostics,
}

#[derive(Debug, Serialize, ToSchema)]
struct FailureBody {
    /// `DECODE_FAILED`, `ENCODER_FAILED`, `SOURCE_READ_FAILED`, `SOURCE_CHANGED`, `TIMEOUT` or `INTERNAL`.
    code: &'static str,
    message: &'static str,
    /// Whether starting a new session may help.
    retryable: bool,
    at: String,
}

#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Diagnostics {
    /// The encoder in use, by its name in the backend, or at the remote worker that made the latest segment:
    /// of the video, or of the audio (`aac`, `avenc_aac`) if the video is
    /// not encoded; `copy` if nothing is encoded.
    encoder: String,
    /// Codec of the source video, or of its audio if there is no video.
    decoder: Option<String>,
    /// The hardware that decodes the video to encode, e.g. `vaapi`; null if software does.
    hardware_decoder: Option<&'static str>,
    /// The backend that makes the segments: `packager`, `gstreamer` or `ffmpeg`, or `remote` for a worker on another machine. `none` if the session was live when the server
    /// was stopped, and has ended since without continuing.
    pipeline: &'static str,
    /// Why this one was chosen.
    pipeline_reason: &'static str,
    /// Whether another one was chosen first and failed.
    fallback: bool,
    video: Option<VideoBody>,
    audio: Option<AudioBody>,
    /// The rungs of an adaptive session, best first. The other diagnostics are about the rung requested last.
    rungs: Option<Vec<RungBody>>,
    /// Why an adaptive session encodes video that could be copied.
    copy_left_out: Option<&'static str>,
    /// Seconds of media produced per second of encoding.
    speed: Option<f64>,
    /// Runs started for this rendition so far.
    runs_started: usize,
    /// The segment at which the last run started.
    run_from_segment: Option<usize>,
    segments_ready: usize,
    produced_seconds: f64,
    buffered_bytes: u64,
    started_at: String,
    last_access_at: String,
}

#[derive(Debug, Serialize, ToSchema)]
struct VideoBody {
    action: &'static str,
    width: Option<u32>,
    height: Option<u32>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct RungBody {
    /// Name of its playlist.
    playlist: String,
    /// `copy` or `encode`.
    action: &'static str,
    width: Option<u32>,
    height: Option<u32>,
    bandwidth: u64,
    /// Whether the player requested it recently.
    #[serde(rename = "held")]
    is_requested_recently: bool,
}

#[derive(Debug, Serialize, ToSchema)]
struct AudioBody {
    action: &'static str,
    codec: String,
}

impl Preparing {
    pub(super) fn new(status: &SessionStatus) -> Self {
        Self { status: "preparing", ready: false, progress: progress_percent(status), retry_after_ms: 300 }
    }
}

impl StatusBody {
    pub(super) fn new(session: &Session) -> Self {
        let status = session.status();
        Self::from_parts(session.id.clone(), &status, Diagnostics::new(session, &status))
    }

    /// The status of an ended session, without the details of its streams.
    pub(super) fn for_ended(ended: &EndedSession) -> Self {
        let diagnostics = Diagnostics::without_plan(&ended.rendition, &ended.status, ended.started_at);
        Self::from_parts(ended.id.clone(), &ended.status, diagnostics)
    }

    fn from_parts(session_id: String, status: &SessionStatus, diagnostics: Diagnostics) -> Self {
        Self {
            session_id,
            ready: status.state.is_ready(),
            progress: progress_percent(status),
            error: status.failure.as_ref().map(FailureBody::new),
            mode: "transcode",
            state: status.state.as_str(),
            diagnostics,
        }
    }
}

impl FailureBody {
    fn new(failure: &SessionFailure) -> Self {
        let (code, retryable) = match &failure.error {
            RunError::Decode(_) => ("DECODE_FAILED", false),
            RunError::Encoder(_) => ("ENCODER_FAILED", true),
            RunError::SourceRead(_) => ("SOURCE_READ_FAILED", true),
            RunError::SourceChanged => ("SOURCE_CHANGED", true),
            RunError::SourceEnded => ("SOURCE_READ_FAILED", false),
            RunError::Stalled(_) => ("TIMEOUT", true),
            RunError::WorkerLost { .. } | RunError::Internal(_) => ("INTERNAL", true),
        };
        Self { code, message: failure_message(&failure.error), retryable, at: format_timestamp(failure.failed_at) }
    }
}

impl Diagnostics {
    fn new(session: &Session, status: &SessionStatus) -> Self {
        let Rung { spec, size, .. } = &session.plan.rungs[status.rung];
        let (width, height) = size.unzip();
        let codec = |index: u32| spec.media.stream(index).map(|stream| stream.codec.clone());
        let (video, decoder) = match &spec.rendition.video {
            None => (None, None),
            Some(VideoPlan::Copy { stream }) => (Some("copy"), codec(*stream)),
            Some(VideoPlan::Encode(plan)) => (Some("encode"), codec(plan.stream)),
        };
        // Of the audio that plays first, which in fMP4 is a rendition of its own.
        let rendition = Rendition { audio: session.plan.first_audio().cloned(), ..Rendition::clone(&spec.rendition) };
        let audio = session.plan.first_audio().map(|plan| match plan {
            AudioPlan::Copy { stream } => (audio_action(plan), codec(*stream).unwrap_or_default(), *stream),
            AudioPlan::Encode { stream, .. } => (audio_action(plan), "aac".to_owned(), *stream),
        });
        Self {
            decoder: decoder.or_else(|| audio.as_ref().and_then(|(.., stream)| codec(*stream))),
            video: video.map(|action| VideoBody { action, width, height }),
            audio: audio.map(|(action, codec, _)| AudioBody { action, codec }),
            rungs: session.plan.request.playback.is_adaptive.then(|| RungBody::of_session(session, status)),
            copy_left_out: session.plan.no_copy_reason,
            ..Self::without_plan(&rendition, status, session.started_at)
        }
    }

    /// Diagnostics that do not need the plan or the probe; the other fields are null.
    fn without_plan(rendition: &Rendition, status: &SessionStatus, started_at: Timestamp) -> Self {
        let progress = &status.progress;
        let fallback_cause = progress.fallback_cause.as_ref();
        let planned_encoder = match &rendition.video {
            Some(VideoPlan::Encode(plan)) => Some(plan.encoder.clone()),
            _ => None,
        };
        let audio_encoder = || matches!(rendition.audio, Some(AudioPlan::Encode { .. })).then(|| "aac".to_owned());
        let encoder = progress.remote_encoder.or(progress.encoder).map(str::to_owned);
        let encoder = encoder.or(planned_encoder).or_else(audio_encoder);
        let (pipeline, pipeline_reason) = match (progress.remote_encoder, fallback_cause) {
            (Some(_), _) => ("remote", "a remote worker encodes"),
            (None, Some(cause)) => (progress.backend, failure_message(cause)),
            (None, None) => status.backend,
        };
        Self {
            encoder: encoder.unwrap_or_else(|| "copy".into()),
            // Remote workers decode in software.
            hardware_decoder: progress.hardware_decoder.filter(|_| progress.remote_encoder.is_none()),
            pipeline,
            pipeline_reason,
            fallback: fallback_cause.is_some(),
            speed: progress.speed.map(|speed| (speed * 100.0).round() / 100.0),
            runs_started: progress.runs_started,
            run_from_segment: progress.last_run_start,
            segments_ready: progress.segments_ready,
            produced_seconds: round_to_ms(progress.produced_seconds),
            buffered_bytes: progress.buffered_bytes,
            started_at: format_timestamp(started_at),
            last_access_at: format_timestamp(status.last_access_at),
            ..Self::default()
        }
    }
}

impl RungBody {
    fn of_session(session: &Session, status: &SessionStatus) -> Vec<Self> {
        let rungs = session.plan.rungs.iter().enumerate();
        let to_body = |(number, rung): (usize, &Rung)| Self {
            playlist: PlaylistTrack::Video(number).playlist_name(),
            action: if rung.spec.rendition.copies_video() { "copy" } else { "encode" },
            width: rung.size.map(|(width, _)| width),
            height: rung.size.map(|(_, height)| height),
            bandwidth: rung.bandwidth,
            is_requested_recently: status.leased_rungs.get(number).is_some_and(|requested| *requested),
        };
        rungs.map(to_body).collect()
    }
}

/// Progress towards a playable session, percent.
fn progress_percent(status: &SessionStatus) -> u8 {
    match status.state {
        SessionState::Starting if status.progress.segments_ready > 0 => 50,
        SessionState::Starting => 10,
        SessionState::Running | SessionState::Paused | SessionState::Complete => 100,
        SessionState::Failed | SessionState::Stopped => 0,
    }
}
