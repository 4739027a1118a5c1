//! Mixes decoded channels to the channels of a rendition, with the levels of ffmpeg's `aresample` as `ffmpeg/args` sets it.
//!
//! A channel whose speaker the output lacks goes to its neighbours: the centre at -3 dB to left and right, surround at
//! -6 dB (`surround_mix_level=0.5`), the LFE nowhere. If an output channel could exceed full scale, all of them are
//! scaled down alike (`rematrix_maxval=1`).

use crate::engine::{Result, RunError};

use Speaker::{
    BackCenter, BackLeft, BackRight, FrontCenter, FrontLeft, FrontLeftOfCenter, FrontRight, FrontRightOfCenter,
    LowFrequency, SideLeft, SideRight, Unmixed,
};

/// The position of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaker {
    FrontLeft,
    FrontRight,
    FrontCenter,
    LowFrequency,
    BackLeft,
    BackRight,
    FrontLeftOfCenter,
    FrontRightOfCenter,
    BackCenter,
    SideLeft,
    SideRight,
    /// A position that no output has and ffmpeg 5.1 drops: a second LFE, height channels.
    Unmixed,
}

/// The bits of a GStreamer channel mask, from the lowest; higher ones are `Unmixed`.
const BY_MASK_BIT: [Speaker; 12] = [
    FrontLeft,
    FrontRight,
    FrontCenter,
    LowFrequency,
    BackLeft,
    BackRight,
    FrontLeftOfCenter,
    FrontRightOfCenter,
    BackCenter,
    Unmixed,
    SideLeft,
    SideRight,
];

const MONO: &[Speaker] = &[FrontCenter];
const STEREO: &[Speaker] = &[FrontLeft, FrontRight];
const SURROUND_5_1: &[Speaker] = &[FrontLeft, FrontRight, FrontCenter, LowFrequency, BackLeft, BackRight];
const SURROUND_7_1: &[Speaker] =
    &[FrontLeft, FrontRight, FrontCenter, LowFrequency, BackLeft, BackRight, SideLeft, SideRight];

/// A level of -3 dB: half the power.
const MINUS_3_DB: f32 = std::f32::consts::FRAC_1_SQRT_2;

/// The level of surround channels in front channels.
const SURROUND_LEVEL: f32 = 0.5;

/// The speakers of decoded channels, in their order. `mask` is GStreamer's, 0 if unknown; without a usable one it is
/// ffmpeg's default layout of so many channels. None if there is no such layout.
pub(super) fn decoded_speakers(channels: usize, mask: u64) -> Option<Vec<Speaker>> {
    if channels > 1 && mask.count_ones() as usize == channels {
        let bits = (0..u64::BITS as usize).filter(|bit| (mask >> bit) & 1 == 1);
        return Some(bits.map(|bit| BY_MASK_BIT.get(bit).copied().unwrap_or(Unmixed)).collect());
    }
    let speakers: &[Speaker] = match channels {
        1 => MONO,
        2 => STEREO,
        3 => &[FrontLeft, FrontRight, LowFrequency],
        4 => &[FrontLeft, FrontRight, FrontCenter, BackCenter],
        5 => &[FrontLeft, FrontRight, FrontCenter, BackLeft, BackRight],
        6 => SURROUND_5_1,
        7 => &[FrontLeft, FrontRight, FrontCenter, LowFrequency, BackCenter, SideLeft, SideRight],
        8 => SURROUND_7_1,
        _ => return None,
    };
    Some(speakers.to_vec())
}

/// The levels of a mix, one row per output channel with one level per input channel.
pub(super) fn mix_matrix(input: &[Speaker], output: &[Speaker]) -> Vec<Vec<f32>> {
    let mut matrix = vec![vec![0.0; input.len()]; output.len()];
    for (column, &speaker) in input.iter().enumerate() {
        for (target, level) in targets(speaker, input, output) {
            if let Some(row) = output.iter().position(|&other| other == target) {
                matrix[row][column] += level;
            }
        }
    }
    let highest_sum = matrix.iter().map(|row| row.iter().sum::<f32>()).fold(1.0, f32::max);
    matrix.iter_mut().flatten().for_each(|level| *level /= highest_sum);
    matrix
}

