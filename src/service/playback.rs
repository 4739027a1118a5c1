//! Playback of films, with room for it made among the channels.

use std::sync::Arc;

use tokio::time::Instant;

use crate::domain::access::Principal;
use crate::error::Result;
use crate::service::Service;
use crate::service::live::{MAX_ADMISSION_WAIT, make_room};
use crate::service::renditions::encode_slots::AfterRefusal;
use crate::service::renditions::planner::SessionPlan;
use crate::service::sessions::Session;

/// Starts a session. When the encode slots do not suffice, unwatched programmes give up their shares.
///
/// # Errors
/// Those of [`Sessions::start`](crate::service::sessions::Sessions::start).
pub async fn start_session(service: &Service, principal: &Principal, plan: SessionPlan) -> Result<Arc<Session>> {
    let slots = service.renditions.encode_slots();
    let mut may_wait = false;
    let make_room = || {
        let has_freed = make_room(service);
        // A request under way still occupies the share that was given up.
        may_wait |= has_freed || slots.is_measuring();
        match (has_freed, may_wait) {
            (true, _) => AfterRefusal::TryAgain,
            (false, true) => AfterRefusal::Wait,
            (false, false) => AfterRefusal::GiveUp,
        }
    };
    let start = || service.sessions.start(principal, plan.clone());
    slots.retry_when_busy(Instant::now() + MAX_ADMISSION_WAIT, start, make_room).await
}
