//! The audio that two episodes of a season have in common: the theme of their intro or their credits.

use rusty_chromaprint::{Configuration, Fingerprinter, Segment, match_fingerprints};

/// Sample rate that fingerprints are made of, Hz; mono, signed 16 bits.
pub const SAMPLE_RATE: u32 = 11_025;

/// Most samples of one fingerprint: a quarter of an hour.
pub const MAX_SAMPLES: usize = SAMPLE_RATE as usize * 900;

/// Audio around an item of a fingerprint, seconds: 16 items and their filter. Half of it lies before the item's own time.
const ITEM_WINDOW_SECONDS: f64 = 2.6;

/// Parts of the same alignment that are closer than this are one, seconds: a line spoken over a theme.
const MAX_GAP_SECONDS: f64 = 4.0;

/// Bits of 32 that differ in audio that is certainly another one.
const UNRELATED_BITS: f64 = 14.0;

/// Most of a part that one item may fill: silence, noise and a held tone give the same item again and again.
const MAX_REPEATED_SHARE: f64 = 0.3;

/// A fingerprint of audio by Chromaprint's algorithm 2, about 8 items a second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AudioFingerprint(Vec<u32>);

/// A part that two fingerprints have in common, seconds from the beginning of each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CommonPart {
    pub first_start: f64,
    pub second_start: f64,
    pub seconds: f64,
    /// 1 to 100.
    pub confidence_percent: u8,
}

impl AudioFingerprint {
    /// Of samples at [`SAMPLE_RATE`], at most [`MAX_SAMPLES`]; the rest is ignored.
    pub fn new(samples: &[i16]) -> Self {
        let mut fingerprinter = Fingerprinter::new(&Configuration::preset_test2());
        if fingerprinter.start(SAMPLE_RATE, 1).is_err() {
            return Self(Vec::new());
        }
        fingerprinter.consume(&samples[..samples.len().min(MAX_SAMPLES)]);
        fingerprinter.finish();
        Self(fingerprinter.fingerprint().to_vec())
    }

    /// The longest part that this audio and other audio have in common, of at least `min_seconds` and at most `max_seconds`.
    pub fn common_part(&self, other: &Self, min_seconds: f64, max_seconds: f64) -> Option<CommonPart> {
        let config = Configuration::preset_test2();
        let item_seconds = f64::from(config.item_duration_in_seconds());
        let found = match_fingerprints(&self.0, &other.0, &config).ok()?;
        let joined = join_close(found, (MAX_GAP_SECONDS / item_seconds) as usize);
        let varied = joined.into_iter().filter(|part| self.is_varied(part));
        let parts = varied.map(|part| CommonPart {
            first_start: part.offset1 as f64 * item_seconds,
            second_start: part.offset2 as f64 * item_seconds,
            seconds: part.items_count as f64 * item_seconds + ITEM_WINDOW_SECONDS / 2.0,
            confidence_percent: confidence_percent(part.score),
        });
        let fitting = parts.filter(|part| (min_seconds..=max_seconds).contains(&part.seconds));
        fitting.max_by(|a, b| a.seconds.total_cmp(&b.seconds))
    }

    fn is_varied(&self, part: &Segment) -> bool {
        let mut items = self.0.get(part.offset1..part.offset1 + part.items_count).unwrap_or(&[]).to_vec();
        items.sort_unstable();
        let most_repeated = items.chunk_by(|a, b| a == b).map(<[u32]>::len).max().unwrap_or(0);
        (most_repeated as f64) < MAX_REPEATED_SHARE * part.items_count as f64
    }
}

/// Joins parts with at most `max_gap` items between them. All parts have the same alignment.
fn join_close(parts: Vec<Segment>, max_gap: usize) -> Vec<Segment> {
    let mut joined: Vec<Segment> = Vec::new();
    for part in parts {
        match joined.last_mut() {
            Some(last) if part.offset1 <= last.offset1 + last.items_count + max_gap => {
                let score = last.score * last.items_count as f64 + part.score * part.items_count as f64;
                last.score = score / (last.items_count + part.items_count) as f64;
                last.items_count = part.offset1 + part.items_count - last.offset1;
            }
            _ => joined.push(part),
        }
    }
    joined
}

/// `different_bits` of 32, on average.
fn confidence_percent(different_bits: f64) -> u8 {
    (100.0 * (1.0 - different_bits / UNRELATED_BITS)).clamp(1.0, 99.0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes of a scale in an order that follows from `seed`, with two overtones; silence for seed 0.
    fn music(seed: u32, seconds: u32) -> Vec<i16> {
        let mut state = seed;
        let mut pitch = 0.0;
        let note_samples = SAMPLE_RATE / 4;
        (0..seconds * SAMPLE_RATE)
            .map(|n| {
                if seed == 0 {
                    return 0;
                }
                if n.is_multiple_of(note_samples) {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    pitch = 220.0 * 2f64.powf(f64::from(state >> 28) / 12.0);
                }
                let turn = f64::from(n) / f64::from(SAMPLE_RATE) * pitch * std::f64::consts::TAU;
                (6000.0 * (turn.sin() + 0.5 * (2.0 * turn).sin() + 0.3 * (3.0 * turn).sin())) as i16
            })
            .collect()
    }

    fn episode(parts: &[(u32, u32)]) -> AudioFingerprint {
        AudioFingerprint::new(&parts.iter().flat_map(|(seed, seconds)| music(*seed, *seconds)).collect::<Vec<_>>())
    }

    #[test]
    fn a_theme_is_found_wherever_it_is() {
        let first = episode(&[(11, 42), (7, 30), (12, 60)]);
        let second = episode(&[(21, 8), (7, 30), (22, 90)]);
        let part = first.common_part(&second, 15.0, 120.0).unwrap();
        let near = |value: f64, expected: f64| (value - expected).abs() < 2.0;
        assert!(near(part.first_start, 42.0) && near(part.second_start, 8.0), "{part:?}");
        assert!(near(part.seconds, 30.0) && part.confidence_percent > 60, "{part:?}");
        assert_eq!(first.common_part(&second, 40.0, 120.0), None, "too short");
        assert_eq!(first.common_part(&second, 5.0, 20.0), None, "too long");
    }

    #[test]
    fn other_music_and_silence_have_nothing_in_common() {
        let first = episode(&[(11, 60), (0, 40)]);
        assert_eq!(first.common_part(&episode(&[(21, 80)]), 10.0, 120.0), None);
        assert_eq!(first.common_part(&episode(&[(31, 20), (0, 60)]), 10.0, 120.0), None);
        assert_eq!(first.common_part(&AudioFingerprint::new(&[]), 0.0, 120.0), None);
        assert_eq!(AudioFingerprint::new(&[1, 2]).common_part(&first, 0.0, 120.0), None);
    }
}
