//! One broadcast day, from its first instant to the next day's. Frozen: the schedule of every existing channel depends on
//! this code.

use std::collections::HashMap;

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::{Block, BlockSchedule, wall_clock};
use crate::domain::schedule::order::{CyclePool, mix_to_u64};
use crate::domain::schedule::{Programme, ScheduleMode, ScheduleRevision};
use crate::domain::time::{ChannelMs, WallMs};

/// Maximum number of programmes in a day; the rest is slate.
const MAX_PROGRAMMES: usize = 20_000;

/// A gap shorter than this belongs to the programme before, ms.
const MIN_GAP_MS: i64 = 10_000;

#[derive(Debug, PartialEq)]
pub struct BroadcastDay {
    /// Counted from 1970.
    pub day_number: i64,
    pub programmes: Vec<Programme>,
    /// The stream of each programme; None for filler.
    streams: Vec<Option<usize>>,
    pub state_after: DayState,
}

/// The state between two days.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DayState {
    pub ordinal: u64,
    pub sequence: u64,
    /// Items each stream has aired.
    pub positions: Vec<u64>,
    /// Whether the day before had a programme that leading filler belongs to.
    #[serde(rename = "led")]
    pub had_programme: bool,
    /// Filler still in its cooldown, and when it was last on.
    #[serde(rename = "last_on")]
    pub last_aired: Vec<(u32, WallMs)>,
}

/// Computes the days of one revision in order.
pub struct DayPlanner<'a> {
    revision: &'a ScheduleRevision,
    blocks: &'a BlockSchedule,
    pub zone: TimeZone,
    streams: Vec<(u32, ScheduleMode)>,
    /// The last computed cycle of each stream.
    cached_orders: Vec<Option<(u64, Vec<u32>)>>,
}

impl BroadcastDay {
    /// Items each stream had aired at an instant of the day, the one on air included.
    pub fn positions_at(&self, at_ms: ChannelMs) -> Vec<u64> {
        let mut positions = self.state_after.positions.clone();
        for (programme, stream) in self.programmes.iter().zip(&self.streams) {
            if let Some(stream) = stream
                && programme.start_ms >= at_ms
            {
                positions[*stream] -= 1;
            }
        }
        positions
    }
}

struct DayDraft<'p, 'a> {
    planner: &'p mut DayPlanner<'a>,
    date: jiff::civil::Date,
    number: i64,
    positions: Vec<u64>,
    /// The airings so far; `streams` has the stream of each.
    airings: Vec<DayAiring>,
    streams: Vec<Option<usize>>,
    /// For each block in progress: its current slot, and how often that was aired.
    slot_positions: HashMap<(usize, usize), (usize, u32)>,
    /// When filler was last on.
    last_aired: HashMap<u32, WallMs>,
}

#[derive(Clone, Copy)]
struct DayAiring {
    item: u32,
    start_ms: WallMs,
    end_ms: WallMs,
    part: Option<u16>,
    continues_programme: bool,
}

impl<'a> DayPlanner<'a> {
    pub fn new(revision: &'a ScheduleRevision, blocks: &'a BlockSchedule) -> Self {
        let streams = blocks.grid.streams();
        let zone = TimeZone::get(&blocks.zone).unwrap_or(TimeZone::UTC);
        Self { revision, blocks, zone, cached_orders: vec![None; streams.len()], streams }
    }

    /// The day that contains an instant.
    pub fn day_of(&self, at_ms: ChannelMs) -> i64 {
        let at_ms = WallMs::without_clock(at_ms);
        wall_clock::broadcast_day(&self.zone, self.blocks.grid.day_start_minutes, at_ms)
    }

