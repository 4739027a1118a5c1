//! The maintenance task of live channels. It runs while anything is open, releases what is unused and prepares the next
//! programmes.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{Key, Reel, first_wanted, is_kept_by, is_made, key, listed, programme, segment, shows_item, state};
use crate::domain::channel::Channel;
use crate::domain::live::{self, LiveSegment, PlaylistView};
use crate::domain::schedule::Programme;
use crate::error::Result;
use crate::service::{Service, ingest};

/// How long a programme's run outlives the last request for it.
const LINGER: Duration = Duration::from_secs(60);

/// How far ahead of the clock a channel that is kept ready is made, ms: the segments its list names next, and a little more.
const STOCK_MS: i64 = 4_000;

/// How long an unwatched channel takes no encode slot after it gave one up.
const MODESTY: Duration = Duration::from_secs(10);

/// Interval of the maintenance.
const TICK: Duration = Duration::from_secs(1);

/// How long before its start the next programme is prepared.
const AHEAD_MS: i64 = 20_000;

/// How many short programmes are prepared within that time.
const COMING: usize = 3;

/// Starts the maintenance task unless it is running. It ends when nothing is open.
pub fn wake(service: &Arc<Service>) {
    if service.onair.looked_after.swap(true, Ordering::SeqCst) {
        return;
    }
    let service = Arc::downgrade(service);
    tokio::spawn(async move {
        loop {
            let Some(service) = service.upgrade() else { return };
            if !look_after(&service) {
                let looked_after = &service.onair.looked_after;
                looked_after.store(false, Ordering::SeqCst);
                // A programme may have been opened meanwhile, and its `wake` found the task running.
                if !look_after(&service) || looked_after.swap(true, Ordering::SeqCst) {
                    return;
                }
            }
            drop(service);
            tokio::time::sleep(TICK).await;
        }
    });
}

/// Releases what is unused and prepares the next programmes. False when nothing needs maintenance.
fn look_after(service: &Arc<Service>) -> bool {
    let onair = &service.onair;
    onair.viewers.expire();
    let now_ms = service.clock.now().as_millisecond();
    let watched: HashSet<u32> = onair.viewers.watched();
    let warm = onair.viewers.warm();
    let kept = |channel: &Channel| is_kept_by(&warm, channel);
    let all = service.channels.all();
    let modest = onair.gave_way().is_some_and(|at: Instant| at.elapsed() < MODESTY);
    let told = onair.herald.told();
    let mut busy = !told.is_empty();
    for channel in told.iter().filter(|id| !all.iter().any(|channel| channel.id == **id)) {
        onair.herald.forget(*channel);
    }
    for channel in
        all.iter().filter(|channel| told.contains(&channel.id) && !watched.contains(&channel.id) && !kept(channel))
    {
        onair.herald.tell(service, channel, state(service, channel), onair.viewers.count(channel.id));
    }
    for channel in all.iter().filter(|channel| kept(channel) || watched.contains(&channel.id)) {
        busy = true;
        if channel.external.is_some()
            && let Err(fault) = ingest::keep(service, channel)
        {
            tracing::debug!(channel.id = channel.id, %fault, "an external channel cannot be received");
        }
        let takes = !modest || watched.contains(&channel.id);
        if kept(channel) {
            fill(service, channel, takes);
        }
        let now_ms = channel.channel_ms_at(now_ms);
        let on = channel.definition.programme_at(now_ms);
        // The part after a break waits until its run has made the part before.
        let goes_on =
            |next: &Programme| next.continues_programme && on.is_some_and(|on| (on.revision_index, on.item_index) == (next.revision_index, next.item_index));
        let coming = channel.definition.programmes_between(now_ms, now_ms + AHEAD_MS);
        let coming = coming.filter(|next| next.start_ms > now_ms && !goes_on(next));
        let coming = coming.take(COMING).filter(|_| takes && has_begun(service, channel));
        for next in coming {
            if let Some(slot) = live::programme_segments(&channel.definition, next).next() {
                make(service, channel, slot);
            }
        }
        onair.herald.tell(service, channel, state(service, channel), onair.viewers.count(channel.id));
    }
    onair.drop_outdated(service);
    let mut reels = onair.reels();
    reels.retain(|_, reel| {
        reel.let_go(service);
        !reel.is_idle(LINGER)
    });
    // An audience keeps its admission to the encode slots while it is present, whatever its programmes need.
    onair.admissions().retain(|(channel, reader), _| {
        let is_here = match reader.is_empty() {
            true => watched.contains(channel) || all.iter().any(|one| one.id == *channel && kept(one)),
            false => onair.viewers.is_here(*channel, reader),
        };
        let is_audience = |key: &Key| key.channel == *channel && key.reader == *reader;
        is_here || reels.iter().any(|(key, reel)| is_audience(key) && reel.may_be_leased())
    });
    busy || !reels.is_empty()
}

