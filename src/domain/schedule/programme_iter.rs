//! Iteration over programmes.

use std::sync::Arc;

use super::blocks::BroadcastDay;
use super::{Programme, ScheduleDefinition, ScheduleRevision};
use crate::domain::time::ChannelMs;

/// A position in a channel's programmes: the next programme and everything needed to continue from it.
#[derive(Clone, Debug, Default)]
pub struct ProgrammeCursor {
    revision_index: usize,
    /// The current day; only for block schedules.
    day: Option<Arc<BroadcastDay>>,
    /// None in the head.
    cycle: Option<u64>,
    /// Item indices of the head or of the cycle.
    order: Arc<[u32]>,
    /// Index in `order` (or in the day) of the next programme.
    index: usize,
    /// Which piece of that item comes next: parts have even numbers, breaks odd ones.
    piece_number: u64,
    /// Breaks of the revision before that piece, and the last filler round looked up.
    breaks_before: u64,
    round: Option<(u64, Arc<[u32]>)>,
    ordinal: u64,
    sequence: u64,
    /// Whether every start in the revision is a discontinuity.
    has_mixed_formats: bool,
    /// Start of the next programme; None at the end.
    start_ms: Option<ChannelMs>,
}

/// One piece of the schedule: a whole item, a part of one, or filler in a break.
struct SchedulePiece {
    item_index: usize,
    part: Option<u16>,
    continues_programme: bool,
    length_ms: i64,
    segments: u64,
}

/// Programmes in order from any instant, without end.
pub struct ProgrammeIter<'a> {
    definition: &'a ScheduleDefinition,
    cursor: ProgrammeCursor,
}

impl ProgrammeCursor {
    /// Positioned at the programme on air at an instant; at the end if that is before the channel's first programme.
    pub fn starting_at(definition: &ScheduleDefinition, at_ms: ChannelMs) -> Self {
        let mut cursor = Self::default();
        if let Some(revision) = definition.revision_at(at_ms) {
            cursor.seek(definition, revision, at_ms);
        }
        cursor
    }

    /// Goes back to the start of the current programme, over its breaks.
    pub fn rewind_to_start(&mut self, definition: &ScheduleDefinition) {
        let Some(mut start_ms) = self.start_ms else { return };
        if let Some(day) = &self.day {
            while let Some(airing) = day.programmes.get(self.index)
                && airing.continues_programme
            {
                self.index -= 1;
                start_ms = day.programmes[self.index].start_ms;
            }
        } else {
            let current = &definition.revisions[self.revision_index];
            while self.piece_number > 0 {
                (self.piece_number, self.ordinal) = (self.piece_number - 1, self.ordinal - 1);
                self.breaks_before -= self.piece_number % 2;
                let Some(SchedulePiece { length_ms, segments, .. }) = self.next_piece(current) else { return };
                (start_ms, self.sequence) = (start_ms - length_ms, self.sequence - segments);
            }
        }
        self.start_ms = Some(start_ms);
    }

    fn seek(&mut self, definition: &ScheduleDefinition, revision: usize, at_ms: ChannelMs) {
        let current = &definition.revisions[revision];
        if let Some(blocks) = &current.blocks {
            let day = current.day_at(blocks, at_ms);
            self.index = day.programmes.partition_point(|programme| programme.end_ms <= at_ms);
            self.start_ms = day.programmes.get(self.index).map(|programme| programme.start_ms);
            (self.revision_index, self.day) = (revision, Some(day));
            return;
        }
        self.day = None;
        (self.piece_number, self.breaks_before, self.round) = (0, 0, None);
        let cycles = current.cycle_positions();
        if cycles.is_empty() {
            self.start_ms = None;
            return;
        }
        let into_ms = at_ms - current.start_ms;
        self.revision_index = revision;
        self.has_mixed_formats = current.has_mixed_formats();
        let mut remaining_ms = if into_ms < cycles.cycle_start_ms(0) {
            (self.cycle, self.ordinal, self.order) = (None, current.first_ordinal, (*current.cycle_rest).into());
            self.sequence = current.first_sequence;
            into_ms
        } else {
            let cycle = cycles.cycle_at(into_ms);
            self.breaks_before = cycles.breaks_before(cycle);
            self.ordinal = current.first_ordinal
                + current.cycle_rest.len() as u64
                + cycle * current.programmes_per_cycle()
                + 2 * self.breaks_before;
            self.sequence = current.first_sequence + cycles.segments_before(cycle);
            self.cycle = Some(current.first_cycle.wrapping_add(cycle));
            self.order = current.cached_order(current.first_cycle.wrapping_add(cycle));
            into_ms - cycles.cycle_start_ms(cycle)
        };
        self.index = 0;
        while let Some(piece) = self.next_piece(current) {
            if remaining_ms < piece.length_ms {
                break;
            }
            remaining_ms -= piece.length_ms;
            self.advance(current, piece.segments);
        }
        self.start_ms = Some(at_ms - remaining_ms);
    }

