//! Breaks: where a programme may be broken, and which filler is aired there.
//!
//! A programme is broken at the chapters of its file and nowhere else: whoever cut the film marked its scenes, and nobody
//! wants it to stop in the middle of a sentence.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::order::{Pool, mix};
use super::{Item, Mode, Revision};
use crate::domain::grid::Grid;

/// No break comes nearer to a programme's beginning or end, ms: it is to be under way before it is broken, and nobody
/// comes back for the credits, which are most films' last chapter.
const EDGE_MS: i64 = 5 * 60_000;

/// Breaks lie at least so far apart, ms: films have a chapter every three to eight minutes, and what is broken at each is
/// unwatchable. Television airs ten to fifteen minutes between two.
const APART_MS: i64 = 10 * 60_000;

/// Sets the order of filler apart from that of programmes.
const SALT: u64 = 0x6d69_6472;

/// A place where an item may be broken; frozen with its cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u32, u32)", into = "(u32, u32)")]
pub struct Break {
    /// The first segment behind it.
    pub segment: u32,
    /// Where that begins, ms from the item's start.
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

/// What lies between two breaks of an item, or all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its first segment, and the first behind it, counted from the item's start.
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

/// Where an item of this length may be broken: at the bound of its segments nearest to each mark (ticks from its start),
/// the first that will do and then each that lies far enough behind.
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
    /// One of its parts; None for all of it.
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
    /// Programmes it airs; what lies behind them is filler.
    pub fn content(&self) -> &[Arc<Item>] {
        let content = self
            .blocks
            .as_ref()
            .map_or(self.items.len().saturating_sub(self.mid as usize), |blocks| blocks.content as usize);
        &self.items[..content.min(self.items.len())]
    }

    /// Whether something is aired in its programmes' breaks.
    pub fn is_broken(&self) -> bool {
        self.mid > 0 || self.blocks.as_ref().is_some_and(|blocks| !blocks.filler.mid.is_empty())
    }

    /// How often an item is broken.
    pub(super) fn breaks_of(&self, item: u32) -> u64 {
        if self.mid == 0 { 0 } else { self.items[item as usize].breaks.len() as u64 }
    }

    /// The filler of one round, as indices of items: filler is aired in turn, each once in a round, each round in an order of
    /// its own. So any number of breaks takes a time that is found by division.
    pub(super) fn round(&self, round: u64) -> Vec<u32> {
        let first = self.content().len();
        let seed = mix(self.seed, SALT, u64::from(self.number));
        let pool = Pool { items: &self.items[first..], mode: Mode::Shuffle, seed };
        pool.order(round).into_iter().map(|index| first as u32 + index).collect()
    }
}

#[cfg(test)]
mod tests;
