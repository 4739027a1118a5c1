//! Sessions of an earlier process of the server, each of which continues with the first request for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::ended::EndedSession;
use super::failure::session_ended_error;
use super::record::SessionRecord;
use super::record_writer::RecordWriter;
use super::session::SessionIdentity;
use super::{Session, SessionRegistry, Sessions, lock};
use crate::error::{Error, Result};
use crate::service::renditions::planner::SessionPlan;
use crate::store::{Store, Tree};

/// A stored session that does not run.
pub struct DormantSession {
    pub id: String,
    pub record: SessionRecord,
    requested_at: Mutex<Instant>,
    /// Locked by the request that resumes it; others wait for the outcome.
    attempt: tokio::sync::Mutex<LastAttempt>,
}

/// The last attempt to resume a session, if it failed.
#[derive(Default)]
struct LastAttempt(Option<(Instant, Error)>);

/// Why a session was not resumed.
pub enum ResumeError {
    /// The next request tries again.
    Passing(Error),
    /// It cannot continue, and ends.
    Final(Error),
}

impl DormantSession {
    fn new(id: String, record: SessionRecord) -> Arc<Self> {
        let requested_at = Mutex::new(Instant::now());
        Arc::new(Self { id, record, requested_at, attempt: tokio::sync::Mutex::default() })
    }

    pub(super) fn identity(&self) -> SessionIdentity {
        let (user_id, started_at) = (self.record.user_id.clone(), self.record.started_at);
        SessionIdentity { id: self.id.clone(), user_id, started_at }
    }
}

impl Sessions {
    /// Resumes a session by `resume`, once for all requests that wait at the same time. Afterwards it is live or has ended.
    ///
    /// # Errors
    /// The passing error of `resume`.
    pub async fn resume_once(
        &self,
        dormant: &Arc<DormantSession>,
        resume: impl Future<Output = Result<Arc<Session>, ResumeError>>,
    ) -> Result<()> {
        let requested_at = Instant::now();
        *lock(&dormant.requested_at) = requested_at;
        let mut attempt = dormant.attempt.lock().await;
        if !self.is_dormant(dormant) {
            return Ok(());
        }
        if let Some((failed_at, error)) = &attempt.0
            && *failed_at > requested_at
        {
            return Err(error.clone());
        }
        match resume.await {
            Ok(_) => Ok(()),
            Err(ResumeError::Passing(error)) => {
                tracing::warn!(session.id = dormant.id, %error, "session not resumed yet");
                attempt.0 = Some((Instant::now(), error.clone()));
                Err(error)
            }
            Err(ResumeError::Final(error)) => {
                tracing::info!(session.id = dormant.id, %error, "session cannot continue after the restart");
                self.end_dormant(dormant);
                Ok(())
            }
        }
    }

    /// Starts a dormant session again, with the id and the start time it had.
    ///
    /// # Errors
    /// Those of [`Sessions::start`]; `SESSION_ENDED` if it was stopped meanwhile.
    pub async fn restart(&self, dormant: &Arc<DormantSession>, plan: SessionPlan) -> Result<Arc<Session>> {
        self.start_or_restart(&dormant.record.user_id, plan, Some(dormant)).await
    }

    /// Ends a dormant session; false if it does not exist any more.
    pub(super) fn end_dormant(&self, dormant: &Arc<DormantSession>) -> bool {
        let mut registry = lock(&self.registry);
        if registry.take_dormant(dormant).is_err() {
            return false;
        }
        registry.add_ended(EndedSession::of_dormant(dormant));
        drop(registry);
        self.records.remove(&dormant.id);
        true
    }

    fn is_dormant(&self, dormant: &Arc<DormantSession>) -> bool {
        lock(&self.registry).dormant.get(&dormant.id).is_some_and(|found| Arc::ptr_eq(found, dormant))
    }

    /// Reads the sessions of an earlier process: the newest `max_per_user` of each user. One that is not requested within
    /// `idle` is removed.
    pub(super) fn load_dormant(&self, store: &Store, max_per_user: usize, idle: Duration) -> Result<()> {
        let mut records: Vec<(String, Option<SessionRecord>)> = Vec::new();
        // A record that another version wrote may have values that this one does not know.
        store.for_each::<Value>(Tree::Sessions, |id, value| {
            records.push((id.to_owned(), serde_json::from_value(value).ok()));
        })?;
        records.sort_by_key(|(_, record)| std::cmp::Reverse(record.as_ref().map(|record| record.started_at)));
        let mut counts: HashMap<String, usize> = HashMap::new();
        let mut registry = lock(&self.registry);
        for (id, record) in records {
            let kept = record.filter(|record| {
                let count = counts.entry(record.user_id.clone()).or_default();
                *count += 1;
                *count <= max_per_user
            });
            match kept {
                Some(record) => drop(registry.dormant.insert(id.clone(), DormantSession::new(id, record))),
                None => self.records.remove(&id),
            }
        }
        let count = registry.dormant.len();
        drop(registry);
        if count > 0 {
            tracing::info!(count, "sessions continue when their players request them");
            self.tasks.spawn(remove_idle(Arc::downgrade(&self.registry), self.records.clone(), idle));
        }
        Ok(())
    }
}

impl SessionRegistry {
    /// Takes a dormant session out, before it starts or ends.
    ///
    /// # Errors
    /// `SESSION_ENDED` if it was taken already.
    pub(super) fn take_dormant(&mut self, dormant: &Arc<DormantSession>) -> Result<()> {
        self.dormant.remove(&dormant.id).map(drop).ok_or_else(session_ended_error)
    }
}

/// Removes dormant sessions that nothing requests, until none is left.
async fn remove_idle(registry: Weak<Mutex<SessionRegistry>>, records: RecordWriter, idle: Duration) {
    loop {
        let next = {
            let Some(registry) = registry.upgrade() else { return };
            let mut registry = lock(&registry);
            let is_idle = |dormant: &DormantSession| lock(&dormant.requested_at).elapsed() >= idle;
            for (id, _) in registry.dormant.extract_if(|_, dormant| is_idle(dormant)) {
                tracing::info!(session.id = id, "session removed, because nothing requested it after the restart");
                records.remove(&id);
            }
            registry.dormant.values().map(|dormant| *lock(&dormant.requested_at) + idle).min()
        };
        let Some(next) = next else { return };
        tokio::time::sleep_until(next).await;
    }
}
