//! Boundaries between runs: audio continues seamlessly, and stays in sync with the video wherever a run begins.
//!
//! `HEARTHCAST_SEAMS` sets the number of random starts, in a film of a minute.

use std::process::Command;

use super::*;
use hearthcast::domain::time::Ticks;
use hearthcast::engine::packager::Packager;

const SAMPLE_RATE: f64 = 48_000.0;

/// Offset in every second at which the video flashes and the audio clicks, far from all segment boundaries.
const CLICK_OFFSET_SECONDS: f64 = 0.52;

/// Makes a film with a tone on the left, clicks on the right and flashes; a keyframe every 2 s.
fn make_film(path: &Path, seconds: u32) {
    let test_source =
        format!("testsrc2=s=320x180:r=25:d={seconds},drawbox=c=white:t=fill:enable='eq(mod(n\\,25)\\,13)'");
    let expression = "0.4*sin(2*PI*1000*t)|0.7*between(mod(t\\,1)\\,0.52\\,0.521)";
    let audio_source = format!("aevalsrc='{expression}':s=48000:d={seconds}");
    let encoder_args = "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 50 -sc_threshold 0 -c:a aac -b:a 192k";
    media::run_ffmpeg(path, &["-f lavfi -i", &test_source, "-f lavfi -i", &audio_source, encoder_args]);
}

/// The film with every backend that can make it.
async fn benches_by_backend(seconds: u32) -> Vec<(&'static str, Bench)> {
    let mut benches = Vec::new();
    for name in ["ffmpeg encodes", "gstreamer encodes", "ffmpeg copies", "the packager copies"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("film.mp4");
        make_film(&path, seconds);
        let bench = if name.ends_with("encodes") {
            let bench = Bench::of_file(folder, &path, Container::Mp4, FPS25, f64::from(seconds));
            if name.starts_with("gstreamer") { bench.with_gstreamer() } else { bench }
        } else {
            let mut bench = Bench::of_packaged_file(folder, &path).await.unwrap();
            if name.starts_with("ffmpeg") {
                bench.package = None;
            } else {
                bench.backend = Arc::new(Packager);
            }
            bench
        };
        benches.push((name, bench));
    }
    benches
}

/// Start time of a file's audio, seconds, and its samples, left and right.
fn audio_samples(path: &Path) -> (f64, Vec<[f32; 2]>) {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-i"]).arg(path).args(["-map", "0:a:0", "-ac", "2", "-f", "f32le", "-"]);
    let bytes = command.output().unwrap().stdout;
    let values: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|&four| f32::from_le_bytes(four)).collect();
    let first = media::packets(path).into_iter().filter(|packet| packet.stream == 1).map(|packet| packet.pts).min();
    let start = first.unwrap() as f64 / 90_000.0 - 3600.0;
    (start, values.as_chunks::<2>().0.to_vec())
}

/// The loudest residue in windows of 64 ms around these times, after a steady tone is subtracted.
fn loudest_residue(start: f64, samples: &[[f32; 2]], times: &[f64]) -> f64 {
    let angle = |n: usize| 2.0 * std::f64::consts::PI * 1000.0 * n as f64 / SAMPLE_RATE;
    let tone_range = 48_000..samples.len() - samples.len() % 48 - 48_000;
    let amplitude = |wave: fn(f64) -> f64| {
        let sum: f64 = tone_range.clone().map(|n| f64::from(samples[n][0]) * wave(angle(n))).sum();
        2.0 * sum / tone_range.len() as f64
    };
    let (sine, cosine) = (amplitude(f64::sin), amplitude(f64::cos));
    assert!(sine.hypot(cosine) > 0.35, "there is one steady tone: {sine} {cosine}");
    let residue_at = |&time: &f64| {
        let sample_index = ((time - start) * SAMPLE_RATE) as usize;
        let residue = |n: usize| f64::from(samples[n][0]) - sine * angle(n).sin() - cosine * angle(n).cos();
        ((sample_index - 1024..sample_index + 2048).map(|n| residue(n).powi(2)).sum::<f64>() / 3072.0).sqrt()
    };
    times.iter().map(residue_at).fold(0.0, f64::max)
}

