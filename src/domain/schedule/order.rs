//! Shuffle and the other orders: in which order a cycle airs its items. Fixed for ever: what is aired when depends on every
//! line here.

use std::collections::HashMap;
use std::sync::Arc;

use super::{ScheduleItem, ScheduleMode, ScheduleRevision};

pub const MAX_CYCLE_PROGRAMMES: usize = 20_000;

/// How often `random` airs each item in a cycle; this bounds how long an item may be absent.
const RANDOM_COPIES: usize = 4;

/// Minimum number of other items between two airings of one across a cycle's end; a third of all items if that is less.
const MIN_DISTANCE: usize = 20;

/// Items aired in cycles of equal length.
#[derive(Clone, Copy)]
pub(super) struct CyclePool<'a> {
    pub items: &'a [Arc<ScheduleItem>],
    pub mode: ScheduleMode,
    pub seed: u64,
}

impl ScheduleRevision {
    fn pool(&self) -> CyclePool<'_> {
        CyclePool { items: self.programme_items(), mode: self.mode, seed: self.seed }
    }

    /// Item indices of one cycle in the order they are aired. Every cycle has the same items, so the same length.
    pub fn cycle_order(&self, cycle: u64) -> Vec<u32> {
        self.pool().cycle_order(cycle)
    }

    pub fn programmes_per_cycle(&self) -> u64 {
        self.pool().programmes_per_cycle()
    }

    /// Length of one cycle without breaks.
    pub fn cycle_ms(&self) -> i64 {
        self.programme_items().iter().map(|item| self.mode.copies_per_cycle(item) as i64 * item.duration_ms).sum()
    }

    /// Segments of one cycle without breaks.
    pub fn cycle_segments(&self) -> u64 {
        self.programme_items()
            .iter()
            .map(|item| self.mode.copies_per_cycle(item) as u64 * item.segmentation.segment_count())
            .sum()
    }
}

impl CyclePool<'_> {
    /// Item indices of one cycle in the order they are aired. Every cycle has the same items, so the same length.
    pub fn cycle_order(&self, cycle: u64) -> Vec<u32> {
        let items = self.items;
        match self.mode {
            ScheduleMode::Sequential => (0..items.len() as u32).collect(),
            ScheduleMode::Shuffle => {
                let raw = self.ranked_items(cycle);
                separate_from_previous(raw, &self.ranked_items(cycle.wrapping_sub(1)))
            }
            ScheduleMode::ShuffleInOrder => restore_episode_order(self.ranked_items(cycle), items),
            ScheduleMode::Blocks => Vec::new(),
            ScheduleMode::Random | ScheduleMode::Weighted => {
                let raw = self.ranked_copies(cycle);
                let before = self.ranked_copies(cycle.wrapping_sub(1));
                separate_repeats(raw, before.last().copied())
            }
        }
    }

    pub fn programmes_per_cycle(&self) -> u64 {
        self.items.iter().map(|item| self.mode.copies_per_cycle(item) as u64).sum()
    }

    /// Items sorted by a hash of their own, so adding or removing one keeps the order of the others.
    fn ranked_items(&self, cycle: u64) -> Vec<u32> {
        let mut ranked: Vec<(u64, u64, u32)> = (0u32..)
            .zip(self.items)
            .map(|(index, item)| (mix_to_u64(self.seed, cycle, item.id), item.id, index))
            .collect();
        ranked.sort_unstable();
        ranked.into_iter().map(|(_, _, index)| index).collect()
    }

    /// Every copy of every item sorted by a hash of its own; `weighted` keeps each copy within its share of the cycle.
    fn ranked_copies(&self, cycle: u64) -> Vec<u32> {
        let is_spread = self.mode == ScheduleMode::Weighted;
        let mut ranked: Vec<(u64, u64, u32)> = Vec::new();
        for (index, item) in (0u32..).zip(self.items) {
            let copies = self.mode.copies_per_cycle(item) as u64;
            for copy in 0..copies {
                let id = mix_to_u64(item.id, copy, 0);
                let hash = mix_to_u64(self.seed, cycle, id);
                let share = u64::MAX / copies;
                let rank = if is_spread { copy * share + hash / copies } else { hash };
                ranked.push((rank, id, index));
            }
        }
        ranked.sort_unstable();
        ranked.into_iter().map(|(_, _, index)| index).collect()
    }
}

