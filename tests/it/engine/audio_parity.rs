//! Audio of both backends: each channel's tone is equally loud on each speaker, and levelled audio has the same level.

use std::f64::consts::TAU;

use super::*;
use crate::kit::tones::{self, SAMPLE_RATE, TONES, decode_channels, tone_decibels};

/// The largest difference between the backends, dB.
const TOLERANCE_DECIBELS: f64 = 0.5;

/// Quieter tones are not compared, dB below full scale.
const NOISE_FLOOR_DECIBELS: f64 = -50.0;

/// Files by container and arguments of the encoder, each in some layouts.
const FILES: [(&str, Container, &str, &str); 12] = [
    ("a.wav", Container::Wav, "-c:a pcm_s16le", "mono stereo 2.1 3.0 4.0 quad 5.0 5.1(side) 6.1 7.1 7.1(wide)"),
    ("a.flac", Container::Flac, "-c:a flac", "quad 5.1"),
    ("flac.mkv", Container::Matroska, "-c:a flac", "5.1"),
    ("ac3.mkv", Container::Matroska, "-c:a ac3 -b:a 640k", "mono 2.1 4.0 5.1(side)"),
    ("eac3.mp4", Container::Mp4, "-c:a eac3 -b:a 640k", "5.1(side)"),
    ("dts.mkv", Container::Matroska, "-strict -2 -c:a dca", "stereo quad(side) 5.0(side) 5.1(side)"),
    ("truehd.mkv", Container::Matroska, "-strict -2 -c:a truehd", "5.1(side)"),
    ("aac.m4a", Container::Mp4, "-c:a aac -b:a 700k", "3.0 7.1"),
    ("alac.m4a", Container::Mp4, "-c:a alac", "7.1(wide)"),
    ("opus.ogg", Container::Ogg, "-c:a libopus -b:a 600k -mapping_family 1", "7.1"),
    ("vorbis.ogg", Container::Ogg, "-c:a libvorbis -q:a 8", "7.1"),
    ("pcm.mov", Container::Mp4, "-c:a pcm_s24le", "5.1"),
];

/// The level of all of a channel's samples, dB below full scale.
fn rms_decibels(samples: &[f32]) -> f64 {
    let mean_square = samples.iter().map(|sample| f64::from(*sample).powi(2)).sum::<f64>() / samples.len() as f64;
    10.0 * mean_square.max(1e-18).log10()
}

/// The channels of the audio that ffmpeg and GStreamer make of a file.
struct EncodedAudio {
    ffmpeg: Vec<Vec<f32>>,
    gstreamer: Vec<Vec<f32>>,
}

/// A bench of a file of 3 s, of which only the audio is encoded.
fn audio_bench(path: &Path, container: Container) -> Bench {
    Bench::of_file(tempfile::tempdir().unwrap(), path, container, FPS25, 3.0)
}

impl Bench {
    /// Writes all encoded segments to one file.
    async fn encode_audio(&mut self, audio: &AudioPlan) -> PathBuf {
        self.rendition = Arc::new(Rendition { audio: Some(audio.clone()), ..Rendition::default() });
        self.write_joined(&format!("{}.ts", self.backend.name()), &self.all_segments().await)
    }
}

/// The channels of the output.
fn channel_count(audio: &AudioPlan) -> usize {
    let AudioPlan::Encode { channels, .. } = *audio else { panic!("audio is encoded") };
    channels as usize
}

/// Encodes a file's audio with both backends, for each plan.
async fn encode_channels(path: &Path, container: Container, plans: &[AudioPlan]) -> Vec<EncodedAudio> {
    let mut bench = audio_bench(path, container);
    let mut by_ffmpeg = Vec::new();
    for plan in plans {
        let path = bench.encode_audio(plan).await;
        let kept = path.with_extension(format!("{}.ts", by_ffmpeg.len()));
        std::fs::rename(&path, &kept).unwrap();
        by_ffmpeg.push(kept);
    }
    bench = bench.with_gstreamer();
    let mut encoded = Vec::new();
    for (plan, ffmpeg) in plans.iter().zip(by_ffmpeg) {
        let gstreamer = bench.encode_audio(plan).await;
        let mut decoded = decode_channels(&[&ffmpeg, &gstreamer], channel_count(plan));
        let gstreamer = decoded.swap_remove(1);
        encoded.push(EncodedAudio { ffmpeg: decoded.swap_remove(0), gstreamer });
    }
    encoded
}

