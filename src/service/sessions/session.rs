//! One session: its state, its owner task, and the playlists and segments it serves.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::failure::{SessionFailure, failure_error, session_ended_error};
use super::leases::{CurrentRung, SessionLeases};
use super::lock;
use super::record::{InitSegment, PublishedParts, SessionRecord, StoredBytes};
use super::record_writer::RecordWriter;
use crate::domain::cmaf::init_reader::split_init;
use crate::domain::histogram::Histogram;
use crate::domain::session::{SessionEvent, SessionState};
use crate::engine::RunError;
use crate::engine::content::SegmentContent;
use crate::engine::segment_cache::StoredSegment;
use crate::engine::source::SourceFile;
use crate::error::{Code, Error, Result};
use crate::service::accounts::random_bytes;
use crate::service::renditions::encode_slots::{AdmissionRequest, AfterRefusal};
use crate::service::renditions::planner::{RenditionId, SessionPlan, start_segment};
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
    /// An earlier process of the server started it.
    pub(super) is_resumed: bool,
    timeouts: SessionTimeouts,
    last_access: Mutex<(Instant, Timestamp)>,
    view: watch::Sender<SessionView>,
    pub(super) leases: SessionLeases,
    /// Published init segments of encoded renditions.
    pub(super) encoded_inits: Mutex<Vec<(RenditionId, Bytes)>>,
    /// The published init segment of its I-frames, if they are made.
    pub(super) made_iframe_init: OnceLock<Bytes>,
    renditions: Arc<Renditions>,
    records: RecordWriter,
    stop: CancellationToken,
}

/// The id of a session, its owner and its age, which it keeps over restarts.
pub(super) struct SessionIdentity {
    pub(super) id: String,
    pub(super) user_id: String,
    pub(super) started_at: Timestamp,
}

impl SessionIdentity {
    /// That of a session that starts now.
    pub(super) fn new(user_id: &str) -> Self {
        let id = format!("ts_{}", data_encoding::HEXLOWER.encode(&random_bytes::<16>()));
        Self { id, user_id: user_id.to_owned(), started_at: Timestamp::now() }
    }
}

