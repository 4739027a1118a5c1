//! Changing what a channel airs adds a revision and touches nothing else.

use std::collections::HashSet;
use std::sync::Arc;

use super::blocks::Blocks;
use super::{Definition, Items, Memo, Mode, Programme, Revision, Walk};

/// How long after the start of a change guides may still name programmes of the old schedule, ms: they span at most 14 days.
const NAMED_MS: i64 = 15 * 24 * 3_600_000;

/// The content requested for a revision.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    pub seed: u64,
    pub mode: Mode,
    /// At least one, each with a length above zero.
    pub items: Items,
    /// How many items at the end of the list are mid-roll filler.
    pub mid: u32,
    /// Only with `Mode::Blocks`.
    pub blocks: Option<Arc<Blocks>>,
}

impl Wanted {
    /// With an empty day cache, because that belongs to one revision.
    fn fresh(self) -> Self {
        Self { blocks: self.blocks.map(|blocks| Arc::new((*blocks).clone())), ..self }
    }
}

impl Definition {
    /// The definition of a new channel.
    pub fn new(start_ms: i64, wanted: Wanted) -> Self {
        let Wanted { seed, mode, items, mid, blocks } = wanted.fresh();
        let (first_ordinal, first_sequence, first_change) = (0, 0, 0);
        let head = Box::default();
        let first = Revision {
            number: 1,
            start_ms,
            first_ordinal,
            first_sequence,
            first_change,
            seed,
            mode,
            head,
            cycle: 0,
            items,
            mid,
            blocks,
            memo: Memo::default(),
        };
        Self { revisions: Box::new([first]) }
    }

    /// Whether the last revision already has this content.
    pub fn airs(&self, wanted: &Wanted) -> bool {
        self.revisions.last().is_some_and(|last| {
            let begin = last.blocks.as_ref().map(|blocks| blocks.begin.clone()).unwrap_or_default();
            let blocks = wanted.blocks.as_deref().map(|blocks| Arc::new(Blocks { begin, ..blocks.clone() }));
            let same = (last.seed, last.mode, last.mid) == (wanted.seed, wanted.mode, wanted.mid);
            same && last.items == wanted.items && last.blocks == blocks
        })
    }

    /// Airs new content from `at_ms` on. Revisions that would begin then or later are dropped. If mode and seed stay the
    /// same, the rest of the current cycle is aired first.
    #[must_use]
    pub fn revised(&self, at_ms: i64, wanted: Wanted) -> Self {
        let number = self.revisions.last().map_or(0, |last| last.number) + 1;
        let Some(in_force) = self.in_force(at_ms - 1) else {
            // Not on air yet: the start stays the same.
            let start_ms = self.revisions.first().map_or(at_ms, |first| first.start_ms);
            let mut fresh = Self::new(start_ms, wanted);
            fresh.revisions[0].number = number;
            fresh.revisions[0].first_ordinal = self.unnamed(start_ms);
            return fresh;
        };
        let before = &self.revisions[in_force];
        let walk = Walk::at(self, at_ms - 1);
        let (rest, cycle) = walk.rest();
        let last = Walk::at(self, at_ms - 1).next();
        let first_ordinal = self.unnamed(at_ms);
        let aired = |last: &Programme| self.item(last).segments(last.part, at_ms - last.start_ms);
        let first_sequence = last.map_or(0, |last| last.sequence + aired(&last));
        let first_change = last.map_or(0, |last| last.changes + 1);
        let Wanted { seed, mode, items, mid, blocks } = wanted.fresh();
        let mut next = Revision {
            number,
            start_ms: at_ms,
            first_ordinal,
            first_sequence,
            first_change,
            seed,
            mode,
            head: Box::default(),
            cycle: cycle.wrapping_add(1),
            items,
            mid,
            blocks,
            memo: Memo::default(),
        };
        if before.mode == mode && before.seed == seed {
            next.head = head(before, rest, cycle, &next).into();
        }
        let begin = next.blocks.as_ref().map(|_| before.carried(at_ms, &next));
        if let (Some(blocks), Some(begin)) = (&mut next.blocks, begin) {
            Arc::make_mut(blocks).begin = begin;
        }
        Self { revisions: self.revisions[..=in_force].iter().cloned().chain([next]).collect() }
    }

    /// The first ordinal that no guide can have given to a programme this change replaces: clients keep ids.
    fn unnamed(&self, at_ms: i64) -> u64 {
        let last = Walk::at(self, at_ms.saturating_add(NAMED_MS)).next().or_else(|| Walk::at(self, at_ms - 1).next());
        last.map_or(0, |last| last.ordinal + 1)
    }

    /// Drops the revisions that ended before an instant.
    #[must_use]
    pub fn without_before(mut self, at_ms: i64) -> Self {
        if let Some(first) = self.in_force(at_ms) {
            self.revisions = self.revisions.into_iter().skip(first).collect();
        }
        self
    }
}

/// The rest of the current cycle, as indices of the next revision's items.
fn head(before: &Revision, rest: &[u32], cycle: u64, next: &Revision) -> Vec<u32> {
    let left: HashSet<u64> = rest.iter().map(|index| before.items[*index as usize].id).collect();
    match next.mode {
        Mode::Shuffle | Mode::ShuffleInOrder => {
            let aired = |id: &u64| !left.contains(id);
            let known: HashSet<u64> = before.content().iter().map(|item| item.id).filter(aired).collect();
            let mut head = next.order(cycle);
            head.retain(|index| !known.contains(&next.items[*index as usize].id));
            head
        }
        Mode::Sequential => {
            // After the last aired item that is still listed.
            let listed = |id: u64| next.content().iter().position(|item| item.id == id);
            let aired = before.content().iter().rev().filter(|item| !left.contains(&item.id));
            let last = aired.filter_map(|item| listed(item.id)).next();
            (last.map_or(0, |last| last as u32 + 1)..next.content().len() as u32).collect()
        }
        // Random draws have no rest to make up for.
        Mode::Random | Mode::Weighted | Mode::Blocks => Vec::new(),
    }
}
