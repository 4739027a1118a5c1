//! The timeline of an external channel: a sequence of segments, with slates in the gaps.
//!
//! It follows the wall clock: segments that arrive faster than real time wait, and slates fill gaps, so the playlist
//! advances whatever the source does. Media sequence numbers begin at the seconds since 1970 and grow by one per segment
//! of at least one second. They never go back, even after a restart.

use std::collections::VecDeque;

use crate::domain::live::Slot;

/// Duration of one slate, ticks.
pub const SLATE: i64 = 180_000;

/// How long a connected source may send nothing before a slate is shown, ticks; a segment takes time to complete.
const SILENT: i64 = 9 * 90_000;

/// How long a source may take to deliver its first segment, ticks.
const FIRST: i64 = 4 * 90_000;

/// Minimum number of segments in a playlist.
const LEAST: usize = 6;

/// How long segments are kept after they leave the playlist, ticks, because players request them late.
const KEPT: i64 = 60 * 90_000;

/// Origin of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    Slate,
    Source {
        /// Connection counter, starting at 1.
        connection: u64,
        /// Digest of the video format, 0 if unknown. A change needs a discontinuity, even within one connection.
        format: u64,
    },
}

impl From {
    /// True if players accept `next` after `self` without a discontinuity.
    fn goes_on_as(self, next: Self) -> bool {
        match (self, next) {
            (Self::Source { connection, format }, Self::Source { connection: other, format: new }) => {
                connection == other && (format == new || format == 0 || new == 0)
            }
            _ => self == next,
        }
    }
}

/// The timeline of one external channel.
#[derive(Debug)]
pub struct Air {
    began: i64,
    /// End of the last segment, ticks since 1970.
    cursor: Option<i64>,
    sequence: u64,
    changes: u64,
    last: Option<From>,
    slots: VecDeque<Slot>,
}

impl Air {
    /// Starts the timeline at `now`, ticks since 1970.
    pub fn new(now: i64) -> Self {
        let number = u64::try_from(now / 90_000).unwrap_or(0);
        Self { began: now, cursor: None, sequence: number, changes: number, last: None, slots: VecDeque::new() }
    }

    /// True if the next segment may be added: the previous one is over.
    pub fn is_due(&self, now: i64) -> bool {
        self.cursor.is_none_or(|cursor| cursor <= now)
    }

    /// True if a slate must be shown. `away` means that the source is disconnected.
    pub fn needs_slate(&self, now: i64, away: bool) -> bool {
        match self.cursor {
            None => now >= self.began + FIRST,
            Some(cursor) => now >= cursor + if away { SLATE } else { SILENT },
        }
    }

    /// True if the last segment came from the source.
    pub fn shows_source(&self) -> bool {
        matches!(self.last, Some(From::Source { .. }))
    }

    /// Adds a segment of `length` ticks.
    pub fn put(&mut self, from: From, length: i64, now: i64) -> Slot {
        // After a gap of `KEPT` or more, the timeline continues at the current time.
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

    /// Segments of the playlist: enough for players that start three target durations (`target` seconds each) before its
    /// end.
    pub fn window(&self, target: u64) -> Vec<Slot> {
        let Some(end) = self.cursor else { return Vec::new() };
        let room = (3 * target as i64 + 2) * 90_000;
        let enough = |at: usize| self.slots.len() - at >= LEAST && end - self.slots[at].start >= room;
        let first = (0..self.slots.len()).rev().find(|&at| enough(at)).unwrap_or(0);
        self.slots.iter().skip(first).copied().collect()
    }

    /// The first segment that satisfies the predicate.
    pub fn next(&self, behind: impl Fn(&Slot) -> bool) -> Option<Slot> {
        self.slots.iter().find(|slot| behind(slot)).copied()
    }

    /// Removes segments that players no longer request, and returns them so that their bytes can be deleted.
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
        /// For any input: numbers grow by one, there are no gaps or overlaps, and segments are kept for at most a minute
        /// after they leave the playlist.
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
