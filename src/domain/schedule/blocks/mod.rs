//! A day by the clock: blocks that begin at a time of day, in layers that hold on some days only, filled to the boundary.

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

/// What a revision airs by the clock. Its items are the sources', then the filler, then the slate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocks {
    /// An IANA name.
    pub zone: String,
    pub grid: Grid,
    pub sources: Vec<Source>,
    pub filler: Filler,
    /// How many items are programmes; what lies behind is filler.
    pub content: u32,
    /// The item of which nothing is shown but the slate.
    pub slate: u32,
    /// How far each stream was when the revision began, as [`Grid::streams`] lists them.
    pub begin: Vec<u64>,
    /// Of the revision this stands in, and of its copies.
    #[serde(skip)]
    pub days: Days,
}

/// Layers of blocks, the uppermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grid {
    /// When a broadcast day begins, minutes behind midnight.
    pub day_start: u16,
    /// Programmes begin at multiples of so many minutes; 0 for as they come.
    pub pad_minutes: u16,
    pub layers: Vec<Layer>,
}

/// Blocks, and the days on which they hold. What they leave free belongs to the layers below.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// First and last day of the year, as (month, day), both included; may go round the end of the year.
    pub season: Option<((u8, u8), (u8, u8))>,
    /// Monday is bit 0; none set means all.
    pub weekdays: u8,
    pub blocks: Vec<Block>,
}

/// What begins at a time of day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Minutes behind midnight.
    pub at: u16,
    /// When it ends at the latest; what is left till then is filled. None: with the layer's next block, or, when it
    /// counts what it airs, with that.
    pub until: Option<u16>,
    pub slots: Vec<Slot>,
}

/// What a block airs, one slot after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Index into the sources.
    pub source: u32,
    pub order: Mode,
    /// None: as many as fit.
    pub count: Option<u32>,
}

/// Items by a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    pub name: String,
    pub items: Range<u32>,
}

/// What is aired between programmes, as ranges of items.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filler {
    /// One before each programme.
    pub pre: Range<u32>,
    /// One in each break of a programme.
    #[serde(default, skip_serializing_if = "Range::is_empty")]
    pub mid: Range<u32>,
    /// One behind each.
    pub post: Range<u32>,
    /// What fits, up to the next programme.
    pub tail: Range<u32>,
    /// In what is left then, cut where it must be.
    pub fallback: Range<u32>,
    /// How long one of `tail` stays away, ms.
    pub cooldown_ms: i64,
}

impl Blocks {
    /// Programmes of the longest cycle any of its streams has.
    pub fn slots(&self, items: &[Arc<Item>]) -> u64 {
        let of = |(source, mode): (u32, Mode)| {
            let range = &self.sources[source as usize].items;
            Pool { items: &items[range.start as usize..range.end as usize], mode, seed: 0 }.slots()
        };
        self.grid.streams().into_iter().map(of).max().unwrap_or(0)
    }
}

impl Grid {
    /// What advances on its own: a source in an order, wherever it is aired.
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
    /// Whether it holds on a day; `weekday` is 0 on Mondays.
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
