//! Transcode sessions: one viewer's playback of an item, from start to stop or idle timeout.
#![doc = include_str!("sessions/README.md")]

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use super::encode_slots::{EncodeSlots, AdmissionRequest};
use super::planner::SessionPlan;
use super::backends::{ChosenBackend, Backends};
use super::quarantine::Quarantine;
use super::runs::{Lease, Runs, Standing, Work};
use crate::config::Config;
use crate::domain::access::{Principal, Role};
use crate::engine::Backend;
use crate::engine::segment_cache::{CacheLimits, SegmentCache};
use crate::error::{Code, Error, Result};
use crate::service::Service;

mod ended;
mod failure;
mod rungs;
mod session;
#[cfg(test)]
mod tests;

pub use ended::Ended;
use ended::session_ended;
pub use failure::{Failure, told};
use rungs::Producer;
use session::Patience;
pub use session::{Session, Status};

/// The same request within this time gets the same session, so a double click starts only one.
const DOUBLE_CLICK: Duration = Duration::from_secs(10);

/// How long, and how many, ended sessions are remembered, so that their players get `SESSION_ENDED` and stop.
const REMEMBERED: Duration = Duration::from_secs(600);
const MOST_REMEMBERED: usize = 1024;

/// Segment memory of one rendition, bytes.
const RENDITION_MEMORY: u64 = 64 << 20;

/// How often expired segments are evicted.
const HOUSEKEEPING: Duration = Duration::from_secs(10);

/// A session looked up by its id.
pub enum Found {
    Live(Arc<Session>),
    /// It ended at most ten minutes ago.
    Ended(Arc<Ended>),
}

/// All sessions of the server. Clones share them.
#[derive(Clone)]
pub struct Sessions {
    inner: Arc<Inner>,
}

struct Inner {
    makers: Arc<Makers>,
    segments: SegmentCache,
    per_user: usize,
    patience: Patience,
    book: Mutex<Book>,
    housekeeping: OnceLock<()>,
}

impl Service {
    /// Stops a session and closes its file, so that deleting the file frees its disk space at once; false if the session
    /// had already ended.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`.
    pub async fn stop_session(&self, principal: &Principal, id: &str) -> Result<bool> {
        let Found::Live(session) = self.sessions.find(principal, id)? else { return Ok(false) };
        let source = session.source().clone();
        drop(session);
        let stopped = self.sessions.stop(principal, id).await;
        self.library.close(&source);
        stopped
    }
}

/// The runs and the backends they use.
struct Makers {
    runs: Runs,
    producers: Backends,
}

impl Makers {
    /// Leases `work`; also returns the backend chosen for it and why.
    async fn lease(&self, work: &Work, viewer: AdmissionRequest<'_>) -> Result<(Lease, Producer)> {
        let chosen = self.producers.choose(work).await?;
        let producer = (chosen.backend.name(), chosen.reason);
        Ok((self.runs.lease(chosen.backend, work.clone(), viewer)?, producer))
    }
}

#[derive(Default)]
struct Book {
    live: HashMap<String, Arc<Session>>,
    ended: VecDeque<Arc<Ended>>,
    closed: bool,
}

impl Sessions {
    /// # Errors
    /// The segment folder cannot be emptied or created.
    pub fn open(config: &Config, quarantine: Option<Arc<Quarantine>>) -> Result<Self> {
        let limits = &config.limits;
        let budget = CacheLimits {
            memory_bytes: limits.segment_memory_bytes,
            rendition_memory_bytes: RENDITION_MEMORY.min(limits.segment_memory_bytes),
            disk_bytes: limits.segment_disk_bytes,
        };
        let folder = config.cache.join("segments");
        let segments = SegmentCache::open(&folder, budget)
            .map_err(|cause| Error::internal(format!("{}: {cause}", folder.display())))?;
        Ok(Self {
            inner: Arc::new(Inner {
                makers: Arc::new(Makers {
                    runs: Runs::new(segments.clone(), limits.concurrent_jobs),
                    producers: Backends::new(config, quarantine),
                }),
                segments,
                per_user: limits.sessions_per_user,
                patience: Patience { idle: limits.session_idle, segment: limits.segment_wait },
                book: Mutex::default(),
                housekeeping: OnceLock::new(),
            }),
        })
    }

    /// Health of the runs that serve the sessions.
    pub fn standing(&self) -> &Standing {
        self.inner.makers.runs.standing()
    }

    /// Encode slots in use.
    pub fn active_jobs(&self) -> usize {
        self.inner.makers.runs.active_jobs()
    }

    pub fn encode_slots(&self) -> &Arc<EncodeSlots> {
        self.inner.makers.runs.encode_slots()
    }

    /// Number of live sessions.
    pub fn live(&self) -> usize {
        lock(&self.inner.book).live.len()
    }

    /// Live sessions, oldest first.
    pub fn all(&self) -> Vec<Arc<Session>> {
        let mut all: Vec<_> = lock(&self.inner.book).live.values().cloned().collect();
        all.sort_by(|a, b| (a.started_at, &a.id).cmp(&(b.started_at, &b.id)));
        all
    }

    /// Uses `transcoder` for all segments from the first start, whatever ffmpeg this machine has.
    pub fn produce_by(&self, transcoder: Arc<dyn Backend>) {
        self.inner.makers.producers.force(transcoder);
    }

