//! One broadcast day, from its first instant to the next day's. Frozen: the schedule of every existing channel depends on
//! this code.

use std::collections::HashMap;

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::{Block, Blocks, wall};
use crate::domain::schedule::order::{Pool, mix};
use crate::domain::schedule::{Mode, Programme, Revision};

/// Maximum number of programmes in a day; the rest is slate.
const MOST: usize = 20_000;

/// A gap shorter than this belongs to the programme before, ms.
const SHORTEST_GAP_MS: i64 = 10_000;

/// One day as it is aired.
#[derive(Debug, PartialEq)]
pub struct Day {
    /// Counted from 1970.
    pub number: i64,
    pub programmes: Vec<Programme>,
    /// The stream of each programme; None for filler.
    streams: Vec<Option<usize>>,
    pub after: State,
}

/// The state between two days.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    pub ordinal: u64,
    pub sequence: u64,
    /// Items each stream has aired.
    pub positions: Vec<u64>,
    /// Whether the day before had a programme that leading filler belongs to.
    #[serde(rename = "led")]
    pub led: bool,
    /// Filler still in its cooldown, and when it was last on.
    #[serde(rename = "last_on")]
    pub last_on: Vec<(u32, i64)>,
}

/// Computes the days of one revision in order.
pub struct Planner<'a> {
    revision: &'a Revision,
    blocks: &'a Blocks,
    pub zone: TimeZone,
    streams: Vec<(u32, Mode)>,
    /// The last computed cycle of each stream.
    orders: Vec<Option<(u64, Vec<u32>)>>,
}

