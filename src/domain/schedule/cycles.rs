//! Positions of a revision's cycles, filler in breaks included. They are found by division, because neither the length of a
//! cycle nor that of a filler round depends on its order.

use super::{ScheduleItem, ScheduleRevision};

/// The figures from which the position of any cycle is computed.
pub(super) struct CyclePositions<'a> {
    revision: &'a ScheduleRevision,
    /// Length (ms) and segments of the head and of a cycle, both without breaks, and of a filler round.
    head_totals: (i64, u64),
    cycle_totals: (i64, u64),
    round_totals: (i64, u64),
    head_breaks: u64,
    cycle_breaks: u64,
}

impl ScheduleRevision {
    pub(super) fn cycle_positions(&self) -> CyclePositions<'_> {
        let head = (self.total_ms(&self.cycle_rest), self.total_segments(&self.cycle_rest));
        let cycle = (self.cycle_ms(), self.cycle_segments());
        let mut cycles = CyclePositions {
            revision: self,
            head_totals: head,
            cycle_totals: cycle,
            round_totals: (0, 0),
            head_breaks: 0,
            cycle_breaks: 0,
        };
        if self.mid_roll_count > 0 {
            cycles.round_totals = totals(self.items[self.programme_items().len()..].iter().map(|item| &**item));
            cycles.head_breaks = self.cycle_rest.iter().map(|index| self.break_count(*index)).sum();
            let breaks = |item: &ScheduleItem| self.mode.copies_per_cycle(item) as u64 * item.breaks.len() as u64;
            cycles.cycle_breaks = self.programme_items().iter().map(|item| breaks(item)).sum();
        }
        cycles
    }
}

impl CyclePositions<'_> {
    /// Whether there is nothing to air.
    pub(super) fn is_empty(&self) -> bool {
        self.cycle_totals.0 <= 0
    }

    /// Breaks of the revision before a cycle; the first cycle after the head is 0.
    pub(super) fn breaks_before(&self, cycle: u64) -> u64 {
        self.head_breaks + self.cycle_breaks * cycle
    }

    pub(super) fn segments_before(&self, cycle: u64) -> u64 {
        self.head_totals.1 + self.cycle_totals.1 * cycle + self.filler_totals(self.breaks_before(cycle)).1
    }

    /// Start of a cycle, ms from the revision's start.
    pub(super) fn cycle_start_ms(&self, cycle: u64) -> i64 {
        let content = self.head_totals.0.saturating_add(self.cycle_totals.0.saturating_mul(cycle as i64));
        content.saturating_add(self.filler_totals(self.breaks_before(cycle)).0)
    }

    /// The cycle on air `into_ms` after the revision's start, which must be after the head.
    pub(super) fn cycle_at(&self, into_ms: i64) -> u64 {
        if self.cycle_breaks == 0 {
            return ((into_ms - self.cycle_start_ms(0)) / self.cycle_totals.0) as u64;
        }
        // All filler rounds have the same length, so the cycle is known to within one round; a binary search finds it.
        let (round_items, round_ms) = (i128::from(self.revision.mid_roll_count), i128::from(self.round_totals.0));
        let into = i128::from(into_ms - self.head_totals.0) * round_items - i128::from(self.head_breaks) * round_ms;
        let period = i128::from(self.cycle_totals.0) * round_items + i128::from(self.cycle_breaks) * round_ms;
        let estimate = |at: i128| u64::try_from(at.div_euclid(period)).unwrap_or(0);
        let (mut low, mut high) =
            (estimate(into - round_ms * round_items), estimate(into + round_ms * round_items) + 1);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match self.cycle_start_ms(middle) <= into_ms {
                true => low = middle,
                false => high = middle,
            }
        }
        low
    }

    /// Length (ms) and segments of the filler in the revision's first `breaks` breaks.
    fn filler_totals(&self, breaks: u64) -> (i64, u64) {
        let round_items = u64::from(self.revision.mid_roll_count);
        if breaks == 0 || round_items == 0 {
            return (0, 0);
        }
        let (rounds, remaining) = (breaks / round_items, (breaks % round_items) as usize);
        let order = if remaining == 0 { Vec::new() } else { self.revision.filler_round(rounds) };
        let rest = totals(order.iter().take(remaining).map(|index| &*self.revision.items[*index as usize]));
        let (round_ms, segments) = self.round_totals;
        (round_ms.saturating_mul(rounds as i64).saturating_add(rest.0), segments * rounds + rest.1)
    }
}

fn totals<'a>(items: impl Iterator<Item = &'a ScheduleItem>) -> (i64, u64) {
    items.fold((0, 0), |(ms, segments), item| {
        (item.duration_ms.saturating_add(ms), item.segmentation.segment_count() + segments)
    })
}
