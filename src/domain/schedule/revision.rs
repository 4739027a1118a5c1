//! A change to what a channel airs only adds a revision.

use std::collections::HashSet;
use std::sync::Arc;

use super::blocks::BlockSchedule;
use super::{ProgrammeIter, ScheduleDefinition, ScheduleItems, ScheduleMode, ScheduleRevision};
use crate::domain::time::ChannelMs;

/// How long after the start of a change guides may still name programmes of the old schedule, ms: they span at most 14 days.
const GUIDE_HORIZON_MS: i64 = 15 * 24 * 3_600_000;

/// Most revisions in which items are looked up that may return under another name.
const MAX_ID_REVISIONS: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub struct RevisionRequest {
    pub seed: u64,
    pub mode: ScheduleMode,
    /// At least one, each with a length above zero.
    pub items: ScheduleItems,
    /// How many items at the end of the list are mid-roll filler.
    pub mid_roll_count: u32,
    /// Only with `ScheduleMode::Blocks`.
    pub blocks: Option<Arc<BlockSchedule>>,
}

impl ScheduleRevision {
    /// The first revision of a channel.
    fn from_request(start_ms: ChannelMs, request: RevisionRequest) -> Self {
        let RevisionRequest { seed, mode, items, mid_roll_count, blocks } = request;
        Self {
            number: 1,
            start_ms,
            seed,
            mode,
            items,
            mid_roll_count,
            // With an empty day cache, because that belongs to one revision.
            blocks: blocks.map(|blocks| Arc::new((*blocks).clone())),
            ..Self::default()
        }
    }
}

impl ScheduleDefinition {
    pub fn new(start_ms: ChannelMs, request: RevisionRequest) -> Self {
        Self { revisions: Box::new([ScheduleRevision::from_request(start_ms, request)]) }
    }

    /// Whether the last revision already has this content.
    pub fn has_content(&self, request: &RevisionRequest) -> bool {
        self.revisions.last().is_some_and(|last| {
            let begin = last.blocks.as_ref().map(|blocks| blocks.start_positions.clone()).unwrap_or_default();
            let with_begin = |blocks: &BlockSchedule| BlockSchedule { start_positions: begin, ..blocks.clone() };
            let RevisionRequest { seed, mode, items, mid_roll_count, blocks } = request;
            (last.seed, last.mode, last.mid_roll_count) == (*seed, *mode, *mid_roll_count)
                && last.items == *items
                && last.blocks == blocks.as_deref().map(with_begin).map(Arc::new)
        })
    }

    /// Airs new content from `at_ms` on. Revisions that would begin then or later are dropped. If mode and seed stay the
    /// same, the rest of the current cycle is aired first.
    #[must_use]
    pub fn with_revision(&self, at_ms: ChannelMs, request: RevisionRequest) -> Self {
        let number = self.revisions.last().map_or(0, |last| last.number) + 1;
        let Some(in_force) = self.revision_at(at_ms - 1) else {
            // Not on air yet: the start stays the same.
            let start_ms = self.revisions.first().map_or(at_ms, |first| first.start_ms);
            let mut fresh = Self::new(start_ms, request);
            fresh.revisions[0].number = number;
            fresh.revisions[0].first_ordinal = self.first_unused_ordinal(start_ms);
            return fresh;
        };
        let before = &self.revisions[in_force];
        let programmes = ProgrammeIter::starting_at(self, at_ms - 1);
        let (rest, cycle) = programmes.remaining_cycle();
        let last = ProgrammeIter::starting_at(self, at_ms - 1).next();
        let first_ordinal = self.first_unused_ordinal(at_ms);
        let first_sequence = last.map_or(0, |last| self.sequence_after(&last, at_ms));
        let first_discontinuity = last.map_or(0, |last| last.discontinuities + 1);
        let mut next = ScheduleRevision {
            number,
            first_ordinal,
            first_sequence,
            first_discontinuity,
            first_cycle: cycle.wrapping_add(1),
            copied_start: self.copied_start(at_ms, first_sequence, &request.items),
            ..ScheduleRevision::from_request(at_ms, request)
        };
        if before.mode == next.mode && before.seed == next.seed {
            next.cycle_rest = remaining_cycle(before, rest, cycle, &next, &self.aired_in_cycle(at_ms)).into();
        }
        let begin = next.blocks.as_ref().map(|_| before.carried_positions(at_ms, &next));
        if let (Some(blocks), Some(begin)) = (&mut next.blocks, begin) {
            Arc::make_mut(blocks).start_positions = begin;
        }
        Self { revisions: self.revisions[..=in_force].iter().cloned().chain([next]).collect() }
    }

    /// The first ordinal that no guide can have given to a programme this change replaces: clients keep ids.
    fn first_unused_ordinal(&self, at_ms: ChannelMs) -> u64 {
        let last = ProgrammeIter::starting_at(self, at_ms.saturating_add(GUIDE_HORIZON_MS))
            .next()
            .or_else(|| ProgrammeIter::starting_at(self, at_ms - 1).next());
        last.map_or(0, |last| last.ordinal + 1)
    }

    /// The items of the last revisions, each list once, the newest first.
    pub fn item_lists(&self) -> Vec<ScheduleItems> {
        let mut lists: Vec<ScheduleItems> = Vec::new();
        for revision in self.revisions.iter().rev().take(MAX_ID_REVISIONS) {
            if lists.last().is_none_or(|last| !Arc::ptr_eq(last, &revision.items)) {
                lists.push(revision.items.clone());
            }
        }
        lists
    }

    #[must_use]
    pub fn without_revisions_before(mut self, at_ms: ChannelMs) -> Self {
        if let Some(first) = self.revision_at(at_ms) {
            self.revisions = self.revisions.into_iter().skip(first).collect();
        }
        self
    }
}

/// The rest of the current cycle, as indices of the next revision's items. `aired` are the items aired in it, in their order.
fn remaining_cycle(
    before: &ScheduleRevision,
    rest: &[u32],
    cycle: u64,
    next: &ScheduleRevision,
    aired: &[u64],
) -> Vec<u32> {
    let remaining: HashSet<u64> = rest.iter().map(|index| before.items[*index as usize].id).collect();
    match next.mode {
        ScheduleMode::Shuffle | ScheduleMode::ShuffleInOrder => {
            let is_aired = |id: &u64| !remaining.contains(id);
            let before_ids = before.programme_items().iter().map(|item| item.id);
            // Items that were left out for a while are in no revision but an earlier one.
            let aired_ids: HashSet<u64> = before_ids.filter(is_aired).chain(aired.iter().copied()).collect();
            let mut head = next.cycle_order(cycle);
            head.retain(|index| !aired_ids.contains(&next.items[*index as usize].id));
            head
        }
        ScheduleMode::Sequential => {
            // After the last aired item that is still listed, without those that were moved there.
            let listed = |id: u64| next.programme_items().iter().position(|item| item.id == id);
            let last = aired.iter().rev().find_map(|id| listed(*id));
            let aired_ids: HashSet<u64> = aired.iter().copied().collect();
            let after = last.map_or(0, |last| last as u32 + 1)..next.programme_items().len() as u32;
            after.filter(|index| !aired_ids.contains(&next.items[*index as usize].id)).collect()
        }
        // Random draws have no rest to make up for.
        ScheduleMode::Random | ScheduleMode::Weighted | ScheduleMode::Blocks => Vec::new(),
    }
}
