//! Turns decoded audio into a continuous sequence of samples on the item's clock.
//!
//! The sample count is the clock. If the source's timestamps differ by more than 30 ms, the gap is filled with silence
//! or the overlap dropped, so that audio stays in sync with video; smaller differences are jitter of containers that
//! count in milliseconds. After the end comes silence, so that every planned segment exists.

use crate::domain::time::rescale;

/// Sample rate of all encoded audio, Hz.
pub(super) const SAMPLE_RATE: i64 = 48_000;

/// Samples of an AAC frame, per channel.
pub(super) const FRAME_SAMPLES: usize = 1024;

/// Largest difference that is ignored, samples.
const MAX_JITTER_SAMPLES: i64 = 30 * SAMPLE_RATE / 1000;

/// Largest gap that is filled with silence, samples. A larger one is taken for a broken clock.
const MAX_GAP_SAMPLES: i64 = 3600 * SAMPLE_RATE;

/// The sequence of samples, read frame by frame.
#[derive(Debug, Default)]
pub(super) struct AudioTimeline {
    channels: usize,
    /// Position of the next sample returned, samples of the item.
    position: i64,
    frame: Vec<f32>,
    silence_samples: i64,
    pending: Vec<f32>,
    pending_offset: usize,
    has_started: bool,
    has_ended: bool,
}

impl AudioTimeline {
    /// Starts at sample `start_sample` of the item, which may be negative.
    pub(super) fn new(channels: usize, start_sample: i64) -> Self {
        let frame = Vec::with_capacity(FRAME_SAMPLES * channels);
        Self { channels, position: start_sample, frame, ..Self::default() }
    }

    /// The next frame, if all its samples are known.
    pub(super) fn take_frame(&mut self) -> Option<Vec<f32>> {
        let frame_len = FRAME_SAMPLES * self.channels;
        let missing_len = frame_len - self.frame.len();
        let silent_len = if self.has_ended && self.pending_offset >= self.pending.len() {
            missing_len
        } else {
            missing_len.min(usize::try_from(self.silence_samples).unwrap_or(0).saturating_mul(self.channels))
        };
        self.frame.resize(self.frame.len() + silent_len, 0.0);
        self.silence_samples = (self.silence_samples - (silent_len / self.channels) as i64).max(0);
        if self.silence_samples == 0 {
            let unread = &self.pending[self.pending_offset..];
            let count = unread.len().min(frame_len - self.frame.len());
            self.frame.extend_from_slice(&unread[..count]);
            self.pending_offset += count;
            // Silence after the last sample of an ended source.
            if self.has_ended && self.pending_offset >= self.pending.len() {
                self.frame.resize(frame_len, 0.0);
            }
        }
        if self.frame.len() < frame_len {
            return None;
        }
        self.position += FRAME_SAMPLES as i64;
        Some(std::mem::replace(&mut self.frame, Vec::with_capacity(frame_len)))
    }

    /// Adds the next samples of the source, interleaved, that start at `nanoseconds` of the item. Call only when
    /// `take_frame` returned None.
    pub(super) fn push_samples(&mut self, samples: &[f32], nanoseconds: i64) {
        let start = rescale(nanoseconds, SAMPLE_RATE, 1_000_000_000);
        let expected_sample = self.position + (self.frame.len() / self.channels) as i64 + self.silence_samples;
        let difference = start - expected_sample;
        let mut skip_len = 0;
        if (!self.has_started || difference.abs() > MAX_JITTER_SAMPLES) && difference < MAX_GAP_SAMPLES {
            if difference > 0 {
                self.silence_samples += difference;
            } else {
                skip_len = usize::try_from(-difference).unwrap_or(usize::MAX).saturating_mul(self.channels);
            }
        }
        let usable = samples.get(skip_len..).unwrap_or(&[]);
        // A block wholly before the start does not yet fix the position of the first sample.
        self.has_started |= !usable.is_empty();
        self.pending.clear();
        self.pending.extend_from_slice(&usable[..usable.len() - usable.len() % self.channels]);
        self.pending_offset = 0;
    }

    /// Marks the end of the source: silence follows.
    pub(super) fn finish(&mut self) {
        self.has_ended = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// Samples of `frames` frames made from blocks of (time in ms, samples, value of each sample).
    fn render(start: i64, blocks: &[(i64, usize, f32)], frames: usize) -> Vec<f32> {
        let mut timeline = AudioTimeline::new(1, start);
        let mut out = Vec::new();
        for &(ms, length, value) in blocks {
            out.extend(std::iter::from_fn(|| timeline.take_frame()).flatten());
            timeline.push_samples(&vec![value; length], ms * MS);
        }
        out.extend(std::iter::from_fn(|| timeline.take_frame()).flatten());
        timeline.finish();
        while out.len() < frames * FRAME_SAMPLES {
            out.extend(timeline.take_frame().expect("endless silence"));
        }
        out.truncate(frames * FRAME_SAMPLES);
        out
    }

    #[test]
    fn samples_keep_their_position_with_any_block_sizes() {
        // 0.5 s from 0, then 0.5 s stamped 5 ms early: jitter.
        let out = render(0, &[(0, 24_000, 1.0), (495, 24_000, 2.0)], 48);
        assert!(out[..24_000].iter().all(|&s| s == 1.0) && out[24_000..48_000].iter().all(|&s| s == 2.0));
        assert!(out[48_000..].iter().all(|&s| s == 0.0), "silence after the end");
    }

    #[test]
    fn gaps_become_silence_and_overlaps_are_cut() {
        let out = render(0, &[(0, 4_800, 1.0), (200, 4_800, 2.0), (250, 4_800, 3.0)], 20);
        assert!(out[4_800..9_600].iter().all(|&s| s == 0.0), "100 ms of silence");
        assert!(out[9_600..14_400].iter().all(|&s| s == 2.0));
        assert!(out[14_400..16_800].iter().all(|&s| s == 3.0), "50 ms of overlap are dropped");
        assert_eq!(out[16_800], 0.0);
    }

    #[test]
    fn a_start_inside_the_source_is_exact() {
        let start = 10 * FRAME_SAMPLES as i64;
        let out = render(start, &[(100, 4_800, 1.0), (200, 4_800, 2.0), (300, 4_800, 3.0)], 8);
        // 10,240 samples are 213.3 ms, so the second block is cut and the first one ignored.
        assert!(out[..4_160].iter().all(|&s| s == 2.0));
        assert!(out[4_160..8 * FRAME_SAMPLES].iter().all(|&s| s == 3.0));
    }
}
