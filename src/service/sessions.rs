//! Transcode sessions: one viewer's playback of an item, from start to stop or idle timeout.
#![doc = include_str!("sessions/README.md")]

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::config::{Config, Limits};
use crate::domain::access::{Principal, Role};
use crate::domain::histogram::Histogram;
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::background_tasks::BackgroundTasks;
use crate::service::renditions::Renditions;
use crate::service::renditions::encode_slots::AdmissionRequest;
use crate::service::renditions::planner::SessionPlan;
use crate::store::Store;
use crate::telemetry::traces;

mod dormant;
mod ended;
mod failure;
mod leases;
mod plan_digest;
mod playlists;
mod record;
mod record_writer;
mod session;
#[cfg(test)]
mod tests;

pub use dormant::{DormantSession, ResumeError};
pub use ended::EndedSession;
pub use failure::{SessionFailure, failure_message, session_ended_error};
use record_writer::RecordWriter;
pub use session::{Session, SessionStatus};
use session::{SessionHandles, SessionIdentity, SessionTimeouts};

/// The same request within this time gets the same session, so a double click starts only one.
const DOUBLE_CLICK_WINDOW: Duration = Duration::from_secs(10);

/// How long, and how many, ended sessions are remembered, so that their players get `SESSION_ENDED` and stop. Older ones go
/// when a session ends or is looked up.
const ENDED_RETENTION: Duration = Duration::from_secs(600);
const MAX_ENDED: usize = 1024;

/// A session looked up by its id.
pub enum KnownSession {
    Live(Arc<Session>),
    /// It was live when the server was stopped, and continues with the next request.
    Dormant(Arc<DormantSession>),
    /// It ended at most ten minutes ago.
    Ended(Arc<EndedSession>),
}

/// All sessions of the server. Clones share them.
#[derive(Clone)]
pub struct Sessions {
    tasks: BackgroundTasks,
    renditions: Arc<Renditions>,
    limits: Arc<Mutex<SessionLimits>>,
    registry: Arc<Mutex<SessionRegistry>>,
    records: RecordWriter,
    /// From the start of a session until its first segment exists. Sessions without one do not count.
    first_segment_times: Arc<Histogram>,
}

impl Service {
    /// Stops a session and closes its file, so that deleting the file frees its disk space at once; false if the session
    /// had already ended.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`.
    pub async fn stop_session(&self, principal: &Principal, id: &str) -> Result<bool> {
        let source = match self.sessions.find(principal, id)? {
            KnownSession::Live(session) => Some(session.source().clone()),
            KnownSession::Dormant(_) | KnownSession::Ended(_) => None,
        };
        let stopped = self.sessions.stop(principal, id).await;
        if let Some(source) = source {
            self.library.close(&source);
        }
        stopped
    }
}

/// Limits of sessions that start now.
#[derive(Clone, Copy)]
struct SessionLimits {
    max_per_user: usize,
    timeouts: SessionTimeouts,
}

impl SessionLimits {
    fn from_config(limits: &Limits) -> Self {
        let timeouts = SessionTimeouts { idle: limits.session_idle, segment: limits.segment_wait };
        Self { max_per_user: limits.sessions_per_user, timeouts }
    }
}

#[derive(Default)]
struct SessionRegistry {
    live: HashMap<String, Arc<Session>>,
    dormant: HashMap<String, Arc<DormantSession>>,
    ended: VecDeque<Arc<EndedSession>>,
    /// Sessions started since the server started.
    started: u64,
}

impl Sessions {
    /// Sessions that lease their segments from `renditions`, and those that `store` has of an earlier process. Must be called
    /// inside the runtime.
    ///
    /// # Errors
    /// Those of reading the records.
    pub fn open(config: &Config, store: Store, renditions: Arc<Renditions>, tasks: BackgroundTasks) -> Result<Self> {
        let limits = SessionLimits::from_config(&config.limits);
        let registry = Arc::default();
        let records = RecordWriter::new(store.clone(), tasks.clone(), &registry);
        let (limits_of_new, first_segment_times) = (Arc::new(Mutex::new(limits)), Arc::default());
        let sessions = Self { tasks, renditions, limits: limits_of_new, registry, records, first_segment_times };
        sessions.load_dormant(&store, limits.max_per_user, limits.timeouts.idle)?;
        Ok(sessions)
    }

    /// Changes the limits of sessions that start from now on.
    pub fn set_limits(&self, limits: &Limits) {
        *lock(&self.limits) = SessionLimits::from_config(limits);
    }

    /// The time from the start of a session until its first segment exists.
    pub fn first_segment_times(&self) -> &Histogram {
        &self.first_segment_times
    }

    /// Number of live sessions, and of all that were started.
    pub fn session_counts(&self) -> (usize, u64) {
        let registry = lock(&self.registry);
        (registry.live.len(), registry.started)
    }

    /// Live sessions, oldest first.
    pub fn live_sessions(&self) -> Vec<Arc<Session>> {
        let mut live: Vec<_> = lock(&self.registry).live.values().cloned().collect();
        live.sort_by(|a, b| (a.started_at, &a.id).cmp(&(b.started_at, &b.id)));
        live
    }

    /// Starts a session by its plan, or returns the one the same request started a moment ago.
    ///
    /// # Errors
    /// `TOO_MANY_SESSIONS`, `TRANSCODER_BUSY`, `TRANSCODER_UNAVAILABLE`.
    pub async fn start(&self, principal: &Principal, plan: SessionPlan) -> Result<Arc<Session>> {
        self.start_or_restart(&principal.user_id, plan, None).await
    }

