//! Playback of films, with room for it made among the channels.

use std::sync::Arc;

use tokio::time::Instant;

use crate::domain::access::Principal;
use crate::error::{Code, Result};
use crate::service::Service;
use crate::service::live::{MAX_ADMISSION_WAIT, RETRY_INTERVAL, make_room};
use crate::service::renditions::planner::SessionPlan;
use crate::service::sessions::Session;

/// Starts a session. When the encode slots do not suffice, unwatched programmes give up their shares.
///
/// # Errors
/// Those of [`Sessions::start`](crate::service::sessions::Sessions::start).
pub async fn start_session(service: &Service, principal: &Principal, plan: SessionPlan) -> Result<Arc<Session>> {
    let deadline = Instant::now() + MAX_ADMISSION_WAIT;
    let mut may_wait = false;
    loop {
        match service.sessions.start(principal, plan.clone()).await {
            Err(busy) if busy.code == Code::TranscoderBusy => {
                let has_freed = make_room(service);
                // A request under way still occupies the share that was given up.
                may_wait |= has_freed || service.renditions.encode_slots().is_measuring();
                if !may_wait || Instant::now() >= deadline {
                    return Err(busy);
                }
                if has_freed {
                    continue;
                }
            }
            answer => return answer,
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}
