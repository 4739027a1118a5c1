//! A cache of each channel's programme at one moving instant. Clients poll guides of many channels, and computing one
//! programme takes the order of a whole cycle.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::domain::channel::Channel;
use crate::domain::schedule::Programme;

/// By channel id: the channel version it was computed for, and the programme.
#[derive(Default)]
pub(super) struct Present(Mutex<HashMap<u32, (u32, Programme)>>);

impl Present {
    /// A channel's programme at an instant, unix ms; None before its first programme.
    pub(super) fn on(&self, channel: &Channel, now_ms: i64) -> Option<Programme> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all
            .get(&channel.id)
            .filter(|(version, on)| *version == channel.version && (on.start_ms..on.end_ms).contains(&now_ms));
        if let Some((_, on)) = known {
            return Some(*on);
        }
        let on = channel.definition.programme_at(now_ms)?;
        all.insert(channel.id, (channel.version, on));
        Some(on)
    }

    /// Removes a deleted channel.
    pub(super) fn forget(&self, channel: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&channel);
    }
}
