//! Segmentation of an item on air. It is frozen with the item's length, so a playlist can be written without opening a file.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::breaks::ItemPart;
use crate::domain::grid::{FrameGrid, Grid};
use crate::domain::time::to_ticks;

/// Length of segments that show no item (slate), ticks.
const SLATE_SEGMENT_TICKS: i64 = 180_000;

/// A last segment shorter than this joins the one before, ticks.
const MIN_LAST_SEGMENT_TICKS: i64 = 27_000;

/// The segments of an item that is aired whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "by")]
pub enum Segmentation {
    /// Encoded video.
    Frames(FrameGrid),
    /// Audio alone.
    Steps { step: i64, end: i64 },
    /// Copied video, split at its keyframes.
    Keyframes(KeyframeBounds),
}

/// Bounds of copied segments. The lists are long and the same for every channel that airs the file, so each is stored once
/// under its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyframeBounds {
    pub name: String,
    #[serde(rename = "segments")]
    pub segment_count: u32,
    #[serde(rename = "end")]
    pub end_ticks: i64,
    /// Time of the first frame in the file, ticks. It becomes the item's 0, so the first frame follows the previous item's
    /// last frame without a gap.
    #[serde(rename = "lead", default, skip_serializing_if = "crate::domain::is_default")]
    pub first_frame_ticks: i64,
    /// Ticks, with the item's end as the last. None if they were lost; then all segments count as equally long.
    #[serde(skip)]
    pub bounds: Option<Arc<[i64]>>,
}

/// The properties of a video stream that may not change between two items without a discontinuity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VideoFormat {
    /// Pixels, as coded.
    pub width: u32,
    pub height: u32,
    /// Profile and pixel aspect of copied video, empty for encoded video.
    #[serde(rename = "kind", default, skip_serializing_if = "String::is_empty")]
    pub profile_and_aspect: String,
}

impl Default for Segmentation {
    fn default() -> Self {
        Self::Steps { step: SLATE_SEGMENT_TICKS, end: 1 }
    }
}

impl Segmentation {
    pub fn from_grid(grid: &Grid) -> Self {
        match grid {
            Grid::Frames(frames) => Self::Frames(frames.clone()),
            Grid::Steps { step, end } => Self::Steps { step: *step, end: *end },
            Grid::Keyframes { bounds } => Self::from_keyframes(bounds, 0),
        }
    }

    /// The segmentation of copied video whose first frame is at `first_frame_ticks`, before the second bound.
    pub fn from_keyframes(bounds: &[i64], first_frame_ticks: i64) -> Self {
        let bounds: Arc<[i64]> = bounds.iter().map(|bound| (bound - first_frame_ticks).max(0)).collect();
        Self::Keyframes(KeyframeBounds {
            name: bounds_name(&bounds),
            segment_count: bounds.len() as u32 - 1,
            end_ticks: bounds.last().copied().unwrap_or_default(),
            first_frame_ticks,
            bounds: Some(bounds),
        })
    }

    pub fn has_lost_bounds(&self) -> bool {
        matches!(self, Self::Keyframes(KeyframeBounds { bounds: None, .. }))
    }

    /// Position of the item's 0 in its file, ticks.
    pub fn first_frame_ticks(&self) -> i64 {
        match self {
            Self::Keyframes(keyframes) => keyframes.first_frame_ticks,
            Self::Frames(_) | Self::Steps { .. } => 0,
        }
    }

    pub fn grid(&self) -> Grid {
        match self {
            Self::Frames(frames) => Grid::Frames(frames.clone()),
            Self::Steps { step, end } => Grid::Steps { step: *step, end: *end },
            Self::Keyframes(KeyframeBounds { bounds: Some(bounds), .. }) => Grid::Keyframes { bounds: bounds.clone() },
            Self::Keyframes(KeyframeBounds { segment_count, end_ticks, .. }) => {
                Grid::Keyframes { bounds: even_bounds(*segment_count, *end_ticks) }
            }
        }
    }

