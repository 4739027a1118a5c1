//! The time span of every segment, known before any segment is made.
//!
//! A grid starts at the item's 0 whatever the start position, so that all viewers of one rendition share its segments. For
//! encoded video a segment is one closed GOP of a fixed number of frames; copied video is cut at the source's keyframes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::time::{FrameRate, Ticks};

/// Segment boundaries in source time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "cut")]
pub enum Grid {
    /// Encoded video: a fixed number of frames, the first two segments in halves.
    Frames(FrameGrid),
    /// Copied video: the source's own keyframes, merged to a minimum length. `bounds` ends with the item's end.
    Keyframes { bounds: Arc<[Ticks]> },
    /// No video: a fixed step.
    Steps { step: Ticks, end: Ticks },
}

/// Number of full segments at the start of an item that are split in halves. A viewer waits half as long, and an encoder
/// barely faster than real time fills the buffer before the first full segment is due. All later bounds stay in place.
const HALVED_SEGMENTS: u64 = 2;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameGrid {
    pub rate: FrameRate,
    #[serde(rename = "per_segment")]
    pub frames_per_segment: u32,
    #[serde(rename = "total")]
    pub total_frames: u64,
    /// Whether the first segments are full ones too, to match copied video they are encoded alongside.
    #[serde(rename = "whole", default, skip_serializing_if = "std::ops::Not::not")]
    pub has_full_first_segments: bool,
}

impl FrameGrid {
    /// Frames of the first half of a halved segment; None when none is halved.
    fn half_frames(&self) -> Option<u64> {
        (self.frames_per_segment > 1 && !self.has_full_first_segments)
            .then(|| u64::from(self.frames_per_segment).div_ceil(2))
    }

    /// The first frame of segment `k`; `total_frames` for `k == len()`.
    pub fn first_frame(&self, k: usize) -> u64 {
        let (k, per_segment) = (k as u64, u64::from(self.frames_per_segment));
        let frame = match self.half_frames() {
            Some(half) if k < 2 * HALVED_SEGMENTS => k / 2 * per_segment + k % 2 * half,
            Some(_) => (k - HALVED_SEGMENTS) * per_segment,
            None => k * per_segment,
        };
        frame.min(self.total_frames)
    }

    /// The segment that contains a frame of the item.
    pub fn segment_of(&self, frame: u64) -> usize {
        let full_segment = frame / u64::from(self.frames_per_segment);
        let segment = match self.half_frames() {
            Some(half) if full_segment < HALVED_SEGMENTS => {
                2 * full_segment + u64::from(frame % u64::from(self.frames_per_segment) >= half)
            }
            Some(_) => full_segment + HALVED_SEGMENTS,
            None => full_segment,
        };
        segment as usize
    }

    #[allow(clippy::len_without_is_empty, reason = "an item has at least one frame")]
    pub fn len(&self) -> usize {
        self.segment_of(self.total_frames - 1) + 1
    }

    /// Segments whose start must be forced to a keyframe, because an encoder that counts `frames_per_segment` frames per
    /// GOP would miss them. The encoder begins with segment `first`.
    pub fn forced_keyframe_segments(&self, first: usize) -> std::ops::Range<usize> {
        let last = if self.half_frames().is_some() { (2 * HALVED_SEGMENTS) as usize } else { 0 };
        first + 1..last.min(self.len() - 1) + 1
    }
}

impl Grid {
    /// A fixed number of frames per segment, the nearest to `segment_seconds`, over an item of `duration_seconds`.
    pub fn from_frame_rate(rate: FrameRate, segment_seconds: f64, duration_seconds: f64) -> Self {
        let frames_per_segment = (rate.as_f64() * segment_seconds).round().max(1.0) as u32;
        let total_frames = rate.frame_at(Ticks::from_seconds(duration_seconds)).max(1);
        Self::Frames(FrameGrid { rate, frames_per_segment, total_frames, has_full_first_segments: false })
    }

    /// Keyframes at least `segment_seconds` apart; a last segment under 0.3 s joins the one before.
    pub fn from_keyframes(keyframes: &[Ticks], segment_seconds: f64, duration_seconds: f64) -> Self {
        let min_length = Ticks::from_seconds(segment_seconds);
        let end = Ticks::from_seconds(duration_seconds).max(Ticks(1));
        let mut bounds = vec![Ticks::ZERO];
        for &at in keyframes.iter().filter(|&&at| at > Ticks::ZERO && at < end) {
            let last = *bounds.last().expect("bounds starts with 0");
            if at - last >= min_length {
                bounds.push(at);
            }
        }
        if bounds.len() > 1 && end - bounds[bounds.len() - 1] < Ticks::from_seconds(0.3) {
            bounds.pop();
        }
        bounds.push(end);
        Self::Keyframes { bounds: bounds.into() }
    }

