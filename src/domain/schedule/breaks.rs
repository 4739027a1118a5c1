//! Breaks: where a programme may be interrupted, and which filler is aired there.
//!
//! A programme is interrupted only between scenes: at chapters of its file, or, if it has none, where its video is black and its audio
//! silent. A break never comes in the middle of a sentence.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::order::{CyclePool, mix_to_u64};
use super::{ScheduleItem, ScheduleMode, ScheduleRevision};
use crate::domain::grid::Grid;
use crate::domain::time::Ticks;

/// Minimum distance of a break from a programme's start and end, ms. The programme gets time to start, and most films' last
/// chapter is the credits.
pub const MIN_EDGE_MS: i64 = 5 * 60_000;

/// Minimum distance between two breaks, ms. Films have a chapter every three to eight minutes, and a break at each would be
/// unwatchable. Television airs ten to fifteen minutes between two.
const MIN_DISTANCE_MS: i64 = 10 * 60_000;

/// Makes the order of filler differ from that of programmes.
const FILLER_SALT: u64 = 0x6d69_6472;

/// A possible break position, frozen with the item's segmentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u32, u32)", into = "(u32, u32)")]
pub struct BreakPosition {
    /// The first segment after it.
    pub next_segment: u32,
    /// Start of that segment, ms from the item's start.
    pub position_ms: u32,
}

impl From<(u32, u32)> for BreakPosition {
    fn from((next_segment, position_ms): (u32, u32)) -> Self {
        Self { next_segment, position_ms }
    }
}

impl From<BreakPosition> for (u32, u32) {
    fn from(BreakPosition { next_segment, position_ms }: BreakPosition) -> Self {
        (next_segment, position_ms)
    }
}

/// The part of an item between two breaks, or the whole item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemPart {
    /// Its first segment and the first after it, counted from the item's start.
    pub first_segment: usize,
    pub end_segment: usize,
    /// Ms from the item's start.
    pub from_ms: i64,
    pub to_ms: i64,
}

impl ItemPart {
    pub fn duration_ms(&self) -> i64 {
        self.to_ms - self.from_ms
    }
}

/// Break positions of an item: the segment bound nearest to each end of a scene (from the item's start). The first suitable one
/// is taken, then each one far enough after the last.
pub fn break_positions(scene_ends: impl Iterator<Item = Ticks>, grid: &Grid, duration_ms: i64) -> Box<[BreakPosition]> {
    let mut scene_ends: Vec<Ticks> = scene_ends.filter(|at| (Ticks(1)..grid.end()).contains(at)).collect();
    scene_ends.sort_unstable();
    let mut positions: Vec<BreakPosition> = Vec::new();
    for scene_end in scene_ends {
        let before = grid.segment_at(scene_end);
        let is_nearer_to_next = scene_end - grid.segment_start(before) > grid.segment_start(before + 1) - scene_end;
        let segment = before + usize::from(is_nearer_to_next);
        let at_ms = grid.segment_start(segment).as_ms_rounded();
        let earliest_ms = positions.last().map_or(MIN_EDGE_MS, |last| i64::from(last.position_ms) + MIN_DISTANCE_MS);
        if (earliest_ms..=duration_ms - MIN_EDGE_MS).contains(&at_ms)
            && segment < grid.len()
            && let (Ok(segment), Ok(at_ms)) = (u32::try_from(segment), u32::try_from(at_ms))
        {
            positions.push(BreakPosition { next_segment: segment, position_ms: at_ms });
        }
    }
    positions.into()
}

impl ScheduleItem {
    /// One of its parts; None for the whole item.
    pub fn part(&self, part: Option<u16>) -> ItemPart {
        let segments = self.segmentation.segment_count() as usize;
        let bounds_at = |position: usize| match (position.checked_sub(1), self.breaks.get(position.wrapping_sub(1))) {
            (None, _) => (0, 0),
            (_, Some(found)) => (found.next_segment as usize, i64::from(found.position_ms)),
            (_, None) => (segments, self.duration_ms),
        };
        let part = part.map(usize::from);
        let (first, from_ms) = bounds_at(part.unwrap_or(0));
        let (until, to_ms) = part.map_or((segments, self.duration_ms), |part| bounds_at(part + 1));
        ItemPart { first_segment: first, end_segment: until, from_ms, to_ms }
    }
}

impl ScheduleRevision {
    /// The items aired as programmes; the items after them are filler.
    pub fn programme_items(&self) -> &[Arc<ScheduleItem>] {
        let content = match &self.blocks {
            Some(blocks) => blocks.programme_count as usize,
            None => self.items.len().saturating_sub(self.mid_roll_count as usize),
        };
        &self.items[..content.min(self.items.len())]
    }

    /// Whether it has filler for breaks within programmes.
    pub fn has_mid_roll(&self) -> bool {
        self.mid_roll_count > 0 || self.blocks.as_ref().is_some_and(|blocks| !blocks.filler.mid.is_empty())
    }

    pub(super) fn break_count(&self, item: u32) -> u64 {
        if self.mid_roll_count == 0 { 0 } else { self.items[item as usize].breaks.len() as u64 }
    }

    /// The filler of one round, as item indices. Each is aired once per round, in a new order each round, so the length of
    /// any number of breaks is found by division.
    pub(super) fn filler_round(&self, round: u64) -> Vec<u32> {
        let first = self.programme_items().len();
        let seed = mix_to_u64(self.seed, FILLER_SALT, u64::from(self.number));
        let pool = CyclePool { items: &self.items[first..], mode: ScheduleMode::Shuffle, seed };
        pool.cycle_order(round).into_iter().map(|index| first as u32 + index).collect()
    }
}

#[cfg(test)]
mod tests;
