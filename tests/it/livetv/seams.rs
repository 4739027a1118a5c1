//! Programme boundaries: every video frame and audio sample is at the time given by the guide and its own file. The long
//! versions (`HEARTHCAST_LONG=1`) cover 200 programmes, and every hour of a day.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use hearthcast::domain::mpegts::unwrap_timestamp;
use hearthcast::domain::time::Ticks;
use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::process::Command;

use super::play::{fetch_playlist, fetch_segments};
use super::{add_channel, entry_times_ms, get};
use crate::kit::{self, Server, media, player};

fn is_long() -> bool {
    std::env::var_os("HEARTHCAST_LONG").is_some_and(|long| !long.is_empty())
}

/// The playlist of a past range: its text, base path and URL.
pub(super) async fn fetch_past_playlist(
    server: &Server,
    id: &Value,
    from: Timestamp,
    to: Timestamp,
) -> (String, String, String) {
    let target = format!("/api/livetv/watch/{id}?at={from}&end={to}&wait=15");
    let answer = server.get(&target).send().await.unwrap();
    assert_eq!(answer.status(), 200, "the redirect leads to a playlist");
    let url = answer.url().clone();
    let (text, base) = fetch_playlist(server, &format!("{}?{}", url.path(), url.query().unwrap())).await;
    assert!(text.contains("#EXT-X-ENDLIST"), "{text}");
    (text, base, url.to_string())
}

/// Programmes in the guide: start and end in ms, and title.
async fn guide_programmes(server: &Server, id: &Value, from: Timestamp, to: Timestamp) -> Vec<(i64, i64, String)> {
    let guide = get(server, &format!("/api/livetv/epg?channelId={id}&from={from}&to={to}")).await;
    let entry = |entry: &Value| {
        let (start, end) = entry_times_ms(entry);
        (start, end, entry["title"].as_str().unwrap().to_owned())
    };
    guide["entries"].as_array().unwrap().iter().map(entry).collect()
}

/// Decodes a file to raw data with ffmpeg.
async fn decode_raw(path: &Path, args: &str) -> Vec<u8> {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-i"]).arg(path).args(args.split(' ')).kill_on_drop(true);
    command.output().await.expect("ffmpeg runs").stdout
}

/// Makes a film with a white flash and a beep every second.
fn make_film(path: &Path, rate: f64, fraction: &str, seconds: f64, encoder_args: &str) {
    let test_source = format!(
        "testsrc2=s=320x180:r={fraction}:d={seconds},drawbox=c=white:t=fill:enable='lt(mod(t\\,1)\\,{})'",
        0.9 / rate
    );
    let beep = "0.6*sin(2*PI*1000*t)*lt(mod(t\\,1)\\,0.1)";
    let beeps = format!("aevalsrc='{beep}|{beep}':s=48000:d={seconds}");
    media::run_ffmpeg(path, &["-f lavfi -i", &test_source, "-f lavfi -i", &beeps, encoder_args]);
}

const X264: &str = "-c:v libx264 -preset ultrafast";

/// Makes very different films; returns their frame rates by name.
fn make_mixed_films(folder: &Path) -> BTreeMap<String, f64> {
    let (film_rate, tv_rate) = (24_000.0 / 1001.0, 30_000.0 / 1001.0);
    let variants = [
        ("0 copied.mp4", 25.0, "25", format!("{X264} -bf 2 -g 25 -c:a aac")),
        ("1 late picture.mkv", 25.0, "25", format!("{X264} -profile:v baseline -g 25 -c:a aac -ar 44100")),
        ("2 film.mp4", film_rate, "24000/1001", format!("{X264} -bf 2 -g 24 -c:a aac")),
        ("3 silent.mp4", 25.0, "25", format!("{X264} -g 50 -an")),
        ("4 other codec.webm", 25.0, "25", "-c:v libvpx -deadline realtime -c:a libopus".to_owned()),
        ("5 other rate.mkv", tv_rate, "30000/1001", "-c:v mpeg4 -q:v 4 -c:a ac3 -ac 1".to_owned()),
        ("6 reordered.mkv", 25.0, "25", format!("{X264} -bf 3 -b-pyramid strict -g 25 -c:a aac")),
        ("7 stream.ts", 25.0, "25", format!("{X264} -g 25 -c:a mp2")),
        ("8 quick.mp4", 50.0, "50", format!("{X264} -s 640x360 -g 50 -c:a aac -ar 44100")),
        ("9 old.avi", 25.0, "25", "-c:v mpeg4 -q:v 4 -c:a mp3".to_owned()),
    ];
    let mut rates = BTreeMap::new();
    for (n, (name, rate, fraction, encoder_args)) in variants.iter().enumerate() {
        make_film(&folder.join(name), *rate, fraction, 2.7 + 0.13 * n as f64, encoder_args);
        rates.insert(name.rsplit_once('.').unwrap().0.to_owned(), *rate);
    }
    rates
}

