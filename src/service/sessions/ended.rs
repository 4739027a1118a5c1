//! An ended session: what its clients may still ask for, and nothing that holds its file open.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::time::Instant;

use super::session::{Session, Status};
use crate::domain::plan::Rendition;
use crate::error::{Code, Error};

/// An ended session. It has no plan, no lease and no [`Source`](crate::engine::source::Source): those would keep the
/// film's descriptor open, and with it the disk space of a deleted film.
pub struct Ended {
    pub id: String,
    pub user_id: String,
    pub started_at: Timestamp,
    /// As it was at the end, with the failure if it failed.
    pub status: Status,
    /// Of the rung that was pulled last.
    pub rendition: Arc<Rendition>,
    pub(super) at: Instant,
}

impl Ended {
    pub(super) fn new(session: &Session) -> Self {
        let status = session.view();
        let rendition = session.plan.rungs.get(status.rung).unwrap_or(&session.plan.rungs[0]).work.rendition.clone();
        Self {
            id: session.id.clone(),
            user_id: session.user_id.clone(),
            started_at: session.started_at,
            status,
            rendition,
            at: Instant::now(),
        }
    }
}

/// The answer to a request for an asset of an ended session.
pub(super) fn session_ended() -> Error {
    Error::new(Code::SessionEnded, "the session has ended")
}
