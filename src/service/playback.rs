//! Playback of films, with room for it made among the channels, and their I-frames. Sessions continue after a restart.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;

use crate::domain::access::Principal;
use crate::domain::playlist::PlaylistTrack;
use crate::error::Result;
use crate::service::Service;
use crate::service::live::{MAX_ADMISSION_WAIT, make_room};
use crate::service::renditions::encode_slots::AfterRefusal;
use crate::service::renditions::planner::{SessionPlan, start_segment};
use crate::service::sessions::Session;

mod resume;

pub use resume::FoundSession;

/// Starts a session. When the encode slots do not suffice, unwatched programmes give up their shares.
///
/// # Errors
/// Those of [`Sessions::start`](crate::service::sessions::Sessions::start).
pub async fn start_session(service: &Service, principal: &Principal, plan: SessionPlan) -> Result<Arc<Session>> {
    start_when_possible(service, || service.sessions.start(principal, plan.clone())).await
}

/// Runs `start`. When the encode slots do not suffice, unwatched programmes give up their shares.
async fn start_when_possible<F>(service: &Service, start: impl Fn() -> F) -> Result<Arc<Session>>
where
    F: Future<Output = Result<Arc<Session>>>,
{
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
    slots.retry_when_busy(Instant::now() + MAX_ADMISSION_WAIT, start, make_room).await
}

/// An I-frame playlist of a session, with `grant` in every URI. If its frames are made, one is made for its init segment.
///
/// # Errors
/// `ASSET_NOT_FOUND` for a track without one; those of [`Service::encode_iframe`].
pub async fn iframe_playlist(service: &Service, session: &Session, track: PlaylistTrack, grant: &str) -> Result<Bytes> {
    match session.plan.made_iframes().filter(|made| made.track == track) {
        None => session.iframe_playlist(track, grant),
        Some(made) => {
            let (_, init) = service.encode_iframe(made, start_segment(&session.plan)).await?;
            Ok(session.made_iframe_playlist(made, init, grant))
        }
    }
}

/// A frame of an I-frame playlist that is a file of its own.
///
/// # Errors
/// `ASSET_NOT_FOUND` for other tracks and past the end; `SOURCE_READ_FAILED`; those of [`Service::encode_iframe`].
pub async fn iframe(service: &Service, session: &Session, track: PlaylistTrack, segment: usize) -> Result<Bytes> {
    match session.plan.made_iframes().filter(|made| made.track == track) {
        None => session.iframe(track, segment).await,
        Some(made) => {
            session.touch();
            Ok(service.encode_iframe(made, segment).await?.0)
        }
    }
}
