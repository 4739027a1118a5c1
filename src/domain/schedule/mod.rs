//! The schedule of a channel: what it airs at any instant, as a pure function of its definition.
//!
//! A definition is a list of immutable revisions. Each runs through whole cycles of fixed length, whatever their order, so
//! that any instant is found by division and nothing is counted up. All instants are channel time.
#![doc = include_str!("README.md")]

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use blocks::BlockSchedule;
use segmentation::SegmentRanges;

use super::time::ChannelMs;

mod aired_before;
mod aired_in_cycle;
pub mod blocks;
pub mod breaks;
mod cycles;
mod item;
mod item_copy;
mod item_description;
mod item_languages;
mod novelty;
mod order;
mod order_cache;
mod programme_iter;
mod revision;
pub mod segmentation;

pub use item::{ScheduleItem, ScheduleItems, assign_ids, assign_ids_after};
pub use item_copy::{COPIED_TARGET_SECONDS, CopiedStart, ItemCopy};
pub use item_description::{ItemDescription, ItemNames};
pub use item_languages::{ItemLanguages, LineupLanguages};
pub use novelty::NoveltyMarks;
pub use order::MAX_CYCLE_PROGRAMMES;
pub use order_cache::OrderCache;
pub use programme_iter::{ProgrammeCursor, ProgrammeIter};
pub use revision::RevisionRequest;

/// The order in which items are aired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ScheduleMode {
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
    /// By time of day: [`blocks::BlockSchedule`].
    Blocks,
}

/// One airing of an item, or of a part of it, from start to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Programme {
    pub revision_index: usize,
    /// Index into that revision's items.
    pub item_index: usize,
    /// Increases with every programme of the channel; never used twice.
    pub ordinal: u64,
    pub start_ms: ChannelMs,
    pub end_ms: ChannelMs,
    /// Media sequence number of its first segment; the next programme's follows its last.
    pub media_sequence: u64,
    /// Discontinuities since the channel's start, the one at this start included.
    pub discontinuities: u64,
    /// Begins a new entry in a guide that hides filler; otherwise it belongs to the entry before.
    pub begins_guide_entry: bool,
    /// Which part of its item; None for the whole item.
    pub part_index: Option<u16>,
    /// Continues a programme that has breaks: it is filler in a break, or the part after one.
    pub continues_programme: bool,
}

/// The content aired from an instant until the next revision begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScheduleRevision {
    /// Increases by one with every change, from 1.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub number: u32,
    pub start_ms: ChannelMs,
    #[serde(default, skip_serializing_if = "crate::domain::is_default")]
    pub first_ordinal: u64,
    /// Media sequence number of its first segment.
    #[serde(default, skip_serializing_if = "crate::domain::is_default")]
    pub first_sequence: u64,
    /// Discontinuities before it and at its start.
    #[serde(rename = "first_change", default, skip_serializing_if = "crate::domain::is_default")]
    pub first_discontinuity: u64,
    pub seed: u64,
    #[serde(default, skip_serializing_if = "crate::domain::is_default")]
    pub mode: ScheduleMode,
    /// The rest of the cycle that was running when this revision began, as item indices; aired first.
    #[serde(rename = "head", default, skip_serializing_if = "<[u32]>::is_empty")]
    pub cycle_rest: Box<[u32]>,
    /// The number of the first whole cycle after the head.
    #[serde(rename = "cycle", default, skip_serializing_if = "crate::domain::is_default")]
    pub first_cycle: u64,
    #[serde(default, skip_serializing_if = "<[Arc<ScheduleItem>]>::is_empty")]
    pub items: ScheduleItems,
    /// How many items at the end of the list are mid-roll filler instead of programmes; with blocks, [`BlockSchedule`]
    /// says so.
    #[serde(rename = "mid", default, skip_serializing_if = "crate::domain::is_default")]
    pub mid_roll_count: u32,
    /// Only with `ScheduleMode::Blocks`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Arc<BlockSchedule>>,
    /// Its position in the varieties for clients to which items are copied; None before any item can be.
    #[serde(rename = "copied", default, skip_serializing_if = "Option::is_none")]
    pub copied_start: Option<Box<CopiedStart>>,
    /// Every start of a programme is a discontinuity, as in such a variety.
    #[serde(skip)]
    pub marks_every_start: bool,
    #[serde(skip)]
    pub order_cache: OrderCache,
}