/// The time at which the right channel is loudest, in every complete second.
fn click_times(start: f64, samples: &[[f32; 2]]) -> Vec<f64> {
    let end = start + samples.len() as f64 / SAMPLE_RATE;
    let seconds = start.ceil() as i64..end.floor() as i64;
    let loudest_time = |second: i64| {
        let from = ((second as f64 - start) * SAMPLE_RATE) as usize;
        let loudest_index = (from..from + 48_000).max_by(|&a, &b| samples[a][1].abs().total_cmp(&samples[b][1].abs()));
        start + loudest_index.unwrap() as f64 / SAMPLE_RATE
    };
    seconds.map(loudest_time).collect()
}

/// Largest offsets of clicks and of flashes from their place in the second, seconds.
fn largest_offsets(path: &Path) -> (f64, f64) {
    let (start, samples) = audio_samples(path);
    let clicks = click_times(start, &samples);
    // If audio is copied, the first second of a run may have no audio yet.
    let (flashes, _) = media::flash_and_beep_times(path, 25.0);
    assert!(!clicks.is_empty() && !flashes.is_empty());
    let offset = |time: f64| time - time.floor() - CLICK_OFFSET_SECONDS;
    let largest =
        |times: &[f64]| times.iter().map(|&at| offset(at)).max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap();
    (largest(&clicks), largest(&flashes))
}

#[tokio::test]
async fn runs_join_seamlessly_and_begin_in_sync() {
    let random_starts = std::env::var("HEARTHCAST_SEAMS").ok().and_then(|text| text.parse::<usize>().ok());
    let seconds = if random_starts.is_some() { 60 } else { 8 };
    for (name, bench) in benches_by_backend(seconds).await {
        let last = bench.grid.len() - 1;
        // Every segment made by its own run, over the first 8 s.
        let mut joined = Vec::new();
        for index in (0..=last).take_while(|&index| bench.grid.segment_start(index) < Ticks::from_ms(8000)) {
            joined.push(bench.single_segment(index).await);
        }
        let joined_path = bench.write_joined("joined.ts", &joined);
        assert_eq!(media::decoder_warnings(&joined_path), "", "{name}");
        let (start, samples) = audio_samples(&joined_path);
        let joins: Vec<f64> = (1..joined.len()).map(|index| bench.grid.segment_start(index).as_seconds()).collect();
        let between_joins: Vec<f64> = joins.iter().map(|join| join + 0.25).collect();
        let (residue_at_joins, residue_between) =
            (loudest_residue(start, &samples, &joins), loudest_residue(start, &samples, &between_joins));
        eprintln!(
            "{name}: {} joins, residual {residue_at_joins:.6} at joins, {residue_between:.6} inside",
            joins.len()
        );
        assert!(
            residue_at_joins < residue_between * 1.5 + 0.001,
            "{name}: residual {residue_at_joins} at joins, {residue_between} inside"
        );
        let (mut worst_click, mut worst_sync) = (0.0f64, 0.0f64);
        let mut random = 20_261_121u64;
        for _ in 0..random_starts.unwrap_or(2) {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let first = (random >> 33) as usize % last;
            // Two segments, because the first ones of a film are short.
            let path = bench.write_joined("started.ts", &bench.run_segments(first, first + 1).await);
            let (click, flash) = largest_offsets(&path);
            assert!(click.abs() < 0.005, "{name} from {first}: a click is {click} s late");
            assert!((click - flash).abs() < 0.02, "{name} from {first}: audio and video are {} s apart", click - flash);
            (worst_click, worst_sync) = (worst_click.max(click.abs()), worst_sync.max((click - flash).abs()));
        }
        eprintln!("{name}: clicks at most {worst_click:.4} s off, {worst_sync:.4} s from their flash");
    }
}
