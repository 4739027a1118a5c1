//! One session: its state, its owner task, and the playlists and segments it serves.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::ended::session_ended;
use super::failure::{Failure, refusal};
use super::rungs::{Current, Producer, Rungs};
use super::{Makers, lock};
use crate::domain::playback::SubtitleDelivery;
use crate::domain::playlist::{self, PlaylistTrack};
use crate::domain::session::{SessionAction, SessionEvent, SessionState};
use crate::domain::subtitles::write_webvtt_segment;
use crate::domain::time::{TICKS_PER_SECOND, to_seconds};
use crate::engine::segment_cache::StoredSegment;
use crate::engine::source::SourceFile;
use crate::engine::{RunError, TIMELINE_BASE_SECONDS};
use crate::error::{Code, Error, Result};
use crate::service::accounts::random_bytes;
use crate::service::encode_slots::AdmissionRequest;
use crate::service::planner::{SessionPlan, start_segment};
use crate::service::runs::{Activity, Lease, Progress};
use crate::service::subtitles::{Subtitles, Which};

/// How often admission to the encode slots is retried, and for how long before the viewer is refused.
const RETRY: Duration = Duration::from_millis(50);
const ADMISSION: Duration = Duration::from_millis(1500);

/// One session. Its owner task is the only one that changes its state.
pub struct Session {
    pub id: String,
    pub user_id: String,
    pub plan: SessionPlan,
    pub started_at: Timestamp,
    created: Instant,
    patience: Patience,
    access: Mutex<(Instant, Timestamp)>,
    view: watch::Sender<View>,
    pub(super) rungs: Rungs,
    makers: Weak<Makers>,
    stop: Notify,
}

#[derive(Clone, Debug)]
struct View {
    state: SessionState,
    failure: Option<Failure>,
    /// RFC 6381 codec string of the video, read from the first segment.
    video_codec: Option<String>,
}

/// The status of a session.
#[derive(Clone, Debug)]
pub struct Status {
    pub state: SessionState,
    pub failure: Option<Failure>,
    /// Progress of the rung requested last.
    pub progress: Progress,
    pub rung: usize,
    /// The backend chosen for it, and why.
    pub producer: (&'static str, &'static str),
    /// Which rungs are leased.
    pub held: Vec<bool>,
    pub last_access_at: Timestamp,
}

/// Timeouts of a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Without a request, the session ends.
    pub(super) idle: Duration,
    /// For a requested segment.
    pub(super) segment: Duration,
}

impl Session {
    pub(super) fn new(
        user_id: &str,
        plan: SessionPlan,
        producer: Producer,
        lease: Lease,
        (makers, patience): (Weak<Makers>, Patience),
    ) -> Self {
        let rungs = Rungs::new(plan.rungs.len(), lease, producer);
        Self {
            id: format!("ts_{}", data_encoding::HEXLOWER.encode(&random_bytes::<16>())),
            user_id: user_id.to_owned(),
            plan,
            started_at: Timestamp::now(),
            created: Instant::now(),
            patience,
            access: Mutex::new((Instant::now(), Timestamp::now())),
            view: watch::Sender::new(View { state: SessionState::Starting, failure: None, video_codec: None }),
            rungs,
            makers,
            stop: Notify::new(),
        }
    }

    pub(super) fn age(&self) -> Duration {
        self.created.elapsed()
    }

    /// Drives the state until the session ends.
    pub(super) async fn own(&self) {
        let first = start_segment(&self.plan);
        let lease = self.rungs.pull(0);
        let source = self.source();
        let mut make_first =
            lease.map(|lease| Box::pin(async move { lease.segment(first).await?.content.read_head(source).await }));
        let mut current = self.rungs.current();
        let mut progress = current.borrow_and_update().progress.clone();
        // The current rung was released; another one becomes current as soon as it is requested.
        let mut left = false;
        loop {
            self.rungs.tidy();
            let tidy_at = self.rungs.tidy_at();
            let idle_at = lock(&self.access).0 + self.patience.idle;
            let event = tokio::select! {
                // The progress of a released rung ends and must not be read any more.
                biased;
                () = self.stop.notified() => SessionEvent::Stop,
                _ = current.changed() => {
                    progress = current.borrow_and_update().progress.clone();
                    progress.mark_changed();
                    left = false;
                    continue;
                }
                first = async { make_first.as_mut().expect("guarded").await }, if make_first.is_some() => {
                    make_first = None;
                    match first {
                        Ok(head) => {
                            let video_codec = playlist::avc_codec_string(&head);
                            self.view.send_modify(|view| view.video_codec = video_codec);
                            SessionEvent::Ready
                        }
                        Err(error) => self.failed(error),
                    }
                }
                changed = progress.changed(), if make_first.is_none() && !left => {
                    if changed.is_err() && !self.rungs.holds(&progress) {
                        left = true;
                        continue;
                    }
                    let (failure, activity) = {
                        let seen = progress.borrow_and_update();
                        (seen.failure.clone(), seen.activity)
                    };
                    match (changed.is_ok(), failure, activity) {
                        (_, Some(error), _) => self.failed(error),
                        (false, None, _) => self.failed(RunError::Internal("the run ended".into())),
                        (true, None, Activity::AllMade) => SessionEvent::AllSegmentsReady,
                        (true, None, Activity::Working) => SessionEvent::Working,
                        (true, None, Activity::Ahead) => SessionEvent::Ahead,
                    }
                }
                () = tokio::time::sleep_until(tidy_at.unwrap_or(idle_at)), if tidy_at.is_some() => continue,
                () = tokio::time::sleep_until(idle_at) => {
                    if lock(&self.access).0.elapsed() < self.patience.idle {
                        continue;
                    }
                    SessionEvent::Stop
                }
            };
            let (state, actions) = self.view.borrow().state.after(event);
            if actions.contains(&SessionAction::Release) {
                self.rungs.end();
            }
            self.view.send_modify(|view| view.state = state);
            if state == SessionState::Failed {
                // Its status can be requested until it is stopped or idle.
                self.rest().await;
            }
            if !state.is_active() {
                break;
            }
        }
    }

