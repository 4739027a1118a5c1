//! One session: its state, the task that drives it, and what it serves.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::failure::{Failure, refusal};
use super::lock;
use crate::domain::playback::SubtitleWish;
use crate::domain::playlist::{self, Track, Variant};
use crate::domain::session::{Action, Event, State};
use crate::domain::subtitles::webvtt_segment;
use crate::domain::time::{TICKS_PER_SECOND, seconds};
use crate::engine::segments::Stored;
use crate::engine::{RunError, TIMELINE_BASE_SECONDS};
use crate::error::{Code, Error, Result};
use crate::service::accounts::random;
use crate::service::planner::{Plan, first_wanted};
use crate::service::runs::{Activity, Lease, Progress};
use crate::service::subtitles::{Subtitles, Which};

/// One session. Its owner task is the only one that changes its state.
pub struct Session {
    pub id: String,
    pub user_id: String,
    pub plan: Plan,
    pub started_at: Timestamp,
    /// Who was chosen to make its segments, and why.
    pub producer: (&'static str, &'static str),
    created: Instant,
    patience: Patience,
    access: Mutex<(Instant, Timestamp)>,
    view: watch::Sender<View>,
    progress: watch::Receiver<Progress>,
    lease: Mutex<Option<Arc<Lease>>>,
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
    pub progress: Progress,
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
        producer: (&'static str, &'static str),
        lease: Lease,
        patience: Patience,
    ) -> Self {
        Self {
            id: format!("ts_{}", data_encoding::HEXLOWER.encode(&random::<16>())),
            user_id: user_id.to_owned(),
            plan,
            started_at: Timestamp::now(),
            producer,
            created: Instant::now(),
            patience,
            access: Mutex::new((Instant::now(), Timestamp::now())),
            view: watch::Sender::new(View { state: State::Starting, failure: None, video_codec: None }),
            progress: lease.progress(),
            lease: Mutex::new(Some(Arc::new(lease))),
            stop: Notify::new(),
        }
    }

    pub(super) fn age(&self) -> Duration {
        self.created.elapsed()
    }

    /// Drives the state until the session ends.
    pub(super) async fn own(&self) {
        let first = first_wanted(&self.plan);
        let lease = lock(&self.lease).clone();
        let mut make_first = lease.map(|lease| Box::pin(async move { lease.segment(first).await }));
        let mut progress = self.progress.clone();
        loop {
            let idle_at = lock(&self.access).0 + self.patience.idle;
            let event = tokio::select! {
                () = self.stop.notified() => Event::Stop,
                first = async { make_first.as_mut().expect("guarded").await }, if make_first.is_some() => {
                    make_first = None;
                    match first {
                        Ok(stored) => {
                            let video_codec = playlist::avc_codec(&stored.bytes);
                            self.view.send_modify(|view| view.video_codec = video_codec);
                            Event::Ready
                        }
                        Err(error) => self.failed(error),
                    }
                }
                changed = progress.changed(), if make_first.is_none() => {
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
                () = tokio::time::sleep_until(idle_at) => {
                    if lock(&self.access).0.elapsed() < self.patience.idle {
                        continue;
                    }
                    Event::Stop
                }
            };
            let (state, actions) = self.view.borrow().state.on(event);
            if actions.contains(&Action::Release) {
                lock(&self.lease).take();
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

    /// A segment of the rendition.
    ///
    /// # Errors
    /// `ASSET_NOT_FOUND` behind the end, `SESSION_ENDED`, `SEGMENT_TIMEOUT`, or why the session failed.
    pub async fn segment(&self, index: usize) -> Result<Stored> {
        self.touch();
        if index >= self.plan.work.grid.len() {
            return Err(Error::new(Code::AssetNotFound, format!("there is no segment {index}")));
        }
        let lease = lock(&self.lease).clone().ok_or_else(|| self.gone())?;
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

    /// A segment of the subtitle rendition, as WebVTT.
    ///
    /// # Errors
    /// `ASSET_NOT_FOUND` behind the end or without such a rendition; those of [`Subtitles::script`].
    pub async fn subtitle_segment(&self, subtitles: &Subtitles, index: usize) -> Result<String> {
        self.touch();
        let work = &self.plan.work;
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
            _ => Error::new(Code::SessionEnded, "the session has ended"),
        }
    }

    pub fn status(&self) -> Status {
        self.touch();
        let view = self.view.borrow().clone();
        let last_access_at = lock(&self.access).1;
        Status { state: view.state, failure: view.failure, progress: self.progress.borrow().clone(), last_access_at }
    }

    /// Which media playlist carries the item.
    pub fn main_track(&self) -> Track {
        if self.plan.work.rendition.video.is_some() { Track::Video } else { Track::Audio }
    }

    /// The multivariant playlist, every address in it with `grant`.
    pub fn multivariant(&self, grant: &str) -> Bytes {
        let plan = &self.plan;
        let video = self.view.borrow().video_codec.clone();
        let known = video.is_some() || plan.work.rendition.video.is_none();
        let known = known && (plan.audio_codec.is_some() || plan.work.rendition.audio.is_none());
        let codecs = [video, plan.audio_codec.clone()].into_iter().flatten().collect::<Vec<_>>().join(",");
        let variant = Variant {
            track: self.main_track(),
            codecs: known.then_some(codecs),
            size: plan.size,
            frame_rate: plan.frame_rate,
            bandwidth: plan.bandwidth,
            average_bandwidth: plan.average_bandwidth,
        };
        let subtitles = plan.subtitles.as_ref().map(|subtitles| &subtitles.rendition);
        playlist::multivariant(&variant, subtitles, grant).into()
    }

    /// A media playlist, every address in it with `grant`.
    ///
    /// # Errors
    /// `ASSET_NOT_FOUND` for a track the session does not have.
    pub fn media_playlist(&self, track: Track, grant: &str) -> Result<Bytes> {
        let start = self.plan.request.start_seconds;
        let grid = &self.plan.work.grid;
        if track == self.main_track() {
            Ok(playlist::media(track, grid, start, grant).into())
        } else if track == Track::Subtitles && self.plan.subtitles.is_some() {
            Ok(playlist::media(track, &playlist::subtitle_grid(grid), start, grant).into())
        } else {
            Err(Error::new(Code::AssetNotFound, "the session has no such track"))
        }
    }
}