    /// The segments of copied video expressed in frames of a constant rate, for video encoded alongside. None unless they
    /// all have the same number of frames, each bound within half a frame.
    pub fn to_frame_grid(&self, rate: FrameRate) -> Option<Self> {
        let Self::Keyframes { bounds } = self else { return None };
        let frames_per_segment = u32::try_from(rate.frame_at(bounds[1])).ok().filter(|frames| *frames > 0)?;
        let total_frames = rate.frame_at(*bounds.last()?).max(1);
        let frames = FrameGrid { rate, frames_per_segment, total_frames, has_full_first_segments: true };
        let distance = |k| (rate.frame_start(frames.first_frame(k)) - bounds[k]).abs();
        let is_aligned = frames.len() == self.len() && (0..self.len()).all(|k| distance(k) * 2 < rate.frame_start(1));
        is_aligned.then_some(Self::Frames(frames))
    }

    /// A fixed step over an item without video. A last step under 0.3 s is spread over the others: it could be shorter than
    /// a frame of copied audio, and then no frame would begin in it.
    pub fn from_step(segment_seconds: f64, duration_seconds: f64) -> Self {
        let [step, end] = [segment_seconds, duration_seconds].map(|seconds| Ticks::from_seconds(seconds).max(Ticks(1)));
        let steps = end.div_euclid(step);
        let is_spread = steps > 0 && end - step * steps < Ticks::from_seconds(0.3);
        let step = if is_spread { (end + Ticks(steps - 1)) / steps } else { step };
        Self::Steps { step, end }
    }

    #[allow(clippy::len_without_is_empty, reason = "a grid has at least one segment")]
    pub fn len(&self) -> usize {
        match self {
            Self::Frames(frames) => frames.len(),
            Self::Keyframes { bounds } => bounds.len() - 1,
            Self::Steps { step, end } => end.div_ceil(*step) as usize,
        }
    }

    /// Start of segment `k`; the end of the item for `k == len()`.
    pub fn segment_start(&self, k: usize) -> Ticks {
        match self {
            Self::Frames(frames) => frames.rate.frame_start(frames.first_frame(k)),
            Self::Keyframes { bounds } => bounds[k.min(bounds.len() - 1)],
            Self::Steps { step, end } => (*step * k as i64).min(*end),
        }
    }

    /// Length of segment `k`.
    pub fn segment_length(&self, k: usize) -> Ticks {
        self.segment_start(k + 1) - self.segment_start(k)
    }

    /// End of the item.
    pub fn end(&self) -> Ticks {
        self.segment_start(self.len())
    }