    pub fn compute_day(&mut self, number: i64, before: &DayState) -> BroadcastDay {
        let day_start = self.blocks.grid.day_start_minutes;
        let (date, next) = (wall_clock::date_of_day(number), wall_clock::date_of_day(number + 1));
        let revision_start = WallMs::without_clock(self.revision.start_ms);
        let from = wall_clock::instant_of(&self.zone, date, day_start).max(revision_start);
        let to = wall_clock::instant_of(&self.zone, next, day_start);
        let mut positions = before.positions.clone();
        positions.resize(self.streams.len(), 0);
        let mut draft = DayDraft {
            planner: self,
            date,
            number,
            positions,
            airings: Vec::new(),
            streams: Vec::new(),
            slot_positions: HashMap::new(),
            last_aired: before.last_aired.iter().copied().collect(),
        };
        draft.fill_layers(0, from, to);
        let DayDraft { airings, streams, positions, last_aired, .. } = draft;
        let cooldown_ms = self.blocks.filler.cooldown_ms;
        let mut last_aired: Vec<_> = last_aired.into_iter().filter(|(_, last)| to - *last < cooldown_ms).collect();
        last_aired.sort_unstable();
        let had_programme = airings.iter().any(|airing| airing.item < self.blocks.programme_count);
        let mut after = DayState { positions, had_programme, last_aired, ..*before };
        let (has_mixed_formats, programme_count) = (self.revision.has_mixed_formats(), self.blocks.programme_count);
        let mut programmes = Vec::with_capacity(airings.len());
        for DayAiring { item, start_ms, end_ms, part, continues_programme } in airings {
            let changes = if has_mixed_formats { after.ordinal - self.revision.first_ordinal } else { 0 };
            programmes.push(Programme {
                revision_index: 0,
                item_index: item as usize,
                ordinal: after.ordinal,
                start_ms: ChannelMs::without_clock(start_ms),
                end_ms: ChannelMs::without_clock(end_ms),
                media_sequence: after.sequence,
                discontinuities: self.revision.first_discontinuity + changes,
                begins_guide_entry: !continues_programme
                    && (item < programme_count || (programmes.is_empty() && !before.had_programme)),
                part_index: part,
                continues_programme,
            });
            after.ordinal += 1;
            after.sequence += self.revision.items[item as usize].segment_count(part, end_ms - start_ms);
        }
        BroadcastDay { day_number: number, programmes, streams, state_after: after }
    }

    fn item_at(&mut self, stream: usize, position: u64) -> u32 {
        let (source, mode) = self.streams[stream];
        let range = self.blocks.sources[source as usize].items.clone();
        let items = &self.revision.items[range.start as usize..range.end as usize];
        let pool = CyclePool { items, mode, seed: self.revision.seed };
        let slots = pool.programmes_per_cycle().max(1);
        let (cycle, at) = (position / slots, (position % slots) as usize);
        let cached = &mut self.cached_orders[stream];
        if cached.as_ref().is_none_or(|(number, _)| *number != cycle) {
            *cached = Some((cycle, pool.cycle_order(cycle)));
        }
        let order = cached.as_ref().map_or(&[][..], |(_, order)| order);
        range.start + order.get(at).copied().unwrap_or(0)
    }
}

impl DayDraft<'_, '_> {
    /// Fills a time range with the layers starting at `first_layer`.
    fn fill_layers(&mut self, first_layer: usize, from_ms: WallMs, to_ms: WallMs) {
        if from_ms >= to_ms {
            return;
        }
        let blocks = self.planner.blocks;
        let (month, day) = (self.date.month() as u8, self.date.day() as u8);
        let weekday = self.date.weekday().to_monday_zero_offset() as u8;
        let mut layers = blocks.grid.layers.iter().enumerate().skip(first_layer);
        let Some((index, layer)) = layers.find(|(_, layer)| layer.applies_on(month, day, weekday)) else {
            return self.fill_gap(from_ms, to_ms);
        };
        let mut starts: Vec<(WallMs, usize)> = layer
            .blocks
            .iter()
            .enumerate()
            .map(|(block_index, block)| (self.instant_of(block.start_minutes, false), block_index))
            .collect();
        starts.sort_unstable();
        let mut at = from_ms;
        for (turn, (start, block_index)) in starts.iter().copied().enumerate() {
            let block = &layer.blocks[block_index];
            let next = starts.get(turn + 1).map_or(WallMs::MAX, |(next, _)| *next);
            let until = block.end_minutes.map(|until| self.instant_of(until, until <= block.start_minutes));
            let end = next.min(until.unwrap_or(WallMs::MAX)).min(self.day_end());
            let (full_length_ms, end) = (end - start, end.min(to_ms));
            let start = start.max(at);
            if start >= end {
                continue;
            }
            self.fill_layers(index + 1, at, start);
            at = self.air_block((index, block_index), block, start, end, full_length_ms);
            if until.is_some() || block.slots.iter().any(|slot| slot.count.is_none()) {
                self.fill_gap(at, end);
            } else {
                self.fill_layers(index + 1, at, end);
            }
            at = end;
        }
        self.fill_layers(index + 1, at, to_ms);
    }

