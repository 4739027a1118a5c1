//! Publishes channel events: state and viewer count of a channel, and programmes that begin.
//!
//! An unwatched channel costs only a look at the clock when its programme ends, and only while an event stream is open.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::State;
use crate::domain::channel::Channel;
use crate::service::Service;
use crate::service::events::What;

/// Longest pause: after it, channels that were added or changed meanwhile are noticed.
const REST_MS: i64 = 5_000;

/// Shortest pause.
const LEAST_REST_MS: i64 = 50;

/// The states published last.
#[derive(Default)]
pub struct Herald {
    /// Channels that are not idle.
    states: Mutex<HashMap<u32, (State, usize)>>,
    /// Whether the task that publishes programme starts is running.
    announces: AtomicBool,
}

/// A channel at the last check: its version and the hash of its clock's guide, and when the current entry begins and ends.
type Seen = ((u32, u64), i64, i64);

impl Herald {
    /// Channels that were published as other than idle.
    pub(super) fn told(&self) -> Vec<u32> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    /// Publishes the state of a channel if it changed.
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
        if channel.settings.enabled {
            service.events.tell(None, What::Channel { id: channel.id, state, viewers });
        }
    }

    /// Removes a deleted channel.
    pub(super) fn forget(&self, channel: u32) {
        self.states.lock().unwrap_or_else(PoisonError::into_inner).remove(&channel);
    }
}

/// Publishes programmes as they begin, while any event stream is open.
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
                // A listener may have subscribed meanwhile and found the task running.
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

/// Publishes programmes that began since the last check; returns the time until the next check.
fn programmes(service: &Service, seen: &mut HashMap<u32, Seen>) -> Duration {
    let now_ms = service.clock.now().as_millisecond();
    let mut next_ms = now_ms + REST_MS;
    let all = service.channels.all();
    seen.retain(|id, _| all.iter().any(|channel| channel.id == *id));
    for channel in all.into_iter().filter(|channel| channel.settings.enabled) {
        let known = seen.get(&channel.id).copied();
        let version = (channel.version, channel.clock.as_ref().map_or(0, |pace| pace.guide_hash(now_ms)));
        let (_, _, end_ms) = match known {
            Some(known) if known.0 == version && now_ms < known.2 => known,
            _ => {
                // Before the first programme there is none until the next check.
                let on = channel.guide_entries(now_ms, now_ms + 1, now_ms).next().map(|entry| entry.programme);
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
