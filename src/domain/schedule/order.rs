//! Shuffle and the other orders: in which order a cycle airs its items. Fixed for ever: what is aired when depends on every
//! line here.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Item, Mode, Revision};

/// Maximum number of programmes in a cycle.
pub const MAX_SLOTS: usize = 20_000;

/// How often `random` airs each item in a cycle; this bounds how long an item may be absent.
const DRAWS: usize = 4;

/// Minimum number of other items between two airings of one across a cycle's end; a third of all items if that is less.
const APART: usize = 20;

/// Items aired in cycles of equal length.
#[derive(Clone, Copy)]
pub(super) struct Pool<'a> {
    pub items: &'a [Arc<Item>],
    pub mode: Mode,
    pub seed: u64,
}

impl Revision {
    fn pool(&self) -> Pool<'_> {
        Pool { items: self.content(), mode: self.mode, seed: self.seed }
    }

    /// Item indices of one cycle in the order they are aired. Every cycle has the same items, so the same length.
    pub fn order(&self, cycle: u64) -> Vec<u32> {
        self.pool().order(cycle)
    }

    /// How often a cycle airs an item.
    pub fn copies(&self, item: &Item) -> usize {
        self.mode.copies(item)
    }

    /// Programmes of one cycle.
    pub fn slots(&self) -> u64 {
        self.pool().slots()
    }

    /// Length of one cycle without breaks.
    pub fn cycle_ms(&self) -> i64 {
        self.content().iter().map(|item| self.copies(item) as i64 * item.duration_ms).sum()
    }

    /// Segments of one cycle without breaks.
    pub fn cycle_segments(&self) -> u64 {
        self.content().iter().map(|item| self.copies(item) as u64 * item.cut.segments()).sum()
    }
}

impl Pool<'_> {
    /// Item indices of one cycle in the order they are aired. Every cycle has the same items, so the same length.
    pub fn order(&self, cycle: u64) -> Vec<u32> {
        let items = self.items;
        match self.mode {
            Mode::Sequential => (0..items.len() as u32).collect(),
            Mode::Shuffle => {
                let raw = self.ranked(cycle);
                apart(raw, &self.ranked(cycle.wrapping_sub(1)))
            }
            Mode::ShuffleInOrder => in_order(self.ranked(cycle), items),
            Mode::Blocks => Vec::new(),
            Mode::Random | Mode::Weighted => {
                let raw = self.drawn(cycle);
                let before = self.drawn(cycle.wrapping_sub(1));
                unrepeated(raw, before.last().copied())
            }
        }
    }

    /// Programmes of one cycle.
    pub fn slots(&self) -> u64 {
        self.items.iter().map(|item| self.mode.copies(item) as u64).sum()
    }

    /// Items sorted by a hash of their own, so adding or removing one keeps the order of the others.
    fn ranked(&self, cycle: u64) -> Vec<u32> {
        let mut ranked: Vec<(u64, u64, u32)> =
            (0u32..).zip(self.items).map(|(index, item)| (mix(self.seed, cycle, item.id), item.id, index)).collect();
        ranked.sort_unstable();
        ranked.into_iter().map(|(_, _, index)| index).collect()
    }

    /// Every copy of every item sorted by a hash of its own; `weighted` keeps each copy within its share of the cycle.
    fn drawn(&self, cycle: u64) -> Vec<u32> {
        let spread = self.mode == Mode::Weighted;
        let mut drawn: Vec<(u64, u64, u32)> = Vec::new();
        for (index, item) in (0u32..).zip(self.items) {
            let copies = self.mode.copies(item) as u64;
            for copy in 0..copies {
                let id = mix(item.id, copy, 0);
                let hash = mix(self.seed, cycle, id);
                let share = u64::MAX / copies;
                let rank = if spread { copy * share + hash / copies } else { hash };
                drawn.push((rank, id, index));
            }
        }
        drawn.sort_unstable();
        drawn.into_iter().map(|(_, _, index)| index).collect()
    }
}

impl Mode {
    /// How often a cycle airs an item.
    fn copies(self, item: &Item) -> usize {
        match self {
            Mode::Sequential | Mode::Shuffle | Mode::ShuffleInOrder => 1,
            Mode::Blocks => 0,
            Mode::Random => DRAWS,
            Mode::Weighted => item.weight as usize,
        }
    }
}

/// Mixes three numbers into 64 bits: the finaliser of SplitMix64 (Steele, Lea, Flood 2014) over each in turn.
pub(super) fn mix(seed: u64, cycle: u64, id: u64) -> u64 {
    [cycle, id].into_iter().fold(finish(seed), |state, part| finish(state ^ finish(part)))
}

fn finish(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Moves items that ended the previous cycle away from the beginning of this one. The last third is never touched, so only
/// the raw order of the previous cycle is needed.
fn apart(raw: Vec<u32>, before: &[u32]) -> Vec<u32> {
    let gap = APART.min(raw.len() / 3);
    let recent = &before[before.len() - gap..];
    let (front, tail) = raw.split_at(raw.len() - gap);
    let mut fresh: Vec<u32> = Vec::with_capacity(raw.len());
    let mut left: Vec<u32> = Vec::with_capacity(3 * gap);
    let mut rest = front.iter();
    // At most `gap` items are recent, so the search is short.
    while fresh.len() < gap
        && let Some(index) = rest.next()
    {
        let to = if recent.contains(index) { &mut left } else { &mut fresh };
        to.push(*index);
    }
    fresh.append(&mut left);
    fresh.extend(rest);
    fresh.extend(tail);
    fresh
}

/// Keeps the positions of each show and fills them with its episodes as listed.
fn in_order(raw: Vec<u32>, items: &[Arc<Item>]) -> Vec<u32> {
    let mut episodes: HashMap<&str, Vec<u32>> = HashMap::new();
    for (index, item) in items.iter().enumerate().rev() {
        episodes.entry(item.show()).or_default().push(index as u32);
    }
    let next = |index: u32| episodes.get_mut(items[index as usize].show()).and_then(Vec::pop);
    raw.into_iter().filter_map(next).collect()
}

/// Separates equal neighbours where another item can go between. The last position is never touched, so the next cycle needs
/// only the raw order of this one.
fn unrepeated(mut list: Vec<u32>, before: Option<u32>) -> Vec<u32> {
    let end = list.len().saturating_sub(1);
    let mut previous = before;
    for at in 0..end {
        if previous == Some(list[at])
            && let Some(other) = (at + 1..end).find(|other| list[*other] != list[at])
        {
            list.swap(at, other);
        }
        previous = Some(list[at]);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_is_fixed_for_ever() {
        assert_eq!(mix(0, 0, 0), GOLDEN[0]);
        assert_eq!(mix(42, 7, 0x0123_4567_89ab_cdef), GOLDEN[1]);
        assert_eq!(mix(u64::MAX, u64::MAX, 1), GOLDEN[2]);
    }

    /// From an independent implementation.
    const GOLDEN: [u64; 3] = [0xe220_a839_7b1d_cdaf, 0xb478_25b9_accf_a342, 0xd300_120a_5ea3_5cac];
}