#[tokio::test(flavor = "multi_thread")]
async fn video_and_audio_are_continuous_over_every_boundary() {
    let folder = tempfile::tempdir().unwrap();
    let rates = make_mixed_films(folder.path());
    let boundaries = if is_long() { 200 } else { 11 };
    let server = kit::start_server(&[folder.path()]).await;
    let ago = Duration::from_secs_f64(f64::from(boundaries) * 3.5 + 30.0);
    let start = Timestamp::now() - ago;
    let channel = add_channel(
        &server,
        &json!({"name": "Seams", "scheduleMode": "sequential", "startAt": start.to_string(), "items": [{"path": folder.path()}]}),
    )
    .await;
    let programmes = guide_programmes(&server, &channel["id"], start, Timestamp::now()).await;
    let (from, to) = (programmes[0].0, programmes[boundaries as usize].1 - 500);
    let instant = |ms: i64| Timestamp::from_millisecond(ms).unwrap();
    let (text, base, url) = fetch_past_playlist(&server, &channel["id"], instant(from), instant(to)).await;

    // As a player reads it, from playlist and segments.
    let played = player::decode(Path::new(&url)).await;
    let first = played.video[0].start_seconds;
    let wall_ms = |time: f64| from + ((time - first) * 1000.0).round() as i64;
    let programme_at =
        |ms: i64| programmes.iter().find(|(start, end, _)| (*start..*end).contains(&ms)).expect("a programme is on");
    let mut boundaries_found = 0;
    for pair in played.video.windows(2) {
        let (before, after) =
            (programme_at(wall_ms(pair[0].start_seconds) + 1), programme_at(wall_ms(pair[1].start_seconds) + 1));
        boundaries_found += i32::from(before.0 != after.0);
        let (step, expected) = (pair[1].start_seconds - pair[0].start_seconds, 1.0 / rates[&before.2]);
        // Times in Matroska and programme lengths are whole milliseconds.
        assert!(
            (step - expected).abs() < 0.0021,
            "video steps by {step} in {before:?}, at {}",
            wall_ms(pair[0].start_seconds)
        );
    }
    assert_eq!(boundaries_found, boundaries);
    for pair in played.audio.windows(2) {
        let step = pair[1].start_seconds - pair[0].start_seconds;
        assert!(
            (step - 1024.0 / 48_000.0).abs() < 0.0025,
            "audio steps by {step} at {}",
            wall_ms(pair[0].start_seconds)
        );
    }

    // Flashes and beeps, at the times of the decoded frames.
    let path = folder.path().join("aired.ts");
    std::fs::write(&path, fetch_segments(&server, &(text, base)).await).unwrap();
    let times = player::decode(&path).await;
    let frames =
        decode_raw(&path, "-map 0:v:0 -fps_mode passthrough -vf scale=16:16:flags=area,format=gray -f rawvideo -")
            .await;
    let is_bright = |frame: &[u8]| frame.iter().map(|&pixel| u32::from(pixel)).sum::<u32>() / 256 > 225;
    let is_bright_frame: Vec<bool> = frames.chunks_exact(256).map(is_bright).collect();
    assert_eq!(is_bright_frame.len(), times.video.len());
    let flashes: Vec<f64> =
        (0..is_bright_frame.len()).filter(|&n| is_bright_frame[n]).map(|n| times.video[n].start_seconds).collect();
    let samples = decode_raw(&path, "-map 0:a:0 -ac 1 -ar 48000 -f s16le -").await;
    let (mut beeps, mut quiet_samples) = (Vec::new(), 24_000);
    for (n, pair) in samples.as_chunks::<2>().0.iter().enumerate() {
        let is_loud = i16::from_le_bytes(*pair).unsigned_abs() > 4000;
        if is_loud && quiet_samples >= 9_600 {
            beeps.push(times.audio[0].start_seconds + n as f64 / 48_000.0);
        }
        quiet_samples = if is_loud { 0 } else { quiet_samples + 1 };
    }
    assert!(
        flashes.len() >= 2 * boundaries as usize && beeps.len() >= 2 * boundaries as usize,
        "{flashes:?} {beeps:?}"
    );
    let mut worst_offset = 0.0f64;
    for beep in &beeps {
        let offset = flashes.iter().map(|flash| beep - flash).min_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap();
        assert!(offset.abs() < 0.04, "a beep at {beep} is {offset} from its flash");
        worst_offset = worst_offset.max(offset.abs());
    }
    println!(
        "{boundaries_found} boundaries, {} frames, audio at most {:.1} ms off",
        is_bright_frame.len(),
        worst_offset * 1000.0
    );
}

