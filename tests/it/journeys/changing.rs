//! Files whose clock jumps, whose streams change, that grow or end early: every frame of the source is played once, in order,
//! with its audio.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use hearthcast::domain::mpegts::packet::PACKET_LEN;
use hearthcast::domain::mpegts::timestamp_shift::shift_packet;
use serde_json::{Value, json};

use crate::kit::play::{self, Stream};
use crate::kit::{self, Server, film};

/// Frames per second.
const RATE: usize = 25;

/// Makes frames `from` to `to` of a film. Every frame encodes its number in its colour, and every second begins with a beep.
/// Keyframes come each second, with B-frames in between.
fn film(path: &Path, (from, to): (usize, usize), side: usize, more: &str) {
    let number = format!("(N+{from})");
    let colours = format!(
        "geq=lum='20+10*mod({number}\\,20)':cb='20+10*mod(floor({number}/20)\\,20)':cr='20+5*floor({number}/400)'"
    );
    let seconds = (to - from) as f64 / RATE as f64;
    let status = Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i"])
        .arg(format!("nullsrc=s={side}x{side}:r={RATE}:d={seconds},format=yuv420p,{colours}"))
        .args(["-f", "lavfi", "-i"])
        .arg(format!("aevalsrc='0.6*sin(2*PI*1000*t)*lt(mod(t\\,1)\\,0.1)':s=48000:d={seconds}"))
        .args("-c:v libx264 -preset ultrafast -qp 4 -g 25 -bf 2 -pix_fmt yuv420p".split(' '))
        .args(more.split(' '))
        .arg(path)
        .status();
    assert!(status.expect("ffmpeg runs").success());
}

/// Media info of a file.
async fn info(server: &Server, path: &Path) -> Value {
    let answer = server.get("/api/stream/info/full").query(&[("path", path.to_str().unwrap())]).send().await;
    answer.unwrap().json().await.unwrap()
}

async fn open(server: &Server, path: &Path, wish: Value, video: &str) -> (Value, Stream) {
    let (status, started) = play::start(server, path, wish).await;
    assert_eq!((status, &started["decision"]["video"]), (200, &json!(video)), "{}: {started}", path.display());
    let stream = Stream::open(server, &started).await.unwrap();
    (started, stream)
}

/// Beeps more than 40 ms away from the full second, and the number of all beeps.
fn astray(path: &Path) -> (Vec<f64>, usize) {
    let (_, beeps) = film::flashes_and_beeps(path, RATE as f64);
    let count = beeps.len();
    (beeps.into_iter().filter(|at| (at - at.round()).abs() > 0.04).collect(), count)
}

