//! Positions of a revision's cycles, filler in breaks included. They are found by division, because neither the length of a
//! cycle nor that of a filler round depends on its order.

use super::{Item, Revision};

/// The figures from which the position of any cycle is computed.
pub(super) struct Cycles<'a> {
    revision: &'a Revision,
    /// Length (ms) and segments of the head and of a cycle, both without breaks, and of a filler round.
    head: (i64, u64),
    cycle: (i64, u64),
    round: (i64, u64),
    /// Breaks in the head, and in a cycle.
    head_breaks: u64,
    breaks: u64,
}

impl Revision {
    pub(super) fn cycles(&self) -> Cycles<'_> {
        let head = (self.length_of(&self.head), self.segments_of(&self.head));
        let cycle = (self.cycle_ms(), self.cycle_segments());
        let mut cycles = Cycles { revision: self, head, cycle, round: (0, 0), head_breaks: 0, breaks: 0 };
        if self.mid > 0 {
            cycles.round = sum(self.items[self.content().len()..].iter().map(|item| &**item));
            cycles.head_breaks = self.head.iter().map(|index| self.breaks_of(*index)).sum();
            let breaks = |item: &Item| self.copies(item) as u64 * item.breaks.len() as u64;
            cycles.breaks = self.content().iter().map(|item| breaks(item)).sum();
        }
        cycles
    }
}

impl Cycles<'_> {
    /// Whether there is nothing to air.
    pub(super) fn is_empty(&self) -> bool {
        self.cycle.0 <= 0
    }

    /// Breaks of the revision before a cycle; the first cycle after the head is 0.
    pub(super) fn breaks_before(&self, cycle: u64) -> u64 {
        self.head_breaks + self.breaks * cycle
    }

    /// Segments of the revision before a cycle.
    pub(super) fn segments_before(&self, cycle: u64) -> u64 {
        self.head.1 + self.cycle.1 * cycle + self.filler(self.breaks_before(cycle)).1
    }

    /// Start of a cycle, ms from the revision's start.
    pub(super) fn start_ms(&self, cycle: u64) -> i64 {
        let content = self.head.0.saturating_add(self.cycle.0.saturating_mul(cycle as i64));
        content.saturating_add(self.filler(self.breaks_before(cycle)).0)
    }

    /// The cycle on air `into_ms` after the revision's start, which must be after the head.
    pub(super) fn at(&self, into_ms: i64) -> u64 {
        if self.breaks == 0 {
            return ((into_ms - self.start_ms(0)) / self.cycle.0) as u64;
        }
        // All filler rounds have the same length, so the cycle is known to within one round; a binary search finds it.
        let (most, round_ms) = (i128::from(self.revision.mid), i128::from(self.round.0));
        let into = i128::from(into_ms - self.head.0) * most - i128::from(self.head_breaks) * round_ms;
        let each = i128::from(self.cycle.0) * most + i128::from(self.breaks) * round_ms;
        let bound = |at: i128| u64::try_from(at.div_euclid(each)).unwrap_or(0);
        let (mut first, mut behind) = (bound(into - round_ms * most), bound(into + round_ms * most) + 1);
        while behind - first > 1 {
            let middle = first + (behind - first) / 2;
            match self.start_ms(middle) <= into_ms {
                true => first = middle,
                false => behind = middle,
            }
        }
        first
    }

    /// Length (ms) and segments of the filler in the revision's first `breaks` breaks.
    fn filler(&self, breaks: u64) -> (i64, u64) {
        let most = u64::from(self.revision.mid);
        if breaks == 0 || most == 0 {
            return (0, 0);
        }
        let (rounds, left) = (breaks / most, (breaks % most) as usize);
        let order = if left == 0 { Vec::new() } else { self.revision.round(rounds) };
        let rest = sum(order.iter().take(left).map(|index| &*self.revision.items[*index as usize]));
        (self.round.0.saturating_mul(rounds as i64).saturating_add(rest.0), self.round.1 * rounds + rest.1)
    }
}

/// Total length and segments of items.
fn sum<'a>(items: impl Iterator<Item = &'a Item>) -> (i64, u64) {
    items.fold((0, 0), |(ms, segments), item| (item.duration_ms.saturating_add(ms), item.cut.segments() + segments))
}
