//! Ended sessions: the data clients may still request, and nothing that keeps the file open.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::time::Instant;

use super::dormant::DormantSession;
use super::session::{Session, SessionStatus};
use crate::domain::plan::Rendition;
use crate::domain::session::SessionState;
use crate::service::renditions::BackendChoice;
use crate::service::renditions::runs::RenditionProgress;

/// An ended session. It has no plan, no lease and no [`SourceFile`](crate::engine::source::SourceFile), because those
/// would keep the file open and a deleted file would keep its disk space.
pub struct EndedSession {
    pub id: String,
    pub user_id: String,
    pub started_at: Timestamp,
    /// The final status, with the failure if it failed.
    pub status: SessionStatus,
    /// Rendition of the rung requested last.
    pub rendition: Arc<Rendition>,
    pub(super) ended_at: Instant,
}

/// The backend of a session that ended before it was resumed.
const NO_BACKEND: BackendChoice = ("none", "the session has not continued since the server was restarted");

impl EndedSession {
    /// One that an earlier process of the server has started.
    pub(super) fn of_dormant(dormant: &DormantSession) -> Self {
        let status = SessionStatus {
            state: SessionState::Stopped,
            failure: None,
            progress: RenditionProgress::default(),
            rung: 0,
            backend: NO_BACKEND,
            leased_rungs: Vec::new(),
            last_access_at: Timestamp::now(),
        };
        Self {
            id: dormant.id.clone(),
            user_id: dormant.record.user_id.clone(),
            started_at: dormant.record.started_at,
            status,
            rendition: Arc::default(),
            ended_at: Instant::now(),
        }
    }

    pub(super) fn new(session: &Session) -> Self {
        let status = session.current_status();
        let rendition = session.plan.rungs.get(status.rung).unwrap_or(&session.plan.rungs[0]).spec.rendition.clone();
        Self {
            id: session.id.clone(),
            user_id: session.user_id.clone(),
            started_at: session.started_at,
            status,
            rendition,
            ended_at: Instant::now(),
        }
    }
}
