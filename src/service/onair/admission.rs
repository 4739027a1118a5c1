//! Admission to the encode slots: which viewers of channels and films have a share, and who gives one up for another.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::reel::Reel;
use super::{Audience, encodes, key, programme, shows_item, wake};
use crate::domain::access::Principal;
use crate::domain::channel::Channel;
use crate::domain::live::LiveSegment;
use crate::domain::schedule::segmentation::Segmentation;
use crate::error::{Code, Result};
use crate::service::Service;
use crate::service::planner::Plan;
use crate::service::sessions::Session;

/// A programme without a request for this long counts as unwatched while another viewer waits for its share.
const ABANDONED: Duration = Duration::from_secs(6);

/// How long a new viewer waits for encode slots: until a segment under way is made, or another rendition's speed is
/// measured. Then it is refused, within 2 s in all.
const ADMISSION: Duration = Duration::from_millis(1500);

/// Interval between attempts to be admitted.
const RETRY: Duration = Duration::from_millis(100);

/// Takes the share of the encode slots that a segment needs, before a playlist names the segment.
///
/// # Errors
/// `TRANSCODER_BUSY` within 2 s. Other errors are reported when the segment is requested.
pub async fn admit(service: &Arc<Service>, channel: &Channel, slot: &LiveSegment, reader: &str) -> Result<()> {
    if channel.external.is_some() || !shows_item(channel, slot) {
        return Ok(());
    }
    let (programme, item) = programme(channel, slot.programme_start_ms)?;
    let now_ms = channel.channel_ms_at(service.clock.now().as_millisecond());
    let key = key(channel, &programme, slot.index, now_ms, reader);
    let audience = (key.channel, key.reader.clone());
    if !matches!(item.segmentation, Segmentation::Frames(_)) || service.onair.admission(&audience).is_some() {
        return Ok(());
    }
    let reel = service.onair.reel(key)?;
    wake(service);
    let held = patiently(service, || reel.hold(service, channel, &programme, slot.index));
    match tokio::time::timeout(ADMISSION + RETRY, held).await {
        Ok(Err(busy)) if busy.code == Code::TranscoderBusy => Err(busy),
        _ => Ok(()),
    }
}

/// Repeats an attempt for a while when the encode slots do not suffice, and makes unwatched programmes give up their shares.
pub(super) async fn patiently<T, F>(service: &Service, attempt: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let until = Instant::now() + ADMISSION;
    loop {
        match attempt().await {
            Err(busy) if busy.code == Code::TranscoderBusy && Instant::now() < until => {
                if make_room(service) {
                    continue;
                }
            }
            answer => return answer,
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Starts a session. When the encode slots do not suffice, unwatched programmes give up their shares.
///
/// # Errors
/// Those of [`Sessions::start`](crate::service::sessions::Sessions::start).
pub async fn start_session(service: &Service, principal: &Principal, plan: Plan) -> Result<Arc<Session>> {
    let until = Instant::now() + ADMISSION;
    let mut waits = false;
    loop {
        match service.sessions.start(principal, plan.clone()).await {
            Err(busy) if busy.code == Code::TranscoderBusy => {
                let given = make_room(service);
                // A request under way still occupies the share that was given up.
                waits |= given || service.sessions.encode_slots().is_measuring();
                if !waits || Instant::now() >= until {
                    return Err(busy);
                }
                if given {
                    continue;
                }
            }
            answer => return answer,
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Makes unwatched programmes, including warm ones, give up their shares of the encode slots: a viewer who changes channels
/// or starts a film must not wait as long as the previous channel lingers. False when there was nothing to give up.
fn make_room(service: &Service) -> bool {
    let onair = &service.onair;
    let mut audiences: HashMap<Audience, Vec<Arc<Reel>>> =
        onair.admissions().keys().map(|audience| (audience.clone(), Vec::new())).collect();
    for (key, reel) in onair.reels().iter() {
        audiences.entry((key.channel, key.reader.clone())).or_default().push(reel.clone());
    }
    let mut given = false;
    for (audience, reels) in audiences {
        let watched = onair.viewers.stays(audience.0);
        let (idle, used): (Vec<_>, Vec<_>) =
            reels.into_iter().partition(|reel| reel.is_idle(if watched { ABANDONED } else { Duration::ZERO }));
        for reel in &idle {
            given |= reel.give_up();
        }
        for reel in &used {
            reel.let_go(service);
        }
        if used.is_empty() && (!watched || !idle.is_empty()) {
            let admission = onair.admissions().remove(&audience);
            given |= admission.is_some();
        }
    }
    if given {
        *service.onair.gave_way.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
    given
}

/// How many more encoded channels `POST /api/livetv/warm` could keep ready: one for each encode slot in which no viewer has a
/// share. Channels that are kept ready already count; channels that were just left do not, because they give way.
pub fn room_to_warm(service: &Service) -> usize {
    let onair = &service.onair;
    let slots = service.sessions.encode_slots();
    let all = service.channels.all();
    let of = |id: u32| all.iter().find(|channel| channel.id == id);
    let is_needed = |id: u32| onair.viewers.count(id) > 0 || of(id).is_some_and(|channel| is_kept(service, channel));
    let admitted: Vec<Audience> = onair.admissions().keys().cloned().collect();
    let left = admitted.iter().filter(|(id, reader)| reader.is_empty() && !is_needed(*id)).count();
    let is_admitted = |channel: &Channel| admitted.iter().any(|(id, reader)| *id == channel.id && reader.is_empty());
    let begins = |channel: &&Arc<Channel>| {
        is_kept(service, channel) && !is_admitted(channel) && needs_room_to_warm(service, channel)
    };
    let taken = slots.viewers().saturating_sub(left) + all.iter().filter(begins).count();
    slots.count().saturating_sub(taken)
}

/// Whether a channel is kept ready even without viewers.
pub fn is_kept(service: &Service, channel: &Channel) -> bool {
    is_kept_by(&service.onair.viewers.warm(), channel)
}

/// Whether a channel is kept ready even without viewers, when these channels are warm.
pub fn is_kept_by(warm: &HashSet<u32>, channel: &Channel) -> bool {
    channel.settings.enabled && (channel.settings.always_on || warm.contains(&channel.id))
}

/// Whether keeping a channel ready needs encode slots beyond those of its viewers.
pub fn needs_room_to_warm(service: &Service, channel: &Channel) -> bool {
    encodes(service, channel) && service.onair.viewers.count(channel.id) == 0
}