    /// The instant of a time of the broadcast day. With `is_day_end`, a time equal to the day's start means the day's end.
    fn instant_of(&self, minutes: u16, is_day_end: bool) -> WallMs {
        let is_next_day = minutes < self.planner.blocks.grid.day_start_minutes
            || is_day_end && minutes == self.planner.blocks.grid.day_start_minutes;
        let date = if is_next_day { wall_clock::date_of_day(self.number + 1) } else { self.date };
        wall_clock::instant_of(&self.planner.zone, date, minutes)
    }

    fn day_end(&self) -> WallMs {
        let tomorrow = wall_clock::date_of_day(self.number + 1);
        wall_clock::instant_of(&self.planner.zone, tomorrow, self.planner.blocks.grid.day_start_minutes)
    }

    /// Airs a block's slots from their last position as far as they fit, and returns the end of the last one.
    /// `full_length_ms` is the length of the block when no layer covers it.
    fn air_block(
        &mut self,
        key: (usize, usize),
        block: &Block,
        start: WallMs,
        end: WallMs,
        full_length_ms: i64,
    ) -> WallMs {
        let (mut slot_at, mut count) = self.slot_positions.get(&key).copied().unwrap_or_default();
        let mut at = start;
        'slots: while let Some(slot) = block.slots.get(slot_at) {
            let streams = &self.planner.streams;
            let stream = streams.iter().position(|other| *other == (slot.source, slot.order)).unwrap_or(0);
            while slot.count.is_none_or(|max_count| count < max_count) {
                let item = self.planner.item_at(stream, self.positions[stream]);
                // An item that fits its block only without breaks is aired without them.
                let breaks = Some(self.break_fillers(item))
                    .filter(|breaks| self.length_with_breaks(item, breaks) <= full_length_ms);
                let breaks = breaks.unwrap_or_default();
                let length = self.length_with_breaks(item, &breaks);
                let fits = at + length <= end;
                // An item longer than its block would otherwise never be aired, nor anything after it.
                let is_oversized = at == start && length > full_length_ms;
                if !(fits || is_oversized) || self.airings.len() >= MAX_PROGRAMMES {
                    break 'slots;
                }
                let pre = self.pick_filler(&self.planner.blocks.filler.pre.clone(), 1);
                if let Some(pre) = pre.filter(|pre| at + self.item_ms(*pre) + length <= end) {
                    at = self.air(pre, None, at, end);
                }
                at = self.air_with_breaks(item, &breaks, stream, at, end);
                self.positions[stream] += 1;
                count += 1;
                let post = self.pick_filler(&self.planner.blocks.filler.post.clone(), 2);
                if let Some(post) = post.filter(|post| at + self.item_ms(*post) <= end) {
                    at = self.air(post, None, at, end);
                }
                let next =
                    wall_clock::next_multiple(&self.planner.zone, at, self.planner.blocks.grid.pad_minutes).min(end);
                self.fill_gap(at, next);
                at = next;
            }
            (slot_at, count) = (slot_at + 1, 0);
        }
        self.slot_positions.insert(key, (slot_at, count));
        at
    }

    fn item_ms(&self, item: u32) -> i64 {
        self.planner.revision.items[item as usize].duration_ms
    }

    /// Filler for the breaks of an item: starts with a different one each time, then takes turns.
    fn break_fillers(&self, item: u32) -> Vec<u32> {
        let mid = &self.planner.blocks.filler.mid;
        let Some(first) = self.pick_filler(mid, 3) else { return Vec::new() };
        let breaks = self.planner.revision.items[item as usize].breaks.len() as u32;
        (0..breaks).map(|at| mid.start + (first - mid.start + at) % (mid.end - mid.start)).collect()
    }

    /// Length of an item with the filler in its breaks.
    fn length_with_breaks(&self, item: u32, breaks: &[u32]) -> i64 {
        self.item_ms(item) + breaks.iter().map(|filler| self.item_ms(*filler)).sum::<i64>()
    }

    fn air(&mut self, item: u32, stream: Option<usize>, at: WallMs, end: WallMs) -> WallMs {
        let end = (at + self.item_ms(item)).min(end);
        self.push_whole(item, stream, at, end);
        end
    }

    fn push_whole(&mut self, item: u32, stream: Option<usize>, start_ms: WallMs, end_ms: WallMs) {
        self.airings.push(DayAiring { item, start_ms, end_ms, part: None, continues_programme: false });
        self.streams.push(stream);
    }

    /// Airs an item in parts, with filler between.
    fn air_with_breaks(&mut self, item: u32, breaks: &[u32], stream: usize, mut at: WallMs, end: WallMs) -> WallMs {
        if breaks.is_empty() {
            return self.air(item, Some(stream), at, end);
        }
        for part in 0..=breaks.len() as u16 {
            let filler = usize::from(part).checked_sub(1).map(|before| breaks[before]);
            let item_part = self.planner.revision.items[item as usize].part(Some(part));
            let filler = filler.map(|filler| (filler, None, self.item_ms(filler)));
            for (item, part, length) in filler.into_iter().chain([(item, Some(part), item_part.duration_ms())]) {
                if at >= end {
                    break;
                }
                let (start, within) = (at, part != Some(0));
                at = (at + length).min(end);
                self.airings.push(DayAiring { item, start_ms: start, end_ms: at, part, continues_programme: within });
                self.streams.push((!within).then_some(stream));
            }
        }
        at
    }

    /// Picks one of the fillers, varying each time.
    fn pick_filler(&self, fillers: &std::ops::Range<u32>, salt: u64) -> Option<u32> {
        let turn = mix_to_u64(self.planner.revision.seed, self.number as u64, self.airings.len() as u64 * 4 + salt);
        let count = u64::from(fillers.end.saturating_sub(fillers.start));
        (count > 0).then(|| fillers.start + (turn % count) as u32)
    }

    /// Fills a gap: with filler that fits, then with fallback, then with the slate.
    fn fill_gap(&mut self, from_ms: WallMs, to_ms: WallMs) {
        if from_ms >= to_ms {
            return;
        }
        let blocks = self.planner.blocks;
        let mut at = from_ms;
        let mut tail: Vec<u32> = blocks.filler.tail.clone().collect();
        let salt = mix_to_u64(self.planner.revision.seed, self.number as u64, self.airings.len() as u64);
        tail.sort_by_cached_key(|item| mix_to_u64(salt, 3, self.planner.revision.items[*item as usize].id));
        while self.airings.len() < MAX_PROGRAMMES {
            let is_rested =
                |item: &u32| self.last_aired.get(item).is_none_or(|last| at - *last >= blocks.filler.cooldown_ms);
            let fitting = tail.iter().copied().filter(|item| at + self.item_ms(*item) <= to_ms).find(is_rested);
            let Some(item) = fitting else { break };
            at = self.air(item, None, at, to_ms);
            self.last_aired.insert(item, at);
        }
        let mut turn = 0;
        while to_ms - at >= MIN_GAP_MS && self.airings.len() < MAX_PROGRAMMES {
            let fallback = self.pick_filler(&blocks.filler.fallback.clone(), turn);
            let Some(item) = fallback else { break };
            at = self.air(item, None, at, to_ms);
            turn += 1;
        }
        if at >= to_ms {
            return;
        }
        match self.airings.last_mut() {
            // Such a short slate would only flicker, so the programme before is extended.
            Some(last) if to_ms - at < MIN_GAP_MS && last.end_ms == at => last.end_ms = to_ms,
            _ => self.push_whole(blocks.slate_item, None, at, to_ms),
        }
    }
}
