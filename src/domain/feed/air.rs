//! The timeline of a channel from elsewhere: piece after piece, and a slate where nothing comes.
//!
//! Its clock is the wall's: what comes faster than life waits, where nothing comes a slate fills in, so that the list goes
//! on whatever the source does. Numbers begin at the seconds since 1970 and grow by one with each segment of a second at
//! least: they never go back, even when the server begins anew.

use std::collections::VecDeque;

use crate::domain::live::Slot;

/// Length of one slate, ticks.
pub const SLATE: i64 = 180_000;

/// How long nothing may come of a source that is there, before a slate is shown, ticks: a segment takes its time.
const SILENT: i64 = 9 * 90_000;

/// How long a source may take at first, ticks.
const FIRST: i64 = 4 * 90_000;

/// Segments of a list at least.
const LEAST: usize = 6;

/// How long behind the list segments are kept, ticks: players ask late.
const KEPT: i64 = 60 * 90_000;

/// What is shown comes from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    Slate,
    Source {
        /// The so-manieth connection.
        connection: u64,
        /// The video format, 0 if unknown. A change needs a discontinuity, also within one connection.
        format: u64,
    },
}

impl From {
    /// Whether players take the one for the continuation of the other.
    fn goes_on_as(self, next: Self) -> bool {
        match (self, next) {
            (Self::Source { connection, format }, Self::Source { connection: other, format: new }) => {
                connection == other && (format == new || format == 0 || new == 0)
            }
            _ => self == next,
        }
    }
}

/// The timeline.
#[derive(Debug)]
pub struct Air {
    began: i64,
    /// The end of what is listed, ticks since 1970.
    cursor: Option<i64>,
    sequence: u64,
    changes: u64,
    last: Option<From>,
    slots: VecDeque<Slot>,
}

impl Air {
    /// Begins at an instant, ticks since 1970.
    pub fn new(now: i64) -> Self {
        let number = u64::try_from(now / 90_000).unwrap_or(0);
        Self { began: now, cursor: None, sequence: number, changes: number, last: None, slots: VecDeque::new() }
    }

    /// Whether the next piece may be shown: what was shown before is over.
    pub fn is_due(&self, now: i64) -> bool {
        self.cursor.is_none_or(|cursor| cursor <= now)
    }

    /// Whether a slate has to be shown. `away` says that the source is not there.
    pub fn needs_slate(&self, now: i64, away: bool) -> bool {
        match self.cursor {
            None => now >= self.began + FIRST,
            Some(cursor) => now >= cursor + if away { SLATE } else { SILENT },
        }
    }

    /// Whether what was added last came from the source.
    pub fn shows_source(&self) -> bool {
        matches!(self.last, Some(From::Source { .. }))
    }

    /// Adds what lasts so long, ticks.
    pub fn put(&mut self, from: From, length: i64, now: i64) -> Slot {
        // After a pause nobody saw, it goes on where the clock is.
        let start = self.cursor.filter(|cursor| now - cursor < KEPT).unwrap_or(now - length);
        if self.last.is_some_and(|last| !last.goes_on_as(from)) || self.cursor.is_some_and(|cursor| cursor != start) {
            self.changes += 1;
        }
        self.last = Some(from);
        self.cursor = Some(start + length);
        let slot = Slot {
            programme_ms: start.div_euclid(90),
            index: 0,
            place: 0,
            start,
            end: start + length,
            sequence: self.sequence,
            changes: self.changes,
        };
        self.sequence += 1;
        self.slots.push_back(slot);
        slot
    }

    /// The list: enough for players that begin three target durations (seconds) behind its end.
    pub fn window(&self, target: u64) -> Vec<Slot> {
        let Some(end) = self.cursor else { return Vec::new() };
        let room = (3 * target as i64 + 2) * 90_000;
        let enough = |at: usize| self.slots.len() - at >= LEAST && end - self.slots[at].start >= room;
        let first = (0..self.slots.len()).rev().find(|&at| enough(at)).unwrap_or(0);
        self.slots.iter().skip(first).copied().collect()
    }

    /// The first that begins behind an instant, ticks, or is on then.
    pub fn next(&self, behind: impl Fn(&Slot) -> bool) -> Option<Slot> {
        self.slots.iter().find(|slot| behind(slot)).copied()
    }

    /// Forgets what nobody asks for any more; gives the segments to be thrown away.
    pub fn forget(&mut self, target: u64) -> Vec<Slot> {
        let listed = self.window(target).first().map_or(0, |first| first.start);
        let old = self.slots.iter().take_while(|slot| slot.end < listed - KEPT).count();
        self.slots.drain(..old).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: i64 = 1_767_225_600 * 90_000;

    fn source(connection: u64, format: u64) -> From {
        From::Source { connection, format }
    }

    #[test]
    fn a_slate_fills_in_where_nothing_comes_and_players_are_told() {
        let mut air = Air::new(NOW);
        assert!(!air.needs_slate(NOW + FIRST - 1, true) && air.needs_slate(NOW + FIRST, false));
        let first = air.put(source(1, 7), 180_000, NOW + 180_000);
        assert_eq!((first.start, first.sequence), (NOW, 1_767_225_600));
        assert!(air.is_due(NOW + 180_000) && !air.is_due(NOW + 179_999));
        let second = air.put(source(1, 7), 180_000, NOW + 180_000);
        assert_eq!((second.start, second.changes), (first.end, first.changes));
        assert!(!air.needs_slate(second.end + SLATE, false) && air.needs_slate(second.end + SLATE, true));
        let slate = air.put(From::Slate, SLATE, second.end + SLATE);
        let again = air.put(source(2, 7), 180_000, slate.end);
        assert_eq!((slate.changes, again.changes), (first.changes + 1, first.changes + 2));
        assert_eq!((again.start, again.sequence), (slate.end, first.sequence + 3));
    }

    #[test]
    fn players_are_told_of_another_format_within_one_connection() {
        let mut air = Air::new(NOW);
        let changes: Vec<u64> =
            [7, 7, 8, 8, 7, 0].map(|format| air.put(source(1, format), 180_000, NOW + 180_000).changes).into();
        let first = changes[0];
        assert_eq!(changes, [first, first, first + 1, first + 1, first + 2, first + 2]);
    }

    proptest! {
        /// Whatever comes: numbers by one, no gap and no overlap, never more kept than a minute behind the list.
        #[test]
        fn the_list_only_goes_forward(pieces in proptest::collection::vec((90_000i64..540_000, 0u64..3), 1..200)) {
            let (mut air, mut now) = (Air::new(NOW), NOW);
            let mut last: Option<Slot> = None;
            for (length, tag) in pieces {
                now += length;
                let from = if tag == 0 { From::Slate } else { source(tag, 7) };
                let slot = air.put(from, length, now);
                if let Some(last) = last {
                    prop_assert_eq!((slot.sequence, slot.start), (last.sequence + 1, last.end));
                    prop_assert!(slot.changes == last.changes || slot.changes == last.changes + 1);
                    prop_assert!(slot.programme_ms > last.programme_ms);
                }
                last = Some(slot);
                air.forget(6);
                let window = air.window(6);
                prop_assert_eq!(window.last().copied(), last);
                prop_assert!(air.slots.len() <= 100);
            }
        }
    }
}
