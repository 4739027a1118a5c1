//! What each channel shows at one moment that moves on, remembered for as long as it shows it: whoever polls a guide of many
//! channels asks for it again and again, and to work it out takes the order of a whole cycle.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::domain::channel::Channel;
use crate::domain::schedule::Programme;

/// By a channel's id: the version it was worked out for, and what is on.
#[derive(Default)]
pub(super) struct Present(Mutex<HashMap<u32, (u32, Programme)>>);

impl Present {
    /// What a channel shows at an instant, unix ms; None before its first programme.
    pub(super) fn on(&self, channel: &Channel, now_ms: i64) -> Option<Programme> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all
            .get(&channel.id)
            .filter(|(version, on)| *version == channel.version && (on.start_ms..on.end_ms).contains(&now_ms));
        if let Some((_, on)) = known {
            return Some(*on);
        }
        let on = channel.definition.programme(now_ms)?;
        all.insert(channel.id, (channel.version, on));
        Some(on)
    }

    /// Forgets a channel that is gone.
    pub(super) fn forget(&self, channel: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&channel);
    }
}