/// The output speakers that play a channel, with its level in each.
fn targets(speaker: Speaker, input: &[Speaker], output: &[Speaker]) -> Vec<(Speaker, f32)> {
    let has = |speaker| output.contains(&speaker);
    if has(speaker) {
        return vec![(speaker, 1.0)];
    }
    let is_mono = !has(FrontLeft);
    let (left, right, back_level) = match has(BackLeft) {
        true => (BackLeft, BackRight, 1.0),
        false => (FrontLeft, FrontRight, SURROUND_LEVEL),
    };
    // Where back and side channels share two speakers, each gets half the power.
    let side_level = if has(BackLeft) && input.contains(&BackLeft) { MINUS_3_DB } else { back_level };
    match speaker {
        FrontLeft | FrontRight | FrontLeftOfCenter | FrontRightOfCenter if is_mono => vec![(FrontCenter, MINUS_3_DB)],
        BackLeft | BackRight | BackCenter | SideLeft | SideRight if is_mono => {
            vec![(FrontCenter, SURROUND_LEVEL * MINUS_3_DB)]
        }
        FrontCenter => vec![(FrontLeft, MINUS_3_DB), (FrontRight, MINUS_3_DB)],
        FrontLeftOfCenter => vec![(FrontLeft, 1.0)],
        FrontRightOfCenter => vec![(FrontRight, 1.0)],
        BackLeft => vec![(left, back_level)],
        BackRight => vec![(right, back_level)],
        SideLeft => vec![(left, side_level)],
        SideRight => vec![(right, side_level)],
        BackCenter => vec![(left, back_level * MINUS_3_DB), (right, back_level * MINUS_3_DB)],
        FrontLeft | FrontRight | LowFrequency | Unmixed => Vec::new(),
    }
}

/// Mixes samples to a fixed number of channels. The source's channels may change at any buffer, as in broadcasts.
#[derive(Debug)]
pub(super) struct Mixer {
    output: &'static [Speaker],
    /// Channels and mask of the latest samples.
    input: Option<(usize, u64)>,
    /// For each output channel, the input channels it contains, with their levels.
    terms: Vec<Vec<(usize, f32)>>,
}

impl Mixer {
    /// A mixer to 1, 6 or 8 channels; any other number means stereo, as in `ffmpeg/args`.
    pub(super) fn new(channels: u32) -> Self {
        let output = match channels {
            1 => MONO,
            6 => SURROUND_5_1,
            8 => SURROUND_7_1,
            _ => STEREO,
        };
        Self { output, input: None, terms: Vec::new() }
    }

    pub(super) fn channels(&self) -> usize {
        self.output.len()
    }

    /// Mixes interleaved samples of `channels` channels at the positions of `mask` (GStreamer's; 0 if unknown).
    ///
    /// # Errors
    /// `Decode` for more than eight channels without positions.
    pub(super) fn mix(&mut self, samples: Vec<f32>, channels: usize, mask: u64) -> Result<Vec<f32>> {
        if self.input != Some((channels, mask)) {
            let unknown = || RunError::Decode(format!("{channels} audio channels have no known speaker positions"));
            let speakers = decoded_speakers(channels, mask).ok_or_else(unknown)?;
            self.terms = mix_matrix(&speakers, self.output).iter().map(|row| non_zero_terms(row)).collect();
            self.input = Some((channels, mask));
        }
        let is_identity = |(row, terms): (usize, &Vec<(usize, f32)>)| *terms == [(row, 1.0)];
        if channels == self.channels() && self.terms.iter().enumerate().all(is_identity) {
            return Ok(samples);
        }
        let mut mixed = Vec::with_capacity(samples.len() / channels * self.channels());
        for moment in samples.chunks_exact(channels) {
            mixed.extend(
                self.terms
                    .iter()
                    .map(|terms| terms.iter().map(|&(channel, level)| moment[channel] * level).sum::<f32>()),
            );
        }
        Ok(mixed)
    }
}

