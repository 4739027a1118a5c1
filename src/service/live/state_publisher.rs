//! Publishes channel events: state and viewer count of a channel, and programmes that begin.
//!
//! An unwatched channel costs only a look at the clock when its programme ends, and only while an event stream is open.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::channel_state;
use crate::domain::channel::Channel;
use crate::domain::channel_state::ChannelState;
use crate::domain::time::WallMs;
use crate::service::Service;
use crate::service::events::EventContent;

/// Longest pause: after it, channels that were added or changed meanwhile are noticed.
const MAX_PAUSE_MS: i64 = 5_000;

/// Shortest pause.
const MIN_PAUSE_MS: i64 = 50;

/// The states published last.
#[derive(Default)]
pub struct StatePublisher {
    /// Channels that are not idle.
    states: Mutex<HashMap<u32, (ChannelState, usize)>>,
    /// Whether the task that publishes programme starts is running.
    is_announcing: AtomicBool,
}

/// A channel at the last check: its version and the hash of its clock's guide, and when the current entry begins and ends.
type LastCheck = ((u32, u64), WallMs, WallMs);

impl StatePublisher {
    /// Channels that were published as other than idle.
    pub(super) fn published_channels(&self) -> Vec<u32> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    /// Publishes the state of a channel if it changed.
    pub(super) fn publish(&self, service: &Service, channel: &Channel) {
        let (state, viewers) = (channel_state(service, channel), service.viewers.viewer_count(channel.id));
        let idle = (ChannelState::Idle, 0);
        {
            let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
            let previous = match (state, viewers) {
                known if known == idle => states.remove(&channel.id),
                known => states.insert(channel.id, known),
            };
            if previous.unwrap_or(idle) == (state, viewers) {
                return;
            }
        }
        if channel.settings.enabled {
            service.events.publish(None, EventContent::Channel { id: channel.id, state, viewers });
        }
    }

    /// Removes a deleted channel.
    pub(super) fn remove(&self, channel: u32) {
        self.states.lock().unwrap_or_else(PoisonError::into_inner).remove(&channel);
    }
}

/// Publishes programmes as they begin, while any event stream is open.
pub fn publish_programmes(service: &Arc<Service>) {
    if service.live_channels.state_publisher.is_announcing.swap(true, Ordering::SeqCst) {
        return;
    }
    let weak_service = Arc::downgrade(service);
    service.tasks.spawn(async move {
        let mut checked = HashMap::new();
        loop {
            let Some(service) = weak_service.upgrade() else { return };
            if !service.events.has_listeners() {
                let is_announcing = &service.live_channels.state_publisher.is_announcing;
                is_announcing.store(false, Ordering::SeqCst);
                // A listener may have subscribed meanwhile and found the task running.
                if !service.events.has_listeners() || is_announcing.swap(true, Ordering::SeqCst) {
                    return;
                }
            }
            let pause = publish_started(&service, &mut checked);
            drop(service);
            tokio::time::sleep(pause).await;
        }
    });
}

/// Publishes programmes that began since the last check; returns the time until the next check.
fn publish_started(service: &Service, checked: &mut HashMap<u32, LastCheck>) -> Duration {
    let now_ms = service.clock.now_ms();
    let mut next_ms = now_ms + MAX_PAUSE_MS;
    let channels = service.channels.all();
    checked.retain(|id, _| channels.iter().any(|channel| channel.id == *id));
    for channel in channels.into_iter().filter(|channel| channel.settings.enabled) {
        let last_check = checked.get(&channel.id).copied();
        let version = (channel.version, channel.clock.as_ref().map_or(0, |clock| clock.guide_hash(now_ms)));
        let (_, _, end_ms) = match last_check {
            Some(known) if known.0 == version && now_ms < known.2 => known,
            _ => {
                // Before the first programme: checked again after the longest pause.
                let current = channel.guide_entries(now_ms, now_ms + 1, now_ms).next();
                let check = match &current {
                    Some(current) => (version, current.start_ms, current.end_ms),
                    None => (version, WallMs::MAX, now_ms + MAX_PAUSE_MS),
                };
                if let Some(current) = current
                    && last_check.is_some_and(|(_, start_ms, _)| start_ms != current.start_ms)
                {
                    service.events.publish(None, EventContent::Programme { channel: channel.clone(), entry: current });
                }
                checked.insert(channel.id, check);
                check
            }
        };
        next_ms = next_ms.min(end_ms);
    }
    Duration::from_millis((next_ms - now_ms).clamp(MIN_PAUSE_MS, MAX_PAUSE_MS).unsigned_abs())
}
