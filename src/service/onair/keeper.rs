//! The one task that looks after what is on air, while anything is: lets go of what nobody needs, makes ready what comes.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Key, first_wanted, listed, programme, shows_item, state};
use crate::domain::channel::Channel;
use crate::domain::live::{self, Slot, View};
use crate::service::{Service, ingest};

/// How long a programme's run outlives the last request for it.
const LINGER: Duration = Duration::from_secs(60);

/// How often what is on air is looked after.
const TICK: Duration = Duration::from_secs(1);

/// How long before its start the next programme is made ready.
const AHEAD_MS: i64 = 20_000;

/// How many of those that come within that time, where they are short.
const COMING: usize = 3;

/// Sees to it that the one task runs that looks after everything on air; it ends when nothing is.
pub fn wake(service: &Arc<Service>) {
    if service.onair.looked_after.swap(true, Ordering::SeqCst) {
        return;
    }
    let service = Arc::downgrade(service);
    tokio::spawn(async move {
        loop {
            let Some(service) = service.upgrade() else { return };
            if !look_after(&service) {
                service.onair.looked_after.store(false, Ordering::SeqCst);
                return;
            }
            drop(service);
            tokio::time::sleep(TICK).await;
        }
    });
}

/// Lets go of what nobody needs, and makes ready what comes. False when there is nothing to look after.
fn look_after(service: &Arc<Service>) -> bool {
    let onair = &service.onair;
    onair.viewers.expire();
    let now_ms = service.clock.now().as_millisecond();
    let watched: HashSet<u32> = onair.viewers.watched();
    let warm = onair.viewers.warm();
    let kept = |channel: &Channel| channel.face.enabled && (warm.contains(&channel.id) || channel.face.always_on);
    let all = service.channels.all();
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
            tracing::debug!(channel.id = channel.id, %fault, "a channel from elsewhere is not taken in");
        }
        let target = channel.output.target;
        if kept(channel)
            && let Some(slot) = first_wanted(&listed(service, channel, View::Live).0, target)
        {
            make(service, channel, slot);
        }
        let coming = channel.definition.programmes(now_ms, now_ms + AHEAD_MS).filter(|next| next.start_ms > now_ms);
        for next in coming.take(COMING) {
            if let Some(slot) = live::segments(&channel.definition, next).next() {
                make(service, channel, slot);
            }
        }
        onair.herald.tell(service, channel, state(service, channel), onair.viewers.count(channel.id));
    }
    let mut reels = onair.reels();
    reels.retain(|_, reel| {
        reel.let_go(service);
        !reel.is_idle(LINGER)
    });
    busy || !reels.is_empty()
}

/// Makes a segment that will be wanted, unless it is there or under way; how that ends is told when it is asked for.
pub fn make(service: &Arc<Service>, channel: &Arc<Channel>, slot: Slot) {
    if !shows_item(channel, &slot) {
        return;
    }
    let key = Key { channel: channel.id, programme_ms: slot.programme_ms, reader: String::new() };
    let Ok(reel) = service.onair.reel(key) else { return };
    reel.touch();
    if reel.is_made(service, slot.index) || !reel.begin() {
        return;
    }
    let (service, channel) = (service.clone(), channel.clone());
    tokio::spawn(async move {
        if let Ok((_, item)) = self::programme(&channel, slot.programme_ms)
            && let Err(error) = reel.segment(&service, &channel, item, slot.index).await
        {
            tracing::debug!(channel.id = channel.id, %error, "a segment could not be made ahead");
        }
        reel.ended();
    });
}
