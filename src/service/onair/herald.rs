//! What happens on channels, told to whoever listens: who came and went, and what begins.
//!
//! A channel that nobody watches costs nothing but a look at the clock when its programme ends, and that only while
//! somebody listens.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::State;
use crate::domain::channel::Channel;
use crate::service::Service;
use crate::service::events::What;

/// Longest rest: a channel that was added or changed meanwhile is seen then.
const REST_MS: i64 = 5_000;

/// Shortest rest.
const LEAST_REST_MS: i64 = 50;

/// What was told.
#[derive(Default)]
pub struct Herald {
    /// Channels that do not stand idle.
    states: Mutex<HashMap<u32, (State, usize)>>,
    /// Whether the task runs that tells of programmes.
    announces: AtomicBool,
}

/// A channel as it was looked at last: its version and what is known of its clock, and when the entry that was on begins and ends.
type Seen = ((u32, u64), i64, i64);

impl Herald {
    /// Channels that were told to be other than idle.
    pub(super) fn told(&self) -> Vec<u32> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    /// Tells how a channel stands, if that is new.
    pub(super) fn tell(&self, service: &Service, channel: &Channel, state: State, viewers: usize) {
        let idle = (State::Idle, 0);
        {
            let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
            let before = match (state, viewers) {
                known if known == idle => states.remove(&channel.id),
                known => states.insert(channel.id, known),
            };
            if before.unwrap_or(idle) == (state, viewers) {
                return;
            }
        }
        if channel.face.enabled {
            service.events.tell(None, What::Channel { id: channel.id, state, viewers });
        }
    }

    /// Forgets a channel that is gone.
    pub(super) fn forget(&self, channel: u32) {
        self.states.lock().unwrap_or_else(PoisonError::into_inner).remove(&channel);
    }
}

/// Sees to it that programmes are told of as they begin, for as long as anybody listens.
pub fn announce(service: &Arc<Service>) {
    if service.onair.herald.announces.swap(true, Ordering::SeqCst) {
        return;
    }
    let service = Arc::downgrade(service);
    tokio::spawn(async move {
        let mut seen = HashMap::new();
        loop {
            let Some(service) = service.upgrade() else { return };
            if !service.events.is_heard() {
                let announces = &service.onair.herald.announces;
                announces.store(false, Ordering::SeqCst);
                // Somebody may have come in between, and found it running.
                if !service.events.is_heard() || announces.swap(true, Ordering::SeqCst) {
                    return;
                }
            }
            let rest = programmes(&service, &mut seen);
            drop(service);
            tokio::time::sleep(rest).await;
        }
    });
}

/// Tells of what began since the last look; how long until the next.
fn programmes(service: &Service, seen: &mut HashMap<u32, Seen>) -> Duration {
    let now_ms = service.clock.now().as_millisecond();
    let mut next_ms = now_ms + REST_MS;
    let all = service.channels.all();
    seen.retain(|id, _| all.iter().any(|channel| channel.id == *id));
    for channel in all.into_iter().filter(|channel| channel.face.enabled) {
        let known = seen.get(&channel.id).copied();
        let version = (channel.version, channel.pace.as_ref().map_or(0, |pace| pace.stamp(now_ms)));
        let (_, _, end_ms) = match known {
            Some(known) if known.0 == version && now_ms < known.2 => known,
            _ => {
                // Before the first programme there is none, until the channel is looked at again.
                let on = channel.guide(now_ms, now_ms + 1, now_ms).next().map(|entry| entry.programme);
                let looked = match &on {
                    Some(on) => (version, on.start_ms, on.end_ms),
                    None => (version, i64::MAX, now_ms + REST_MS),
                };
                if let Some(on) = on
                    && known.is_some_and(|(_, start_ms, _)| start_ms != on.start_ms)
                {
                    service.events.tell(None, What::Programme { channel: channel.clone(), entry: on });
                }
                seen.insert(channel.id, looked);
                looked
            }
        };
        next_ms = next_ms.min(end_ms);
    }
    Duration::from_millis((next_ms - now_ms).clamp(LEAST_REST_MS, REST_MS).unsigned_abs())
}