    fn next_piece(&mut self, revision: &ScheduleRevision) -> Option<SchedulePiece> {
        let index = *self.order.get(self.index)?;
        let whole = |item_index: usize, continues_programme: bool| {
            let item = &revision.items[item_index];
            let (length_ms, segments) = (item.duration_ms, item.segmentation.segment_count());
            SchedulePiece { item_index, part: None, continues_programme, length_ms, segments }
        };
        if self.piece_number % 2 == 1 {
            let fillers = u64::from(revision.mid_roll_count);
            let (round, position) = (self.breaks_before / fillers, (self.breaks_before % fillers) as usize);
            if self.round.as_ref().is_none_or(|(cached, _)| *cached != round) {
                self.round = Some((round, revision.filler_round(round).into()));
            }
            let item = self.round.as_ref().map_or(index, |(_, fillers)| fillers[position]);
            return Some(whole(item as usize, true));
        }
        let whole_item = whole(index as usize, false);
        if revision.break_count(index) == 0 {
            return Some(whole_item);
        }
        let number = (self.piece_number / 2) as u16;
        let part = revision.items[index as usize].part(Some(number));
        let (length_ms, segments) = (part.duration_ms(), (part.end_segment - part.first_segment) as u64);
        Some(SchedulePiece { part: Some(number), continues_programme: number > 0, length_ms, segments, ..whole_item })
    }

    fn advance(&mut self, revision: &ScheduleRevision, segments: u64) {
        self.sequence += segments;
        self.ordinal += 1;
        self.breaks_before += self.piece_number % 2;
        self.piece_number += 1;
        if self.piece_number > 2 * revision.break_count(self.order[self.index]) {
            (self.piece_number, self.index) = (0, self.index + 1);
        }
    }

    pub fn next_programme(&mut self, definition: &ScheduleDefinition) -> Option<Programme> {
        let start_ms = self.start_ms?;
        if let Some(day) = self.day.clone() {
            return self.next_in_day(&day, definition);
        }
        let current = &definition.revisions[self.revision_index];
        let SchedulePiece { item_index, part, continues_programme, length_ms, segments } = self.next_piece(current)?;
        let revision_end = definition.revision_end_ms(self.revision_index);
        let end_ms = start_ms.saturating_add(length_ms).min(revision_end);
        let changes = if self.has_mixed_formats { self.ordinal - current.first_ordinal } else { 0 };
        let programme = Programme {
            revision_index: self.revision_index,
            item_index,
            ordinal: self.ordinal,
            start_ms,
            end_ms,
            media_sequence: self.sequence,
            discontinuities: current.first_discontinuity + changes,
            begins_guide_entry: !continues_programme,
            part_index: part,
            continues_programme,
        };
        self.start_ms = Some(end_ms);
        self.advance(current, segments);
        if end_ms == revision_end {
            match self.revision_index + 1 < definition.revisions.len() {
                true => self.seek(definition, self.revision_index + 1, end_ms),
                false => self.start_ms = None,
            }
        } else if self.index == self.order.len() {
            let cycle = self.cycle.map_or(current.first_cycle, |cycle| cycle.wrapping_add(1));
            (self.cycle, self.order, self.index) = (Some(cycle), current.cycle_order(cycle).into(), 0);
        }
        Some(programme)
    }

    fn next_in_day(&mut self, day: &BroadcastDay, definition: &ScheduleDefinition) -> Option<Programme> {
        let current = &definition.revisions[self.revision_index];
        let revision_end = definition.revision_end_ms(self.revision_index);
        let mut programme = Programme { revision_index: self.revision_index, ..*day.programmes.get(self.index)? };
        programme.end_ms = programme.end_ms.min(revision_end);
        self.index += 1;
        self.start_ms = Some(programme.end_ms);
        if programme.end_ms == revision_end {
            match self.revision_index + 1 < definition.revisions.len() {
                true => self.seek(definition, self.revision_index + 1, revision_end),
                false => self.start_ms = None,
            }
        } else if self.index == day.programmes.len() {
            (self.day, self.index) = (current.blocks.as_ref().map(|blocks| current.day_after(blocks, day)), 0);
        }
        Some(programme)
    }
}

impl<'a> ProgrammeIter<'a> {
    /// Begins with the programme on air at an instant; empty before the channel's first.
    pub fn starting_at(definition: &'a ScheduleDefinition, at_ms: ChannelMs) -> Self {
        Self { definition, cursor: ProgrammeCursor::starting_at(definition, at_ms) }
    }

    /// The items left in the current cycle after the next programme, and that cycle's number; used by the next revision.
    pub(super) fn remaining_cycle(&self) -> (&[u32], u64) {
        let ProgrammeCursor { revision_index, cycle, order, index, .. } = &self.cursor;
        let cycle = cycle.unwrap_or_else(|| self.definition.revisions[*revision_index].first_cycle.wrapping_sub(1));
        (order.get(index + 1..).unwrap_or_default(), cycle)
    }
}

impl Iterator for ProgrammeIter<'_> {
    type Item = Programme;

    fn next(&mut self) -> Option<Programme> {
        self.cursor.next_programme(self.definition)
    }
}
