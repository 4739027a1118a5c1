//! Transcode sessions: one viewer's hold on a rendition, from start to stop.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use tokio::sync::{Notify, OnceCell, watch};
use tokio::time::Instant;

use super::accounts::random;
use super::planner::{Plan, first_wanted};
use super::runs::{Activity, Lease, Progress, Runs};
use super::subtitles::{Subtitles, Which};
use crate::config::Config;
use crate::domain::access::{Principal, Role};
use crate::domain::playback::SubtitleWish;
use crate::domain::playlist::{self, Track, Variant};
use crate::domain::session::{Action, Event, State};
use crate::domain::subtitles::webvtt_segment;
use crate::domain::time::{TICKS_PER_SECOND, seconds};
use crate::engine::ffmpeg::Ffmpeg;
use crate::engine::segments::{Budget, Segments, Stored};
use crate::engine::{RunError, TIMELINE_BASE_SECONDS, Transcoder};
use crate::error::{Code, Error, Result};

#[cfg(test)]
mod tests;

/// The same wish within this time is the same session: a double click starts one.
const DOUBLE_CLICK: Duration = Duration::from_secs(10);

/// How long, and how many, ended sessions are remembered, so that players are told to stop asking.
const REMEMBERED: Duration = Duration::from_secs(600);
const MOST_REMEMBERED: usize = 1024;

/// Share of the segment memory one rendition may take (contract section 16).
const RENDITION_MEMORY: u64 = 64 << 20;

/// How often what nobody needs is freed.
const HOUSEKEEPING: Duration = Duration::from_secs(10);

/// All sessions of the program. Clones share them.
#[derive(Clone)]
pub struct Sessions {
    inner: Arc<Inner>,
}

struct Inner {
    runs: Runs,
    segments: Segments,
    ffmpeg: PathBuf,
    /// Found at the first start: asking ffmpeg takes a moment.
    transcoder: OnceCell<Arc<dyn Transcoder>>,
    per_user: usize,
    idle: Duration,
    segment_wait: Duration,
    book: Mutex<Book>,
    housekeeping: OnceLock<()>,
}

#[derive(Default)]
struct Book {
    live: HashMap<String, Arc<Session>>,
    ended: VecDeque<(Instant, Arc<Session>)>,
    closed: bool,
}

/// One session. Its owner task is the only one that changes its state.
pub struct Session {
    pub id: String,
    pub user_id: String,
    pub plan: Plan,
    pub started_at: Timestamp,
    pub producer: &'static str,
    created: Instant,
    idle: Duration,
    segment_wait: Duration,
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

/// Why a session failed.
#[derive(Clone, Debug)]
pub struct Failure {
    pub error: RunError,
    pub at: Timestamp,
}

/// A session as it stands.
#[derive(Clone, Debug)]
pub struct Status {
    pub state: State,
    pub failure: Option<Failure>,
    pub progress: Progress,
    pub last_access_at: Timestamp,
}

impl Sessions {
    /// # Errors
    /// The segment folder cannot be emptied or made.
    pub fn open(config: &Config) -> Result<Self> {
        let limits = &config.limits;
        let budget = Budget {
            memory: limits.segment_memory_bytes,
            rendition_memory: RENDITION_MEMORY.min(limits.segment_memory_bytes),
            disk: limits.segment_disk_bytes,
        };
        let folder = config.cache.join("segments");
        let segments = Segments::open(&folder, budget)
            .map_err(|cause| Error::internal(format!("{}: {cause}", folder.display())))?;
        Ok(Self {
            inner: Arc::new(Inner {
                runs: Runs::new(segments.clone(), limits.concurrent_jobs),
                segments,
                ffmpeg: config.ffmpeg.clone(),
                transcoder: OnceCell::new(),
                per_user: limits.sessions_per_user,
                idle: limits.session_idle,
                segment_wait: limits.segment_wait,
                book: Mutex::default(),
                housekeeping: OnceLock::new(),
            }),
        })
    }

    /// Encodes under way.
    pub fn active_jobs(&self) -> usize {
        self.inner.runs.active_jobs()
    }

