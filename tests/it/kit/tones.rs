//! Audio with a tone of its own in each channel, and the level of a tone in decoded audio.

use std::f64::consts::TAU;
use std::path::Path;

use super::media;

/// Of the sources and of decoded audio.
pub const SAMPLE_RATE: usize = 48_000;

/// The tone of each channel, Hz. All have whole periods in the measured second.
pub const TONES: [(&str, f64); 11] = [
    ("FL", 300.0),
    ("FR", 500.0),
    ("FC", 700.0),
    ("LFE", 60.0),
    ("BL", 1100.0),
    ("BR", 1300.0),
    ("SL", 1500.0),
    ("SR", 1700.0),
    ("FLC", 1900.0),
    ("FRC", 2100.0),
    ("BC", 2300.0),
];

/// Channels of a layout as ffmpeg orders them.
const LAYOUTS: [(&str, &str); 15] = [
    ("mono", "FC"),
    ("stereo", "FL FR"),
    ("2.1", "FL FR LFE"),
    ("3.0", "FL FR FC"),
    ("4.0", "FL FR FC BC"),
    ("quad", "FL FR BL BR"),
    ("quad(side)", "FL FR SL SR"),
    ("5.0", "FL FR FC BL BR"),
    ("5.0(side)", "FL FR FC SL SR"),
    ("5.1", "FL FR FC LFE BL BR"),
    ("5.1(side)", "FL FR FC LFE SL SR"),
    ("6.1", "FL FR FC LFE BC SL SR"),
    ("6.1(back)", "FL FR FC LFE BL BR BC"),
    ("7.1", "FL FR FC LFE BL BR SL SR"),
    ("7.1(wide)", "FL FR FC LFE BL BR FLC FRC"),
];

/// The speakers of a layout, as ffmpeg orders them.
pub fn speakers(layout: &str) -> Vec<&'static str> {
    let (_, speakers) = LAYOUTS.iter().find(|(name, _)| *name == layout).expect("a layout of the table");
    speakers.split(' ').collect()
}

/// The frequency of a speaker's tone.
pub fn hertz_of(speaker: &str) -> f64 {
    TONES.iter().find(|(name, _)| *name == speaker).expect("a speaker of the table").1
}

/// A source filter of ffmpeg: the tone of each speaker of a layout, 12 dB below full scale.
pub fn source_filter(layout: &str, seconds: u32) -> String {
    let tone = |speaker: &str| format!("0.25*sin(2*PI*{}*t)", hertz_of(speaker));
    let tones: Vec<String> = speakers(layout).into_iter().map(tone).collect();
    format!("aevalsrc=exprs='{}':channel_layout={layout}:s={SAMPLE_RATE}:d={seconds}", tones.join("|"))
}

/// The samples of each channel of some files' first audio streams, at 48 kHz.
pub fn decode_channels(paths: &[&Path], channels: usize) -> Vec<Vec<Vec<f32>>> {
    let decoded = media::convert(paths, ["-map {n}:a:0 -ar 48000 -f f32le"]).into_iter();
    decoded
        .map(|[bytes]| {
            let samples = bytes.as_chunks::<4>().0.iter().map(|&four| f32::from_le_bytes(four));
            let mut separate = vec![Vec::with_capacity(bytes.len() / 4 / channels); channels];
            samples.enumerate().for_each(|(n, sample)| separate[n % channels].push(sample));
            separate
        })
        .collect()
}

/// The level of a sine tone in one second of a channel, dB below full scale, by Goertzel's filter: no sine per sample.
pub fn tone_decibels(samples: &[f32], hertz: f64) -> f64 {
    let step = 2.0 * (TAU * hertz / SAMPLE_RATE as f64).cos();
    let (mut last, mut before) = (0.0_f64, 0.0_f64);
    for &sample in samples {
        (last, before) = (f64::from(sample) + step * last - before, last);
    }
    let power = last * last + before * before - step * last * before;
    let amplitude = 2.0 * power.max(0.0).sqrt() / samples.len() as f64;
    20.0 * amplitude.max(1e-9).log10()
}