/// Makes a film whose frames encode the film's number and their own in sixteen black or white bits.
pub(super) fn make_numbered_film(path: &Path, number: u32, (rate, seconds): (u32, f64), encoder_args: &[&str]) {
    let mut test_source = format!("color=c=black:s=320x180:r={rate}:d={seconds}");
    for bit in 0..16 {
        let x = bit * 20;
        let is_white = match bit {
            0..12 => format!("gt(mod(floor(n/{})\\,2)\\,0)", 1 << bit),
            _ => u32::from(number >> (bit - 12) & 1 == 1).to_string(),
        };
        test_source += &format!(",drawbox=x={x}:y=0:w=20:h=180:c=white:t=fill:enable='{is_white}'");
    }
    let sine = format!("sine=frequency=440:sample_rate=48000:duration={seconds}");
    media::run_ffmpeg(path, &[&["-f lavfi -i", &test_source, "-f lavfi -i", &sine], encoder_args].concat());
}

/// Decodes frames of [`make_numbered_film`] films: number of the film and of the frame.
pub(super) async fn frame_numbers(path: &Path) -> Vec<(usize, i64)> {
    let frames =
        decode_raw(path, "-map 0:v:0 -fps_mode passthrough -vf scale=16:1:flags=area,format=gray -f rawvideo -").await;
    let number_of = |columns: &[u8]| {
        let value = (0..16).fold(0, |value, bit| value | usize::from(columns[bit] > 128) << bit);
        (value >> 12, (value & 0xfff) as i64)
    };
    frames.chunks_exact(16).map(number_of).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_day_every_frame_matches_the_guide() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["0.mp4", "1.mkv", "2.avi", "3.mkv"];
    let encoder_args = [
        format!("{X264} -bf 2 -g 50 -c:a aac"),
        format!("{X264} -g 25 -c:a aac -ar 44100"),
        "-c:v mpeg4 -q:v 3 -c:a mp3".to_owned(),
        "-c:v mpeg4 -q:v 3 -c:a ac3".to_owned(),
    ];
    for (n, (name, args)) in names.iter().zip(&encoder_args).enumerate() {
        make_numbered_film(&folder.path().join(name), n as u32, (25, 5.3 + 1.17 * n as f64), &[args]);
    }
    let server = kit::start_server(&[folder.path()]).await;
    let channel = add_channel(&server, &json!({"name": "Marks", "seed": 5, "items": [{"path": folder.path()}]})).await;
    let (rounds, step) = if is_long() { (24, 3600) } else { (1, 24 * 3600) };
    let mut worst_ms = 0;
    for _ in 0..rounds {
        server.service.clock.advance(Duration::from_secs(step));
        let now = server.service.clock.now();
        let from = now - Duration::from_secs(30);
        let programmes = guide_programmes(&server, &channel["id"], from - Duration::from_secs(20), now).await;
        let (text, base, _) = fetch_past_playlist(&server, &channel["id"], from, now - Duration::from_secs(3)).await;
        let path = folder.path().join("aired.ts");
        std::fs::write(&path, fetch_segments(&server, &(text, base)).await).unwrap();
        let times = player::decode(&path).await;
        let numbers = frame_numbers(&path).await;
        assert!(
            numbers.len() == times.video.len() && numbers.len() > 20 * 25,
            "{} {}",
            numbers.len(),
            times.video.len()
        );
        let mut programme_starts = 0;
        for ((film, frame), time) in numbers.iter().zip(&times.video) {
            let stored = Ticks::from_seconds(time.start_seconds).wrapped();
            let on_air = unwrap_timestamp(stored, Ticks::from_ms(now.as_millisecond()));
            let has_begun = |start_ms: i64| Ticks::from_ms(start_ms - 1) <= on_air;
            let current = programmes.iter().rev().find(|(start, ..)| has_begun(*start)).expect("a programme is on");
            assert_eq!(&film.to_string(), &current.2, "at {} of {current:?}", on_air.as_ms_floor());
            let offset_ms = (on_air - Ticks::from_ms(current.0 + frame * 40)).abs().as_ms_floor();
            assert!(offset_ms <= 40, "frame {frame} of {current:?} is {offset_ms} ms off");
            worst_ms = worst_ms.max(offset_ms);
            programme_starts += i32::from(*frame == 0);
        }
        assert!(programme_starts >= 2, "at least two programmes begin in the range");
    }
    assert_eq!(server.request(Method::GET, "/api/health").send().await.unwrap().status(), 200);
    println!("{rounds} ranges, {worst_ms} ms off at most");
}