/// The segments a viewer who joins now needs, from their first one to those the list is about to name.
fn stock(service: &Service, channel: &Channel) -> Vec<LiveSegment> {
    if channel.external.is_some() {
        return Vec::new();
    }
    let (listed, now_ms) = listed(service, channel, PlaylistView::Live);
    let (definition, pace) = (&channel.definition, channel.clock.as_deref());
    // Before anything is listed: the segment that will be first.
    let first = first_wanted(&listed, channel.output.target_seconds).or_else(|| live::segments_from(definition, pace, now_ms).next());
    let Some(first) = first else { return Vec::new() };
    let slots = live::segments_from(definition, pace, first.start_ticks.div_euclid(90));
    let slots = slots.skip_while(|slot| slot.media_sequence < first.media_sequence);
    slots.take_while(|slot| slot.start_ticks < (now_ms + STOCK_MS) * 90).collect()
}

/// Whether the first segment of a viewer who joins is made, or never will be. Before that the next programme must not take
/// the one encode slot that this segment needs.
fn has_begun(service: &Service, channel: &Channel) -> bool {
    let listed = listed(service, channel, PlaylistView::Live).0;
    let is_broken = |slot: &LiveSegment| service.onair.shared(channel, slot.programme_start_ms).is_some_and(|reel| reel.is_broken());
    let begins = first_wanted(&listed, channel.output.target_seconds);
    begins.is_none_or(|slot| is_made(service, channel, &slot) || is_broken(&slot))
}

/// Whether a viewer who joins now can start playback at once: their first segment and the one after it are made.
pub(super) fn is_stocked(service: &Service, channel: &Channel) -> bool {
    stock(service, channel).iter().take(2).all(|slot| is_made(service, channel, slot))
}

/// Makes the missing segments of a channel's stock, the first one of each programme, and reports the clock's position to the
/// runs, which work ahead of that position at the clock's speed. A new encode slot is taken only if `takes` is set.
fn fill(service: &Arc<Service>, channel: &Arc<Channel>, takes: bool) {
    let stock = stock(service, channel);
    let Some(first) = stock.first() else { return };
    for slots in stock.chunk_by(|one, next| one.programme_start_ms == next.programme_start_ms) {
        let reel = service.onair.shared(channel, slots[0].programme_start_ms);
        let missing = slots.iter().find(|slot| !is_made(service, channel, slot));
        let reached = slots.iter().rfind(|slot| slot.start_ticks <= first.start_ticks + STOCK_MS * 90);
        match (missing, reached, reel) {
            (Some(missing), _, reel) if takes || reel.as_ref().is_some_and(|reel| reel.is_leased()) => {
                make(service, channel, *missing);
            }
            (None, Some(reached), Some(reel)) => {
                reel.touch();
                reel.follow(reached.item_index);
            }
            _ => {}
        }
    }
}

/// Makes the current segment before a list names it: after a skip there was no time to prepare it.
pub fn hurry(service: &Arc<Service>, channel: &Arc<Channel>) {
    let now_ms = channel.channel_ms_at(service.clock.now().as_millisecond());
    if let Some(slot) = live::segments_from(&channel.definition, channel.clock.as_deref(), now_ms).next() {
        make(service, channel, slot);
    }
}

/// Makes the first segment of a channel whose list is still empty.
pub fn prepare(service: &Arc<Service>, channel: &Arc<Channel>) {
    if channel.external.is_none()
        && let Some(slot) = stock(service, channel).first()
    {
        make(service, channel, *slot);
    }
}

/// Makes a segment for a viewer who is about to request it. None if its programme is already making one ahead, so that the
/// tasks that outlive their requests are at most one for each open programme.
///
/// # Errors
/// `ASSET_NOT_FOUND`; `SERVER_BUSY` when too many programmes are open. The task returns those of [`segment`].
pub fn make_for(
    service: &Arc<Service>,
    channel: &Arc<Channel>,
    slot: LiveSegment,
    reader: &str,
) -> Result<Option<JoinHandle<Result<()>>>> {
    let (programme, _) = programme(channel, slot.programme_start_ms)?;
    let now_ms = channel.channel_ms_at(service.clock.now().as_millisecond());
    let active = service.onair.reel(key(channel, &programme, slot.index, now_ms, reader))?;
    active.touch();
    if !active.begin() {
        return Ok(None);
    }
    let (busy, service, channel, reader) = (Busy(active), service.clone(), channel.clone(), reader.to_owned());
    Ok(Some(tokio::spawn(async move {
        let made = segment(&service, &channel, (slot.programme_start_ms, slot.index), &reader).await;
        drop(busy);
        made.map(drop)
    })))
}

/// A programme that is making a segment ahead, until this is dropped.
struct Busy(Arc<Reel>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.ended();
    }
}

/// Makes a segment before it is requested, unless it exists or is under way. An error is reported by the request for it.
pub fn make(service: &Arc<Service>, channel: &Arc<Channel>, slot: LiveSegment) {
    if !shows_item(channel, &slot) {
        return;
    }
    let Ok((programme, _)) = programme(channel, slot.programme_start_ms) else { return };
    let Ok(reel) = service.onair.reel(Key::new(channel, &programme, String::new())) else { return };
    reel.touch();
    if reel.is_made(service, slot.item_index) || !reel.begin() {
        return;
    }
    let (service, channel) = (service.clone(), channel.clone());
    tokio::spawn(async move {
        if let Err(error) = reel.segment(&service, &channel, &programme, slot.index).await {
            tracing::debug!(channel.id = channel.id, %error, "a segment could not be made ahead");
        }
        reel.ended();
    });
}