fn encoded() -> Value {
    json!({"forceTranscode": true, "profile": {"maxBitrateKbps": 90}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_film_whose_clock_jumps_is_shown_whole_and_without_a_stop() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.ts");
    film(&whole, (0, 300), 16, "-c:a mp2 -b:a 128k -output_ts_offset 5000 -f mpegts");
    let bytes = std::fs::read(&whole).unwrap();
    let server = kit::server(&[folder.path()]).await;
    let kept = folder.path().join("kept.bin");
    for (seconds, kinds) in [(-4900, "both"), (-5, "both"), (20, "copy"), (1000, "encode"), (-50_000, "copy")] {
        let path = folder.path().join(format!("jump{seconds}.ts"));
        let mut jumping = bytes.clone();
        let half = jumping.len() / PACKET_LEN / 2;
        for packet in &mut jumping.as_chunks_mut::<PACKET_LEN>().0[half..] {
            shift_packet(packet, seconds * 90_000);
        }
        std::fs::write(&path, jumping).unwrap();
        let known = info(&server, &path).await;
        let duration = known["probe"]["durationSeconds"].as_f64().unwrap_or(0.0);
        assert!((duration - 12.0).abs() < 0.1, "{seconds}: {known}");
        for (kind, wish) in [("copy", json!({"forceTranscode": true})), ("encode", encoded())] {
            if kinds != kind && kinds != "both" {
                continue;
            }
            let (started, stream) = open(&server, &path, wish, kind).await;
            assert!((stream.duration() - 12.0).abs() < 0.1, "{seconds} {kind}: {}", stream.duration());
            // The last segment first, then one after the jump, then the others.
            let last = stream.segments.len() - 1;
            let order = [last, last / 2 + 1].into_iter().chain((0..last).filter(|index| *index != last / 2 + 1));
            std::fs::write(&kept, stream.fetch(order).await.unwrap()).unwrap();
            let seen = film::numbers(&kept, 16);
            // The audio is a little longer: the last frame is repeated until it ends.
            assert_eq!(seen[..300], (0..300).collect::<Vec<_>>(), "{seconds} {kind}");
            assert!(seen.len() <= 303 && seen[300..].iter().all(|number| *number == 299), "{seconds} {kind}: {seen:?}");
            assert_eq!(astray(&kept), (vec![], 12), "{seconds} {kind}");
            play::stop(&server, &started).await;
        }
    }
}

/// Joined recordings whose parts have different PIDs, and a multiplex of two programs whose clock jumps.
#[tokio::test(flavor = "multi_thread")]
async fn parts_with_other_pids_and_a_jumping_multiplex_play_whole() {
    let folder = tempfile::tempdir().unwrap();
    let server = kit::server(&[folder.path()]).await;
    let kept = folder.path().join("kept.bin");
    let part = |name: &str, frames: (usize, usize), more: &str| {
        let path = folder.path().join(name);
        film(&path, frames, 16, &format!("-c:a mp2 -b:a 128k {more} -f mpegts"));
        std::fs::read(path).unwrap()
    };
    let other = "-mpegts_start_pid 0x300 -mpegts_pmt_start_pid 0x1100 -mpegts_service_id 7";
    let two = "-map 0:v -map 1:a -map 0:v -map 1:a -program st=0:st=1 -program st=2:st=3";
    let first = part("first.bin", (0, 150), "-output_ts_offset 5000");
    let multiplex = part("multiplex.bin", (0, 150), &format!("{two} -output_ts_offset 5000"));
    for (name, first, second) in [
        ("clock.ts", &first, part("b.bin", (150, 300), &format!("{other} -output_ts_offset 100"))),
        ("pids.ts", &first, part("c.bin", (150, 300), &format!("{other} -output_ts_offset 5006"))),
        ("multiplex.ts", &multiplex, part("d.bin", (150, 300), &format!("{two} -output_ts_offset 100"))),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, [&first[..], &second].concat()).unwrap();
        let known = info(&server, &path).await;
        let duration = known["probe"]["durationSeconds"].as_f64().unwrap_or(0.0);
        assert!((duration - 12.0).abs() < 0.1, "{name}: {known}");
        let kind = if name == "pids.ts" { "encode" } else { "copy" };
        let options = if kind == "copy" { json!({"forceTranscode": true}) } else { encoded() };
        let (started, stream) = open(&server, &path, options, kind).await;
        // The last segment first.
        let last = stream.segments.len() - 1;
        std::fs::write(&kept, stream.fetch([last].into_iter().chain(0..last)).await.unwrap()).unwrap();
        let seen = film::numbers(&kept, 16);
        assert_eq!(seen[..300], (0..300).collect::<Vec<_>>(), "{name}");
        assert!(seen.len() <= 303, "{name}: {seen:?}");
        assert_eq!(astray(&kept).0, Vec::<f64>::new(), "{name}");
        play::stop(&server, &started).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_channels_or_size_costs_one_segment_no_more_than_another() {
    let folder = tempfile::tempdir().unwrap();
    let server = kit::server(&[folder.path()]).await;
    let (first, second, joined) =
        (folder.path().join("first.bin"), folder.path().join("second.bin"), folder.path().join("joined.ts"));
    let kept = folder.path().join("kept.bin");
    // Frame 325 begins second 13: later than a run waits for a stream to begin.
    film(&first, (0, 325), 32, "-c:a ac3 -ac 2 -b:a 192k -muxdelay 0 -muxpreload 0 -output_ts_offset 10 -f mpegts");
    film(&second, (325, 400), 16, "-c:a ac3 -ac 6 -b:a 192k -muxdelay 0 -muxpreload 0 -output_ts_offset 23 -f mpegts");
    std::fs::write(&joined, [std::fs::read(&first).unwrap(), std::fs::read(&second).unwrap()].concat()).unwrap();
    let (started, stream) = open(&server, &joined, encoded(), "encode").await;
    let bytes = stream.fetch_all().await.unwrap();
    std::fs::write(&kept, &bytes).unwrap();
    let packets = film::packets(&kept);
    let sounds: Vec<i64> = packets.iter().filter(|packet| packet.stream == 1).map(|packet| packet.pts).collect();
    assert!(sounds.windows(2).all(|pair| pair[1] - pair[0] == 1920), "one audio frame at each of its times");
    // Stereo becomes 5.1 at half the volume, so beeps are detected in the first part only.
    let (astray, count) = astray(&kept);
    assert!(astray.is_empty() && count >= 13, "{astray:?} {count}");
    let seen = film::numbers(&kept, 32);
    assert_eq!(seen[..320], (0..320).collect::<Vec<_>>());
    assert!((398..=400).contains(&seen.len()), "{}", seen.len());
    assert_eq!(seen[seen.len() - 70..], (330..400).collect::<Vec<_>>());
    play::stop(&server, &started).await;
    // A run that begins just before the change.
    let (started, stream) = open(&server, &joined, encoded(), "encode").await;
    let at = stream.segments.len() - 3;
    std::fs::write(&kept, stream.fetch(at..at + 3).await.unwrap()).unwrap();
    let sounds: Vec<i64> =
        film::packets(&kept).iter().filter(|packet| packet.stream == 1).map(|packet| packet.pts).collect();
    assert!(sounds.windows(2).all(|pair| pair[1] - pair[0] == 1920), "{sounds:?}");
    play::stop(&server, &started).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_grows_is_played_as_planned_and_a_song_ends_where_its_frames_do() {
    let folder = tempfile::tempdir().unwrap();
    let server = kit::server(&[folder.path()]).await;
    let (whole, growing) = (folder.path().join("whole.bin"), folder.path().join("growing.mkv"));
    film(&whole, (0, 300), 16, "-c:a aac -f matroska -live 1");
    let bytes = std::fs::read(&whole).unwrap();
    let (there, coming) = bytes.split_at(bytes.len() / 2);
    std::fs::write(&growing, there).unwrap();
    let (status, started) = play::start(&server, &growing, json!({"forceTranscode": true})).await;
    assert_eq!((status, &started["decision"]["video"]), (200, &json!("copy")), "{started}");
    std::fs::OpenOptions::new().append(true).open(&growing).unwrap().write_all(coming).unwrap();
    let stream = Stream::open(&server, &started).await.unwrap();
    let kept = folder.path().join("kept.bin");
    std::fs::write(&kept, stream.fetch_all().await.unwrap()).unwrap();
    let seen = film::numbers(&kept, 16);
    // The last frames of the half may lack their reference frames.
    let sure = seen.len().saturating_sub(3);
    assert!(sure > 100 && seen[..sure].iter().enumerate().all(|(n, number)| n == *number), "{seen:?}");
    play::stop(&server, &started).await;

    let song = folder.path().join("song.mp3");
    let made = "-f lavfi -i sine=f=440:d=8 -c:a libmp3lame -q:a 4";
    let status = Command::new("ffmpeg").args(["-nostdin", "-v", "error"]).args(made.split(' ')).arg(&song).status();
    assert!(status.unwrap().success());
    let (status, started) = play::start(&server, &song, json!({"forceTranscode": true})).await;
    assert_eq!(status, 200, "{started}");
    let stream = Stream::open(&server, &started).await.unwrap();
    assert!((stream.duration() - 8.0).abs() < 0.03, "{}", stream.duration());
    std::fs::write(&kept, stream.fetch_all().await.unwrap()).unwrap();
    assert!((play::decode(&kept).await.audio_seconds() - 8.0).abs() < 0.06);
    play::stop(&server, &started).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_of_a_wmv_file_plays_as_far_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, half) = (folder.path().join("whole.bin"), folder.path().join("half.wmv"));
    let kept = folder.path().join("kept.bin");
    film(&whole, (0, 300), 16, "-c:v wmv2 -q:v 1 -bf 0 -c:a wmav2 -f asf");
    let bytes = std::fs::read(&whole).unwrap();
    std::fs::write(&half, &bytes[..bytes.len() / 2]).unwrap();
    let server = kit::server(&[folder.path()]).await;
    let (started, stream) = open(&server, &half, json!({}), "encode").await;
    let duration = stream.duration();
    assert!((4.0..8.0).contains(&duration), "{started}");
    std::fs::write(&kept, stream.fetch_all().await.unwrap()).unwrap();
    let seen = film::numbers(&kept, 16);
    // The last packets may lack their reference frames.
    let sure = seen.len() - 5;
    assert!(sure > 90 && seen[..sure].iter().enumerate().all(|(n, number)| n.abs_diff(*number) <= 1), "{seen:?}");
    assert!(((seen.len() as f64) / RATE as f64 - duration).abs() < 0.1, "{} of {duration}", seen.len());
    play::stop(&server, &started).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_links_of_a_chained_ogg_play_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let server = kit::server(&[folder.path()]).await;
    let kept = folder.path().join("kept.bin");
    for (name, codec) in [("vorbis.ogg", "libvorbis"), ("opus.ogg", "libopus")] {
        let link = |seconds: usize| {
            let path = folder.path().join("link.bin");
            let beeps = format!("aevalsrc='0.6*sin(2*PI*1000*t)*lt(mod(t\\,1)\\,0.1)':s=48000:d={seconds}");
            let made = Command::new("ffmpeg")
                .args(["-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", &beeps, "-c:a", codec])
                .args(["-serial_offset", &seconds.to_string(), "-f", "ogg"])
                .arg(&path)
                .status();
            assert!(made.expect("ffmpeg runs").success());
            std::fs::read(path).unwrap()
        };
        let path = folder.path().join(name);
        std::fs::write(&path, [link(10), link(14)].concat()).unwrap();
        let (status, started) = play::start(&server, &path, json!({"forceTranscode": true})).await;
        assert_eq!(status, 200, "{started}");
        let stream = Stream::open(&server, &started).await.unwrap();
        assert!((stream.duration() - 24.0).abs() < 0.05, "{codec}: {}", stream.duration());
        // Runs that start in the second link, just before its beginning, and at 0.
        let at = |seconds: f64| (0..stream.segments.len()).find(|index| seconds < stream.span(*index).1).unwrap();
        let order = [at(12.0), at(9.5)].into_iter().chain(0..stream.segments.len());
        std::fs::write(&kept, stream.fetch(order).await.unwrap()).unwrap();
        assert_eq!(astray(&kept), (vec![], 24), "{codec}");
        play::stop(&server, &started).await;
    }
}
