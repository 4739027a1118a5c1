//! Block schedules: blocks that begin at a time of day, in layers that apply on some days only, filled to the boundary.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::order::CyclePool;
use super::{ScheduleItem, ScheduleMode};

mod day;
mod day_cache;
mod wall_clock;

pub use day::BroadcastDay;
pub use day_cache::{Checkpoint, DayCache};

pub const DAY_MINUTES: u16 = 24 * 60;

/// The block schedule of a revision. Its items are those of the sources, then the filler, then the slate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockSchedule {
    /// IANA time zone name.
    pub zone: String,
    pub grid: BlockGrid,
    pub sources: Vec<BlockSource>,
    pub filler: FillerRanges,
    /// How many items are programmes; the items after them are filler.
    #[serde(rename = "content")]
    pub programme_count: u32,
    /// Index of the slate item.
    #[serde(rename = "slate")]
    pub slate_item: u32,
    /// Position of each stream when the revision began, in the order of [`BlockGrid::streams`].
    #[serde(rename = "begin")]
    pub start_positions: Vec<u64>,
    /// Days of this revision and of its copies.
    #[serde(skip)]
    pub day_cache: DayCache,
}

/// Layers of blocks, the uppermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockGrid {
    /// Start of a broadcast day, minutes after midnight.
    #[serde(rename = "day_start")]
    pub day_start_minutes: u16,
    /// Programmes begin at multiples of this many minutes; 0 means right after one another.
    pub pad_minutes: u16,
    pub layers: Vec<BlockLayer>,
}

/// Blocks and the days on which they apply. Time they leave free belongs to the layers below.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockLayer {
    /// First and last day of the year, as (month, day), both included; may wrap around the end of the year.
    pub season: Option<((u8, u8), (u8, u8))>,
    /// Monday is bit 0; none set means all.
    pub weekdays: u8,
    pub blocks: Vec<Block>,
}

/// A block that begins at a time of day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Minutes after midnight.
    #[serde(rename = "at")]
    pub start_minutes: u16,
    /// Latest end, minutes after midnight; time left until then is filled. If None, the block ends where the layer's next
    /// one begins or, if all its slots have a count, after the last of them.
    #[serde(rename = "until")]
    pub end_minutes: Option<u16>,
    pub slots: Vec<BlockSlot>,
}

/// One step of a block; slots are aired in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockSlot {
    /// Index into the sources.
    pub source: u32,
    pub order: ScheduleMode,
    /// None: as many as fit.
    pub count: Option<u32>,
}

/// A named range of items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockSource {
    pub name: String,
    pub items: Range<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FillerRanges {
    /// One before each programme.
    pub pre: Range<u32>,
    /// One in each break of a programme.
    #[serde(default, skip_serializing_if = "Range::is_empty")]
    pub mid: Range<u32>,
    /// One after each programme.
    pub post: Range<u32>,
    /// As much as fits, up to the next programme.
    pub tail: Range<u32>,
    /// Fills the rest; may be cut short.
    pub fallback: Range<u32>,
    /// Minimum time between two airings of one `tail` item, ms.
    pub cooldown_ms: i64,
}

impl BlockSchedule {
    /// Number of programmes in the longest cycle of any stream.
    pub fn longest_cycle(&self, items: &[Arc<ScheduleItem>]) -> u64 {
        let programmes_of = |(source, mode): (u32, ScheduleMode)| {
            let range = &self.sources[source as usize].items;
            CyclePool { items: &items[range.start as usize..range.end as usize], mode, seed: 0 }.programmes_per_cycle()
        };
        self.grid.streams().into_iter().map(programmes_of).max().unwrap_or(0)
    }
}

impl BlockGrid {
    /// The streams: each source and order advances on its own, wherever it is aired.
    pub fn streams(&self) -> Vec<(u32, ScheduleMode)> {
        let mut streams = Vec::new();
        for slot in self.layers.iter().flat_map(|layer| &layer.blocks).flat_map(|block| &block.slots) {
            if !streams.contains(&(slot.source, slot.order)) {
                streams.push((slot.source, slot.order));
            }
        }
        streams
    }
}

impl BlockLayer {
    /// Whether it applies on a day; `weekday` is 0 on Mondays.
    fn applies_on(&self, month: u8, day: u8, weekday: u8) -> bool {
        let is_in_season = self.season.is_none_or(|(first, last)| match first <= last {
            true => (first..=last).contains(&(month, day)),
            false => (month, day) >= first || (month, day) <= last,
        });
        is_in_season && (self.weekdays == 0 || self.weekdays & (1 << weekday) != 0)
    }
}

#[cfg(test)]
mod tests;
