//! How an item is cut into segments when it is aired; frozen with its length, so that no file has to be opened to know
//! what a playlist says.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::breaks::Part;
use crate::domain::grid::{Frames, Grid};
use crate::domain::time::ticks;

/// Length of the segments of pieces that are no item's, ticks.
const STEP: i64 = 180_000;

/// A last piece shorter than this joins the one before, ticks.
const LEAST: i64 = 27_000;

/// The segments of an item that is aired whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "by")]
pub enum Cut {
    /// Encoded pictures.
    Frames(Frames),
    /// Sound alone.
    Steps { step: i64, end: i64 },
    /// Copied pictures, at their keyframes.
    Keyframes(Keyframes),
}

/// Bounds of copied segments. Long lists, the same for every channel that airs the file: they are kept once, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keyframes {
    pub name: String,
    pub segments: u32,
    /// Ticks.
    pub end: i64,
    /// Where the first picture stands in the file, ticks: that is the item's 0, so that it follows the last of the item
    /// before as closely as its own second does.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lead: i64,
    /// Ticks, with the item's end as the last. None when they were lost; then segments count as equally long.
    #[serde(skip)]
    pub bounds: Option<Arc<[i64]>>,
}

/// What a picture must have in common with the one before, so that players need not be told of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// Pixels, as coded.
    pub width: u32,
    pub height: u32,
    /// Profile and pixel aspect of what is copied, empty for what is encoded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
}

impl Default for Cut {
    fn default() -> Self {
        Self::Steps { step: STEP, end: 1 }
    }
}

impl Cut {
    /// A grid as it is frozen.
    pub fn of(grid: &Grid) -> Self {
        match grid {
            Grid::Frames(frames) => Self::Frames(frames.clone()),
            Grid::Steps { step, end } => Self::Steps { step: *step, end: *end },
            Grid::Keyframes { bounds } => Self::copied(bounds, 0),
        }
    }

    /// The cut of copied pictures of which the first stands at `lead`, below the second bound.
    pub fn copied(bounds: &[i64], lead: i64) -> Self {
        let bounds: Arc<[i64]> = bounds.iter().map(|bound| (bound - lead).max(0)).collect();
        Self::Keyframes(Keyframes {
            name: name(&bounds),
            segments: bounds.len() as u32 - 1,
            end: bounds.last().copied().unwrap_or_default(),
            lead,
            bounds: Some(bounds),
        })
    }

    /// Whether it is not known any more where its segments begin.
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Keyframes(Keyframes { bounds: None, .. }))
    }

    /// Where the item's 0 stands in its file, ticks.
    pub fn lead(&self) -> i64 {
        match self {
            Self::Keyframes(keyframes) => keyframes.lead,
            Self::Frames(_) | Self::Steps { .. } => 0,
        }
    }

    pub fn grid(&self) -> Grid {
        match self {
            Self::Frames(frames) => Grid::Frames(frames.clone()),
            Self::Steps { step, end } => Grid::Steps { step: *step, end: *end },
            Self::Keyframes(Keyframes { bounds: Some(bounds), .. }) => Grid::Keyframes { bounds: bounds.clone() },
            Self::Keyframes(Keyframes { segments, end, .. }) => Grid::Keyframes { bounds: even(*segments, *end) },
        }
    }

    /// Segments of the whole item.
    pub fn segments(&self) -> u64 {
        match self {
            Self::Frames(frames) => frames.len() as u64,
            Self::Steps { step, end } => ((end + step - 1).div_euclid((*step).max(1))).max(1) as u64,
            Self::Keyframes(keyframes) => u64::from(keyframes.segments.max(1)),
        }
    }

    /// Segments of `aired_ms` of a part of an item: its own as far as they fit, then pieces without it.
    pub fn spans(&self, part: Part, aired_ms: i64) -> Spans {
        let (duration_ms, count) = (part.duration_ms(), part.until - part.first);
        let (whole, length) = (duration_ms * 90, aired_ms * 90);
        let (mut grid, mut first) = (self.grid(), part.first);
        if self.is_lost() && duration_ms > 0 {
            (grid, first) = (Grid::Keyframes { bounds: even(count as u32, whole) }, 0);
        }
        let zero = grid.start(first);
        if duration_ms <= 0 {
            return Spans { grid, first, zero, own: 0, own_end: 0, length };
        }
        let own = if aired_ms >= duration_ms {
            count
        } else {
            let fits = grid.at(zero + length) - first;
            let fits = if grid.start(first + fits + 1) - zero <= length { fits + 1 } else { fits };
            fits.min(count)
        };
        let own_end = if aired_ms >= duration_ms { whole } else { (grid.start(first + own) - zero).min(length) };
        Spans { grid, first, zero, own, own_end, length }
    }
}