    pub fn segment_count(&self) -> u64 {
        match self {
            Self::Frames(frames) => frames.len() as u64,
            Self::Steps { step, end } => ((end + step - 1).div_euclid((*step).max(1))).max(1) as u64,
            Self::Keyframes(keyframes) => u64::from(keyframes.segment_count.max(1)),
        }
    }

    /// The segments of the first `aired_ms` of a part: the item's own as far as they fit, then segments that do not show it.
    pub fn ranges(&self, part: ItemPart, aired_ms: i64) -> SegmentRanges {
        let (duration_ms, count) = (part.duration_ms(), part.end_segment - part.first_segment);
        let (part_ticks, aired_ticks) = (duration_ms * 90, aired_ms * 90);
        let (mut grid, mut first) = (self.grid(), part.first_segment);
        if self.has_lost_bounds() && duration_ms > 0 {
            (grid, first) = (Grid::Keyframes { bounds: even_bounds(count as u32, part_ticks) }, 0);
        }
        let start_in_item = grid.segment_start(first);
        let (mut own_count, mut own_end_ticks) = if duration_ms > 0 { (count, part_ticks) } else { (0, 0) };
        if duration_ms > 0 && aired_ms < duration_ms {
            let fits = grid.segment_at(start_in_item + aired_ticks) - first;
            let is_whole = grid.segment_start(first + fits + 1) - start_in_item <= aired_ticks;
            own_count = (fits + usize::from(is_whole)).min(count);
            own_end_ticks = (grid.segment_start(first + own_count) - start_in_item).min(aired_ticks);
        }
        SegmentRanges { grid, first_segment: first, start_in_item, own_count, own_end_ticks, length_ticks: aired_ticks }
    }
}

fn even_bounds(segments: u32, end: i64) -> Arc<[i64]> {
    let segments = segments.max(1);
    (0..=segments).map(|k| (i128::from(end) * i128::from(k) / i128::from(segments)) as i64).collect()
}

