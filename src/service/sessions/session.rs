//! One session: its state, the task that drives it, and what it serves.

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
use crate::domain::playback::SubtitleWish;
use crate::domain::playlist::{self, Track};
use crate::domain::session::{Action, Event, State};
use crate::domain::subtitles::webvtt_segment;
use crate::domain::time::{TICKS_PER_SECOND, seconds};
use crate::engine::segments::Stored;
use crate::engine::source::Source;
use crate::engine::{RunError, TIMELINE_BASE_SECONDS};
use crate::error::{Code, Error, Result};
use crate::service::accounts::random;
use crate::service::encode_slots::Viewer;
use crate::service::planner::{Plan, first_wanted};
use crate::service::runs::{Activity, Lease, Progress};
use crate::service::subtitles::{Subtitles, Which};

/// How often admission to the encode slots is requested, and for how long: a viewer is told soon.
const RETRY: Duration = Duration::from_millis(50);
const ADMISSION: Duration = Duration::from_millis(1500);

/// One session. Its owner task is the only one that changes its state.
pub struct Session {
    pub id: String,
    pub user_id: String,
    pub plan: Plan,
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
    state: State,
    failure: Option<Failure>,
    /// RFC 6381 of the picture, read from the first segment.
    video_codec: Option<String>,
}

/// A session as it stands.
#[derive(Clone, Debug)]
pub struct Status {
    pub state: State,
    pub failure: Option<Failure>,
    /// Of the rung that was pulled last.
    pub progress: Progress,
    pub rung: usize,
    /// Who was chosen to make its segments, and why.
    pub producer: (&'static str, &'static str),
    /// Which rungs are made, or would be if more were needed.
    pub held: Vec<bool>,
    pub last_access_at: Timestamp,
}

/// How patient a session is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// With a viewer who asks for nothing.
    pub(super) idle: Duration,
    /// With a segment that is asked for.
    pub(super) segment: Duration,
}