/// Bounds of so many segments, all of one length.
fn even(segments: u32, end: i64) -> Arc<[i64]> {
    let segments = segments.max(1);
    (0..=segments).map(|k| (i128::from(end) * i128::from(k) / i128::from(segments)) as i64).collect()
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(ticks: &i64) -> bool {
    *ticks == 0
}

/// A name of bounds: the same list has the same one everywhere.
fn name(bounds: &[i64]) -> String {
    let mut hasher = blake3::Hasher::new();
    for bound in bounds {
        hasher.update(&bound.to_le_bytes());
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

/// The segments of one programme.
#[derive(Clone, Debug)]
pub struct Spans {
    grid: Grid,
    /// The item's segment it begins with, and where that begins in the item, ticks.
    first: usize,
    zero: i64,
    /// How many are the item's own.
    own: usize,
    own_end: i64,
    length: i64,
}

impl Spans {
    /// How many there are; at least one in any time at all.
    pub fn len(&self) -> usize {
        self.own + self.rest()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pieces behind the item's own.
    fn rest(&self) -> usize {
        let rest = self.length - self.own_end;
        let full = rest / STEP;
        let more = rest - full * STEP;
        (full + i64::from(more >= LEAST || (full == 0 && more > 0))) as usize
    }

    /// Where its first instant lies in the item, ticks.
    pub fn zero(&self) -> i64 {
        self.zero
    }

    /// How many show the item.
    pub fn own(&self) -> usize {
        self.own
    }

    /// Whether a segment shows the item.
    pub fn is_own(&self, k: usize) -> bool {
        k < self.own
    }

    /// Whether a segment is the last that shows the item.
    pub fn closes(&self, k: usize) -> bool {
        k + 1 == self.own
    }

    /// Where segment `k` begins, ticks from the programme's start; for `k == len()` its end.
    pub fn start(&self, k: usize) -> i64 {
        if k >= self.len() {
            self.length
        } else if k < self.own {
            self.grid.start(self.first + k) - self.zero
        } else {
            self.own_end + (k - self.own) as i64 * STEP
        }
    }

    pub fn end(&self, k: usize) -> i64 {
        if k + 1 == self.own { self.own_end } else { self.start(k + 1) }
    }

    /// The segment on air at an instant of the programme, ticks.
    pub fn at(&self, at: i64) -> usize {
        if at < self.own_end {
            return (self.grid.at(self.zero + at) - self.first).min(self.own.saturating_sub(1));
        }
        (self.own + ((at - self.own_end) / STEP) as usize).min(self.len().saturating_sub(1))
    }
}

/// The longest segment a programme may have, seconds, rounded as a playlist's target duration is.
pub fn longest(grid: &Grid) -> u64 {
    grid.target_duration().max((STEP as u64 + 45_000) / 90_000)
}

/// A frozen length that fits a cut: milliseconds nearest to its end.
pub fn duration_ms(grid: &Grid) -> i64 {
    (grid.end() + 45) / 90
}

/// As [`duration_ms`], for a length in seconds.
pub fn steps(seconds: f64) -> Cut {
    Cut::Steps { step: STEP, end: ticks(seconds).max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::FrameRate;
    use proptest::prelude::*;

    fn a_grid() -> impl Strategy<Value = Grid> {
        prop_oneof![
            (0.5f64..400.0).prop_map(|end| Grid::frames(FrameRate { num: 24_000, den: 1001 }, 2.0, end)),
            (0.5f64..400.0).prop_map(|end| Grid::steps(2.0, end)),
            (prop::collection::vec(1i64..30_000_000, 0..90), 0.5f64..400.0).prop_map(|(mut keys, end)| {
                keys.sort_unstable();
                Grid::keyframes(&keys, 2.0, end)
            }),
        ]
    }

    proptest! {
        /// However much of an item is aired, its segments fill it without gap or overlap.
        #[test]
        fn spans_tile_the_programme(grid in a_grid(), part in 0.0f64..1.6) {
            let cut = Cut::of(&grid);
            prop_assert_eq!(cut.grid(), grid.clone());
            prop_assert_eq!(cut.segments(), grid.len() as u64);
            let duration = duration_ms(&grid);
            let aired = ((duration as f64 * part) as i64).max(1);
            let whole = Part { first: 0, until: grid.len(), from_ms: 0, to_ms: duration };
            let spans = cut.spans(whole, aired);
            prop_assert!(!spans.is_empty());
            prop_assert_eq!(spans.start(0), 0);
            prop_assert_eq!(spans.end(spans.len() - 1), aired * 90);
            for k in 0..spans.len() {
                prop_assert!(spans.end(k) > spans.start(k), "{} of {:?}", k, spans);
                prop_assert_eq!(spans.end(k), spans.start(k + 1));
                prop_assert_eq!(spans.at(spans.start(k)), k);
                prop_assert_eq!(spans.at(spans.end(k) - 1), k);
                prop_assert!(!spans.is_own(k) || spans.start(k) == grid.start(k));
            }
            prop_assert_eq!(cut.spans(whole, duration).len() as u64, cut.segments());
        }
    }

    #[test]
    fn lost_bounds_keep_their_count() {
        let grid = Grid::keyframes(&[200_000, 400_000, 900_000], 2.0, 12.0);
        let text = serde_json::to_string(&Cut::of(&grid)).unwrap();
        let lost: Cut = serde_json::from_str(&text).unwrap();
        assert_eq!(lost.segments(), grid.len() as u64);
        assert_eq!((lost.grid().len(), lost.grid().end()), (grid.len(), grid.end()));
    }
}
