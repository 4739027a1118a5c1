//! Boundaries between runs: audio continues seamlessly, and stays in sync with the video wherever a run begins.
//!
//! `HEARTHCAST_SEAMS` sets the number of random starts, in a film of a minute.

use std::process::Command;

use super::*;
use hearthcast::engine::packager::Packager;

const RATE: f64 = 48_000.0;

/// Offset in every second at which the video flashes and the audio clicks, far from all segment boundaries.
const CLICK: f64 = 0.52;

/// Makes a film with a tone on the left, clicks on the right and flashes; a keyframe every 2 s.
fn film(path: &Path, seconds: u32) {
    let picture = format!("testsrc2=s=320x180:r=25:d={seconds},drawbox=c=white:t=fill:enable='eq(mod(n\\,25)\\,13)'");
    let sound = "0.4*sin(2*PI*1000*t)|0.7*between(mod(t\\,1)\\,0.52\\,0.521)";
    let sound = format!("aevalsrc='{sound}':s=48000:d={seconds}");
    let made_by = "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 50 -sc_threshold 0 -c:a aac -b:a 192k";
    film::make(path, &["-f lavfi -i", &picture, "-f lavfi -i", &sound, made_by]);
}

/// The film with every backend that can make it.
async fn benches(seconds: u32) -> Vec<(&'static str, Bench)> {
    let mut benches = Vec::new();
    for name in ["ffmpeg encodes", "gstreamer encodes", "ffmpeg copies", "the packager copies"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("film.mp4");
        film(&path, seconds);
        let bench = if name.ends_with("encodes") {
            let bench = Bench::over(folder, &path, Container::Mp4, FPS25, f64::from(seconds));
            if name.starts_with("gstreamer") { bench.natively() } else { bench }
        } else {
            let mut bench = Bench::packaging(folder, &path).await.unwrap();
            if name.starts_with("ffmpeg") {
                bench.package = None;
            } else {
                bench.producer = Arc::new(Packager);
            }
            bench
        };
        benches.push((name, bench));
    }
    benches
}

/// Start time of a file's audio, seconds, and its samples, left and right.
fn samples(path: &Path) -> (f64, Vec<[f32; 2]>) {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-i"]).arg(path).args(["-map", "0:a:0", "-ac", "2", "-f", "f32le", "-"]);
    let bytes = command.output().unwrap().stdout;
    let all: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|&four| f32::from_le_bytes(four)).collect();
    let first = film::packets(path).into_iter().filter(|packet| packet.stream == 1).map(|packet| packet.pts).min();
    let start = first.unwrap() as f64 / 90_000.0 - 3600.0;
    (start, all.as_chunks::<2>().0.to_vec())
}

/// The loudest residue in windows of 64 ms around these times, after a steady tone is subtracted.
fn residual(start: f64, samples: &[[f32; 2]], times: &[f64]) -> f64 {
    let angle = |n: usize| 2.0 * std::f64::consts::PI * 1000.0 * n as f64 / RATE;
    let steady = 48_000..samples.len() - samples.len() % 48 - 48_000;
    let share = |wave: fn(f64) -> f64| {
        let sum: f64 = steady.clone().map(|n| f64::from(samples[n][0]) * wave(angle(n))).sum();
        2.0 * sum / steady.len() as f64
    };
    let (sine, cosine) = (share(f64::sin), share(f64::cos));
    assert!(sine.hypot(cosine) > 0.35, "there is one steady tone: {sine} {cosine}");
    let loud = |&time: &f64| {
        let at = ((time - start) * RATE) as usize;
        let left = |n: usize| f64::from(samples[n][0]) - sine * angle(n).sin() - cosine * angle(n).cos();
        ((at - 1024..at + 2048).map(|n| left(n).powi(2)).sum::<f64>() / 3072.0).sqrt()
    };
    times.iter().map(loud).fold(0.0, f64::max)
}

/// The time at which the right channel is loudest, in every complete second.
fn clicks(start: f64, samples: &[[f32; 2]]) -> Vec<f64> {
    let end = start + samples.len() as f64 / RATE;
    let whole = start.ceil() as i64..end.floor() as i64;
    let loudest = |second: i64| {
        let from = ((second as f64 - start) * RATE) as usize;
        let at = (from..from + 48_000).max_by(|&a, &b| samples[a][1].abs().total_cmp(&samples[b][1].abs()));
        start + at.unwrap() as f64 / RATE
    };
    whole.map(loudest).collect()
}

/// Largest offsets of clicks and of flashes from their place in the second, seconds.
fn apart(path: &Path) -> (f64, f64) {
    let (start, samples) = samples(path);
    let clicks = clicks(start, &samples);
    // If audio is copied, the first second of a run may have no audio yet.
    let (flashes, _) = film::flashes_and_beeps(path, 25.0);
    assert!(!clicks.is_empty() && !flashes.is_empty());
    let aside = |at: f64| at - at.floor() - CLICK;
    let most = |times: &[f64]| times.iter().map(|&at| aside(at)).max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap();
    (most(&clicks), most(&flashes))
}

#[tokio::test]
async fn runs_join_without_a_seam_and_begin_in_step() {
    let wanted = std::env::var("HEARTHCAST_SEAMS").ok().and_then(|text| text.parse::<usize>().ok());
    let seconds = if wanted.is_some() { 60 } else { 8 };
    for (name, bench) in benches(seconds).await {
        let last = bench.grid.len() - 1;
        // Every segment made by its own run, over the first 8 s.
        let mut joined = Vec::new();
        for index in (0..=last).take_while(|&index| bench.grid.segment_start(index) < 8 * 90_000) {
            joined.push(bench.one(index).await);
        }
        let whole = bench.write("joined.ts", &joined);
        assert_eq!(film::complaints(&whole), "", "{name}");
        let (start, samples) = samples(&whole);
        let joins: Vec<f64> = (1..joined.len()).map(|index| bench.grid.segment_start(index) as f64 / 90_000.0).collect();
        let inside: Vec<f64> = joins.iter().map(|join| join + 0.25).collect();
        let (seam, tone) = (residual(start, &samples, &joins), residual(start, &samples, &inside));
        eprintln!("{name}: {} joins, residual {seam:.6} at joins, {tone:.6} inside", joins.len());
        assert!(seam < tone * 1.5 + 0.001, "{name}: residual {seam} at joins, {tone} inside");
        let (mut sound, mut picture) = (0.0f64, 0.0f64);
        let mut random = 20_261_121u64;
        for _ in 0..wanted.unwrap_or(2) {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let first = (random >> 33) as usize % last;
            // Two segments, because the first ones of a film are short.
            let path = bench.write("started.ts", &bench.made(first, first + 1).await);
            let (click, flash) = apart(&path);
            assert!(click.abs() < 0.005, "{name} from {first}: a click is {click} s late");
            assert!((click - flash).abs() < 0.02, "{name} from {first}: audio and video are {} s apart", click - flash);
            (sound, picture) = (sound.max(click.abs()), picture.max((click - flash).abs()));
        }
        eprintln!("{name}: clicks at most {sound:.4} s off, {picture:.4} s from their flash");
    }
}
