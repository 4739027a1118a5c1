//! Items that were aired in the cycle that is running.

use super::{MAX_CYCLE_PROGRAMMES, ProgrammeIter, ScheduleDefinition};
use crate::domain::time::ChannelMs;

impl ScheduleDefinition {
    /// Ids of the items aired in the cycle running just before `at_ms`, in their order, also by earlier revisions whose cycle
    /// was continued. Empty for block schedules, which have no cycles.
    pub(super) fn aired_in_cycle(&self, at_ms: ChannelMs) -> Vec<u64> {
        let mut aired: Vec<u64> = Vec::new();
        let Some(mut index) = self.revision_at(at_ms - 1) else { return aired };
        loop {
            let revision = &self.revisions[index];
            let end_ms = at_ms.min(self.revision_end_ms(index));
            let cycles = revision.cycle_positions();
            if revision.blocks.is_some() || cycles.is_empty() {
                return aired;
            }
            let into_ms = end_ms - 1 - revision.start_ms;
            let is_rest = into_ms < cycles.cycle_start_ms(0);
            let from_ms = match is_rest {
                true => revision.start_ms,
                false => revision.start_ms + cycles.cycle_start_ms(cycles.cycle_at(into_ms)),
            };
            let programmes = ProgrammeIter::starting_at(self, from_ms).take_while(|airing| airing.start_ms < end_ms);
            let content = programmes.filter(|airing| !self.is_filler(airing)).map(|airing| self.item_of(&airing).id);
            let earlier = std::mem::replace(&mut aired, content.collect());
            aired.extend(earlier);
            if !is_rest || index == 0 || aired.len() > MAX_CYCLE_PROGRAMMES {
                return aired;
            }
            index -= 1;
        }
    }
}
