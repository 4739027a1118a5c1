//! Turns decoded audio into a continuous sequence of samples on the item's clock.
//!
//! The sample count is the clock. If the source's timestamps differ by more than 30 ms, the gap is filled with silence
//! or the overlap dropped, so that audio stays in sync with video; smaller differences are jitter of containers that
//! count in milliseconds. After the end comes silence, so that every planned segment exists.

/// Sample rate of all encoded audio, Hz.
pub(super) const RATE: i64 = 48_000;

/// Samples of an AAC frame, per channel.
pub(super) const FRAME: usize = 1024;

/// Largest difference that is ignored, samples.
const JITTER: i64 = 30 * RATE / 1000;

/// Largest gap that is filled with silence, samples. A larger one is taken for a broken clock.
const FURTHEST: i64 = 3600 * RATE;

/// The sequence of samples, read frame by frame.
#[derive(Debug)]
pub(super) struct Sound {
    channels: usize,
    /// Position of the next sample returned, samples of the item.
    position: i64,
    frame: Vec<f32>,
    silence: i64,
    pending: Vec<f32>,
    used: usize,
    started: bool,
    ended: bool,
}

impl Sound {
    /// Starts at sample `start` of the item, which may be negative.
    pub(super) fn new(channels: usize, start: i64) -> Self {
        let (frame, pending) = (Vec::with_capacity(FRAME * channels), Vec::new());
        Self { channels, position: start, frame, silence: 0, pending, used: 0, started: false, ended: false }
    }

    /// The next frame, if all its samples are known.
    pub(super) fn take(&mut self) -> Option<Vec<f32>> {
        let full = FRAME * self.channels;
        let missing = full - self.frame.len();
        let silent = if self.ended && self.used >= self.pending.len() {
            missing
        } else {
            missing.min(usize::try_from(self.silence).unwrap_or(0).saturating_mul(self.channels))
        };
        self.frame.resize(self.frame.len() + silent, 0.0);
        self.silence = (self.silence - (silent / self.channels) as i64).max(0);
        if self.silence == 0 {
            let rest = &self.pending[self.used..];
            let now = rest.len().min(full - self.frame.len());
            self.frame.extend_from_slice(&rest[..now]);
            self.used += now;
            // Silence after the last sample of an ended source.
            if self.ended && self.used >= self.pending.len() {
                self.frame.resize(full, 0.0);
            }
        }
        if self.frame.len() < full {
            return None;
        }
        self.position += FRAME as i64;
        Some(std::mem::replace(&mut self.frame, Vec::with_capacity(full)))
    }

    /// Adds the next samples of the source, interleaved, that start at `nanoseconds` of the item. Call only when `take`
    /// returned None.
    pub(super) fn offer(&mut self, samples: &[f32], nanoseconds: i64) {
        let at = (i128::from(nanoseconds) * i128::from(RATE) + 500_000_000).div_euclid(1_000_000_000) as i64;
        let expected = self.position + (self.frame.len() / self.channels) as i64 + self.silence;
        let difference = at - expected;
        let mut skip = 0;
        if (!self.started || difference.abs() > JITTER) && difference < FURTHEST {
            if difference > 0 {
                self.silence += difference;
            } else {
                skip = usize::try_from(-difference).unwrap_or(usize::MAX).saturating_mul(self.channels);
            }
        }
        let kept = samples.get(skip..).unwrap_or(&[]);
        // A block wholly before the start does not yet fix the position of the first sample.
        self.started |= !kept.is_empty();
        self.pending.clear();
        self.pending.extend_from_slice(&kept[..kept.len() - kept.len() % self.channels]);
        self.used = 0;
    }

    /// Marks the end of the source: silence follows.
    pub(super) fn finish(&mut self) {
        self.ended = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// Samples of `frames` frames made from blocks of (time in ms, samples, value of each sample).
    fn heard(start: i64, blocks: &[(i64, usize, f32)], frames: usize) -> Vec<f32> {
        let mut sound = Sound::new(1, start);
        let mut out = Vec::new();
        for &(ms, length, value) in blocks {
            out.extend(std::iter::from_fn(|| sound.take()).flatten());
            sound.offer(&vec![value; length], ms * MS);
        }
        out.extend(std::iter::from_fn(|| sound.take()).flatten());
        sound.finish();
        while out.len() < frames * FRAME {
            out.extend(sound.take().expect("endless silence"));
        }
        out.truncate(frames * FRAME);
        out
    }

    #[test]
    fn samples_keep_their_place_whatever_the_blocks() {
        // 0.5 s from 0, then 0.5 s stamped 5 ms early: jitter.
        let out = heard(0, &[(0, 24_000, 1.0), (495, 24_000, 2.0)], 48);
        assert!(out[..24_000].iter().all(|&s| s == 1.0) && out[24_000..48_000].iter().all(|&s| s == 2.0));
        assert!(out[48_000..].iter().all(|&s| s == 0.0), "silence after the end");
    }

    #[test]
    fn gaps_become_silence_and_overlaps_are_cut() {
        let out = heard(0, &[(0, 4_800, 1.0), (200, 4_800, 2.0), (250, 4_800, 3.0)], 20);
        assert!(out[4_800..9_600].iter().all(|&s| s == 0.0), "100 ms of silence");
        assert!(out[9_600..14_400].iter().all(|&s| s == 2.0));
        assert!(out[14_400..16_800].iter().all(|&s| s == 3.0), "50 ms of overlap are dropped");
        assert_eq!(out[16_800], 0.0);
    }

    #[test]
    fn a_start_inside_the_source_is_exact() {
        let start = 10 * FRAME as i64;
        let out = heard(start, &[(100, 4_800, 1.0), (200, 4_800, 2.0), (300, 4_800, 3.0)], 8);
        // 10,240 samples are 213.3 ms, so the second block is cut and the first one ignored.
        assert!(out[..4_160].iter().all(|&s| s == 2.0));
        assert!(out[4_160..8 * FRAME].iter().all(|&s| s == 3.0));
    }
}