    /// Finds the backends before the first session starts.
    pub async fn warm(&self) {
        if let Err(error) = self.inner.makers.producers.find_backends().await {
            tracing::error!(%error, "no backend is available; sessions cannot start");
        }
    }

    /// Chooses the backend for a rendition.
    ///
    /// # Errors
    /// `TRANSCODER_UNAVAILABLE`.
    pub async fn producer(&self, work: &Work) -> Result<ChosenBackend> {
        self.inner.makers.producers.choose(work).await
    }

    /// The runs that serve the sessions; channels share them.
    pub fn runs(&self) -> &Runs {
        self.keep_house();
        &self.inner.makers.runs
    }

    /// Starts a session by its plan, or returns the one the same request started a moment ago.
    ///
    /// # Errors
    /// `TOO_MANY_SESSIONS`, `TRANSCODER_BUSY`, `TRANSCODER_UNAVAILABLE`.
    pub async fn start(&self, principal: &Principal, plan: SessionPlan) -> Result<Arc<Session>> {
        let chosen = self.inner.makers.producers.choose(plan.work()).await?;
        self.keep_house();
        let mut book = lock(&self.inner.book);
        if book.closed {
            return Err(Error::new(Code::ServerBusy, "the server is stopping").with_retry_after(10));
        }
        let own = || book.live.values().filter(|session| session.user_id == principal.user_id && session.is_live());
        let version = plan.work().source.version();
        let is_twin = |session: &&Arc<Session>| {
            session.plan.request == plan.request
                && session.plan.work().source.version() == version
                && session.age() < DOUBLE_CLICK
        };
        let twin = own().find(is_twin);
        if let Some(twin) = twin {
            twin.touch();
            return Ok(twin.clone());
        }
        let running = own().count();
        if running >= self.inner.per_user {
            return Err(Error::new(
                Code::TooManySessions,
                format!("this user already has {running} running sessions, the most allowed"),
            )
            .with_retry_after(10)
            .with_details(serde_json::json!({"active": running, "max": self.inner.per_user})));
        }
        let producer = (chosen.backend.name(), chosen.reason);
        let runs = &self.inner.makers.runs;
        let lease = runs.lease(chosen.backend.clone(), plan.work().clone(), AdmissionRequest::Session).or_else(|_| {
            // Frees the shares of rungs that players have just left.
            book.live.values().for_each(|session| session.leave());
            runs.lease(chosen.backend, plan.work().clone(), AdmissionRequest::Session)
        })?;
        let with = (Arc::downgrade(&self.inner.makers), self.inner.patience);
        let session = Arc::new(Session::new(&principal.user_id, plan, producer, lease, with));
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

    /// Finds a session of this user (or of any user, for an admin), live or recently ended.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`.
    pub fn find(&self, principal: &Principal, id: &str) -> Result<Found> {
        let mut book = lock(&self.inner.book);
        book.forget();
        let may = |owner: &str| owner == principal.user_id || principal.role == Role::Admin;
        let live = book.live.get(id).filter(|session| may(&session.user_id)).cloned().map(Found::Live);
        let ended = || book.ended.iter().find(|ended| ended.id == id && may(&ended.user_id)).cloned().map(Found::Ended);
        live.or_else(ended).ok_or_else(|| Error::new(Code::SessionNotFound, "no such session"))
    }

    /// Like [`Self::find`], but fails unless the session is live.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`, `SESSION_ENDED`.
    pub fn find_live(&self, principal: &Principal, id: &str) -> Result<Arc<Session>> {
        match self.find(principal, id)? {
            Found::Live(session) => Ok(session),
            Found::Ended(_) => Err(session_ended()),
        }
    }

    /// Stops a session; false if it had already ended.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`.
    pub async fn stop(&self, principal: &Principal, id: &str) -> Result<bool> {
        match self.find(principal, id)? {
            Found::Live(session) => Ok(session.stop().await),
            Found::Ended(_) => Ok(false),
        }
    }

    /// Ends all sessions and runs; no child process, task or file is left.
    pub async fn shutdown(&self) {
        let live: Vec<Arc<Session>> = {
            let mut book = lock(&self.inner.book);
            book.closed = true;
            book.live.values().cloned().collect()
        };
        for session in live {
            session.stop().await;
        }
        self.inner.makers.runs.shutdown().await;
    }

    /// Moves a session from the live ones to the ended ones, without its file.
    fn end(&self, session: &Session) {
        let mut book = lock(&self.inner.book);
        let live = book.live.remove(&session.id);
        book.ended.push_back(Arc::new(Ended::new(session)));
        book.forget();
        drop(book);
        // Closes a file: not under the lock.
        drop(live);
        tracing::info!(session.id = session.id, "session ended");
    }

    /// Starts the maintenance task, once: it evicts expired segments and ended sessions until the server stops.
    fn keep_house(&self) {
        if self.inner.housekeeping.set(()).is_ok() {
            let inner = Arc::downgrade(&self.inner);
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(HOUSEKEEPING).await;
                    let Some(inner) = inner.upgrade() else { return };
                    inner.segments.evict_expired();
                    lock(&inner.book).forget();
                }
            });
        }
    }
}

impl Book {
    fn forget(&mut self) {
        while self.ended.len() > MOST_REMEMBERED
            || self.ended.front().is_some_and(|ended| ended.at.elapsed() >= REMEMBERED)
        {
            self.ended.pop_front();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic while held")
}
