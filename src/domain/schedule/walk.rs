//! From one programme to the next.

use std::sync::Arc;

use super::blocks::Day;
use super::{Definition, Programme};

/// A place in a channel's programmes: what comes next, and all that is needed to go on from there.
#[derive(Clone, Debug, Default)]
pub struct Cursor {
    revision: usize,
    /// What is left is at `at` of it; of revisions that go by the clock.
    day: Option<Arc<Day>>,
    /// None in the head.
    cycle: Option<u64>,
    /// Of the head or of the cycle, as indices of items.
    order: Arc<[u32]>,
    /// Place in the order of what comes next.
    at: usize,
    ordinal: u64,
    sequence: u64,
    /// Whether every start in the revision is a change.
    mixed: bool,
    /// When it starts; None when there is nothing.
    start_ms: Option<i64>,
}

/// Programmes one after the other, from any instant on, without end.
pub struct Walk<'a> {
    definition: &'a Definition,
    cursor: Cursor,
}

impl Cursor {
    /// Stands before what is on at an instant; nothing comes when that lies before the channel's first.
    pub fn at(definition: &Definition, at_ms: i64) -> Self {
        let mut cursor = Self::default();
        if let Some(revision) = definition.in_force(at_ms) {
            cursor.seek(definition, revision, at_ms);
        }
        cursor
    }

    fn seek(&mut self, definition: &Definition, revision: usize, at_ms: i64) {
        let it = &definition.revisions[revision];
        if let Some(blocks) = &it.blocks {
            let day = it.day_at(blocks, at_ms);
            self.at = day.programmes.partition_point(|programme| programme.end_ms <= at_ms);
            self.start_ms = day.programmes.get(self.at).map(|programme| programme.start_ms);
            (self.revision, self.day) = (revision, Some(day));
            return;
        }
        self.day = None;
        let (cycle_ms, head_ms) = (it.cycle_ms(), it.length_of(&it.head));
        if cycle_ms <= 0 {
            self.start_ms = None;
            return;
        }
        let into = at_ms - it.start_ms;
        self.revision = revision;
        self.mixed = it.mixed();
        let mut left = if into < head_ms {
            (self.cycle, self.ordinal, self.order) = (None, it.first_ordinal, it.head.as_slice().into());
            self.sequence = it.first_sequence;
            into
        } else {
            let cycles = ((into - head_ms) / cycle_ms) as u64;
            self.ordinal = it.first_ordinal + it.head.len() as u64 + cycles * it.slots();
            self.sequence = it.first_sequence + it.segments_of(&it.head) + cycles * it.cycle_segments();
            self.cycle = Some(it.cycle.wrapping_add(cycles));
            self.order = it.order_known(it.cycle.wrapping_add(cycles));
            (into - head_ms) % cycle_ms
        };
        self.at = 0;
        while let Some(index) = self.order.get(self.at) {
            let item = &it.items[*index as usize];
            if left < item.duration_ms {
                break;
            }
            left -= item.duration_ms;
            self.sequence += item.cut.segments();
            self.at += 1;
        }
        self.ordinal += self.at as u64;
        self.start_ms = Some(at_ms - left);
    }

    /// Takes what comes next.
    pub fn next(&mut self, definition: &Definition) -> Option<Programme> {
        let start_ms = self.start_ms?;
        if let Some(day) = self.day.clone() {
            return self.next_of(&day, definition);
        }
        let it = &definition.revisions[self.revision];
        let item = *self.order.get(self.at)? as usize;
        let revision_end = definition.end_of(self.revision);
        let end_ms = start_ms.saturating_add(it.items[item].duration_ms).min(revision_end);
        let (ordinal, sequence) = (self.ordinal, self.sequence);
        let changes = it.first_change + if self.mixed { ordinal - it.first_ordinal } else { 0 };
        let programme =
            Programme { revision: self.revision, item, ordinal, start_ms, end_ms, sequence, changes, leads: true };
        self.start_ms = Some(end_ms);
        self.sequence += it.items[item].segments(end_ms - start_ms);
        self.ordinal += 1;
        self.at += 1;
        if end_ms == revision_end {
            match self.revision + 1 < definition.revisions.len() {
                true => self.seek(definition, self.revision + 1, end_ms),
                false => self.start_ms = None,
            }
        } else if self.at == self.order.len() {
            let cycle = self.cycle.map_or(it.cycle, |cycle| cycle.wrapping_add(1));
            (self.cycle, self.order, self.at) = (Some(cycle), it.order(cycle).into(), 0);
        }
        Some(programme)
    }

    /// Takes the next programme of a day by the clock.
    fn next_of(&mut self, day: &Day, definition: &Definition) -> Option<Programme> {
        let it = &definition.revisions[self.revision];
        let revision_end = definition.end_of(self.revision);
        let mut programme = Programme { revision: self.revision, ..*day.programmes.get(self.at)? };
        programme.end_ms = programme.end_ms.min(revision_end);
        self.at += 1;
        self.start_ms = Some(programme.end_ms);
        if programme.end_ms == revision_end {
            match self.revision + 1 < definition.revisions.len() {
                true => self.seek(definition, self.revision + 1, revision_end),
                false => self.start_ms = None,
            }
        } else if self.at == day.programmes.len() {
            (self.day, self.at) = (it.blocks.as_ref().map(|blocks| it.day_after(blocks, day)), 0);
        }
        Some(programme)
    }
}

impl<'a> Walk<'a> {
    /// Begins with what is on at an instant; empty before the channel's first.
    pub fn at(definition: &'a Definition, at_ms: i64) -> Self {
        Self { definition, cursor: Cursor::at(definition, at_ms) }
    }

    /// What the cycle under way still holds behind the next programme, and that cycle's number; for the revision that
    /// follows.
    pub(super) fn rest(&self) -> (&[u32], u64) {
        let Cursor { revision, cycle, order, at, .. } = &self.cursor;
        let cycle = cycle.unwrap_or_else(|| self.definition.revisions[*revision].cycle.wrapping_sub(1));
        (order.get(at + 1..).unwrap_or_default(), cycle)
    }
}

impl Iterator for Walk<'_> {
    type Item = Programme;

    fn next(&mut self) -> Option<Programme> {
        self.cursor.next(self.definition)
    }
}