fn non_zero_terms(row: &[f32]) -> Vec<(usize, f32)> {
    row.iter().copied().enumerate().filter(|(_, level)| *level != 0.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASK_5_1: u64 = 0x3f;
    const MASK_5_1_SIDE: u64 = 0xc0f;
    const MASK_7_1: u64 = 0xc3f;

    fn matrix(channels: usize, mask: u64, output: u32) -> Vec<Vec<f32>> {
        mix_matrix(&decoded_speakers(channels, mask).unwrap(), Mixer::new(output).output)
    }

    fn assert_near(actual: &[Vec<f32>], expected: &[&[f32]]) {
        assert_eq!(actual.len(), expected.len());
        for (actual, expected) in actual.iter().zip(expected) {
            assert_eq!(actual.len(), expected.len());
            let is_near = actual.iter().zip(*expected).all(|(a, b)| (a - b).abs() < 1e-4);
            assert!(is_near, "{actual:?} instead of {expected:?}");
        }
    }

    /// The levels that ffmpeg 5.1 puts out for an impulse in each channel.
    #[test]
    fn levels_are_those_of_ffmpeg() {
        assert_near(&matrix(1, 0, 2), &[&[MINUS_3_DB], &[MINUS_3_DB]]);
        assert_near(&matrix(2, 0x3, 1), &[&[0.5, 0.5]]);
        assert_near(&matrix(3, 0x7, 1), &[&[0.2929, 0.2929, 0.4142]]);
        assert_near(&matrix(3, 0xb, 2), &[&[1.0, 0.0, 0.0], &[0.0, 1.0, 0.0]]);
        assert_near(&matrix(4, 0x107, 2), &[&[0.4853, 0.0, 0.3431, 0.1716], &[0.0, 0.4853, 0.3431, 0.1716]]);
        assert_near(&matrix(4, 0x33, 1), &[&[0.3333, 0.3333, 0.1667, 0.1667]]);
        for mask in [MASK_5_1, MASK_5_1_SIDE] {
            let left: &[f32] = &[0.4531, 0.0, 0.3204, 0.0, 0.2265, 0.0];
            assert_near(&matrix(6, mask, 2), &[left, &[0.0, 0.4531, 0.3204, 0.0, 0.0, 0.2265]]);
            assert_near(&matrix(6, mask, 1), &[&[0.2265, 0.2265, 0.3204, 0.0, 0.1133, 0.1133]]);
            let unit = |n: usize| (0..6).map(|column| f32::from(u8::from(column == n))).collect::<Vec<_>>();
            assert_eq!(matrix(6, mask, 6), (0..6).map(unit).collect::<Vec<_>>(), "nothing is changed");
        }
        let left: &[f32] = &[0.3694, 0.0, 0.2612, 0.0, 0.1847, 0.0, 0.1847, 0.0];
        assert_near(&matrix(8, MASK_7_1, 2), &[left, &[0.0, 0.3694, 0.2612, 0.0, 0.0, 0.1847, 0.0, 0.1847]]);
        assert_near(&matrix(8, MASK_7_1, 6)[4..5], &[&[0.0, 0.0, 0.0, 0.0, 0.5858, 0.0, 0.4142, 0.0]]);
        // 7.1(wide) and 6.1.
        assert_near(&matrix(8, 0xff, 2)[..1], &[&[0.3118, 0.0, 0.2205, 0.0, 0.1559, 0.0, 0.3118, 0.0]]);
        assert_near(&matrix(7, 0xd0f, 2)[..1], &[&[0.3905, 0.0, 0.2761, 0.0, 0.1381, 0.1953, 0.0]]);
        assert_near(
            &matrix(7, 0xd0f, 6)[4..],
            &[&[0.0, 0.0, 0.0, 0.0, 0.4142, 0.5858, 0.0], &[0.0, 0.0, 0.0, 0.0, 0.4142, 0.0, 0.5858]],
        );
        assert_near(&matrix(6, MASK_5_1_SIDE, 8)[4..7], &[&[0.0; 6], &[0.0; 6], &[0.0, 0.0, 0.0, 0.0, 1.0, 0.0]]);
    }

    #[test]
    fn no_output_channel_exceeds_full_scale() {
        for mask in 1..1_u64 << 12 {
            for output in [1, 2, 6, 8] {
                for row in matrix(mask.count_ones() as usize, mask, output) {
                    assert!(row.iter().sum::<f32>() < 1.000_01, "mask {mask:#x} to {output}: {row:?}");
                }
            }
        }
    }

    #[test]
    fn channels_may_change_between_buffers() {
        let mut mixer = Mixer::new(2);
        assert_eq!(mixer.mix(vec![0.5, 0.25], 2, 0x3).unwrap(), [0.5, 0.25]);
        let mixed = mixer.mix(vec![0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0], 6, MASK_5_1).unwrap();
        assert_near(&[mixed], &[&[0.3204, 0.3204, 0.4531, 0.0]]);
        assert_near(&[mixer.mix(vec![1.0], 1, 0).unwrap()], &[&[MINUS_3_DB, MINUS_3_DB]]);
        assert!(mixer.mix(vec![0.0; 16], 16, 0).is_err(), "unknown positions");
        assert!(mixer.mix(Vec::new(), 0, 0).is_err());
        assert_eq!(mixer.mix(vec![0.5, 0.25], 2, 0).unwrap(), [0.5, 0.25]);
    }
}