impl ScheduleMode {
    pub(super) fn copies_per_cycle(self, item: &ScheduleItem) -> usize {
        match self {
            ScheduleMode::Sequential | ScheduleMode::Shuffle | ScheduleMode::ShuffleInOrder => 1,
            ScheduleMode::Blocks => 0,
            ScheduleMode::Random => RANDOM_COPIES,
            ScheduleMode::Weighted => item.weight as usize,
        }
    }
}

/// Mixes three numbers into 64 bits: the finaliser of SplitMix64 (Steele, Lea, Flood 2014) over each in turn.
pub(super) fn mix_to_u64(seed: u64, cycle: u64, id: u64) -> u64 {
    [cycle, id].into_iter().fold(splitmix_finish(seed), |state, part| splitmix_finish(state ^ splitmix_finish(part)))
}

fn splitmix_finish(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Moves items that ended the previous cycle away from the beginning of this one. The last third is never touched, so only
/// the raw order of the previous cycle is needed.
fn separate_from_previous(raw: Vec<u32>, before: &[u32]) -> Vec<u32> {
    let gap = MIN_DISTANCE.min(raw.len() / 3);
    let recent = &before[before.len() - gap..];
    let (front, tail) = raw.split_at(raw.len() - gap);
    let mut front_items: Vec<u32> = Vec::with_capacity(raw.len());
    let mut recent_items: Vec<u32> = Vec::with_capacity(3 * gap);
    let mut rest = front.iter();
    // At most `gap` items are recent, so the search is short.
    while front_items.len() < gap
        && let Some(index) = rest.next()
    {
        let target = if recent.contains(index) { &mut recent_items } else { &mut front_items };
        target.push(*index);
    }
    front_items.append(&mut recent_items);
    front_items.extend(rest);
    front_items.extend(tail);
    front_items
}

/// Keeps the positions of each show and fills them with its episodes as listed.
fn restore_episode_order(raw: Vec<u32>, items: &[Arc<ScheduleItem>]) -> Vec<u32> {
    let mut episodes: HashMap<&str, Vec<u32>> = HashMap::new();
    for (index, item) in items.iter().enumerate().rev() {
        episodes.entry(item.show_folder()).or_default().push(index as u32);
    }
    let next = |index: u32| episodes.get_mut(items[index as usize].show_folder()).and_then(Vec::pop);
    raw.into_iter().filter_map(next).collect()
}

/// Separates equal neighbours where another item can go between. The last position is never touched, so the next cycle needs
/// only the raw order of this one.
fn separate_repeats(mut list: Vec<u32>, before: Option<u32>) -> Vec<u32> {
    let end = list.len().saturating_sub(1);
    let mut previous = before;
    for index in 0..end {
        if previous == Some(list[index])
            && let Some(other) = (index + 1..end).find(|other| list[*other] != list[index])
        {
            list.swap(index, other);
        }
        previous = Some(list[index]);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_is_fixed_for_ever() {
        assert_eq!(mix_to_u64(0, 0, 0), GOLDEN[0]);
        assert_eq!(mix_to_u64(42, 7, 0x0123_4567_89ab_cdef), GOLDEN[1]);
        assert_eq!(mix_to_u64(u64::MAX, u64::MAX, 1), GOLDEN[2]);
    }

    /// From an independent implementation.
    const GOLDEN: [u64; 3] = [0xe220_a839_7b1d_cdaf, 0xb478_25b9_accf_a342, 0xd300_120a_5ea3_5cac];
}
