//! One session: its state, its owner task, and the playlists and segments it serves.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::failure::{SessionFailure, failure_error, session_ended_error};
use super::lock;
use super::rungs::{CurrentRung, RungLeases};
use crate::domain::grid::Grid;
use crate::domain::playback::SubtitleDelivery;
use crate::domain::playlist::{self, MediaPlaylist, MultivariantPlaylist, PlaylistTrack};
use crate::domain::session::{SessionEvent, SessionState};
use crate::domain::subtitles::write_webvtt_segment;
use crate::engine::segment_cache::StoredSegment;
use crate::engine::source::SourceFile;
use crate::engine::{RunError, TIMELINE_BASE};
use crate::error::{Code, Error, Result};
use crate::service::accounts::random_bytes;
use crate::service::media::subtitles::{SubtitleLocation, Subtitles};
use crate::service::renditions::encode_slots::{AdmissionRequest, AfterRefusal};
use crate::service::renditions::planner::{SessionPlan, start_segment};
use crate::service::renditions::runs::{Lease, RenditionProgress, RunActivity};
use crate::service::renditions::{BackendChoice, Renditions};

/// How long a viewer waits for encode slots before it is refused.
const ADMISSION_TIMEOUT: Duration = Duration::from_millis(1500);

/// One session. Its owner task is the only one that changes its state.
pub struct Session {
    pub id: String,
    pub user_id: String,
    pub plan: SessionPlan,
    pub started_at: Timestamp,
    created_at: Instant,
    timeouts: SessionTimeouts,
    last_access: Mutex<(Instant, Timestamp)>,
    view: watch::Sender<SessionView>,
    pub(super) rung_leases: RungLeases,
    renditions: Arc<Renditions>,
    stop: CancellationToken,
}

#[derive(Clone, Debug)]
struct SessionView {
    state: SessionState,
    failure: Option<SessionFailure>,
    /// RFC 6381 codec string of the video, read from the first segment.
    video_codec: Option<String>,
}

#[derive(Clone, Debug)]
pub struct SessionStatus {
    pub state: SessionState,
    pub failure: Option<SessionFailure>,
    /// Progress of the rung requested last.
    pub progress: RenditionProgress,
    pub rung: usize,
    pub backend: BackendChoice,
    /// Which rungs are leased.
    pub leased_rungs: Vec<bool>,
    pub last_access_at: Timestamp,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct SessionTimeouts {
    /// Without a request, the session ends.
    pub(super) idle: Duration,
    /// For a requested segment.
    pub(super) segment: Duration,
}

impl Session {
    pub(super) fn new(
        user_id: &str,
        plan: SessionPlan,
        backend: BackendChoice,
        lease: Arc<Lease>,
        renditions: Arc<Renditions>,
        timeouts: SessionTimeouts,
        stop: CancellationToken,
    ) -> Self {
        let rung_leases = RungLeases::new(plan.rungs.len(), lease, backend);
        Self {
            id: format!("ts_{}", data_encoding::HEXLOWER.encode(&random_bytes::<16>())),
            user_id: user_id.to_owned(),
            plan,
            started_at: Timestamp::now(),
            created_at: Instant::now(),
            timeouts,
            last_access: Mutex::new((Instant::now(), Timestamp::now())),
            view: watch::Sender::new(SessionView { state: SessionState::Starting, failure: None, video_codec: None }),
            rung_leases,
            renditions,
            stop,
        }
    }

    pub(super) fn age(&self) -> Duration {
        self.created_at.elapsed()
    }

