//! Items that were aired before.

use std::collections::HashSet;

use super::{Definition, Programme, Walk};

/// How far back the airings of a block schedule are checked.
const LONG_MS: i64 = 28 * 24 * 3600 * 1000;

impl Definition {
    /// Ids of the items aired before an instant, as far back as revisions are kept. None if everything on air between
    /// `from_ms` and `to_ms` was aired before.
    pub fn shown_before(&self, from_ms: i64, to_ms: i64) -> Option<HashSet<u64>> {
        let mut shown = HashSet::new();
        let mut all_of_last = false;
        for (number, revision) in self.revisions.iter().enumerate() {
            if revision.start_ms >= from_ms {
                // Does it begin, with its own items, before the range ends?
                all_of_last &= revision.start_ms >= to_ms;
                break;
            }
            let end_ms = self.end_of(number).min(from_ms);
            let round_ms = match revision.blocks {
                // A block schedule has no cycle: after this time everything counts as shown.
                Some(_) => LONG_MS,
                None => revision.cycles().start_ms(1),
            };
            all_of_last = revision.start_ms.saturating_add(round_ms) <= end_ms;
            if all_of_last {
                // Most channels: a whole cycle has passed.
                if number + 1 < self.revisions.len() {
                    shown.extend(revision.items.iter().map(|item| item.id));
                }
                continue;
            }
            let aired = Walk::at(self, revision.start_ms).take_while(|programme| programme.start_ms < end_ms);
            // The programme on air at the instant itself does not count as aired before, with breaks or without.
            let last = |programme: &Programme| {
                programme.part.is_none_or(|part| usize::from(part) == self.item(programme).breaks.len())
            };
            let aired = aired.filter(|programme| programme.end_ms <= from_ms && last(programme));
            shown.extend(aired.map(|programme| self.item(&programme).id));
        }
        if all_of_last { None } else { Some(shown) }
    }
}