    /// Waits until a failed session is stopped or idle.
    async fn rest(&self) {
        loop {
            let idle_at = lock(&self.access).0 + self.patience.idle;
            tokio::select! {
                () = self.stop.notified() => break,
                () = tokio::time::sleep_until(idle_at) => {
                    if lock(&self.access).0.elapsed() >= self.patience.idle {
                        break;
                    }
                }
            }
        }
        let (state, _) = self.view.borrow().state.after(SessionEvent::Stop);
        self.view.send_modify(|view| view.state = state);
    }

    fn failed(&self, error: RunError) -> SessionEvent {
        tracing::warn!(session.id = self.id, %error, "session failed");
        self.view.send_modify(|view| view.failure = Some(Failure { error, at: Timestamp::now() }));
        SessionEvent::Fault
    }

    pub(super) fn is_live(&self) -> bool {
        self.view.borrow().state.is_active()
    }

    pub(super) fn touch(&self) {
        *lock(&self.access) = (Instant::now(), Timestamp::now());
    }

    /// Stops the session and waits for its end; false if it had already ended.
    pub(super) async fn stop(&self) -> bool {
        let mut view = self.view.subscribe();
        if view.borrow_and_update().state == SessionState::Stopped {
            return false;
        }
        self.stop.notify_one();
        let _ = view.wait_for(|view| view.state == SessionState::Stopped).await;
        true
    }

    /// The file that is played.
    pub fn source(&self) -> &Arc<SourceFile> {
        &self.plan.work().source
    }

    /// A segment of a rung.
    ///
    /// # Errors
    /// `ASSET_NOT_FOUND` past the end and for an unknown rung, `SESSION_ENDED`, `SEGMENT_TIMEOUT`,
    /// `TRANSCODER_BUSY`, or why the session failed.
    pub async fn segment(&self, rung: usize, index: usize) -> Result<StoredSegment> {
        self.touch();
        if self.plan.rungs.get(rung).is_none_or(|rung| index >= rung.work.grid.len()) {
            return Err(Error::new(Code::AssetNotFound, format!("there is no segment {index}")));
        }
        let lease = self.lease(rung).await?;
        let mut view = self.view.subscribe();
        let made = tokio::select! {
            made = tokio::time::timeout(self.patience.segment, lease.segment(index)) => made,
            () = async { let _ = view.wait_for(|view| !view.state.is_active()).await; } => return Err(self.gone()),
        };
        self.touch();
        match made {
            Ok(Ok(stored)) => Ok(stored),
            Ok(Err(error)) => Err(refusal(&error)),
            Err(_) => {
                let wait = self.patience.segment.as_secs();
                Err(Error::new(Code::SegmentTimeout, format!("segment {index} not ready within {wait} s"))
                    .with_retry_after(2))
            }
        }
    }