/// All revisions, sorted by start. No two start together, and each has items.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScheduleDefinition {
    pub revisions: Box<[ScheduleRevision]>,
}

impl ScheduleDefinition {
    /// The programme on air at an instant; None before the channel's first.
    pub fn programme_at(&self, at_ms: ChannelMs) -> Option<Programme> {
        ProgrammeIter::starting_at(self, at_ms).next()
    }

    /// All programmes on air between two instants, the one on air at `from_ms` included.
    pub fn programmes_between(&self, from_ms: ChannelMs, to_ms: ChannelMs) -> impl Iterator<Item = Programme> {
        let first = self.revisions.first().map_or(ChannelMs::MAX, |revision| revision.start_ms);
        ProgrammeIter::starting_at(self, from_ms.max(first)).take_while(move |programme| programme.start_ms < to_ms)
    }

    /// Start and end of the programme on air at an instant, breaks included; None before the channel's first.
    pub fn programme_bounds(&self, at_ms: ChannelMs) -> Option<(ChannelMs, ChannelMs)> {
        let mut cursor = ProgrammeCursor::starting_at(self, at_ms);
        cursor.rewind_to_start(self);
        let first = cursor.next_programme(self)?;
        let continuation =
            std::iter::from_fn(|| cursor.next_programme(self)).take_while(|programme| programme.continues_programme);
        Some((first.start_ms, continuation.last().map_or(first.end_ms, |last| last.end_ms)))
    }

    /// Whether it is filler, between programmes or within one.
    pub fn is_filler(&self, programme: &Programme) -> bool {
        programme.item_index >= self.revisions[programme.revision_index].programme_items().len()
    }

    pub fn is_slate(&self, programme: &Programme) -> bool {
        let blocks = self.revisions[programme.revision_index].blocks.as_ref();
        blocks.is_some_and(|blocks| programme.item_index == blocks.slate_item as usize)
    }

    pub fn item_of(&self, programme: &Programme) -> &ScheduleItem {
        &self.revisions[programme.revision_index].items[programme.item_index]
    }

    pub fn segment_ranges(&self, programme: &Programme) -> SegmentRanges {
        let item = self.item_of(programme);
        item.segmentation.ranges(item.part(programme.part_index), programme.end_ms - programme.start_ms)
    }

    fn revision_at(&self, at_ms: ChannelMs) -> Option<usize> {
        self.revisions.partition_point(|revision| revision.start_ms <= at_ms).checked_sub(1)
    }

    fn revision_end_ms(&self, revision_index: usize) -> ChannelMs {
        self.revisions.get(revision_index + 1).map_or(ChannelMs::MAX, |next| next.start_ms)
    }
}

impl ScheduleRevision {
    fn total_ms(&self, order: &[u32]) -> i64 {
        order.iter().map(|index| self.items[*index as usize].duration_ms).sum()
    }

    fn total_segments(&self, order: &[u32]) -> u64 {
        order.iter().map(|index| self.items[*index as usize].segmentation.segment_count()).sum()
    }

    /// Whether its items differ in video format. Then every start of a programme is a discontinuity: which neighbours differ
    /// depends on the order of every cycle, and counting that would mean walking through all of them.
    fn has_mixed_formats(&self) -> bool {
        self.marks_every_start || self.items.windows(2).any(|pair| pair[0].video_format != pair[1].video_format)
    }
}

fn first() -> u32 {
    1
}

fn is_first(number: &u32) -> bool {
    *number == first()
}

#[cfg(test)]
pub mod tests;
