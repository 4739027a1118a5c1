//! A cache of each channel's programme at one moving instant. Clients poll guides of many channels, and computing one
//! programme takes the order of a whole cycle.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::domain::channel::Channel;
use crate::domain::schedule::Programme;
use crate::domain::time::ChannelMs;

/// By channel id: the channel version it was computed for, and the programme.
#[derive(Default)]
pub(super) struct ProgrammeCache(Mutex<HashMap<u32, (u32, Programme)>>);

impl ProgrammeCache {
    /// A channel's programme at an instant; None before its first programme.
    pub(super) fn programme_at(&self, channel: &Channel, channel_ms: ChannelMs) -> Option<Programme> {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = cache.get(&channel.id).filter(|(version, programme)| {
            *version == channel.version && (programme.start_ms..programme.end_ms).contains(&channel_ms)
        });
        if let Some((_, programme)) = cached {
            return Some(*programme);
        }
        let programme = channel.definition.programme_at(channel_ms)?;
        cache.insert(channel.id, (channel.version, programme));
        Some(programme)
    }

    /// Removes a deleted channel.
    pub(super) fn remove(&self, channel: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&channel);
    }
}