    async fn start_or_restart(
        &self,
        user_id: &str,
        plan: SessionPlan,
        dormant: Option<&Arc<DormantSession>>,
    ) -> Result<Arc<Session>> {
        let chosen = self.renditions.backends.choose(plan.spec()).await?;
        let mut registry = lock(&self.registry);
        if self.tasks.is_stopping() {
            return Err(Error::new(Code::ServerBusy, "the server is stopping").with_retry_after(10));
        }
        let own_sessions = || registry.live.values().filter(|one| one.user_id == user_id && one.is_live());
        let version = plan.spec().source.version();
        let is_twin = |session: &&Arc<Session>| {
            session.plan.request == plan.request
                && session.plan.spec().source.version() == version
                && session.age() < DOUBLE_CLICK_WINDOW
                && !session.is_resumed
        };
        let twin = own_sessions().find(|session| dormant.is_none() && is_twin(session));
        if let Some(twin) = twin {
            twin.touch();
            return Ok(twin.clone());
        }
        let running = own_sessions().count();
        let limits = *lock(&self.limits);
        if running >= limits.max_per_user {
            let message = format!("this user already has {running} running sessions, the most allowed");
            let refused = Error::new(Code::TooManySessions, message).with_retry_after(10);
            let details = serde_json::json!({"active": running, "max": limits.max_per_user});
            return Err(refused.with_details(details));
        }
        let backend_choice = (chosen.backend.name(), chosen.reason);
        let runs = self.renditions.runs();
        let lease =
            runs.lease(chosen.backend.clone(), plan.spec().clone(), AdmissionRequest::Session).or_else(|_| {
                // Frees the shares of rungs that players have just left.
                registry.live.values().for_each(|session| session.release_unused_rungs());
                runs.lease(chosen.backend, plan.spec().clone(), AdmissionRequest::Session)
            })?;
        let lease = Arc::new(lease);
        let handles = SessionHandles {
            renditions: self.renditions.clone(),
            records: self.records.clone(),
            stop: self.tasks.stop_token(),
        };
        let identity = dormant.map_or_else(|| SessionIdentity::new(user_id), |dormant| dormant.identity());
        let session = Session::new(identity, plan, (lease.clone(), backend_choice), limits.timeouts, handles);
        let session = match dormant {
            Some(dormant) => {
                registry.take_dormant(dormant)?;
                session.with_published(dormant.record.published.clone())
            }
            None => {
                registry.started += 1;
                session
            }
        };
        let session = Arc::new(session);
        let (start, is_resumed) = (session.plan.request.start_seconds, dormant.is_some());
        let path = &session.plan.request.media_path;
        tracing::info!(session.id = session.id, media.path = path, start, is_resumed, "session started");
        registry.live.insert(session.id.clone(), session.clone());
        drop(registry);
        if !is_resumed {
            session.save();
        }
        let (sessions, owned_session) = (self.clone(), session.clone());
        let trace = traces::current();
        self.tasks.spawn_graceful(traces::in_context(trace, async move {
            owned_session.run(lease, &sessions.first_segment_times).await;
            sessions.move_to_ended(&owned_session);
        }));
        Ok(session)
    }

    /// Finds a session of this user (or of any user, for an admin), live, dormant or recently ended.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`.
    pub fn find(&self, principal: &Principal, id: &str) -> Result<KnownSession> {
        let mut registry = lock(&self.registry);
        registry.prune_ended();
        let may_see = |owner: &str| owner == principal.user_id || principal.role == Role::Admin;
        let live = registry.live.get(id).filter(|session| may_see(&session.user_id)).cloned().map(KnownSession::Live);
        let dormant = || {
            let found = registry.dormant.get(id).filter(|dormant| may_see(&dormant.record.user_id));
            found.cloned().map(KnownSession::Dormant)
        };
        let ended = || {
            registry.ended.iter().find(|one| one.id == id && may_see(&one.user_id)).cloned().map(KnownSession::Ended)
        };
        live.or_else(dormant).or_else(ended).ok_or_else(|| Error::new(Code::SessionNotFound, "no such session"))
    }

    /// Stops a session; false if it had already ended.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`.
    pub async fn stop(&self, principal: &Principal, id: &str) -> Result<bool> {
        match self.find(principal, id)? {
            KnownSession::Live(session) => {
                let stopped = session.stop().await;
                // Its own task does that as well, but perhaps only after the answer.
                self.move_to_ended(&session);
                self.records.remove(id);
                Ok(stopped)
            }
            KnownSession::Dormant(dormant) => Ok(self.end_dormant(&dormant)),
            KnownSession::Ended(_) => Ok(false),
        }
    }

    /// Moves a session from the live ones to the ended ones, without its file, unless that is done.
    fn move_to_ended(&self, session: &Session) {
        let mut registry = lock(&self.registry);
        let Some(live) = registry.live.remove(&session.id) else { return };
        registry.add_ended(EndedSession::new(session));
        drop(registry);
        // At shutdown the record stays, and the session continues in the next process.
        if !self.tasks.is_stopping() {
            self.records.remove(&session.id);
        }
        // Closes a file: not under the lock.
        drop(live);
        tracing::info!(session.id = session.id, "session ended");
    }
}

impl SessionRegistry {
    fn add_ended(&mut self, ended: EndedSession) {
        self.ended.push_back(Arc::new(ended));
        self.prune_ended();
    }

    fn prune_ended(&mut self) {
        while self.ended.len() > MAX_ENDED
            || self.ended.front().is_some_and(|ended| ended.ended_at.elapsed() >= ENDED_RETENTION)
        {
            self.ended.pop_front();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic while held")
}