impl Day {
    /// Items each stream had aired at an instant of the day, the one on air included.
    pub fn positions_at(&self, at_ms: i64) -> Vec<u64> {
        let mut positions = self.after.positions.clone();
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

/// A day under construction.
struct Draft<'p, 'a> {
    planner: &'p mut Planner<'a>,
    date: jiff::civil::Date,
    number: i64,
    positions: Vec<u64>,
    /// The airings so far; `streams` has the stream of each.
    aired: Vec<Aired>,
    streams: Vec<Option<usize>>,
    /// For each block in progress: its current slot, and how often that was aired.
    at: HashMap<(usize, usize), (usize, u32)>,
    /// When filler was last on.
    last_on: HashMap<u32, i64>,
}

/// One airing.
#[derive(Clone, Copy)]
struct Aired {
    item: u32,
    start: i64,
    end: i64,
    part: Option<u16>,
    within: bool,
}

impl<'a> Planner<'a> {
    pub fn new(revision: &'a Revision, blocks: &'a Blocks) -> Self {
        let streams = blocks.grid.streams();
        let zone = TimeZone::get(&blocks.zone).unwrap_or(TimeZone::UTC);
        Self { revision, blocks, zone, orders: vec![None; streams.len()], streams }
    }

    /// The day that contains an instant.
    pub fn day_of(&self, at_ms: i64) -> i64 {
        wall::day_of(&self.zone, self.blocks.grid.day_start, at_ms)
    }

    /// Computes one day from the state before it.
    pub fn day(&mut self, number: i64, before: &State) -> Day {
        let day_start = self.blocks.grid.day_start;
        let (date, next) = (wall::date(number), wall::date(number + 1));
        let from = wall::instant(&self.zone, date, day_start).max(self.revision.start_ms);
        let to = wall::instant(&self.zone, next, day_start);
        let mut positions = before.positions.clone();
        positions.resize(self.streams.len(), 0);
        let mut draft = Draft {
            planner: self,
            date,
            number,
            positions,
            aired: Vec::new(),
            streams: Vec::new(),
            at: HashMap::new(),
            last_on: before.last_on.iter().copied().collect(),
        };
        draft.layers(0, from, to);
        let Draft { aired, streams, positions, last_on, .. } = draft;
        let cooldown_ms = self.blocks.filler.cooldown_ms;
        let mut last_on: Vec<(u32, i64)> = last_on.into_iter().filter(|(_, last)| to - last < cooldown_ms).collect();
        last_on.sort_unstable();
        let led = aired.iter().any(|aired| aired.item < self.blocks.content);
        let mut after = State { positions, led, last_on, ..*before };
        let (mixed, content) = (self.revision.mixed(), self.blocks.content);
        let mut programmes = Vec::with_capacity(aired.len());
        for Aired { item, start: start_ms, end: end_ms, part, within } in aired {
            let changes = if mixed { after.ordinal - self.revision.first_ordinal } else { 0 };
            programmes.push(Programme {
                revision: 0,
                item: item as usize,
                ordinal: after.ordinal,
                start_ms,
                end_ms,
                sequence: after.sequence,
                changes: self.revision.first_change + changes,
                leads: !within && (item < content || (programmes.is_empty() && !before.led)),
                part,
                within,
            });
            after.ordinal += 1;
            after.sequence += self.revision.items[item as usize].segments(part, end_ms - start_ms);
        }
        Day { number, programmes, streams, after }
    }

    /// The item a stream airs at a position.
    fn item(&mut self, stream: usize, position: u64) -> u32 {
        let (source, mode) = self.streams[stream];
        let range = self.blocks.sources[source as usize].items.clone();
        let items = &self.revision.items[range.start as usize..range.end as usize];
        let pool = Pool { items, mode, seed: self.revision.seed };
        let slots = pool.slots().max(1);
        let (cycle, at) = (position / slots, (position % slots) as usize);
        let known = &mut self.orders[stream];
        if known.as_ref().is_none_or(|(number, _)| *number != cycle) {
            *known = Some((cycle, pool.order(cycle)));
        }
        let order = known.as_ref().map_or(&[][..], |(_, order)| order);
        range.start + order.get(at).copied().unwrap_or(0)
    }
}

impl Draft<'_, '_> {
    /// Fills a time range with the layers starting at `index`.
    fn layers(&mut self, index: usize, from: i64, to: i64) {
        if from >= to {
            return;
        }
        let blocks = self.planner.blocks;
        let (month, day) = (self.date.month() as u8, self.date.day() as u8);
        let weekday = self.date.weekday().to_monday_zero_offset() as u8;
        let mut layers = blocks.grid.layers.iter().enumerate().skip(index);
        let Some((index, layer)) = layers.find(|(_, layer)| layer.holds(month, day, weekday)) else {
            return self.gap(from, to);
        };
        let mut starts: Vec<(i64, usize)> =
            layer.blocks.iter().enumerate().map(|(place, block)| (self.instant(block.at, false), place)).collect();
        starts.sort_unstable();
        let mut at = from;
        for (turn, (start, place)) in starts.iter().copied().enumerate() {
            let block = &layer.blocks[place];
            let next = starts.get(turn + 1).map_or(i64::MAX, |(next, _)| *next);
            let until = block.until.map(|until| self.instant(until, until <= block.at));
            let end = next.min(until.unwrap_or(i64::MAX)).min(self.day_end());
            let (whole, end) = (end - start, end.min(to));
            let start = start.max(at);
            if start >= end {
                continue;
            }
            self.layers(index + 1, at, start);
            at = self.block((index, place), block, start, end, whole);
            if until.is_some() || block.slots.iter().any(|slot| slot.count.is_none()) {
                self.gap(at, end);
            } else {
                self.layers(index + 1, at, end);
            }
            at = end;
        }
        self.layers(index + 1, at, to);
    }

    /// The instant of a time of the broadcast day. With `again`, a time equal to the day's start means the day's end.
    fn instant(&self, minutes: u16, again: bool) -> i64 {
        let behind =
            minutes < self.planner.blocks.grid.day_start || again && minutes == self.planner.blocks.grid.day_start;
        let date = if behind { wall::date(self.number + 1) } else { self.date };
        wall::instant(&self.planner.zone, date, minutes)
    }

    fn day_end(&self) -> i64 {
        wall::instant(&self.planner.zone, wall::date(self.number + 1), self.planner.blocks.grid.day_start)
    }

    /// Airs a block's slots from their last position as far as they fit, and returns the end of the last one. `whole` is the
    /// length of the block when no layer covers it.
    fn block(&mut self, key: (usize, usize), block: &Block, start: i64, end: i64, whole: i64) -> i64 {
        let (mut slot_at, mut count) = self.at.get(&key).copied().unwrap_or_default();
        let mut at = start;
        'slots: while let Some(slot) = block.slots.get(slot_at) {
            let streams = &self.planner.streams;
            let stream = streams.iter().position(|known| *known == (slot.source, slot.order)).unwrap_or(0);
            while slot.count.is_none_or(|most| count < most) {
                let item = self.planner.item(stream, self.positions[stream]);
                // An item that fits its block only without breaks is aired without them.
                let breaks = Some(self.breaks(item)).filter(|breaks| self.broken(item, breaks) <= whole);
                let breaks = breaks.unwrap_or_default();
                let length = self.broken(item, &breaks);
                let fits = at + length <= end;
                // An item longer than its block would otherwise never be aired, nor anything after it.
                let never = at == start && length > whole;
                if !(fits || never) || self.aired.len() >= MOST {
                    break 'slots;
                }
                let pre = self.between(&self.planner.blocks.filler.pre.clone(), 1);
                if let Some(pre) = pre.filter(|pre| at + self.length(*pre) + length <= end) {
                    at = self.air(pre, None, at, end);
                }
                at = self.air_broken(item, &breaks, stream, at, end);
                self.positions[stream] += 1;
                count += 1;
                let post = self.between(&self.planner.blocks.filler.post.clone(), 2);
                if let Some(post) = post.filter(|post| at + self.length(*post) <= end) {
                    at = self.air(post, None, at, end);
                }
                let next = wall::padded(&self.planner.zone, at, self.planner.blocks.grid.pad_minutes).min(end);
                self.gap(at, next);
                at = next;
            }
            (slot_at, count) = (slot_at + 1, 0);
        }
        self.at.insert(key, (slot_at, count));
        at
    }

    fn length(&self, item: u32) -> i64 {
        self.planner.revision.items[item as usize].duration_ms
    }

    /// Filler for the breaks of an item: starts with a different one each time, then takes turns.
    fn breaks(&self, item: u32) -> Vec<u32> {
        let mid = &self.planner.blocks.filler.mid;
        let Some(first) = self.between(mid, 3) else { return Vec::new() };
        let breaks = self.planner.revision.items[item as usize].breaks.len() as u32;
        (0..breaks).map(|at| mid.start + (first - mid.start + at) % (mid.end - mid.start)).collect()
    }

    /// Length of an item with the filler in its breaks.
    fn broken(&self, item: u32, breaks: &[u32]) -> i64 {
        self.length(item) + breaks.iter().map(|filler| self.length(*filler)).sum::<i64>()
    }

    fn air(&mut self, item: u32, stream: Option<usize>, at: i64, end: i64) -> i64 {
        let end = (at + self.length(item)).min(end);
        self.aired.push(Aired { item, start: at, end, part: None, within: false });
        self.streams.push(stream);
        end
    }

    /// Airs an item in parts, with filler between.
    fn air_broken(&mut self, item: u32, breaks: &[u32], stream: usize, mut at: i64, end: i64) -> i64 {
        if breaks.is_empty() {
            return self.air(item, Some(stream), at, end);
        }
        for part in 0..=breaks.len() as u16 {
            let filler = usize::from(part).checked_sub(1).map(|before| breaks[before]);
            let of = self.planner.revision.items[item as usize].part(Some(part));
            let filler = filler.map(|filler| (filler, None, self.length(filler)));
            for (item, part, length) in filler.into_iter().chain([(item, Some(part), of.duration_ms())]) {
                if at >= end {
                    break;
                }
                let (start, within) = (at, part != Some(0));
                at = (at + length).min(end);
                self.aired.push(Aired { item, start, end: at, part, within });
                self.streams.push((!within).then_some(stream));
            }
        }
        at
    }

    /// Picks one of the fillers, varying each time.
    fn between(&self, fillers: &std::ops::Range<u32>, salt: u64) -> Option<u32> {
        let turn = mix(self.planner.revision.seed, self.number as u64, self.aired.len() as u64 * 4 + salt);
        let count = u64::from(fillers.end.saturating_sub(fillers.start));
        (count > 0).then(|| fillers.start + (turn % count) as u32)
    }

    /// Fills a gap: with filler that fits, then with fallback, then with the slate.
    fn gap(&mut self, from: i64, to: i64) {
        if from >= to {
            return;
        }
        let blocks = self.planner.blocks;
        let mut at = from;
        let mut tail: Vec<u32> = blocks.filler.tail.clone().collect();
        let salt = mix(self.planner.revision.seed, self.number as u64, self.aired.len() as u64);
        tail.sort_by_cached_key(|item| mix(salt, 3, self.planner.revision.items[*item as usize].id));
        while self.aired.len() < MOST {
            let rested = |item: &u32| self.last_on.get(item).is_none_or(|last| at - last >= blocks.filler.cooldown_ms);
            let fitting = tail.iter().copied().filter(|item| at + self.length(*item) <= to).find(rested);
            let Some(item) = fitting else { break };
            at = self.air(item, None, at, to);
            self.last_on.insert(item, at);
        }
        let mut turn = 0;
        while to - at >= SHORTEST_GAP_MS && self.aired.len() < MOST {
            let fallback = self.between(&blocks.filler.fallback.clone(), turn);
            let Some(item) = fallback else { break };
            at = self.air(item, None, at, to);
            turn += 1;
        }
        if at >= to {
            return;
        }
        match self.aired.last_mut() {
            // Such a short slate would only flicker, so the programme before is extended.
            Some(last) if to - at < SHORTEST_GAP_MS && last.end == at => last.end = to,
            _ => {
                self.aired.push(Aired { item: blocks.slate, start: at, end: to, part: None, within: false });
                self.streams.push(None);
            }
        }
    }
}
