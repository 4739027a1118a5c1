//! Segmentation of an item on air. It is frozen with the item's length, so a playlist can be written without opening a file.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::breaks::ItemPart;
use crate::domain::grid::{FrameGrid, Grid};
use crate::domain::time::Ticks;

/// Length of segments that show no item (slate).
const SLATE_SEGMENT: Ticks = Ticks::from_ms(2000);

/// A last segment shorter than this joins the one before.
const MIN_LAST_SEGMENT: Ticks = Ticks::from_ms(300);

/// Size of a slate for times without video, pixels, and the shortest side that video has.
const SLATE_SIZE: (u32, u32) = (1280, 720);
const MIN_SIDE: u32 = 16;

/// The segments of an item that is aired whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "by")]
pub enum Segmentation {
    /// Encoded video.
    Frames(FrameGrid),
    /// Audio alone.
    Steps { step: Ticks, end: Ticks },
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
    pub end: Ticks,
    /// Time of the first frame in the file. It becomes the item's 0, so the first frame follows the previous item's
    /// last frame without a gap.
    #[serde(rename = "lead", default, skip_serializing_if = "crate::domain::is_default")]
    pub first_frame_time: Ticks,
    /// The last one is the item's end. None if they were lost; then all segments count as equally long.
    #[serde(skip)]
    pub bounds: Option<Arc<[Ticks]>>,
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

impl VideoFormat {
    /// Size in pixels; that of a slate if it is unknown.
    pub fn coded_size(&self) -> (u32, u32) {
        let side = |side: u32, default: u32| if side < MIN_SIDE { default } else { side };
        (side(self.width, SLATE_SIZE.0), side(self.height, SLATE_SIZE.1))
    }

    /// Width to height of the video as shown: `16:9` and `4:3` where it is close to them.
    pub fn aspect_ratio(&self) -> String {
        let (num, den) = self.pixel_aspect().unwrap_or((1, 1));
        let (width, height) = (u64::from(self.width) * u64::from(num), u64::from(self.height) * u64::from(den));
        let is_close = |(width_part, height_part): &(u64, u64)| {
            (width * height_part).abs_diff(height * width_part) * 100 <= height * width_part * 3
        };
        let (width, height) = [(16, 9), (4, 3)].into_iter().find(is_close).unwrap_or_else(|| {
            let divisor = crate::domain::greatest_common_divisor(width, height);
            (width / divisor, height / divisor)
        });
        format!("{width}:{height}")
    }

    /// Width to height of a pixel of copied video, if it is not square.
    pub fn pixel_aspect(&self) -> Option<(u32, u32)> {
        let (_, aspect) = self.profile_and_aspect.rsplit_once(' ')?;
        let (num, den) = aspect.split_once(':')?;
        Some((num.parse().ok()?, den.parse().ok()?))
    }
}

impl Default for Segmentation {
    fn default() -> Self {
        Self::Steps { step: SLATE_SEGMENT, end: Ticks(1) }
    }
}

impl Segmentation {
    pub fn from_grid(grid: &Grid) -> Self {
        match grid {
            Grid::Frames(frames) => Self::Frames(frames.clone()),
            Grid::Steps { step, end } => Self::Steps { step: *step, end: *end },
            Grid::Keyframes { bounds } => Self::from_keyframes(bounds, Ticks::ZERO),
        }
    }

    /// The segmentation of copied video whose first frame is at `first_frame_time`, before the second bound.
    pub fn from_keyframes(bounds: &[Ticks], first_frame_time: Ticks) -> Self {
        let bounds: Arc<[Ticks]> = bounds.iter().map(|bound| (*bound - first_frame_time).max(Ticks::ZERO)).collect();
        Self::Keyframes(KeyframeBounds {
            name: bounds_name(&bounds),
            segment_count: bounds.len() as u32 - 1,
            end: bounds.last().copied().unwrap_or_default(),
            first_frame_time,
            bounds: Some(bounds),
        })
    }

    pub fn has_lost_bounds(&self) -> bool {
        matches!(self, Self::Keyframes(KeyframeBounds { bounds: None, .. }))
    }

    /// Position of the item's 0 in its file.
    pub fn first_frame_time(&self) -> Ticks {
        match self {
            Self::Keyframes(keyframes) => keyframes.first_frame_time,
            Self::Frames(_) | Self::Steps { .. } => Ticks::ZERO,
        }
    }

    pub fn grid(&self) -> Grid {
        match self {
            Self::Frames(frames) => Grid::Frames(frames.clone()),
            Self::Steps { step, end } => Grid::Steps { step: *step, end: *end },
            Self::Keyframes(KeyframeBounds { bounds: Some(bounds), .. }) => Grid::Keyframes { bounds: bounds.clone() },
            Self::Keyframes(KeyframeBounds { segment_count, end, .. }) => {
                Grid::Keyframes { bounds: even_bounds(*segment_count, *end) }
            }
        }
    }

    pub fn segment_count(&self) -> u64 {
        match self {
            Self::Frames(frames) => frames.len() as u64,
            Self::Steps { step, end } => end.div_ceil((*step).max(Ticks(1))).max(1) as u64,
            Self::Keyframes(keyframes) => u64::from(keyframes.segment_count.max(1)),
        }
    }