/// All layouts take a minute of processor time: without `HEARTHCAST_ALL_FILMS` every other one is encoded.
#[tokio::test]
async fn each_tone_is_equally_loud_with_both_backends() {
    let folder = tempfile::tempdir().unwrap();
    let layouts_of = |file: (&'static str, Container, &'static str, &'static str)| {
        file.3.split(' ').map(move |layout| (file, layout))
    };
    for ((name, container, encoder_args, _), layout) in
        FILES.into_iter().flat_map(layouts_of).step_by(media::film_step(2))
    {
        let speakers = tones::speakers(layout);
        let source = tones::source_filter(layout, 3);
        let path = folder.path().join(name);
        media::run_ffmpeg(&path, &["-f lavfi -i", &source, encoder_args]);
        // Six channels show where each tone is; how they are mixed into two does not depend on the file's format.
        let outputs = if container == Container::Wav { &[(2, 256), (6, 600)][..] } else { &[(6, 600)] };
        let plan = |&(channels, kbps)| AudioPlan::Encode { stream: 0, channels, kbps, gain_tenths_db: None };
        let plans: Vec<AudioPlan> = outputs.iter().map(plan).collect();
        for (plan, encoded) in plans.iter().zip(encode_channels(&path, container, &plans).await) {
            let channels = channel_count(plan);
            let mut compared_count = 0;
            for (channel, (ffmpeg, gstreamer)) in encoded.ffmpeg.iter().zip(&encoded.gstreamer).enumerate() {
                for (speaker, hertz) in TONES {
                    let level = |samples: &[f32]| tone_decibels(&samples[SAMPLE_RATE..2 * SAMPLE_RATE], hertz);
                    let (theirs, ours) = (level(ffmpeg), level(gstreamer));
                    if theirs.max(ours) < NOISE_FLOOR_DECIBELS {
                        continue;
                    }
                    compared_count += 1;
                    assert!(
                        (theirs - ours).abs() < TOLERANCE_DECIBELS,
                        "{name} {layout} to {channels} channels: {speaker} in channel {channel} has {theirs:.1} dB with \
                             ffmpeg, {ours:.1} dB with GStreamer"
                    );
                }
            }
            let audible_count = speakers.iter().filter(|speaker| channels == 6 || **speaker != "LFE").count();
            assert!(compared_count >= audible_count, "{name} {layout} to {channels} channels: tones are missing");
        }
    }
}

#[tokio::test]
async fn levelled_audio_has_the_same_level_with_both_backends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.flac");
    let source = "anoisesrc=c=pink:a=0.7:seed=1:r=48000:d=3";
    let loud_and_quiet = "-af volume='if(lt(mod(t,0.8),0.4),1,0.4)':eval=frame,aformat=channel_layouts=stereo";
    media::run_ffmpeg(&path, &["-f lavfi -i", source, loud_and_quiet, "-c:a flac"]);
    let gains = [-60, 60, 150];
    let plan = |gain| AudioPlan::Encode { stream: 0, channels: 2, kbps: 256, gain_tenths_db: Some(gain) };
    let encoded = encode_channels(&path, Container::Flac, &gains.map(plan)).await;
    for (gain_tenths_db, encoded) in gains.into_iter().zip(encoded) {
        for (ffmpeg, gstreamer) in encoded.ffmpeg.iter().zip(&encoded.gstreamer) {
            let windows = ffmpeg.chunks_exact(SAMPLE_RATE / 5).zip(gstreamer.chunks_exact(SAMPLE_RATE / 5)).take(14);
            for (number, (ffmpeg, gstreamer)) in windows.enumerate() {
                let (theirs, ours) = (rms_decibels(ffmpeg), rms_decibels(gstreamer));
                assert!(
                    (theirs - ours).abs() < TOLERANCE_DECIBELS,
                    "gain {gain_tenths_db}, window {number}: {theirs:.1} dB with ffmpeg, {ours:.1} dB with GStreamer"
                );
            }
        }
    }
}

/// A WAV file of 64-bit floating-point samples, mono at 48 kHz (RIFF MCI 1.0, format tag 3).
fn float_wav(samples: &[f64]) -> Vec<u8> {
    let data: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
    let format = [&3u16.to_le_bytes()[..], &1u16.to_le_bytes(), &48_000u32.to_le_bytes(), &384_000u32.to_le_bytes()];
    let format = [&format.concat()[..], &8u16.to_le_bytes(), &64u16.to_le_bytes()].concat();
    let length = |bytes: usize| u32::try_from(bytes).unwrap().to_le_bytes();
    let parts =
        [b"RIFF", &length(36 + data.len())[..], b"WAVEfmt ", &length(16), &format, b"data", &length(data.len())];
    [&parts.concat()[..], &data].concat()
}

#[tokio::test]
async fn samples_that_are_no_numbers_do_not_stop_the_audio() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("broken.wav");
    let extremes = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, 1e30, -1e20];
    let is_broken = |n: usize| (SAMPLE_RATE / 2..SAMPLE_RATE).contains(&n);
    let tone = |n: usize| 0.25 * (TAU * 300.0 * n as f64 / SAMPLE_RATE as f64).sin();
    let sample = |n: usize| if is_broken(n) { extremes[n % extremes.len()] } else { tone(n) };
    std::fs::write(&path, float_wav(&(0..3 * SAMPLE_RATE).map(sample).collect::<Vec<_>>())).unwrap();
    let plan = AudioPlan::Encode { stream: 0, channels: 2, kbps: 256, gain_tenths_db: None };
    // ffmpeg's own command fails at this file.
    let mut bench = audio_bench(&path, Container::Wav).with_gstreamer();
    let encoded = bench.encode_audio(&plan).await;
    let channels = decode_channels(&[&encoded], 2).swap_remove(0);
    let second = |from: usize| tone_decibels(&channels[0][from..from + SAMPLE_RATE], 300.0);
    // The centre of mono is 3 dB lower in each of two channels.
    let expected = 20.0 * 0.25f64.log10() - 3.0;
    assert!(
        (second(3 * SAMPLE_RATE / 2) - expected).abs() < 1.0,
        "the tone continues: {}",
        second(3 * SAMPLE_RATE / 2)
    );
}
