//! Scene breaks: moments at which the video is black and the audio silent. A channel may interrupt a programme there.

/// Sample rate of the audio that is searched, Hz; mono, signed 16 bits.
pub const SAMPLE_RATE: u32 = 8_000;

/// Frames a second of the video that is searched, in the size of `marks::dark_end::FRAME_SIZE`.
pub const FRAMES_PER_SECOND: u32 = 10;

/// The shortest silence, seconds. Pauses between sentences are shorter, or have noise of the room.
const MIN_SILENCE_SECONDS: f64 = 0.4;

/// Audio is silent below this root mean square of a window, -50 dB of full scale.
const SILENT_BELOW: f64 = 32_768.0 * 0.003_16;

/// Windows of audio a second.
const WINDOWS_PER_SECOND: u32 = 20;

/// A pixel is black below this brightness (0 to 255).
const BLACK_BELOW: u8 = 24;

/// Share of black pixels of a black frame: a logo of the broadcaster may remain.
const BLACK_SHARE: f64 = 0.98;

/// The fewest black frames in a row: a flash of black between two shots is shorter.
const MIN_BLACK_FRAMES: usize = 3;

/// A silent part of the audio, seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Silence {
    pub start: f64,
    pub end: f64,
}

impl Silence {
    pub fn seconds(&self) -> f64 {
        self.end - self.start
    }
}

/// The silent parts of samples at [`SAMPLE_RATE`], in seconds from the first one.
pub fn find_silences(samples: &[i16]) -> Vec<Silence> {
    let windows = samples.chunks((SAMPLE_RATE / WINDOWS_PER_SECOND) as usize);
    let is_silent: Vec<bool> = windows.map(|window| root_mean_square(window) < SILENT_BELOW).collect();
    let seconds = |window: usize| window as f64 / f64::from(WINDOWS_PER_SECOND);
    let silences = runs(&is_silent).map(|(first, end)| Silence { start: seconds(first), end: seconds(end) });
    silences.filter(|silence| silence.seconds() >= MIN_SILENCE_SECONDS).collect()
}

/// The middle of the longest black part of frames at [`FRAMES_PER_SECOND`], in seconds from the first one. `frames` are grey
/// images of `frame_bytes` bytes, one after the other.
pub fn middle_of_black(frames: &[u8], frame_bytes: usize) -> Option<f64> {
    let is_black: Vec<bool> = frames.chunks_exact(frame_bytes).map(is_black_frame).collect();
    let longest = runs(&is_black).max_by_key(|(first, end)| end - first)?;
    let (first, end) = Some(longest).filter(|(first, end)| end - first >= MIN_BLACK_FRAMES)?;
    Some((first + end) as f64 / 2.0 / f64::from(FRAMES_PER_SECOND))
}

/// The runs of `true`: the first of each and the first after it.
fn runs(values: &[bool]) -> impl Iterator<Item = (usize, usize)> {
    let mut at = 0;
    values.chunk_by(|a, b| a == b).filter_map(move |run| {
        let first = at;
        at += run.len();
        run[0].then_some((first, at))
    })
}

fn root_mean_square(samples: &[i16]) -> f64 {
    let sum: f64 = samples.iter().map(|sample| f64::from(*sample).powi(2)).sum();
    (sum / samples.len().max(1) as f64).sqrt()
}

fn is_black_frame(pixels: &[u8]) -> bool {
    let black = pixels.iter().filter(|pixel| **pixel < BLACK_BELOW).count();
    black as f64 >= BLACK_SHARE * pixels.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tone of each amplitude for so many milliseconds.
    fn audio(parts: &[(f64, u32)]) -> Vec<i16> {
        let tone = |(amplitude, ms): &(f64, u32)| {
            let amplitude = *amplitude;
            (0..ms * SAMPLE_RATE / 1000).map(move |n| (amplitude * (f64::from(n) * 0.35).sin()) as i16)
        };
        parts.iter().flat_map(tone).collect()
    }

    #[test]
    fn silences_are_long_and_quiet() {
        let speech = (8_000.0, 3_000);
        let found = find_silences(&audio(&[speech, (0.0, 600), speech, (0.0, 200), speech, (40.0, 1_000)]));
        assert_eq!(found, [Silence { start: 3.0, end: 3.6 }, Silence { start: 9.8, end: 10.8 }]);
        assert_eq!(find_silences(&audio(&[speech, (300.0, 1_000)])), [], "noise of a room");
        assert_eq!(find_silences(&[]), []);
    }

    #[test]
    fn black_is_nearly_the_whole_frame_for_some_frames() {
        let frame = |kind| match kind {
            'b' => vec![3; 100],
            'l' => [vec![200; 2], vec![3; 98]].concat(),
            't' => [vec![200; 10], vec![3; 90]].concat(),
            _ => vec![90; 100],
        };
        let middle = |kinds: &str| middle_of_black(&kinds.chars().flat_map(frame).collect::<Vec<_>>(), 100);
        assert_eq!(middle("ssbbbbss"), Some(0.4));
        assert_eq!(middle("bbbsblblbs"), Some(0.65), "with a logo, the longer one");
        assert_eq!(middle("ssbbss"), None);
        assert_eq!(middle("ttttt"), None, "text on black");
        assert_eq!(middle(""), None);
    }
}
