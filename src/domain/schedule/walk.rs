//! Iteration over programmes.

use std::sync::Arc;

use super::blocks::Day;
use super::{Definition, Programme, Revision};

/// A position in a channel's programmes: the next programme and everything needed to continue from it.
#[derive(Clone, Debug, Default)]
pub struct Cursor {
    revision: usize,
    /// The current day and, in `at`, the index in it; only for block schedules.
    day: Option<Arc<Day>>,
    /// None in the head.
    cycle: Option<u64>,
    /// Item indices of the head or of the cycle.
    order: Arc<[u32]>,
    /// Index in `order` (or in the day) of the next programme.
    at: usize,
    /// Which piece of that item comes next: parts have even numbers, breaks odd ones.
    piece: u64,
    /// Breaks of the revision before that piece, and the last filler round looked up.
    broken: u64,
    round: Option<(u64, Arc<[u32]>)>,
    ordinal: u64,
    sequence: u64,
    /// Whether every start in the revision is a discontinuity.
    mixed: bool,
    /// Start of the next programme; None at the end.
    start_ms: Option<i64>,
}

/// One piece of the schedule: a whole item, a part of one, or filler in a break.
struct Piece {
    item: usize,
    part: Option<u16>,
    within: bool,
    length_ms: i64,
    segments: u64,
}

/// Programmes in order from any instant, without end.
pub struct Walk<'a> {
    definition: &'a Definition,
    cursor: Cursor,
}

impl Cursor {
    /// Positioned at the programme on air at an instant; at the end if that is before the channel's first programme.
    pub fn at(definition: &Definition, at_ms: i64) -> Self {
        let mut cursor = Self::default();
        if let Some(revision) = definition.in_force(at_ms) {
            cursor.seek(definition, revision, at_ms);
        }
        cursor
    }

    /// Goes back to the start of the current programme, over its breaks.
    pub fn rewind(&mut self, definition: &Definition) {
        let Some(mut start_ms) = self.start_ms else { return };
        if let Some(day) = &self.day {
            while let Some(programme) = day.programmes.get(self.at)
                && programme.within
            {
                self.at -= 1;
                start_ms = day.programmes[self.at].start_ms;
            }
        } else {
            let it = &definition.revisions[self.revision];
            while self.piece > 0 {
                (self.piece, self.ordinal) = (self.piece - 1, self.ordinal - 1);
                self.broken -= self.piece % 2;
                let Some(Piece { length_ms, segments, .. }) = self.here(it) else { return };
                (start_ms, self.sequence) = (start_ms - length_ms, self.sequence - segments);
            }
        }
        self.start_ms = Some(start_ms);
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
        (self.piece, self.broken, self.round) = (0, 0, None);
        let cycles = it.cycles();
        if cycles.is_empty() {
            self.start_ms = None;
            return;
        }
        let into = at_ms - it.start_ms;
        self.revision = revision;
        self.mixed = it.mixed();
        let mut left = if into < cycles.start_ms(0) {
            (self.cycle, self.ordinal, self.order) = (None, it.first_ordinal, (*it.head).into());
            self.sequence = it.first_sequence;
            into
        } else {
            let number = cycles.at(into);
            self.broken = cycles.breaks_before(number);
            self.ordinal = it.first_ordinal + it.head.len() as u64 + number * it.slots() + 2 * self.broken;
            self.sequence = it.first_sequence + cycles.segments_before(number);
            self.cycle = Some(it.cycle.wrapping_add(number));
            self.order = it.order_known(it.cycle.wrapping_add(number));
            into - cycles.start_ms(number)
        };
        self.at = 0;
        while let Some(piece) = self.here(it) {
            if left < piece.length_ms {
                break;
            }
            left -= piece.length_ms;
            self.pass(it, piece.segments);
        }
        self.start_ms = Some(at_ms - left);
    }

    /// The next piece.
    fn here(&mut self, it: &Revision) -> Option<Piece> {
        let index = *self.order.get(self.at)?;
        if self.piece % 2 == 1 {
            let (round, place) = (self.broken / u64::from(it.mid), (self.broken % u64::from(it.mid)) as usize);
            if self.round.as_ref().is_none_or(|(known, _)| *known != round) {
                self.round = Some((round, it.round(round).into()));
            }
            let item = self.round.as_ref().map_or(index, |(_, fillers)| fillers[place]) as usize;
            let filler = &it.items[item];
            let (length_ms, segments) = (filler.duration_ms, filler.cut.segments());
            return Some(Piece { item, part: None, within: true, length_ms, segments });
        }
        let (item, breaks) = (&it.items[index as usize], it.breaks_of(index));
        let (length_ms, segments) = (item.duration_ms, item.cut.segments());
        let whole = Piece { item: index as usize, part: None, within: false, length_ms, segments };
        if breaks == 0 {
            return Some(whole);
        }
        let number = (self.piece / 2) as u16;
        let part = item.part(Some(number));
        let (length_ms, segments) = (part.duration_ms(), (part.until - part.first) as u64);
        Some(Piece { part: Some(number), within: number > 0, length_ms, segments, ..whole })
    }

    /// Advances past the next piece.
    fn pass(&mut self, it: &Revision, segments: u64) {
        self.sequence += segments;
        self.ordinal += 1;
        self.broken += self.piece % 2;
        self.piece += 1;
        if self.piece > 2 * it.breaks_of(self.order[self.at]) {
            (self.piece, self.at) = (0, self.at + 1);
        }
    }

    /// Takes the next programme.
    pub fn next(&mut self, definition: &Definition) -> Option<Programme> {
        let start_ms = self.start_ms?;
        if let Some(day) = self.day.clone() {
            return self.next_of(&day, definition);
        }
        let it = &definition.revisions[self.revision];
        let Piece { item, part, within, length_ms, segments } = self.here(it)?;
        let revision_end = definition.end_of(self.revision);
        let end_ms = start_ms.saturating_add(length_ms).min(revision_end);
        let (revision, ordinal, sequence, leads) = (self.revision, self.ordinal, self.sequence, !within);
        let changes = it.first_change + if self.mixed { ordinal - it.first_ordinal } else { 0 };
        let programme = Programme { revision, item, ordinal, start_ms, end_ms, sequence, changes, leads, part, within };
        self.start_ms = Some(end_ms);
        self.pass(it, segments);
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

    /// Takes the next programme of a block schedule's day.
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
    /// Begins with the programme on air at an instant; empty before the channel's first.
    pub fn at(definition: &'a Definition, at_ms: i64) -> Self {
        Self { definition, cursor: Cursor::at(definition, at_ms) }
    }

    /// The items left in the current cycle after the next programme, and that cycle's number; used by the next revision.
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