    /// Sessions that serve.
    pub fn live(&self) -> usize {
        lock(&self.inner.book).live.len()
    }

    /// Makes segments by `transcoder` from the first start on, whatever ffmpeg this machine has.
    pub fn produce_by(&self, transcoder: Arc<dyn Transcoder>) {
        let _ = self.inner.transcoder.set(transcoder);
    }

    /// Finds the producer ahead of the first start.
    pub async fn warm(&self) {
        if let Err(error) = self.transcoder().await {
            tracing::error!(%error, "no session can be made");
        }
    }

    async fn transcoder(&self) -> Result<Arc<dyn Transcoder>> {
        let found = self.inner.transcoder.get_or_try_init(|| async {
            let program = self.inner.ffmpeg.clone();
            let found = tokio::task::spawn_blocking(move || Ffmpeg::at(&program)).await.map_err(Error::internal)?;
            let missing =
                |cause| Error::new(Code::TranscoderUnavailable, "there is no usable ffmpeg").with_cause(cause);
            Ok::<_, Error>(Arc::new(found.map_err(missing)?) as Arc<dyn Transcoder>)
        });
        found.await.cloned()
    }

    /// Starts a session by its plan, or hands out the one the same wish started a moment ago.
    ///
    /// # Errors
    /// `TOO_MANY_SESSIONS`, `TRANSCODER_BUSY`, `TRANSCODER_UNAVAILABLE`.
    pub async fn start(&self, principal: &Principal, plan: Plan) -> Result<Arc<Session>> {
        let transcoder = self.transcoder().await?;
        self.keep_house();
        let mut book = lock(&self.inner.book);
        if book.closed {
            return Err(Error::new(Code::ServerBusy, "the server is stopping").with_retry_after(10));
        }
        let own = || book.live.values().filter(|session| session.user_id == principal.user_id && session.is_live());
        let twin =
            own().find(|session| session.plan.request == plan.request && session.created.elapsed() < DOUBLE_CLICK);
        if let Some(twin) = twin {
            twin.touch();
            return Ok(twin.clone());
        }
        let running = own().count();
        if running >= self.inner.per_user {
            return Err(Error::new(Code::TooManySessions, format!("{running} sessions of this user run already"))
                .with_retry_after(10)
                .with_details(serde_json::json!({"active": running, "max": self.inner.per_user})));
        }
        let producer = transcoder.name();
        let lease = Arc::new(self.inner.runs.lease(transcoder, plan.work.clone())?);
        let session = Arc::new(Session {
            id: format!("ts_{}", data_encoding::HEXLOWER.encode(&random::<16>())),
            user_id: principal.user_id.clone(),
            plan,
            started_at: Timestamp::now(),
            producer,
            created: Instant::now(),
            idle: self.inner.idle,
            segment_wait: self.inner.segment_wait,
            access: Mutex::new((Instant::now(), Timestamp::now())),
            view: watch::Sender::new(View { state: State::Starting, failure: None, video_codec: None }),
            progress: lease.progress(),
            lease: Mutex::new(Some(lease)),
            stop: Notify::new(),
        });
        tracing::info!(
            session.id = session.id,
            media.path = session.plan.request.media_path,
            start = session.plan.request.start_seconds,
            "session started"
        );
        book.live.insert(session.id.clone(), session.clone());
        drop(book);
        let (sessions, owned) = (self.clone(), session.clone());
        tokio::spawn(async move {
            owned.own().await;
            sessions.end(&owned);
        });
        Ok(session)
    }

    /// A session of this user (or of anybody, for an admin), live or ended lately.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`.
    pub fn find(&self, principal: &Principal, id: &str) -> Result<Arc<Session>> {
        let mut book = lock(&self.inner.book);
        book.forget();
        let found =
            book.live.get(id).or_else(|| book.ended.iter().map(|(_, ended)| ended).find(|ended| ended.id == id));
        found
            .filter(|session| session.user_id == principal.user_id || principal.role == Role::Admin)
            .cloned()
            .ok_or_else(|| Error::new(Code::SessionNotFound, "no such session"))
    }