/// The name of a list of bounds: a hash of its content.
fn bounds_name(bounds: &[i64]) -> String {
    let mut hasher = blake3::Hasher::new();
    for bound in bounds {
        hasher.update(&bound.to_le_bytes());
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

#[derive(Clone, Debug)]
pub struct SegmentRanges {
    grid: Grid,
    /// The item's segment it begins with, and where that segment begins in the item, ticks.
    first_segment: usize,
    start_in_item: i64,
    /// Number of segments that show the item.
    own_count: usize,
    own_end_ticks: i64,
    length_ticks: i64,
}

impl SegmentRanges {
    /// Number of segments; at least one if the length is above zero.
    pub fn len(&self) -> usize {
        self.own_count + self.trailing_count()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn trailing_count(&self) -> usize {
        let rest_ticks = self.length_ticks - self.own_end_ticks;
        let full = rest_ticks / SLATE_SEGMENT_TICKS;
        let more = rest_ticks - full * SLATE_SEGMENT_TICKS;
        (full + i64::from(more >= MIN_LAST_SEGMENT_TICKS || (full == 0 && more > 0))) as usize
    }

    /// Position of its start in the item, ticks.
    pub fn start_in_item(&self) -> i64 {
        self.start_in_item
    }

    pub fn own_count(&self) -> usize {
        self.own_count
    }

    pub fn shows_item(&self, k: usize) -> bool {
        k < self.own_count
    }

    pub fn is_last_of_item(&self, k: usize) -> bool {
        k + 1 == self.own_count
    }

    /// Start of segment `k`, ticks from the programme's start; its end for `k == len()`.
    pub fn segment_start(&self, k: usize) -> i64 {
        if k >= self.len() {
            self.length_ticks
        } else if k < self.own_count {
            self.grid.segment_start(self.first_segment + k) - self.start_in_item
        } else {
            self.own_end_ticks + (k - self.own_count) as i64 * SLATE_SEGMENT_TICKS
        }
    }

    pub fn segment_end(&self, k: usize) -> i64 {
        if k + 1 == self.own_count { self.own_end_ticks } else { self.segment_start(k + 1) }
    }

    /// The segment on air at an instant of the programme, ticks.
    pub fn segment_at(&self, position_ticks: i64) -> usize {
        if position_ticks < self.own_end_ticks {
            return (self.grid.segment_at(self.start_in_item + position_ticks) - self.first_segment)
                .min(self.own_count.saturating_sub(1));
        }
        (self.own_count + ((position_ticks - self.own_end_ticks) / SLATE_SEGMENT_TICKS) as usize)
            .min(self.len().saturating_sub(1))
    }
}

/// The longest segment a programme may have, seconds, rounded like a playlist's target duration.
pub fn longest_segment_seconds(grid: &Grid) -> u64 {
    grid.target_duration().max((SLATE_SEGMENT_TICKS as u64 + 45_000) / 90_000)
}

/// The frozen length of an item: its end in ms, rounded.
#[cfg(test)]
pub fn item_duration_ms(grid: &Grid) -> i64 {
    (grid.end_ticks() + 45) / 90
}

/// The segmentation of audio alone with a length in seconds.
pub fn audio_segmentation(seconds: f64) -> Segmentation {
    Segmentation::Steps { step: SLATE_SEGMENT_TICKS, end: to_ticks(seconds).max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::FrameRate;
    use proptest::prelude::*;

    fn a_grid() -> impl Strategy<Value = Grid> {
        prop_oneof![
            (0.5f64..400.0).prop_map(|end| Grid::from_frame_rate(FrameRate { num: 24_000, den: 1001 }, 2.0, end)),
            (0.5f64..400.0).prop_map(|end| Grid::from_step(2.0, end)),
            (prop::collection::vec(1i64..30_000_000, 0..90), 0.5f64..400.0).prop_map(|(mut keys, end)| {
                keys.sort_unstable();
                Grid::from_keyframes(&keys, 2.0, end)
            }),
        ]
    }

    proptest! {
        /// However much of an item is aired, its segments fill it without gap or overlap.
        #[test]
        fn segment_ranges_tile_the_programme(grid in a_grid(), part in 0.0f64..1.6) {
            let segmentation = Segmentation::from_grid(&grid);
            prop_assert_eq!(segmentation.grid(), grid.clone());
            prop_assert_eq!(segmentation.segment_count(), grid.len() as u64);
            let duration = item_duration_ms(&grid);
            let aired = ((duration as f64 * part) as i64).max(1);
            let whole = ItemPart { first_segment: 0, end_segment: grid.len(), from_ms: 0, to_ms: duration };
            let ranges = segmentation.ranges(whole, aired);
            prop_assert!(!ranges.is_empty());
            prop_assert_eq!(ranges.segment_start(0), 0);
            prop_assert_eq!(ranges.segment_end(ranges.len() - 1), aired * 90);
            for k in 0..ranges.len() {
                prop_assert!(ranges.segment_end(k) > ranges.segment_start(k), "{} of {:?}", k, ranges);
                prop_assert_eq!(ranges.segment_end(k), ranges.segment_start(k + 1));
                prop_assert_eq!(ranges.segment_at(ranges.segment_start(k)), k);
                prop_assert_eq!(ranges.segment_at(ranges.segment_end(k) - 1), k);
                prop_assert!(!ranges.shows_item(k) || ranges.segment_start(k) == grid.segment_start(k));
            }
            prop_assert_eq!(segmentation.ranges(whole, duration).len() as u64, segmentation.segment_count());
        }
    }

    #[test]
    fn lost_bounds_keep_their_count() {
        let grid = Grid::from_keyframes(&[200_000, 400_000, 900_000], 2.0, 12.0);
        let text = serde_json::to_string(&Segmentation::from_grid(&grid)).unwrap();
        let lost: Segmentation = serde_json::from_str(&text).unwrap();
        assert_eq!(lost.segment_count(), grid.len() as u64);
        assert_eq!((lost.grid().len(), lost.grid().end_ticks()), (grid.len(), grid.end_ticks()));
    }
}
