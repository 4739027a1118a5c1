//! Admission to the encode slots: which viewers of channels and films have a share, and who gives one up for another.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Audience;
use super::active_programme::ActiveProgramme;
use crate::error::Result;
use crate::service::Service;
use crate::service::renditions::encode_slots::AfterRefusal;

/// A programme without a request for this long counts as unwatched while another viewer waits for its share.
const ABANDONED_AFTER: Duration = Duration::from_secs(6);

/// How long a new viewer waits for encode slots: until a segment under way is made, or another rendition's speed is
/// measured. Then it is refused, within 2 s in all.
pub const MAX_ADMISSION_WAIT: Duration = Duration::from_millis(1500);

/// Repeats an attempt for a while when the encode slots do not suffice, and makes unwatched programmes give up their shares.
pub(super) async fn retry_when_busy<T, F>(service: &Service, attempt: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let slots = service.renditions.encode_slots();
    let make_room = || if make_room(service) { AfterRefusal::TryAgain } else { AfterRefusal::Wait };
    slots.retry_when_busy(Instant::now() + MAX_ADMISSION_WAIT, attempt, make_room).await
}

/// Makes unwatched programmes, including warm ones, give up their shares of the encode slots: a viewer who changes channels
/// or starts a film must not wait as long as the previous channel lingers. False when there was nothing to give up.
pub fn make_room(service: &Service) -> bool {
    let has_freed = release_unwatched(service, |_| false);
    if has_freed {
        *service.live_channels.last_preemption.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
    has_freed
}

/// Makes channels that every viewer has left give up their shares of the encode slots, except those to be kept.
pub(super) fn release_left_channels(service: &Service, is_kept: impl Fn(u32) -> bool) {
    release_unwatched(service, |channel| is_kept(channel) || service.viewers.has_present_viewer(channel));
}

/// Makes unwatched programmes of all channels but those to be kept give up their shares. False when there was nothing to give up.
fn release_unwatched(service: &Service, is_kept: impl Fn(u32) -> bool) -> bool {
    let live_channels = &service.live_channels;
    let mut audiences: HashMap<Audience, Vec<Arc<ActiveProgramme>>> =
        live_channels.admissions().keys().map(|audience| (audience.clone(), Vec::new())).collect();
    for (key, active) in live_channels.active_programmes().iter() {
        audiences.entry((key.channel, key.reader.clone())).or_default().push(active.clone());
    }
    let mut has_freed = false;
    audiences.retain(|(channel, _), _| !is_kept(*channel));
    for (audience, programmes) in audiences {
        let is_watched = service.viewers.has_present_viewer(audience.0);
        let (idle, in_use): (Vec<_>, Vec<_>) = programmes
            .into_iter()
            .partition(|active| active.is_idle(if is_watched { ABANDONED_AFTER } else { Duration::ZERO }));
        for active in &idle {
            has_freed |= active.withdraw_lease();
        }
        for active in &in_use {
            active.release_when_complete(service);
        }
        if in_use.is_empty() && (!is_watched || !idle.is_empty()) {
            let admission = live_channels.admissions().remove(&audience);
            has_freed |= admission.is_some();
        }
    }
    has_freed
}
