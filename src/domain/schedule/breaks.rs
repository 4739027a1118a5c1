//! Breaks: where a programme may be interrupted, and which filler is aired there.
//!
//! A programme is interrupted only at chapters of its file, because chapters mark scenes: a break never comes in the middle
//! of a sentence.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::order::{Pool, mix};
use super::{Item, Mode, Revision};
use crate::domain::grid::Grid;

/// Minimum distance of a break from a programme's start and end, ms. The programme gets time to start, and most films' last
/// chapter is the credits.
const EDGE_MS: i64 = 5 * 60_000;

/// Minimum distance between two breaks, ms. Films have a chapter every three to eight minutes, and a break at each would be
/// unwatchable. Television airs ten to fifteen minutes between two.
const APART_MS: i64 = 10 * 60_000;

/// Makes the order of filler differ from that of programmes.
const SALT: u64 = 0x6d69_6472;

/// A possible break position, frozen with the item's segmentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u32, u32)", into = "(u32, u32)")]
pub struct Break {
    /// The first segment after it.
    pub segment: u32,
    /// Start of that segment, ms from the item's start.
    pub at_ms: u32,
}

impl From<(u32, u32)> for Break {
    fn from((segment, at_ms): (u32, u32)) -> Self {
        Self { segment, at_ms }
    }
}

impl From<Break> for (u32, u32) {
    fn from(Break { segment, at_ms }: Break) -> Self {
        (segment, at_ms)
    }
}

/// The part of an item between two breaks, or the whole item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its first segment and the first after it, counted from the item's start.
    pub first: usize,
    pub until: usize,
    /// Ms from the item's start.
    pub from_ms: i64,
    pub to_ms: i64,
}

impl Part {
    pub fn duration_ms(&self) -> i64 {
        self.to_ms - self.from_ms
    }
}

/// Break positions of an item: the segment bound nearest to each mark (ticks from the item's start). The first suitable one
/// is taken, then each one far enough after the last.
pub fn places(marks: impl IntoIterator<Item = i64>, grid: &Grid, duration_ms: i64) -> Box<[Break]> {
    let mut marks: Vec<i64> = marks.into_iter().filter(|mark| (1..grid.end()).contains(mark)).collect();
    marks.sort_unstable();
    let mut places: Vec<Break> = Vec::new();
    for mark in marks {
        let before = grid.at(mark);
        let nearer = mark - grid.start(before) > grid.start(before + 1) - mark;
        let segment = before + usize::from(nearer);
        let at_ms = (grid.start(segment) + 45) / 90;
        let least = places.last().map_or(EDGE_MS, |last| i64::from(last.at_ms) + APART_MS);
        if (least..=duration_ms - EDGE_MS).contains(&at_ms)
            && segment < grid.len()
            && let (Ok(segment), Ok(at_ms)) = (u32::try_from(segment), u32::try_from(at_ms))
        {
            places.push(Break { segment, at_ms });
        }
    }
    places.into()
}

impl Item {
    /// One of its parts; None for the whole item.
    pub fn part(&self, part: Option<u16>) -> Part {
        let segments = self.cut.segments() as usize;
        let bound = |place: usize| match (place.checked_sub(1), self.breaks.get(place.wrapping_sub(1))) {
            (None, _) => (0, 0),
            (_, Some(place)) => (place.segment as usize, i64::from(place.at_ms)),
            (_, None) => (segments, self.duration_ms),
        };
        let part = part.map(usize::from);
        let (first, from_ms) = bound(part.unwrap_or(0));
        let (until, to_ms) = part.map_or((segments, self.duration_ms), |part| bound(part + 1));
        Part { first, until, from_ms, to_ms }
    }
}

impl Revision {
    /// The items aired as programmes; the items after them are filler.
    pub fn content(&self) -> &[Arc<Item>] {
        let content = self
            .blocks
            .as_ref()
            .map_or(self.items.len().saturating_sub(self.mid as usize), |blocks| blocks.content as usize);
        &self.items[..content.min(self.items.len())]
    }

    /// Whether it has filler for breaks within programmes.
    pub fn is_broken(&self) -> bool {
        self.mid > 0 || self.blocks.as_ref().is_some_and(|blocks| !blocks.filler.mid.is_empty())
    }

    /// Number of breaks in an item.
    pub(super) fn breaks_of(&self, item: u32) -> u64 {
        if self.mid == 0 { 0 } else { self.items[item as usize].breaks.len() as u64 }
    }

    /// The filler of one round, as item indices. Each is aired once per round, in a new order each round, so the length of
    /// any number of breaks is found by division.
    pub(super) fn round(&self, round: u64) -> Vec<u32> {
        let first = self.content().len();
        let seed = mix(self.seed, SALT, u64::from(self.number));
        let pool = Pool { items: &self.items[first..], mode: Mode::Shuffle, seed };
        pool.order(round).into_iter().map(|index| first as u32 + index).collect()
    }
}

#[cfg(test)]
mod tests;
