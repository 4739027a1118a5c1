//! Segmentation of an item on air. It is frozen with the item's length, so a playlist can be written without opening a file.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::breaks::Part;
use crate::domain::grid::{Frames, Grid};
use crate::domain::time::ticks;

/// Length of segments that show no item (slate), ticks.
const STEP: i64 = 180_000;

/// A last segment shorter than this joins the one before, ticks.
const LEAST: i64 = 27_000;

/// The segments of an item that is aired whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "by")]
pub enum Cut {
    /// Encoded video.
    Frames(Frames),
    /// Audio alone.
    Steps { step: i64, end: i64 },
    /// Copied video, split at its keyframes.
    Keyframes(Keyframes),
}

/// Bounds of copied segments. The lists are long and the same for every channel that airs the file, so each is stored once
/// under its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keyframes {
    pub name: String,
    #[serde(rename = "segments")]
    pub segments: u32,
    /// Ticks.
    #[serde(rename = "end")]
    pub end: i64,
    /// Time of the first frame in the file, ticks. It becomes the item's 0, so the first frame follows the previous item's
    /// last frame without a gap.
    #[serde(rename = "lead", default, skip_serializing_if = "is_zero")]
    pub lead: i64,
    /// Ticks, with the item's end as the last. None if they were lost; then all segments count as equally long.
    #[serde(skip)]
    pub bounds: Option<Arc<[i64]>>,
}

/// The properties of a video stream that may not change between two items without a discontinuity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// Pixels, as coded.
    pub width: u32,
    pub height: u32,
    /// Profile and pixel aspect of copied video, empty for encoded video.
    #[serde(rename = "kind", default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
}

impl Default for Cut {
    fn default() -> Self {
        Self::Steps { step: STEP, end: 1 }
    }
}

impl Cut {
    /// Freezes a grid.
    pub fn of(grid: &Grid) -> Self {
        match grid {
            Grid::Frames(frames) => Self::Frames(frames.clone()),
            Grid::Steps { step, end } => Self::Steps { step: *step, end: *end },
            Grid::Keyframes { bounds } => Self::copied(bounds, 0),
        }
    }

    /// The segmentation of copied video whose first frame is at `lead`, before the second bound.
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

    /// Whether the segment bounds were lost.
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Keyframes(Keyframes { bounds: None, .. }))
    }

    /// Position of the item's 0 in its file, ticks.
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

    /// The segments of the first `aired_ms` of a part: the item's own as far as they fit, then segments that do not show it.
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

/// Bounds of equally long segments.
fn even(segments: u32, end: i64) -> Arc<[i64]> {
    let segments = segments.max(1);
    (0..=segments).map(|k| (i128::from(end) * i128::from(k) / i128::from(segments)) as i64).collect()
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
fn is_zero(ticks: &i64) -> bool {
    *ticks == 0
}

/// The name of a list of bounds: a hash of its content.
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
    /// The item's segment it begins with, and where that segment begins in the item, ticks.
    first: usize,
    zero: i64,
    /// Number of segments that show the item.
    own: usize,
    own_end: i64,
    length: i64,
}

impl Spans {
    /// Number of segments; at least one if the length is above zero.
    pub fn len(&self) -> usize {
        self.own + self.rest()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of segments after the item's own.
    fn rest(&self) -> usize {
        let rest = self.length - self.own_end;
        let full = rest / STEP;
        let more = rest - full * STEP;
        (full + i64::from(more >= LEAST || (full == 0 && more > 0))) as usize
    }

    /// Position of its start in the item, ticks.
    pub fn zero(&self) -> i64 {
        self.zero
    }

    /// Number of segments that show the item.
    pub fn own(&self) -> usize {
        self.own
    }

    /// Whether a segment shows the item.
    pub fn is_own(&self, k: usize) -> bool {
        k < self.own
    }

    /// Whether a segment is the last one that shows the item.
    pub fn closes(&self, k: usize) -> bool {
        k + 1 == self.own
    }

    /// Start of segment `k`, ticks from the programme's start; its end for `k == len()`.
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

/// The longest segment a programme may have, seconds, rounded like a playlist's target duration.
pub fn longest(grid: &Grid) -> u64 {
    grid.target_duration().max((STEP as u64 + 45_000) / 90_000)
}

/// The frozen length of an item: its end in ms, rounded.
pub fn duration_ms(grid: &Grid) -> i64 {
    (grid.end() + 45) / 90
}

/// The segmentation of audio alone with a length in seconds.
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