    /// Leases a rung. If all encode slots are in use, the rung the player came from is released at once.
    async fn lease(&self, rung: usize) -> Result<Arc<Lease>> {
        let until = Instant::now() + ADMISSION;
        loop {
            if !self.is_live() {
                return Err(self.gone());
            }
            if let Some(lease) = self.rungs.pull(rung) {
                return Ok(lease);
            }
            let makers = self.makers.upgrade().ok_or_else(|| self.gone())?;
            let admission = self.rungs.admission();
            let viewer = admission.as_ref().map_or(AdmissionRequest::Session, AdmissionRequest::Admitted);
            let slots = makers.runs.encode_slots();
            let is_crowded = slots.used_slots() >= slots.slot_count();
            match makers.lease(&self.plan.rungs[rung].work, viewer).await {
                Ok((lease, producer)) => {
                    if is_crowded && lease.admission().is_some() {
                        self.rungs.leave(rung, Duration::ZERO);
                    }
                    self.rungs.hold(rung, lease, producer);
                }
                Err(busy) if busy.code == Code::TranscoderBusy && Instant::now() < until => {
                    tokio::time::sleep(RETRY).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Releases every rung but the one requested last.
    pub(super) fn leave(&self) {
        self.rungs.leave(self.rungs.current().borrow().rung, Duration::ZERO);
    }

    /// A segment of the subtitle rendition, as WebVTT.
    ///
    /// # Errors
    /// `ASSET_NOT_FOUND` past the end or without such a rendition; those of [`Subtitles::script`].
    pub async fn subtitle_segment(&self, subtitles: &Subtitles, index: usize) -> Result<String> {
        self.touch();
        let work = self.plan.work();
        let grid = playlist::subtitle_grid(&work.grid);
        let which = match self.plan.subtitles.as_ref().map(|text| &text.delivery) {
            Some(SubtitleDelivery::Text { stream }) if index < grid.len() => Which::Stream(*stream),
            Some(SubtitleDelivery::TextSidecar { path }) if index < grid.len() => Which::File(path.clone()),
            _ => return Err(Error::new(Code::AssetNotFound, format!("there is no subtitle segment {index}"))),
        };
        let cues = subtitles.cues(&work.source, &work.media, &which).await?;
        let (start, end) = (grid.segment_start(index), grid.segment_start(index) + grid.segment_length(index));
        Ok(write_webvtt_segment(&cues, to_seconds(start), to_seconds(end), TIMELINE_BASE_SECONDS * TICKS_PER_SECOND))
    }

    /// Waits up to `wait` for the segment at the start position; false if it is not ready by then.
    ///
    /// # Errors
    /// `SESSION_ENDED`, or why the session failed.
    pub async fn ready(&self, wait: Duration) -> Result<bool> {
        self.touch();
        let mut view = self.view.subscribe();
        let settled = view.wait_for(|view| view.state != SessionState::Starting);
        let settled = tokio::time::timeout(wait, settled).await.is_ok();
        self.touch();
        if settled && !self.is_live() {
            return Err(self.gone());
        }
        Ok(self.view.borrow().state.is_ready())
    }

    /// Fails when the session no longer serves.
    ///
    /// # Errors
    /// `SESSION_ENDED`, or why the session failed.
    pub fn serves(&self) -> Result<()> {
        self.touch();
        if self.is_live() { Ok(()) } else { Err(self.gone()) }
    }

    fn gone(&self) -> Error {
        let view = self.view.borrow();
        match (&view.failure, view.state) {
            (Some(failure), SessionState::Failed) => refusal(&failure.error),
            _ => session_ended(),
        }
    }

    pub fn status(&self) -> Status {
        self.touch();
        self.view()
    }

    /// Like [`Self::status`], but does not reset the idle timeout.
    pub(super) fn view(&self) -> Status {
        let view = self.view.borrow().clone();
        let last_access_at = lock(&self.access).1;
        let Current { rung, producer, progress } = self.rungs.current().borrow().clone();
        let progress = progress.borrow().clone();
        let held = self.rungs.held();
        Status { state: view.state, failure: view.failure, progress, rung, producer, held, last_access_at }
    }

    /// The rung of a playlist track; None for other tracks and unknown rungs.
    pub fn rung(&self, track: PlaylistTrack) -> Option<usize> {
        match (track, self.plan.work().rendition.video.is_some()) {
            (PlaylistTrack::Video(rung), true) => Some(rung).filter(|rung| *rung < self.plan.rungs.len()),
            (PlaylistTrack::Audio, false) => Some(0),
            _ => None,
        }
    }

    /// The multivariant playlist with `grant` in every URI, and with `EXT-X-START` if the player accepts it there.
    pub fn multivariant(&self, with_start: bool, grant: &str) -> Bytes {
        let known = self.view.borrow().video_codec.clone();
        let subtitles = self.plan.subtitles.as_ref().map(|subtitles| &subtitles.rendition);
        let start = self.plan.request.start_seconds - self.plan.list_start_seconds();
        let start = if with_start { start } else { 0.0 };
        playlist::multivariant_playlist(&self.plan.variants(known.as_deref()), subtitles, start, grant).into()
    }

    /// A media playlist with `grant` in every URI.
    ///
    /// # Errors
    /// `ASSET_NOT_FOUND` for a track the session does not have.
    pub fn media_playlist(&self, track: PlaylistTrack, grant: &str) -> Result<Bytes> {
        let (start, from) = (self.plan.request.start_seconds, self.plan.list_start());
        let grid = &self.plan.work().grid;
        if let Some(rung) = self.rung(track) {
            Ok(playlist::media_playlist(track, &self.plan.rungs[rung].work.grid, from, start, grant).into())
        } else if track == PlaylistTrack::Subtitles && self.plan.subtitles.is_some() {
            Ok(playlist::media_playlist(track, &playlist::subtitle_grid(grid), from, start, grant).into())
        } else {
            Err(Error::new(Code::AssetNotFound, "the session has no such track"))
        }
    }
}