/// The handles with which a session works.
pub(super) struct SessionHandles {
    pub(super) renditions: Arc<Renditions>,
    pub(super) records: RecordWriter,
    pub(super) stop: CancellationToken,
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
        identity: SessionIdentity,
        plan: SessionPlan,
        (lease, backend): (Arc<Lease>, BackendChoice),
        timeouts: SessionTimeouts,
        handles: SessionHandles,
    ) -> Self {
        let leases = SessionLeases::new(plan.rungs.len(), plan.audio.renditions().len(), lease, backend);
        Self {
            id: identity.id,
            user_id: identity.user_id,
            plan,
            started_at: identity.started_at,
            created_at: Instant::now(),
            is_resumed: false,
            timeouts,
            last_access: Mutex::new((Instant::now(), Timestamp::now())),
            view: watch::Sender::new(SessionView { state: SessionState::Starting, failure: None, video_codec: None }),
            leases,
            encoded_inits: Mutex::default(),
            made_iframe_init: OnceLock::new(),
            renditions: handles.renditions,
            records: handles.records,
            stop: handles.stop,
        }
    }

    /// A session as it was when `published` was stored. Its next segment is made when a player requests it.
    pub(super) fn with_published(self, published: PublishedParts) -> Self {
        let PublishedParts { is_ready, video_codec, init_segments, iframe_init } = published;
        let inits = init_segments.into_iter().map(|init| (init.rendition, init.bytes.0)).collect();
        let state = if is_ready { SessionState::Paused } else { SessionState::Starting };
        self.view.send_modify(|view| *view = SessionView { state, failure: None, video_codec });
        let made_iframe_init = iframe_init.map_or_else(OnceLock::new, |init| OnceLock::from(init.0));
        Self { is_resumed: true, encoded_inits: Mutex::new(inits), made_iframe_init, ..self }
    }

    /// The session as it is stored.
    pub(super) fn to_record(&self) -> SessionRecord {
        let view = self.view.borrow().clone();
        let to_stored =
            |(id, init): &(RenditionId, Bytes)| InitSegment { rendition: *id, bytes: StoredBytes(init.clone()) };
        let published = PublishedParts {
            is_ready: view.state.is_ready(),
            video_codec: view.video_codec,
            init_segments: lock(&self.encoded_inits).iter().map(to_stored).collect(),
            iframe_init: self.made_iframe_init.get().cloned().map(StoredBytes),
        };
        SessionRecord::new(&self.user_id, self.started_at, &self.plan, published)
    }

    /// Stores what was published, in the background.
    pub(super) fn save(&self) {
        self.records.save(&self.id);
    }

    pub(super) fn age(&self) -> Duration {
        self.created_at.elapsed()
    }

    /// Drives the state until the session ends. `lease` is that of its first rung.
    pub(super) async fn run(&self, lease: Arc<Lease>, first_segment_times: &Histogram) {
        let first_segment = start_segment(&self.plan);
        let source = self.source();
        let first_video = async move { lease.segment(first_segment).await?.content.read_head(source).await };
        let first_head = async { tokio::join!(first_video, self.prepare_audio(first_segment)).0 };
        // A resumed session was ready before.
        let mut first_head = (!self.view.borrow().state.is_ready()).then(|| Box::pin(first_head));
        let mut current_rung = self.leases.watch_current();
        let mut progress = current_rung.borrow_and_update().progress.clone();
        // The current rung was released; another one becomes current as soon as it is requested.
        let mut is_released = false;
        loop {
            self.leases.release_left();
            let release_at = self.leases.next_release_at();
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
                            first_segment_times.record(self.age());
                            let video_codec = self.plan.read_video_codec(&head);
                            self.view.send_modify(|view| view.video_codec = video_codec);
                            SessionEvent::Ready
                        }
                        Err(error) => self.record_failure(error),
                    }
                }
                changed = progress.changed(), if first_head.is_none() && !is_released => {
                    if changed.is_err() && !self.leases.publishes(&progress) {
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
                self.leases.release_all();
            }
            self.view.send_modify(|view| view.state = state);
            if event == SessionEvent::Ready {
                self.save();
            }
            if state == SessionState::Failed {
                self.records.remove(&self.id);
                // Its status can be requested until it is stopped or idle.
                self.wait_until_stopped().await;
            }
            if !state.is_active() {
                break;
            }
        }
    }

    /// Has the first segment of audio made that is not packaged, for which the player would wait otherwise. A failure is reported to
    /// its requests.
    async fn prepare_audio(&self, first_segment: usize) {
        if self.plan.audio.tracks().first().is_some_and(|track| track.spec.package.is_none()) {
            let _ = self.stored_segment(RenditionId::Audio(0), first_segment).await;
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

    /// Resets the idle timeout.
    pub fn touch(&self) {
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

    /// RFC 6381 codec string of the video, once its first segment exists; None if it is not known.
    pub(super) fn video_codec(&self) -> Option<String> {
        self.view.borrow().video_codec.clone()
    }

    /// A media segment of a rendition.
    ///
    /// # Errors
    /// `ASSET_NOT_FOUND` past the end and for an unknown rendition, `SESSION_ENDED`, `SEGMENT_TIMEOUT`,
    /// `TRANSCODER_BUSY`, or why the session failed.
    pub async fn segment(&self, id: RenditionId, index: usize) -> Result<StoredSegment> {
        let mut stored = self.stored_segment(id, index).await?;
        if let SegmentContent::InMemory(bytes) = &mut stored.content
            && let Some((_, media)) = split_init(bytes)
        {
            *bytes = bytes.slice_ref(media);
        }
        Ok(stored)
    }

    /// A segment as it is stored: an encoded one in fMP4 begins with its own init segment.
    ///
    /// # Errors
    /// As [`Self::segment`].
    pub(super) async fn stored_segment(&self, id: RenditionId, index: usize) -> Result<StoredSegment> {
        self.touch();
        if self.plan.spec_of(id).is_none_or(|spec| index >= spec.grid.len()) {
            return Err(Error::new(Code::AssetNotFound, format!("there is no segment {index}")));
        }
        let lease = self.lease(id).await?;
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

    /// Leases a rendition. If all encode slots are in use, the rung the player came from is released at once.
    async fn lease(&self, id: RenditionId) -> Result<Arc<Lease>> {
        let no_rendition = || Error::new(Code::AssetNotFound, "the session has no such rendition");
        let spec = self.plan.spec_of(id).ok_or_else(no_rendition)?;
        let slots = self.renditions.encode_slots();
        let attempt = || async {
            if !self.is_live() {
                return Err(self.ended_error());
            }
            if let Some(lease) = self.leases.request_lease(id) {
                return Ok(lease);
            }
            let admission = self.leases.admission();
            let viewer = admission.as_ref().map_or(AdmissionRequest::Session, AdmissionRequest::Admitted);
            let is_crowded = slots.used_slots() >= slots.slot_count();
            let (lease, backend) = self.renditions.lease(spec, viewer).await?;
            if let RenditionId::Rung(rung) = id
                && is_crowded
                && lease.admission().is_some()
            {
                self.leases.release_unused(rung, Duration::ZERO);
            }
            self.leases.add_lease(id, lease, backend);
            self.leases.request_lease(id).ok_or_else(|| self.ended_error())
        };
        slots.retry_when_busy(Instant::now() + ADMISSION_TIMEOUT, attempt, || AfterRefusal::Wait).await
    }

    /// Releases every rung but the one requested last.
    pub(super) fn release_unused_rungs(&self) {
        self.leases.release_unused(self.leases.watch_current().borrow().rung, Duration::ZERO);
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
        let CurrentRung { rung, backend, progress } = self.leases.watch_current().borrow().clone();
        let progress = progress.borrow().clone();
        let leased_rungs = self.leases.leased_rungs();
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
}