    /// The segment that contains `time`, clamped into the grid.
    pub fn segment_at(&self, time: Ticks) -> usize {
        let (mut low, mut high) = (0, self.len());
        while high - low > 1 {
            let middle = (low + high) / 2;
            if self.segment_start(middle) <= time {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    /// A hash that is equal for equal grids only: segments with other bounds are other segments.
    pub fn content_digest(&self) -> [u8; 16] {
        let text = serde_json::to_vec(self).expect("a grid is plain data");
        let mut digest = [0; 16];
        digest.copy_from_slice(&blake3::hash(&text).as_bytes()[..16]);
        digest
    }

    /// The longest segment in whole seconds, rounded as RFC 8216 section 4.3.3.1 requires.
    pub fn target_duration(&self) -> u64 {
        (0..self.len()).map(|k| self.segment_length(k).as_seconds().round() as u64).max().unwrap_or(1).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_grid() -> impl Strategy<Value = Grid> {
        let from_rate =
            |((num, den), step, end): ((u32, u32), f64, f64)| Grid::from_frame_rate(FrameRate { num, den }, step, end);
        let from_keys = |(mut keys, step, end): (Vec<i64>, f64, f64)| {
            keys.sort_unstable();
            Grid::from_keyframes(&keys.into_iter().map(Ticks).collect::<Vec<_>>(), step, end)
        };
        let rates = prop_oneof![Just((25, 1)), Just((24000, 1001)), Just((30000, 1001)), Just((5, 1)), Just((60, 1))];
        prop_oneof![
            (rates, 1.0..6.0f64, 0.01..9000.0f64).prop_map(from_rate),
            (proptest::collection::vec(1i64..90_000_000, 0..200), 1.0..6.0f64, 0.01..1000.0f64).prop_map(from_keys),
            (1.0..6.0f64, 0.01..9000.0f64).prop_map(|(step, end)| Grid::from_step(step, end)),
        ]
    }

    proptest! {
        #[test]
        fn segments_tile_the_item_without_gap_or_overlap(grid in any_grid()) {
            prop_assert!(grid.len() > 0);
            prop_assert_eq!(grid.segment_start(0), Ticks::ZERO);
            for k in 0..grid.len() {
                prop_assert!(grid.segment_length(k) > Ticks::ZERO);
                prop_assert_eq!(grid.segment_at(grid.segment_start(k)), k);
                prop_assert_eq!(grid.segment_at(grid.segment_start(k + 1) - Ticks(1)), k);
            }
        }

        #[test]
        fn every_frame_lies_in_the_segment_that_begins_before_it(per_segment in 1u32..200, total in 1u64..2000) {
            let frames = FrameGrid { rate: FrameRate { num: 25, den: 1 }, frames_per_segment: per_segment, total_frames: total, has_full_first_segments: false };
            prop_assert_eq!(frames.first_frame(frames.len()), total);
            for frame in 0..total {
                let k = frames.segment_of(frame);
                prop_assert!(frames.first_frame(k) <= frame && frame < frames.first_frame(k + 1));
            }
        }

        #[test]
        fn no_step_is_too_short_for_a_frame(step in 1.0..6.0f64, end in 0.31..20_000.0f64) {
            let grid = Grid::from_step(step, end);
            prop_assert!((0..grid.len()).all(|k| grid.segment_length(k) > Ticks::from_seconds(0.2)), "{:?}", grid);
        }
    }

    #[test]
    fn the_first_two_segments_come_in_halves_and_move_no_later_bound() {
        let Grid::Frames(frames) = Grid::from_frame_rate(FrameRate { num: 25, den: 1 }, 2.0, 9.0) else {
            unreachable!()
        };
        let firsts: Vec<u64> = (0..=frames.len()).map(|k| frames.first_frame(k)).collect();
        assert_eq!(firsts, [0, 25, 50, 75, 100, 150, 200, 225]);
        assert_eq!([0, 2, 4].map(|first| frames.forced_keyframe_segments(first)), [1..5, 3..5, 5..5]);
    }

    #[test]
    fn a_short_last_piece_joins_the_one_before() {
        let grid = Grid::from_keyframes(&[0, 180_000, 360_000].map(Ticks), 2.0, 4.2);
        assert_eq!(grid, Grid::Keyframes { bounds: [0, 180_000, 378_000].map(Ticks).into() });
    }

    #[test]
    fn a_short_last_step_is_shared_out_among_the_others() {
        // 24.0327 s of MP3 frames, the last of which begins before 24 s (reported from the field).
        let grid = Grid::from_step(2.0, 24.0327);
        assert_eq!((grid.len(), grid.end()), (12, Ticks::from_seconds(24.0327)));
        let step = Ticks::from_seconds(24.0327 / 12.0);
        assert!((0..12).all(|k| (grid.segment_length(k) - step).abs() <= Ticks(12)), "{grid:?}");
        assert_eq!(Grid::from_step(2.0, 24.0), Grid::Steps { step: Ticks::from_ms(2000), end: Ticks::from_ms(24_000) });
        assert_eq!(Grid::from_step(2.0, 0.2).len(), 1);
        assert_eq!(Grid::from_step(2.0, 24.4).len(), 13);
    }

    #[test]
    fn copied_video_lies_on_a_grid_of_frames_or_on_none() {
        let rate = FrameRate { num: 24_000, den: 1001 };
        let at = |frame: i64| rate.frame_start(frame as u64);
        let keyframes: Vec<Ticks> = (1..20).map(|n| at(n * 48) + Ticks(n % 3 * 40)).collect();
        let copied = Grid::from_keyframes(&keyframes, 2.0, at(20 * 48 - 10).as_seconds());
        let beside = copied.to_frame_grid(rate).unwrap();
        assert_eq!(beside.len(), copied.len());
        assert!((0..=copied.len()).all(|k| (beside.segment_start(k) - copied.segment_start(k)).abs() < Ticks(100)));
        let mut uneven = keyframes;
        uneven[7] += at(1);
        assert_eq!(Grid::from_keyframes(&uneven, 2.0, 40.0).to_frame_grid(rate), None);
        assert_eq!(Grid::from_step(2.0, 40.0).to_frame_grid(rate), None);
        let one = Grid::from_keyframes(&[], 2.0, 9.0).to_frame_grid(FrameRate { num: 25, den: 1 }).unwrap();
        assert_eq!((one.len(), one.end()), (1, Ticks::from_seconds(9.0)));
    }
}
