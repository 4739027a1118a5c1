//! Block schedules: blocks that begin at a time of day, in layers that apply on some days only, filled to the boundary.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::order::Pool;
use super::{Item, Mode};

mod day;
mod known;
mod wall;

pub use day::Day;
pub use known::{Days, Mark};

/// Minutes of a day.
pub const DAY_MINUTES: u16 = 24 * 60;

/// The block schedule of a revision. Its items are those of the sources, then the filler, then the slate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocks {
    /// IANA time zone name.
    pub zone: String,
    pub grid: Grid,
    pub sources: Vec<Source>,
    pub filler: Filler,
    /// How many items are programmes; the items after them are filler.
    #[serde(rename = "content")]
    pub content: u32,
    /// Index of the slate item.
    #[serde(rename = "slate")]
    pub slate: u32,
    /// Position of each stream when the revision began, in the order of [`Grid::streams`].
    #[serde(rename = "begin")]
    pub begin: Vec<u64>,
    /// Days of this revision and of its copies.
    #[serde(skip)]
    pub days: Days,
}

/// Layers of blocks, the uppermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grid {
    /// Start of a broadcast day, minutes after midnight.
    #[serde(rename = "day_start")]
    pub day_start: u16,
    /// Programmes begin at multiples of this many minutes; 0 means right after one another.
    pub pad_minutes: u16,
    pub layers: Vec<Layer>,
}

/// Blocks and the days on which they apply. Time they leave free belongs to the layers below.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
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
    pub at: u16,
    /// Latest end, minutes after midnight; time left until then is filled. If None, the block ends where the layer's next
    /// one begins or, if all its slots have a count, after the last of them.
    #[serde(rename = "until")]
    pub until: Option<u16>,
    pub slots: Vec<Slot>,
}

/// One step of a block; slots are aired in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Index into the sources.
    pub source: u32,
    pub order: Mode,
    /// None: as many as fit.
    pub count: Option<u32>,
}

/// A named range of items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    pub name: String,
    pub items: Range<u32>,
}

/// Filler as ranges of items.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filler {
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

impl Blocks {
    /// Number of programmes in the longest cycle of any stream.
    pub fn slots(&self, items: &[Arc<Item>]) -> u64 {
        let of = |(source, mode): (u32, Mode)| {
            let range = &self.sources[source as usize].items;
            Pool { items: &items[range.start as usize..range.end as usize], mode, seed: 0 }.slots()
        };
        self.grid.streams().into_iter().map(of).max().unwrap_or(0)
    }
}

impl Grid {
    /// The streams: each source and order advances on its own, wherever it is aired.
    pub fn streams(&self) -> Vec<(u32, Mode)> {
        let mut streams = Vec::new();
        for slot in self.layers.iter().flat_map(|layer| &layer.blocks).flat_map(|block| &block.slots) {
            if !streams.contains(&(slot.source, slot.order)) {
                streams.push((slot.source, slot.order));
            }
        }
        streams
    }
}

impl Layer {
    /// Whether it applies on a day; `weekday` is 0 on Mondays.
    fn holds(&self, month: u8, day: u8, weekday: u8) -> bool {
        let within = self.season.is_none_or(|(first, last)| match first <= last {
            true => (first..=last).contains(&(month, day)),
            false => (month, day) >= first || (month, day) <= last,
        });
        within && (self.weekdays == 0 || self.weekdays & (1 << weekday) != 0)
    }
}

#[cfg(test)]
mod tests;
