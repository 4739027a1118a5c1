//! Ended sessions: the data clients may still request, and nothing that keeps the file open.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::time::Instant;

use super::session::{Session, SessionStatus};
use crate::domain::plan::Rendition;

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

impl EndedSession {
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
