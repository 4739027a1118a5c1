//! Items that were aired before.

use std::collections::HashSet;

use super::{Programme, ProgrammeIter, ScheduleDefinition};
use crate::domain::time::ChannelMs;

/// How far back the airings of a block schedule are checked.
const BLOCKS_LOOKBACK_MS: i64 = 28 * 24 * 3600 * 1000;

impl ScheduleDefinition {
    /// Ids of the items aired before an instant, as far back as revisions are kept. None if everything on air between
    /// `from_ms` and `to_ms` was aired before.
    pub fn items_aired_before(&self, from_ms: ChannelMs, to_ms: ChannelMs) -> Option<HashSet<u64>> {
        let mut aired_ids = HashSet::new();
        let mut is_last_complete = false;
        for (index, revision) in self.revisions.iter().enumerate() {
            if revision.start_ms >= from_ms {
                // Does it begin, with its own items, before the range ends?
                is_last_complete &= revision.start_ms >= to_ms;
                break;
            }
            let end_ms = self.revision_end_ms(index).min(from_ms);
            let round_ms = match revision.blocks {
                // A block schedule has no cycle: after this time everything counts as shown.
                Some(_) => BLOCKS_LOOKBACK_MS,
                None => revision.cycle_positions().cycle_start_ms(1),
            };
            is_last_complete = revision.start_ms.saturating_add(round_ms) <= end_ms;
            if is_last_complete {
                // Most channels: a whole cycle has passed.
                if index + 1 < self.revisions.len() {
                    aired_ids.extend(revision.items.iter().map(|item| item.id));
                }
                continue;
            }
            let aired =
                ProgrammeIter::starting_at(self, revision.start_ms).take_while(|programme| programme.start_ms < end_ms);
            // The programme on air at the instant itself does not count as aired before, with breaks or without.
            let is_last_part = |airing: &Programme| {
                airing.part_index.is_none_or(|part| usize::from(part) == self.item_of(airing).breaks.len())
            };
            let aired = aired.filter(|programme| programme.end_ms <= from_ms && is_last_part(programme));
            aired_ids.extend(aired.map(|programme| self.item_of(&programme).id));
        }
        if is_last_complete { None } else { Some(aired_ids) }
    }
}
