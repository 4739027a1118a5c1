//! The schedule of a channel: what it airs at any instant, as a pure function of its definition.
//!
//! A definition is a list of immutable revisions. Each runs through whole cycles of fixed length, whatever their order, so
//! that any instant is found by division and nothing is counted up. Times are milliseconds since 1970.
#![doc = include_str!("README.md")]

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use blocks::Blocks;
use cut::Spans;

pub mod blocks;
pub mod breaks;
pub mod cut;
mod cycles;
mod item;
mod memo;
mod order;
mod revise;
mod shown;
mod walk;

pub use item::{Item, Items, itemize};
pub use memo::Memo;
pub use order::MAX_SLOTS;
pub use revise::Wanted;
pub use walk::{Cursor, Walk};

/// The order in which items are aired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// As listed.
    Sequential,
    /// Each item once in a cycle, with a new order for each cycle. The default.
    #[default]
    Shuffle,
    /// Shows mixed, the episodes of each show in order. A show is the content of one folder.
    ShuffleInOrder,
    /// Random; an item may repeat before another was aired.
    Random,
    /// Each item as often per cycle as its weight says, spread over the cycle.
    Weighted,
    /// By time of day: [`blocks::Blocks`].
    Blocks,
}

/// One airing of an item, or of a part of it, from start to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Programme {
    /// Index into the definition's revisions.
    pub revision: usize,
    /// Index into that revision's items.
    pub item: usize,
    /// Increases with every programme of the channel; never used twice.
    pub ordinal: u64,
    pub start_ms: i64,
    pub end_ms: i64,
    /// Media sequence number of its first segment; the next programme's follows its last.
    pub sequence: u64,
    /// Discontinuities since the channel's start, the one at this start included.
    pub changes: u64,
    /// Begins a new entry in a guide that hides filler; otherwise it belongs to the entry before.
    pub leads: bool,
    /// Which part of its item; None for the whole item.
    pub part: Option<u16>,
    /// Continues a programme that has breaks: it is filler in a break, or the part after one.
    pub within: bool,
}

/// The content aired from an instant until the next revision begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Revision {
    /// Increases by one with every change, from 1.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub number: u32,
    pub start_ms: i64,
    /// The ordinal of its first programme.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first_ordinal: u64,
    /// Media sequence number of its first segment.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first_sequence: u64,
    /// Discontinuities before it and at its start.
    #[serde(rename = "first_change", default, skip_serializing_if = "is_zero")]
    pub first_change: u64,
    pub seed: u64,
    #[serde(default, skip_serializing_if = "is_shuffle")]
    pub mode: Mode,
    /// The rest of the cycle that was running when this revision began, as item indices; aired first.
    #[serde(rename = "head", default, skip_serializing_if = "<[u32]>::is_empty")]
    pub head: Box<[u32]>,
    /// The number of the first whole cycle after the head.
    #[serde(rename = "cycle", default, skip_serializing_if = "is_zero")]
    pub cycle: u64,
    #[serde(default, skip_serializing_if = "no_items")]
    pub items: Items,
    /// How many items at the end of the list are mid-roll filler instead of programmes; with blocks, [`Blocks`] says so.
    #[serde(rename = "mid", default, skip_serializing_if = "is_none")]
    pub mid: u32,
    /// Only with `Mode::Blocks`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Arc<Blocks>>,
    #[serde(skip)]
    pub memo: Memo,
}

/// All revisions, sorted by start. No two start together, and each has items.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Definition {
    pub revisions: Box<[Revision]>,
}

impl Definition {
    /// The programme on air at an instant; None before the channel's first.
    pub fn programme(&self, at_ms: i64) -> Option<Programme> {
        Walk::at(self, at_ms).next()
    }

    /// All programmes on air between two instants, the one on air at `from_ms` included.
    pub fn programmes(&self, from_ms: i64, to_ms: i64) -> impl Iterator<Item = Programme> {
        let first = self.revisions.first().map_or(i64::MAX, |revision| revision.start_ms);
        Walk::at(self, from_ms.max(first)).take_while(move |programme| programme.start_ms < to_ms)
    }

    /// Start and end of the programme on air at an instant, breaks included; None before the channel's first.
    pub fn whole(&self, at_ms: i64) -> Option<(i64, i64)> {
        let mut cursor = Cursor::at(self, at_ms);
        cursor.rewind(self);
        let first = cursor.next(self)?;
        let behind = std::iter::from_fn(|| cursor.next(self)).take_while(|programme| programme.within);
        Some((first.start_ms, behind.last().map_or(first.end_ms, |last| last.end_ms)))
    }

    /// Whether it is filler, between programmes or within one.
    pub fn is_filler(&self, programme: &Programme) -> bool {
        programme.item >= self.revisions[programme.revision].content().len()
    }

    /// Whether it is the slate.
    pub fn is_slate(&self, programme: &Programme) -> bool {
        let blocks = self.revisions[programme.revision].blocks.as_ref();
        blocks.is_some_and(|blocks| programme.item == blocks.slate as usize)
    }

    pub fn item(&self, programme: &Programme) -> &Item {
        &self.revisions[programme.revision].items[programme.item]
    }

    /// The segment ranges of a programme.
    pub fn spans(&self, programme: &Programme) -> Spans {
        self.item(programme).spans(programme.part, programme.end_ms - programme.start_ms)
    }

    /// Index of the revision in force at an instant.
    fn in_force(&self, at_ms: i64) -> Option<usize> {
        self.revisions.partition_point(|revision| revision.start_ms <= at_ms).checked_sub(1)
    }

    fn end_of(&self, revision: usize) -> i64 {
        self.revisions.get(revision + 1).map_or(i64::MAX, |next| next.start_ms)
    }
}

impl Revision {
    fn length_of(&self, order: &[u32]) -> i64 {
        order.iter().map(|index| self.items[*index as usize].duration_ms).sum()
    }

    fn segments_of(&self, order: &[u32]) -> u64 {
        order.iter().map(|index| self.items[*index as usize].cut.segments()).sum()
    }

    /// Whether its items differ in video format. Then every start of a programme is a discontinuity: which neighbours differ
    /// depends on the order of every cycle, and counting that would mean walking through all of them.
    fn mixed(&self) -> bool {
        self.items.windows(2).any(|pair| pair[0].look != pair[1].look)
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
fn is_none(count: &u32) -> bool {
    *count == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn first() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
fn is_first(number: &u32) -> bool {
    *number == first()
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
fn is_shuffle(mode: &Mode) -> bool {
    *mode == Mode::default()
}

fn no_items(items: &Items) -> bool {
    items.is_empty()
}

#[cfg(test)]
mod tests;
