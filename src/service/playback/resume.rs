//! Sessions that were live when the server was stopped: the first request plans one again from its record, and starts it.

use std::sync::Arc;

use super::start_when_possible;
use crate::domain::access::Principal;
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::renditions::planner::{PlannedPlayback, plan_playback};
use crate::service::sessions::{DormantSession, EndedSession, KnownSession, ResumeError, Session, session_ended_error};

/// A session that was found by its id.
pub enum FoundSession {
    Live(Arc<Session>),
    /// It ended at most ten minutes ago.
    Ended(Arc<EndedSession>),
}

impl Service {
    /// Finds a session of this user (or of any user, for an admin). One that was live when the server was stopped is
    /// resumed. If it cannot continue, it has ended.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`; `TOO_MANY_SESSIONS`, `TRANSCODER_BUSY` and other errors that a later request may not get.
    pub async fn find_session(&self, principal: &Principal, id: &str) -> Result<FoundSession> {
        loop {
            match self.sessions.find(principal, id)? {
                KnownSession::Live(session) => return Ok(FoundSession::Live(session)),
                KnownSession::Ended(ended) => return Ok(FoundSession::Ended(ended)),
                KnownSession::Dormant(dormant) => {
                    self.sessions.resume_once(&dormant, resume(self, &dormant)).await?;
                }
            }
        }
    }

    /// Like [`Self::find_session`], but fails unless the session is live.
    ///
    /// # Errors
    /// Those of [`Self::find_session`]; `SESSION_ENDED`.
    pub async fn find_live_session(&self, principal: &Principal, id: &str) -> Result<Arc<Session>> {
        match self.find_session(principal, id).await? {
            FoundSession::Live(session) => Ok(session),
            FoundSession::Ended(_) => Err(session_ended_error()),
        }
    }
}

/// Plans a session again and starts it.
async fn resume(service: &Service, dormant: &Arc<DormantSession>) -> Result<Arc<Session>, ResumeError> {
    let record = &dormant.record;
    let no_user = || ResumeError::Final(Error::new(Code::NotFound, "the user was removed"));
    let visibility = service.accounts.visibility_of(&record.user_id).ok_or_else(no_user)?;
    let request = record.repeated_request();
    let path = request.media_path.clone();
    let plan = match plan_playback(service, &visibility, request).await {
        Ok(PlannedPlayback::Session(plan)) if record.has_same_plan(&plan) => *plan,
        Ok(_) => return Err(ResumeError::Final(Error::new(Code::SourceChanged, "the plan has changed"))),
        Err(error) if error.code == Code::NotFound && !has_root_content(service, &path).await => {
            let unavailable = Error::new(Code::ServerBusy, "the media folder of this session is not available");
            return Err(ResumeError::Passing(unavailable.with_retry_after(5)));
        }
        Err(error) => return Err(classify(error)),
    };
    let restart = || service.sessions.restart(dormant, plan.clone());
    start_when_possible(service, restart).await.map_err(classify)
}

/// Decides whether a later attempt may succeed.
fn classify(error: Error) -> ResumeError {
    match error.code {
        Code::TooManySessions
        | Code::TranscoderBusy
        | Code::ServerBusy
        | Code::ProbeTimedOut
        | Code::StorageTimeout
        | Code::StorageFull
        | Code::SourceReadFailed
        | Code::Internal => ResumeError::Passing(error),
        _ => ResumeError::Final(error),
    }
}

/// Whether there is anything in the media folder that a file is in. Its disk may not be mounted yet.
async fn has_root_content(service: &Service, path: &str) -> bool {
    let roots = service.library.roots();
    let Ok(located) = roots.locate(path) else { return true };
    let Some(root) = roots.get(located.root_index).and_then(|root| root.path.to_str()) else { return true };
    service.library.list(root, 1, None).await.is_ok_and(|listing| !listing.entries.is_empty())
}