    /// Drives the state until the session ends. `lease` is that of its first rung.
    pub(super) async fn run(&self, lease: Arc<Lease>) {
        let first_segment = start_segment(&self.plan);
        let source = self.source();
        let first_head = async move { lease.segment(first_segment).await?.content.read_head(source).await };
        let mut first_head = Some(Box::pin(first_head));
        let mut current_rung = self.rung_leases.watch_current();
        let mut progress = current_rung.borrow_and_update().progress.clone();
        // The current rung was released; another one becomes current as soon as it is requested.
        let mut is_released = false;
        loop {
            self.rung_leases.release_left();
            let release_at = self.rung_leases.next_release_at();
            let idle_at = lock(&self.last_access).0 + self.timeouts.idle;
            let event = tokio::select! {
                // The progress of a released rung ends and must not be read any more.
                biased;
                () = self.stop.cancelled() => SessionEvent::Stop,
                _ = current_rung.changed() => {
                    progress = current_rung.borrow_and_update().progress.clone();
                    progress.mark_changed();
                    is_released = false;
                    continue;
                }
                first = async { first_head.as_mut().expect("guarded").await }, if first_head.is_some() => {
                    first_head = None;
                    match first {
                        Ok(head) => {
                            let video_codec = playlist::avc_codec_string(&head);
                            self.view.send_modify(|view| view.video_codec = video_codec);
                            SessionEvent::Ready
                        }
                        Err(error) => self.record_failure(error),
                    }
                }
                changed = progress.changed(), if first_head.is_none() && !is_released => {
                    if changed.is_err() && !self.rung_leases.publishes(&progress) {
                        is_released = true;
                        continue;
                    }
                    let (failure, activity) = {
                        let latest = progress.borrow_and_update();
                        (latest.failure.clone(), latest.activity)
                    };
                    match (changed.is_ok(), failure, activity) {
                        (_, Some(error), _) => self.record_failure(error),
                        (false, None, _) => self.record_failure(RunError::Internal("the run ended".into())),
                        (true, None, RunActivity::Complete) => SessionEvent::AllSegmentsReady,
                        (true, None, RunActivity::Working) => SessionEvent::Working,
                        (true, None, RunActivity::Idle) => SessionEvent::Ahead,
                    }
                }
                () = tokio::time::sleep_until(release_at.unwrap_or(idle_at)), if release_at.is_some() => continue,
                () = tokio::time::sleep_until(idle_at) => {
                    if lock(&self.last_access).0.elapsed() < self.timeouts.idle {
                        continue;
                    }
                    SessionEvent::Stop
                }
            };
            let (state, releases_runs) = self.view.borrow().state.after(event);
            if releases_runs {
                self.rung_leases.release_all();
            }
            self.view.send_modify(|view| view.state = state);
            if state == SessionState::Failed {
                // Its status can be requested until it is stopped or idle.
                self.wait_until_stopped().await;
            }
            if !state.is_active() {
                break;
            }
        }
    }

    /// Waits until a failed session is stopped or idle.
    async fn wait_until_stopped(&self) {
        loop {
            let idle_at = lock(&self.last_access).0 + self.timeouts.idle;
            tokio::select! {
                () = self.stop.cancelled() => break,
                () = tokio::time::sleep_until(idle_at) => {
                    if lock(&self.last_access).0.elapsed() >= self.timeouts.idle {
                        break;
                    }
                }
            }
        }
        let (state, _) = self.view.borrow().state.after(SessionEvent::Stop);
        self.view.send_modify(|view| view.state = state);
    }

    fn record_failure(&self, error: RunError) -> SessionEvent {
        tracing::warn!(session.id = self.id, %error, "session failed");
        self.view.send_modify(|view| view.failure = Some(SessionFailure { error, failed_at: Timestamp::now() }));
        SessionEvent::Fault
    }

    pub(super) fn is_live(&self) -> bool {
        self.view.borrow().state.is_active()
    }

    pub(super) fn touch(&self) {
        *lock(&self.last_access) = (Instant::now(), Timestamp::now());
    }

    /// Stops the session and waits for its end; false if it had already ended.
    pub(super) async fn stop(&self) -> bool {
        let mut view = self.view.subscribe();
        if view.borrow_and_update().state == SessionState::Stopped {
            return false;
        }
        self.stop.cancel();
        let _ = view.wait_for(|view| view.state == SessionState::Stopped).await;
        true
    }

