//! Channels that follow the library: whether one does, and when a change takes effect on it.
//!
//! The published part of the guide does not change, so a change begins after it, where an entry of the guide begins.

use super::channel::{Channel, RequestedItem};
use super::channel_rule::ItemRule;
use super::schedule::{RevisionRequest, ScheduleDefinition};
use super::time::ChannelMs;

/// How far ahead the guide does not change when the library does, ms.
pub const PUBLISHED_MS: i64 = 6 * HOUR_MS;

/// Least time between the starts of two revisions, ms, so that many changes of the library make few revisions.
const MIN_REVISION_MS: i64 = HOUR_MS;

/// Within this time an entry of the guide begins, ms.
const MAX_ENTRY_MS: i64 = 48 * HOUR_MS;

const HOUR_MS: i64 = 3_600_000;

impl Channel {
    /// The rules of its items and its filler.
    pub fn rules(&self) -> impl Iterator<Item = &ItemRule> {
        let blocks = self.requested_blocks.iter().flat_map(|blocks| &blocks.sources).flat_map(|(_, items)| items);
        let filler = &self.requested_filler;
        let filler = [&filler.pre, &filler.mid, &filler.post, &filler.tail, &filler.fallback].into_iter().flatten();
        self.requested_items.iter().chain(blocks).chain(filler).filter_map(RequestedItem::rule)
    }

    /// Its definition after a change of the library. `now_ms` is channel time.
    pub fn follow_library(&self, now_ms: ChannelMs, request: RevisionRequest) -> ScheduleDefinition {
        self.definition.with_revision(self.follow_start_ms(now_ms), request)
    }

    /// When a change of the library takes effect. A revision that is to begin after the published time is replaced.
    fn follow_start_ms(&self, now_ms: ChannelMs) -> ChannelMs {
        let published_until = now_ms + PUBLISHED_MS;
        let last_start = self.definition.revisions.last().map_or(published_until, |last| last.start_ms);
        if last_start >= published_until {
            return last_start;
        }
        let earliest = published_until.max(last_start + MIN_REVISION_MS);
        let mut entries = self.whole_programmes(earliest, earliest + MAX_ENTRY_MS);
        let next = entries.find(|programme| programme.start_ms >= earliest).map(|programme| programme.start_ms);
        let end = || self.definition.programme_bounds(earliest).map(|(_, end_ms)| end_ms);
        next.or_else(end).unwrap_or(earliest)
    }
}

#[cfg(test)]
mod tests;