    /// Stops a session; false when it had ended before.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`.
    pub async fn stop(&self, principal: &Principal, id: &str) -> Result<bool> {
        let session = self.find(principal, id)?;
        Ok(session.stop().await)
    }

    /// Ends everything: no child, no task, no file is left.
    pub async fn shutdown(&self) {
        let live: Vec<Arc<Session>> = {
            let mut book = lock(&self.inner.book);
            book.closed = true;
            book.live.values().cloned().collect()
        };
        for session in live {
            session.stop().await;
        }
        self.inner.runs.shutdown().await;
    }

    fn end(&self, session: &Arc<Session>) {
        let mut book = lock(&self.inner.book);
        book.live.remove(&session.id);
        book.ended.push_back((Instant::now(), session.clone()));
        book.forget();
        tracing::info!(session.id = session.id, "session ended");
    }

    /// Frees segments that nobody has needed for a while, for as long as the program lives.
    fn keep_house(&self) {
        if self.inner.housekeeping.set(()).is_ok() {
            let inner = Arc::downgrade(&self.inner);
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(HOUSEKEEPING).await;
                    let Some(inner) = inner.upgrade() else { return };
                    inner.segments.expire();
                    lock(&inner.book).forget();
                }
            });
        }
    }
}

impl Book {
    fn forget(&mut self) {
        while self.ended.len() > MOST_REMEMBERED
            || self.ended.front().is_some_and(|(ended, _)| ended.elapsed() >= REMEMBERED)
        {
            self.ended.pop_front();
        }
    }
}

impl Session {
    /// Drives the state until the session ends.
    async fn own(&self) {
        let first = first_wanted(&self.plan);
        let lease = lock(&self.lease).clone();
        let mut make_first = lease.map(|lease| Box::pin(async move { lease.segment(first).await }));
        let mut progress = self.progress.clone();
        loop {
            let idle_at = lock(&self.access).0 + self.idle;
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
                    if lock(&self.access).0.elapsed() < self.idle {
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
            let idle_at = lock(&self.access).0 + self.idle;
            tokio::select! {
                () = self.stop.notified() => break,
                () = tokio::time::sleep_until(idle_at) => {
                    if lock(&self.access).0.elapsed() >= self.idle {
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

    fn is_live(&self) -> bool {
        self.view.borrow().state.is_live()
    }

    fn touch(&self) {
        *lock(&self.access) = (Instant::now(), Timestamp::now());
    }

    async fn stop(&self) -> bool {
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
            made = tokio::time::timeout(self.segment_wait, lease.segment(index)) => made,
            () = async { let _ = view.wait_for(|view| !view.state.is_live()).await; } => return Err(self.gone()),
        };
        self.touch();
        match made {
            Ok(Ok(stored)) => Ok(stored),
            Ok(Err(error)) => Err(refusal(&error)),
            Err(_) => {
                let wait = self.segment_wait.as_secs();
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

/// What a client is told of a producer's end; the log has the cause already.
fn refusal(error: &RunError) -> Error {
    let code = match error {
        RunError::Decode(_) => Code::DecodeFailed,
        RunError::Encoder(_) => Code::EncoderFailed,
        RunError::SourceRead(_) => Code::SourceReadFailed,
        RunError::SourceChanged => Code::SourceChanged,
        RunError::SourceEnded => Code::AssetNotFound,
        RunError::Stalled(_) => Code::SegmentTimeout,
        RunError::Internal(_) => Code::Internal,
    };
    Error::new(code, told(error)).with_cause(error)
}

/// A producer's end in words for a viewer.
pub fn told(error: &RunError) -> &'static str {
    match error {
        RunError::Decode(_) => "the file could not be decoded",
        RunError::Encoder(_) => "the encoder failed",
        RunError::SourceRead(_) => "the file could not be read",
        RunError::SourceChanged => "the file changed while it was played",
        RunError::SourceEnded => "the file ends before this segment",
        RunError::Stalled(_) => "the transcoder made nothing for too long",
        RunError::Internal(_) => "internal error",
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic while held")
}