    /// The file that is played.
    pub fn source(&self) -> &Arc<SourceFile> {
        &self.plan.spec().source
    }

    /// A segment of a rung.
    ///
    /// # Errors
    /// `ASSET_NOT_FOUND` past the end and for an unknown rung, `SESSION_ENDED`, `SEGMENT_TIMEOUT`,
    /// `TRANSCODER_BUSY`, or why the session failed.
    pub async fn segment(&self, rung: usize, index: usize) -> Result<StoredSegment> {
        self.touch();
        if self.plan.rungs.get(rung).is_none_or(|rung| index >= rung.spec.grid.len()) {
            return Err(Error::new(Code::AssetNotFound, format!("there is no segment {index}")));
        }
        let lease = self.lease(rung).await?;
        let mut view = self.view.subscribe();
        let outcome = tokio::select! {
            made = tokio::time::timeout(self.timeouts.segment, lease.segment(index)) => made,
            () = async { let _ = view.wait_for(|view| !view.state.is_active()).await; } => return Err(self.ended_error()),
        };
        self.touch();
        match outcome {
            Ok(Ok(stored)) => Ok(stored),
            Ok(Err(error)) => Err(failure_error(&error)),
            Err(_) => {
                let wait = self.timeouts.segment.as_secs();
                Err(Error::new(Code::SegmentTimeout, format!("segment {index} not ready within {wait} s"))
                    .with_retry_after(2))
            }
        }
    }

    /// Leases a rung. If all encode slots are in use, the rung the player came from is released at once.
    async fn lease(&self, rung: usize) -> Result<Arc<Lease>> {
        let slots = self.renditions.encode_slots();
        let attempt = || async {
            if !self.is_live() {
                return Err(self.ended_error());
            }
            if let Some(lease) = self.rung_leases.request_lease(rung) {
                return Ok(lease);
            }
            let admission = self.rung_leases.admission();
            let viewer = admission.as_ref().map_or(AdmissionRequest::Session, AdmissionRequest::Admitted);
            let is_crowded = slots.used_slots() >= slots.slot_count();
            let (lease, backend) = self.renditions.lease(&self.plan.rungs[rung].spec, viewer).await?;
            if is_crowded && lease.admission().is_some() {
                self.rung_leases.release_unused(rung, Duration::ZERO);
            }
            self.rung_leases.add_lease(rung, lease, backend);
            self.rung_leases.request_lease(rung).ok_or_else(|| self.ended_error())
        };
        slots.retry_when_busy(Instant::now() + ADMISSION_TIMEOUT, attempt, || AfterRefusal::Wait).await
    }

    /// Releases every rung but the one requested last.
    pub(super) fn release_unused_rungs(&self) {
        self.rung_leases.release_unused(self.rung_leases.watch_current().borrow().rung, Duration::ZERO);
    }

    /// A segment of the subtitle rendition, as WebVTT.
    ///
    /// # Errors
    /// `ASSET_NOT_FOUND` past the end or without such a rendition; those of [`Subtitles::read_cues`].
    pub async fn subtitle_segment(&self, subtitles: &Subtitles, index: usize) -> Result<String> {
        self.touch();
        let spec = self.plan.spec();
        let grid = playlist::subtitle_grid(&spec.grid);
        let subtitle = match self.plan.subtitles.as_ref().map(|text| &text.delivery) {
            Some(SubtitleDelivery::Text { stream }) if index < grid.len() => SubtitleLocation::Stream(*stream),
            Some(SubtitleDelivery::TextSidecar { path }) if index < grid.len() => SubtitleLocation::File(path.clone()),
            _ => return Err(Error::new(Code::AssetNotFound, format!("there is no subtitle segment {index}"))),
        };
        let cues = subtitles.read_cues(&spec.source, &spec.media, &subtitle).await?;
        let (start, end) = (grid.segment_start(index), grid.segment_start(index) + grid.segment_length(index));
        Ok(write_webvtt_segment(&cues, start.as_seconds(), end.as_seconds(), TIMELINE_BASE))
    }