impl Session {
    pub(super) fn new(
        user_id: &str,
        plan: Plan,
        producer: Producer,
        lease: Lease,
        (makers, patience): (Weak<Makers>, Patience),
    ) -> Self {
        let rungs = Rungs::new(plan.rungs.len(), lease, producer);
        Self {
            id: format!("ts_{}", data_encoding::HEXLOWER.encode(&random::<16>())),
            user_id: user_id.to_owned(),
            plan,
            started_at: Timestamp::now(),
            created: Instant::now(),
            patience,
            access: Mutex::new((Instant::now(), Timestamp::now())),
            view: watch::Sender::new(View { state: State::Starting, failure: None, video_codec: None }),
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
        let first = first_wanted(&self.plan);
        let lease = self.rungs.pull(0);
        let source = self.source();
        let mut make_first =
            lease.map(|lease| Box::pin(async move { lease.segment(first).await?.content.head(source).await }));
        let mut current = self.rungs.current();
        let mut progress = current.borrow_and_update().progress.clone();
        // Its rung gave its place to another, which will be the current one as soon as it is pulled.
        let mut left = false;
        loop {
            self.rungs.tidy();
            let tidy_at = self.rungs.tidy_at();
            let idle_at = lock(&self.access).0 + self.patience.idle;
            let event = tokio::select! {
                // A rung that was let go ends, and must not be looked at any more.
                biased;
                () = self.stop.notified() => Event::Stop,
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
                            let video_codec = playlist::avc_codec(&head);
                            self.view.send_modify(|view| view.video_codec = video_codec);
                            Event::Ready
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
                        (true, None, Activity::AllMade) => Event::AllMade,
                        (true, None, Activity::Working) => Event::Working,
                        (true, None, Activity::Ahead) => Event::Ahead,
                    }
                }
                () = tokio::time::sleep_until(tidy_at.unwrap_or(idle_at)), if tidy_at.is_some() => continue,
                () = tokio::time::sleep_until(idle_at) => {
                    if lock(&self.access).0.elapsed() < self.patience.idle {
                        continue;
                    }
                    Event::Stop
                }
            };
            let (state, actions) = self.view.borrow().state.on(event);
            if actions.contains(&Action::Release) {
                self.rungs.end();
            }
            self.view.send_modify(|view| view.state = state);
            if state == State::Failed {
                // It stays as it is for whoever asks, until it is stopped or idle.
                self.rest().await;
            }
            if !state.is_live() {
                break;
            }
        }
    }

    /// A failed session waits to be stopped or forgotten.
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
        let (state, _) = self.view.borrow().state.on(Event::Stop);
        self.view.send_modify(|view| view.state = state);
    }

    fn failed(&self, error: RunError) -> Event {
        tracing::warn!(session.id = self.id, %error, "session failed");
        self.view.send_modify(|view| view.failure = Some(Failure { error, at: Timestamp::now() }));
        Event::Fault
    }

    pub(super) fn is_live(&self) -> bool {
        self.view.borrow().state.is_live()
    }

    pub(super) fn touch(&self) {
        *lock(&self.access) = (Instant::now(), Timestamp::now());
    }

    /// Stops it and waits for the end; false when it had ended before.
    pub(super) async fn stop(&self) -> bool {
        let mut view = self.view.subscribe();
        if view.borrow_and_update().state == State::Stopped {
            return false;
        }
        self.stop.notify_one();
        let _ = view.wait_for(|view| view.state == State::Stopped).await;
        true
    }

    /// The file its segments are made of.
    pub fn source(&self) -> &Arc<Source> {
        &self.plan.work().source
    }

    /// A segment of a rung.
    ///
    /// # Errors
    /// `ASSET_NOT_FOUND` behind the end and for a rung there is not, `SESSION_ENDED`, `SEGMENT_TIMEOUT`,
    /// `TRANSCODER_BUSY`, or why the session failed.
    pub async fn segment(&self, rung: usize, index: usize) -> Result<Stored> {
        self.touch();
        if self.plan.rungs.get(rung).is_none_or(|rung| index >= rung.work.grid.len()) {
            return Err(Error::new(Code::AssetNotFound, format!("there is no segment {index}")));
        }
        let lease = self.lease(rung).await?;
        let mut view = self.view.subscribe();
        let made = tokio::select! {
            made = tokio::time::timeout(self.patience.segment, lease.segment(index)) => made,
            () = async { let _ = view.wait_for(|view| !view.state.is_live()).await; } => return Err(self.gone()),
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

    /// The lease of a rung. Where it has to wait for an encode slot, the rung that was left for it leaves at once.
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
            let viewer = admission.as_ref().map_or(Viewer::Session, Viewer::Admitted);
            let slots = makers.runs.encode_slots();
            let is_crowded = slots.in_use() >= slots.count();
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

    /// Lets go of every rung but the one pulled last.
    pub(super) fn leave(&self) {
        self.rungs.leave(self.rungs.current().borrow().rung, Duration::ZERO);
    }

    /// A segment of the subtitle rendition, as WebVTT.
    ///
    /// # Errors
    /// `ASSET_NOT_FOUND` behind the end or without such a rendition; those of [`Subtitles::script`].
    pub async fn subtitle_segment(&self, subtitles: &Subtitles, index: usize) -> Result<String> {
        self.touch();
        let work = self.plan.work();
        let grid = playlist::subtitle_grid(&work.grid);
        let which = match self.plan.subtitles.as_ref().map(|text| &text.wish) {
            Some(SubtitleWish::Text { stream }) if index < grid.len() => Which::Stream(*stream),
            Some(SubtitleWish::TextSidecar { path }) if index < grid.len() => Which::File(path.clone()),
            _ => return Err(Error::new(Code::AssetNotFound, format!("there is no subtitle segment {index}"))),
        };
        let cues = subtitles.cues(&work.source, &work.media, &which).await?;
        let (start, end) = (grid.start(index), grid.start(index) + grid.length(index));
        Ok(webvtt_segment(&cues, seconds(start), seconds(end), TIMELINE_BASE_SECONDS * TICKS_PER_SECOND))
    }

    /// Waits up to `wait` for the segment at the start position; false when it is still to come.
    ///
    /// # Errors
    /// `SESSION_ENDED`, or why the session failed.
    pub async fn ready(&self, wait: Duration) -> Result<bool> {
        self.touch();
        let mut view = self.view.subscribe();
        let settled = view.wait_for(|view| view.state != State::Starting);
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
            (Some(failure), State::Failed) => refusal(&failure.error),
            _ => session_ended(),
        }
    }

    pub fn status(&self) -> Status {
        self.touch();
        self.view()
    }

    /// As [`Self::status`], but the session ages on.
    pub(super) fn view(&self) -> Status {
        let view = self.view.borrow().clone();
        let last_access_at = lock(&self.access).1;
        let Current { rung, producer, progress } = self.rungs.current().borrow().clone();
        let progress = progress.borrow().clone();
        let held = self.rungs.held();
        Status { state: view.state, failure: view.failure, progress, rung, producer, held, last_access_at }
    }

    /// The rung whose playlist this is; None for other tracks, and where the session has no such rung.
    pub fn rung(&self, track: Track) -> Option<usize> {
        match (track, self.plan.work().rendition.video.is_some()) {
            (Track::Video(rung), true) => Some(rung).filter(|rung| *rung < self.plan.rungs.len()),
            (Track::Audio, false) => Some(0),
            _ => None,
        }
    }

    /// The multivariant playlist, every address in it with `grant`; with `EXT-X-START` where the player takes it there.
    pub fn multivariant(&self, with_start: bool, grant: &str) -> Bytes {
        let known = self.view.borrow().video_codec.clone();
        let subtitles = self.plan.subtitles.as_ref().map(|subtitles| &subtitles.rendition);
        let start = self.plan.request.start_seconds - self.plan.list_start_seconds();
        let start = if with_start { start } else { 0.0 };
        playlist::multivariant(&self.plan.variants(known.as_deref()), subtitles, start, grant).into()
    }

    /// A media playlist, every address in it with `grant`.
    ///
    /// # Errors
    /// `ASSET_NOT_FOUND` for a track the session does not have.
    pub fn media_playlist(&self, track: Track, grant: &str) -> Result<Bytes> {
        let (start, from) = (self.plan.request.start_seconds, self.plan.list_start());
        let grid = &self.plan.work().grid;
        if let Some(rung) = self.rung(track) {
            Ok(playlist::media(track, &self.plan.rungs[rung].work.grid, from, start, grant).into())
        } else if track == Track::Subtitles && self.plan.subtitles.is_some() {
            Ok(playlist::media(track, &playlist::subtitle_grid(grid), from, start, grant).into())
        } else {
            Err(Error::new(Code::AssetNotFound, "the session has no such track"))
        }
    }
}