    /// The segments of the first `aired_ms` of a part: the item's own as far as they fit, then segments that do not show it.
    pub fn ranges(&self, part: ItemPart, aired_ms: i64) -> SegmentRanges {
        let (duration_ms, count) = (part.duration_ms(), part.end_segment - part.first_segment);
        let (part_length, length) = (Ticks::from_ms(duration_ms), Ticks::from_ms(aired_ms));
        let (mut grid, mut first) = (self.grid(), part.first_segment);
        if self.has_lost_bounds() && duration_ms > 0 {
            (grid, first) = (Grid::Keyframes { bounds: even_bounds(count as u32, part_length) }, 0);
        }
        let start_in_item = grid.segment_start(first);
        let (mut own_count, mut own_end) = if duration_ms > 0 { (count, part_length) } else { (0, Ticks::ZERO) };
        if duration_ms > 0 && aired_ms < duration_ms {
            let fits = grid.segment_at(start_in_item + length) - first;
            let is_whole = grid.segment_start(first + fits + 1) - start_in_item <= length;
            own_count = (fits + usize::from(is_whole)).min(count);
            own_end = (grid.segment_start(first + own_count) - start_in_item).min(length);
        }
        SegmentRanges { grid, first_segment: first, start_in_item, own_count, own_end, length }
    }
}

fn even_bounds(segments: u32, end: Ticks) -> Arc<[Ticks]> {
    let segments = segments.max(1);
    (0..=segments).map(|k| Ticks((i128::from(end.0) * i128::from(k) / i128::from(segments)) as i64)).collect()
}

/// The name of a list of bounds: a hash of its content.
fn bounds_name(bounds: &[Ticks]) -> String {
    let mut hasher = blake3::Hasher::new();
    for bound in bounds {
        hasher.update(&bound.0.to_le_bytes());
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

#[derive(Clone, Debug)]
pub struct SegmentRanges {
    grid: Grid,
    /// The item's segment it begins with, and where that segment begins in the item.
    first_segment: usize,
    start_in_item: Ticks,
    /// Number of segments that show the item.
    own_count: usize,
    own_end: Ticks,
    length: Ticks,
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
        let rest = self.length - self.own_end;
        let full = rest.div_euclid(SLATE_SEGMENT);
        let more = rest - SLATE_SEGMENT * full;
        (full + i64::from(more >= MIN_LAST_SEGMENT || (full == 0 && more > Ticks::ZERO))) as usize
    }

    /// Position of its start in the item.
    pub fn start_in_item(&self) -> Ticks {
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

    /// Start of segment `k`, from the programme's start; its end for `k == len()`.
    pub fn segment_start(&self, k: usize) -> Ticks {
        if k >= self.len() {
            self.length
        } else if k < self.own_count {
            self.grid.segment_start(self.first_segment + k) - self.start_in_item
        } else {
            self.own_end + SLATE_SEGMENT * (k - self.own_count) as i64
        }
    }

    pub fn segment_end(&self, k: usize) -> Ticks {
        if k + 1 == self.own_count { self.own_end } else { self.segment_start(k + 1) }
    }

    /// The segment on air at an instant of the programme.
    pub fn segment_at(&self, position: Ticks) -> usize {
        if position < self.own_end {
            return (self.grid.segment_at(self.start_in_item + position) - self.first_segment)
                .min(self.own_count.saturating_sub(1));
        }
        (self.own_count + (position - self.own_end).div_euclid(SLATE_SEGMENT) as usize)
            .min(self.len().saturating_sub(1))
    }
}

/// The longest segment a programme may have, seconds, rounded like a playlist's target duration.
pub fn longest_segment_seconds(grid: &Grid) -> u64 {
    grid.target_duration().max(SLATE_SEGMENT.as_seconds().round() as u64)
}

/// The frozen length of an item: its end in ms, rounded.
#[cfg(test)]
pub fn item_duration_ms(grid: &Grid) -> i64 {
    grid.end().as_ms_rounded()
}

/// The segmentation of audio alone with a length in seconds.
pub fn audio_segmentation(seconds: f64) -> Segmentation {
    Segmentation::Steps { step: SLATE_SEGMENT, end: Ticks::from_seconds(seconds).max(Ticks(1)) }
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
                Grid::from_keyframes(&keys.into_iter().map(Ticks).collect::<Vec<_>>(), 2.0, end)
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
            prop_assert_eq!(ranges.segment_start(0), Ticks::ZERO);
            prop_assert_eq!(ranges.segment_end(ranges.len() - 1), Ticks::from_ms(aired));
            for k in 0..ranges.len() {
                prop_assert!(ranges.segment_end(k) > ranges.segment_start(k), "{} of {:?}", k, ranges);
                prop_assert_eq!(ranges.segment_end(k), ranges.segment_start(k + 1));
                prop_assert_eq!(ranges.segment_at(ranges.segment_start(k)), k);
                prop_assert_eq!(ranges.segment_at(ranges.segment_end(k) - Ticks(1)), k);
                prop_assert!(!ranges.shows_item(k) || ranges.segment_start(k) == grid.segment_start(k));
            }
            prop_assert_eq!(segmentation.ranges(whole, duration).len() as u64, segmentation.segment_count());
        }
    }

    #[test]
    fn lost_bounds_keep_their_count() {
        let grid = Grid::from_keyframes(&[200_000, 400_000, 900_000].map(Ticks), 2.0, 12.0);
        let text = serde_json::to_string(&Segmentation::from_grid(&grid)).unwrap();
        let lost: Segmentation = serde_json::from_str(&text).unwrap();
        assert_eq!(lost.segment_count(), grid.len() as u64);
        assert_eq!((lost.grid().len(), lost.grid().end()), (grid.len(), grid.end()));
    }

    #[test]
    fn the_aspect_ratio_is_that_of_the_shown_video() {
        let ratio =
            |width, height, kind: &str| VideoFormat { width, height, profile_and_aspect: kind.into() }.aspect_ratio();
        assert_eq!(ratio(1920, 1080, ""), "16:9");
        assert_eq!(ratio(720, 576, "main 64:45"), "16:9");
        assert_eq!(ratio(720, 576, "main 16:15"), "4:3");
        assert_eq!(ratio(1920, 800, ""), "12:5");
    }
}
