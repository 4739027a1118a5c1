//! The gain of levelled audio, and a look-ahead peak limiter: ffmpeg's `volume` and `alimiter` as `ffmpeg/args` sets them.
//!
//! The gain of the limiter is a pure function of the samples near a position: from 50 ms before it to 1 ms after it. So runs
//! that start anywhere produce the same samples after the preroll. Below the ceiling only the fixed gain is applied.

use super::audio_timeline::FRAME_SAMPLES;

/// The highest peak of the output: -1 dB.
const CEILING: f32 = 0.89;

/// Samples that need one reduction together. Frames are whole blocks, so blocks lie at fixed positions of the item.
const BLOCK_SAMPLES: usize = 16;
const FRAME_BLOCKS: usize = FRAME_SAMPLES / BLOCK_SAMPLES;

/// The reduction grows over 1 ms before a peak and shrinks over 50 ms after it, both linearly.
const ATTACK_BLOCKS: usize = 3;
const RELEASE_BLOCKS: usize = 150;

/// Applies gain and limiter to a sequence of frames.
#[derive(Debug)]
pub(super) struct Limiter {
    channels: usize,
    gain: f32,
    /// The latest frame, amplified; it is returned when the peaks after it are known.
    pending: Option<Vec<f32>>,
    /// The reduction that each block needs, 0 to 1, by the time `limit` reads it: `RELEASE_BLOCKS` blocks, then those of the
    /// frame that is returned, then those of the frame after it.
    reductions: [f32; RELEASE_BLOCKS + 2 * FRAME_BLOCKS],
}

impl Limiter {
    /// A limiter for interleaved frames of `FRAME_SAMPLES` samples per channel.
    pub(super) fn new(channels: usize, gain_tenths_db: i16) -> Self {
        let gain = 10_f32.powf(f32::from(gain_tenths_db) / 200.0);
        Self { channels, gain, pending: None, reductions: [0.0; RELEASE_BLOCKS + 2 * FRAME_BLOCKS] }
    }

    /// Takes a frame and returns the frame before it, None for the first one.
    pub(super) fn push_frame(&mut self, mut frame: Vec<f32>) -> Option<Vec<f32>> {
        frame.iter_mut().for_each(|sample| *sample *= self.gain);
        self.reductions.rotate_left(FRAME_BLOCKS);
        let next_blocks = &mut self.reductions[RELEASE_BLOCKS + FRAME_BLOCKS..];
        for (reduction, block) in next_blocks.iter_mut().zip(frame.chunks(BLOCK_SAMPLES * self.channels)) {
            *reduction = needed_reduction(block);
        }
        let mut finished = self.pending.replace(frame)?;
        self.limit(&mut finished);
        Some(finished)
    }

    fn limit(&self, frame: &mut [f32]) {
        if self.reductions.iter().all(|&reduction| reduction == 0.0) {
            return;
        }
        let mut start = self.reduction_at(RELEASE_BLOCKS);
        for (number, block) in frame.chunks_mut(BLOCK_SAMPLES * self.channels).enumerate() {
            let end = self.reduction_at(RELEASE_BLOCKS + number + 1);
            for (position, moment) in block.chunks_mut(self.channels).enumerate() {
                let reduction = start + (end - start) * position as f32 / BLOCK_SAMPLES as f32;
                moment.iter_mut().for_each(|sample| *sample *= 1.0 - reduction);
            }
            start = end;
        }
    }

    /// The reduction at the start of a block: the largest that a block around it demands. Both ends of a block have at least the
    /// reduction that the block needs.
    fn reduction_at(&self, block: usize) -> f32 {
        let (past, following) = self.reductions.split_at(block);
        let faded = |len: usize| move |(distance, reduction): (usize, &f32)| reduction * fade(distance, len);
        let release = past.iter().rev().take(RELEASE_BLOCKS).enumerate().map(faded(RELEASE_BLOCKS));
        let attack = following.iter().take(ATTACK_BLOCKS).enumerate().map(faded(ATTACK_BLOCKS));
        release.chain(attack).fold(0.0, f32::max)
    }
}

/// A linear ramp from 1 at 0 to 0 at `len`.
fn fade(distance: usize, len: usize) -> f32 {
    1.0 - distance as f32 / len as f32
}

/// The share of its level that a block must lose to stay below the ceiling.
fn needed_reduction(block: &[f32]) -> f32 {
    let peak = block.iter().map(|sample| sample.abs()).fold(0.0, f32::max);
    if peak > CEILING { 1.0 - CEILING / peak } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The frames of a signal, amplified and limited; the last one is missing.
    fn limit(samples: &[f32], channels: usize, gain_tenths_db: i16) -> Vec<f32> {
        let mut limiter = Limiter::new(channels, gain_tenths_db);
        let frames = samples.chunks_exact(FRAME_SAMPLES * channels);
        frames.filter_map(|frame| limiter.push_frame(frame.to_vec())).flatten().collect()
    }

    /// Noise between -1 and 1, the same in every run, in bursts.
    fn noise(len: usize) -> Vec<f32> {
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..len).map(|n| next() * if n / 7_000 % 2 == 0 { 1.0 } else { 0.2 }).collect()
    }

    #[test]
    fn below_the_ceiling_only_the_gain_is_applied() {
        let samples: Vec<f32> = noise(10 * FRAME_SAMPLES).iter().map(|sample| sample * 0.4).collect();
        let gain = 10_f32.powf(0.3);
        let expected: Vec<f32> = samples[..9 * FRAME_SAMPLES].iter().map(|sample| sample * gain).collect();
        assert_eq!(limit(&samples, 1, 60), expected);
    }

    #[test]
    fn no_peak_exceeds_the_ceiling_and_channels_keep_their_balance() {
        let mono = noise(20 * FRAME_SAMPLES);
        let stereo: Vec<f32> = mono.iter().flat_map(|&sample| [sample, sample * 0.25]).collect();
        let out = limit(&stereo, 2, 120);
        let peak = out.iter().fold(0.0_f32, |peak, sample| peak.max(sample.abs()));
        assert!((0.88..0.890_001).contains(&peak), "{peak}");
        assert!(out.as_chunks::<2>().0.iter().all(|[left, right]| (left * 0.25 - right).abs() < 1e-6));
    }

    #[test]
    fn a_run_that_starts_later_gives_the_same_samples_after_three_frames() {
        let samples = noise(30 * FRAME_SAMPLES);
        let whole = limit(&samples, 1, 90);
        for first in [1, 7, 16] {
            let later = limit(&samples[first * FRAME_SAMPLES..], 1, 90);
            let same = (first + 3) * FRAME_SAMPLES;
            assert_eq!(whole[same..], later[3 * FRAME_SAMPLES..], "from frame {first}");
        }
    }

    #[test]
    fn the_gain_falls_within_a_millisecond_and_returns_within_fifty() {
        let mut samples = vec![0.4; 10 * FRAME_SAMPLES];
        let peak = 4 * FRAME_SAMPLES;
        samples[peak] = 1.78;
        let out = limit(&samples, 1, 0);
        assert!((out[peak] - CEILING).abs() < 1e-5);
        assert_eq!(out[peak - 48], 0.4, "1 ms before the peak");
        assert!(out[peak - 1] < 0.25);
        let half_released = out[peak + 16 + 1200] / 0.4;
        assert!((0.74..0.76).contains(&half_released), "{half_released}");
        assert_eq!(out[peak + 16 + 2400], 0.4, "50 ms after it");
    }
}