    /// Waits up to `wait` for the segment at the start position; false if it is not ready by then.
    ///
    /// # Errors
    /// `SESSION_ENDED`, or why the session failed.
    pub async fn wait_ready(&self, wait: Duration) -> Result<bool> {
        self.touch();
        let mut view = self.view.subscribe();
        let started = view.wait_for(|view| view.state != SessionState::Starting);
        let has_started = tokio::time::timeout(wait, started).await.is_ok();
        self.touch();
        if has_started && !self.is_live() {
            return Err(self.ended_error());
        }
        Ok(self.view.borrow().state.is_ready())
    }

    /// Fails when the session no longer serves.
    ///
    /// # Errors
    /// `SESSION_ENDED`, or why the session failed.
    pub fn ensure_live(&self) -> Result<()> {
        self.touch();
        if self.is_live() { Ok(()) } else { Err(self.ended_error()) }
    }

    fn ended_error(&self) -> Error {
        let view = self.view.borrow();
        match (&view.failure, view.state) {
            (Some(failure), SessionState::Failed) => failure_error(&failure.error),
            _ => session_ended_error(),
        }
    }

    pub fn status(&self) -> SessionStatus {
        self.touch();
        self.current_status()
    }

    /// Like [`Self::status`], but does not reset the idle timeout.
    pub(super) fn current_status(&self) -> SessionStatus {
        let view = self.view.borrow().clone();
        let last_access_at = lock(&self.last_access).1;
        let CurrentRung { rung, backend, progress } = self.rung_leases.watch_current().borrow().clone();
        let progress = progress.borrow().clone();
        let leased_rungs = self.rung_leases.leased_rungs();
        SessionStatus {
            state: view.state,
            failure: view.failure,
            progress,
            rung,
            backend,
            leased_rungs,
            last_access_at,
        }
    }

    /// The rung of a playlist track; None for other tracks and unknown rungs.
    pub fn rung_of_track(&self, track: PlaylistTrack) -> Option<usize> {
        match (track, self.plan.spec().rendition.video.is_some()) {
            (PlaylistTrack::Video(rung), true) => Some(rung).filter(|rung| *rung < self.plan.rungs.len()),
            (PlaylistTrack::Audio(0), false) => Some(0),
            _ => None,
        }
    }

    /// The multivariant playlist with `grant` in every URI, and with `EXT-X-START` if the player accepts it there.
    pub fn multivariant(&self, with_start: bool, grant: &str) -> Bytes {
        let video_codec = self.view.borrow().video_codec.clone();
        let subtitles = self.plan.subtitles.as_ref().map(|subtitles| &subtitles.rendition);
        let subtitles = subtitles.map_or(&[][..], std::slice::from_ref);
        let start = self.plan.request.start_seconds - self.plan.list_start_seconds();
        let start = if with_start { start } else { 0.0 };
        let variants = self.plan.variants(video_codec.as_deref());
        MultivariantPlaylist::of_mpegts(&variants, subtitles, start).render(grant).into()
    }

    /// A media playlist with `grant` in every URI.
    ///
    /// # Errors
    /// `ASSET_NOT_FOUND` for a track the session does not have.
    pub fn media_playlist(&self, track: PlaylistTrack, grant: &str) -> Result<Bytes> {
        let (start_seconds, from) = (self.plan.request.start_seconds, self.plan.list_start());
        let render = |grid: &Grid| {
            let playlist = MediaPlaylist { track, init: None, grid, from, start_seconds, is_independent: true };
            Ok(playlist.render(grant).into())
        };
        if let Some(rung) = self.rung_of_track(track) {
            render(&self.plan.rungs[rung].spec.grid)
        } else if track == PlaylistTrack::Subtitles(0) && self.plan.subtitles.is_some() {
            render(&playlist::subtitle_grid(&self.plan.spec().grid))
        } else {
            Err(Error::new(Code::AssetNotFound, "the session has no such track"))
        }
    }
}
