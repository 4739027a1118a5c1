//! Files whose clock jumps, whose streams change, that grow or end early: every frame of the source is played once, in order,
//! with its audio.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use hearthcast::domain::mpegts::packet::PACKET_LEN;
use hearthcast::domain::mpegts::timestamp_shift::shift_packet;
use hearthcast::domain::time::Ticks;
use serde_json::{Value, json};

use crate::kit::player::{self, PlayerSession};
use crate::kit::response::send_until_ready;
use crate::kit::{self, Server, media};

/// Frames per second.
const FRAME_RATE: usize = 25;

/// Makes frames `from` to `to` of a film. Every frame encodes its number in its colour, and every second begins with a beep.
/// Keyframes come each second, with B-frames in between.
fn make_numbered_film(path: &Path, (from, to): (usize, usize), side_pixels: usize, encoder_args: &str) {
    let number = format!("(N+{from})");
    let colours = format!(
        "geq=lum='20+10*mod({number}\\,20)':cb='20+10*mod(floor({number}/20)\\,20)':cr='20+5*floor({number}/400)'"
    );
    let seconds = (to - from) as f64 / FRAME_RATE as f64;
    let status = Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i"])
        .arg(format!("nullsrc=s={side_pixels}x{side_pixels}:r={FRAME_RATE}:d={seconds},format=yuv420p,{colours}"))
        .args(["-f", "lavfi", "-i"])
        .arg(format!("aevalsrc='0.6*sin(2*PI*1000*t)*lt(mod(t\\,1)\\,0.1)':s=48000:d={seconds}"))
        .args("-c:v libx264 -preset ultrafast -qp 4 -g 25 -bf 2 -pix_fmt yuv420p".split(' '))
        .args(encoder_args.split(' '))
        .arg(path)
        .status();
    assert!(status.expect("ffmpeg runs").success());
}

/// Media info of a file.
async fn media_info(server: &Server, path: &Path) -> Value {
    let request = server.get("/api/stream/info/full").query(&[("path", path.to_str().unwrap())]);
    send_until_ready(request).await.json().await.unwrap()
}

async fn start_and_open(server: &Server, path: &Path, options: Value, expected_action: &str) -> (Value, PlayerSession) {
    let (status, started) = player::start(server, path, options).await;
    assert_eq!(
        (status, &started["decision"]["video"]),
        (200, &json!(expected_action)),
        "{}: {started}",
        path.display()
    );
    let player = PlayerSession::open(server, &started).await.unwrap();
    (started, player)
}

/// Beeps more than 40 ms away from the full second, and the number of all beeps.
fn misplaced_beeps(path: &Path) -> (Vec<f64>, usize) {
    let (_, beeps) = media::flash_and_beep_times(path, FRAME_RATE as f64);
    let count = beeps.len();
    (beeps.into_iter().filter(|seconds| (seconds - seconds.round()).abs() > 0.04).collect(), count)
}

fn encode_options() -> Value {
    json!({"forceTranscode": true, "profile": {"maxBitrateKbps": 90}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_film_whose_clock_jumps_is_played_completely() {
    let folder = tempfile::tempdir().unwrap();
    let whole_file = folder.path().join("whole.ts");
    make_numbered_film(&whole_file, (0, 300), 16, "-c:a mp2 -b:a 128k -output_ts_offset 5000 -f mpegts");
    let bytes = std::fs::read(&whole_file).unwrap();
    let server = kit::start_server(&[folder.path()]).await;
    let output = folder.path().join("kept.bin");
    for (seconds, actions) in [(-4900, "both"), (-5, "both"), (20, "copy"), (1000, "encode"), (-50_000, "copy")] {
        let path = folder.path().join(format!("jump{seconds}.ts"));
        let mut jumping = bytes.clone();
        let half = jumping.len() / PACKET_LEN / 2;
        for packet in &mut jumping.as_chunks_mut::<PACKET_LEN>().0[half..] {
            shift_packet(packet, Ticks::from_ms(seconds * 1000));
        }
        std::fs::write(&path, jumping).unwrap();
        let info = media_info(&server, &path).await;
        let duration = info["probe"]["durationSeconds"].as_f64().unwrap_or(0.0);
        assert!((duration - 12.0).abs() < 0.1, "{seconds}: {info}");
        for (action, options) in [("copy", json!({"forceTranscode": true})), ("encode", encode_options())] {
            if actions != action && actions != "both" {
                continue;
            }
            let (started, player) = start_and_open(&server, &path, options, action).await;
            assert!((player.duration() - 12.0).abs() < 0.1, "{seconds} {action}: {}", player.duration());
            // The last segment first, then one after the jump, then the others.
            let last = player.segments.len() - 1;
            let order = [last, last / 2 + 1].into_iter().chain((0..last).filter(|index| *index != last / 2 + 1));
            std::fs::write(&output, player.fetch(order).await.unwrap()).unwrap();
            let numbers = media::frame_numbers(&output, 16);
            // The audio is a little longer: the last frame is repeated until it ends.
            assert_eq!(numbers[..300], (0..300).collect::<Vec<_>>(), "{seconds} {action}");
            assert!(
                numbers.len() <= 303 && numbers[300..].iter().all(|number| *number == 299),
                "{seconds} {action}: {numbers:?}"
            );
            assert_eq!(misplaced_beeps(&output), (vec![], 12), "{seconds} {action}");
            player::stop(&server, &started).await;
        }
    }
}

/// Joined recordings whose parts have different PIDs, and a multiplex of two programs whose clock jumps.
#[tokio::test(flavor = "multi_thread")]
async fn parts_with_other_pids_and_a_jumping_multiplex_play_whole() {
    let folder = tempfile::tempdir().unwrap();
    let server = kit::start_server(&[folder.path()]).await;
    let output = folder.path().join("kept.bin");
    let part = |name: &str, frames: (usize, usize), more: &str| {
        let path = folder.path().join(name);
        make_numbered_film(&path, frames, 16, &format!("-c:a mp2 -b:a 128k {more} -f mpegts"));
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
        let known = media_info(&server, &path).await;
        let duration = known["probe"]["durationSeconds"].as_f64().unwrap_or(0.0);
        assert!((duration - 12.0).abs() < 0.1, "{name}: {known}");
        let kind = if name == "pids.ts" { "encode" } else { "copy" };
        let options = if kind == "copy" { json!({"forceTranscode": true}) } else { encode_options() };
        let (started, stream) = start_and_open(&server, &path, options, kind).await;
        // The last segment first.
        let last = stream.segments.len() - 1;
        std::fs::write(&output, stream.fetch([last].into_iter().chain(0..last)).await.unwrap()).unwrap();
        let numbers = media::frame_numbers(&output, 16);
        assert_eq!(numbers[..300], (0..300).collect::<Vec<_>>(), "{name}");
        assert!(numbers.len() <= 303, "{name}: {numbers:?}");
        assert_eq!(misplaced_beeps(&output).0, Vec::<f64>::new(), "{name}");
        player::stop(&server, &started).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_channel_layout_or_frame_size_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = kit::start_server(&[folder.path()]).await;
    let (first, second, joined) =
        (folder.path().join("first.bin"), folder.path().join("second.bin"), folder.path().join("joined.ts"));
    let output = folder.path().join("kept.bin");
    // Frame 325 begins second 13: later than a run waits for a stream to begin.
    make_numbered_film(
        &first,
        (0, 325),
        32,
        "-c:a ac3 -ac 2 -b:a 192k -muxdelay 0 -muxpreload 0 -output_ts_offset 10 -f mpegts",
    );
    make_numbered_film(
        &second,
        (325, 400),
        16,
        "-c:a ac3 -ac 6 -b:a 192k -muxdelay 0 -muxpreload 0 -output_ts_offset 23 -f mpegts",
    );
    std::fs::write(&joined, [std::fs::read(&first).unwrap(), std::fs::read(&second).unwrap()].concat()).unwrap();
    let (started, player) = start_and_open(&server, &joined, encode_options(), "encode").await;
    let bytes = player.fetch_all().await.unwrap();
    std::fs::write(&output, &bytes).unwrap();
    let packets = media::packets(&output);
    let audio_times: Vec<i64> = packets.iter().filter(|packet| packet.stream == 1).map(|packet| packet.pts).collect();
    assert!(audio_times.windows(2).all(|pair| pair[1] - pair[0] == 1920), "one audio frame at each of its times");
    // Stereo becomes 5.1 at half the volume, so beeps are detected in the first part only.
    let (misplaced, count) = misplaced_beeps(&output);
    assert!(misplaced.is_empty() && count >= 13, "{misplaced:?} {count}");
    let numbers = media::frame_numbers(&output, 32);
    assert_eq!(numbers[..320], (0..320).collect::<Vec<_>>());
    assert!((398..=400).contains(&numbers.len()), "{}", numbers.len());
    assert_eq!(numbers[numbers.len() - 70..], (330..400).collect::<Vec<_>>());
    player::stop(&server, &started).await;
    // A run that begins just before the change.
    let (started, player) = start_and_open(&server, &joined, encode_options(), "encode").await;
    let first_index = player.segments.len() - 3;
    std::fs::write(&output, player.fetch(first_index..first_index + 3).await.unwrap()).unwrap();
    let audio_times: Vec<i64> =
        media::packets(&output).iter().filter(|packet| packet.stream == 1).map(|packet| packet.pts).collect();
    assert!(audio_times.windows(2).all(|pair| pair[1] - pair[0] == 1920), "{audio_times:?}");
    player::stop(&server, &started).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_growing_file_plays_as_planned_and_a_song_ends_with_its_frames() {
    let folder = tempfile::tempdir().unwrap();
    let server = kit::start_server(&[folder.path()]).await;
    let (whole_file, growing) = (folder.path().join("whole.bin"), folder.path().join("growing.mkv"));
    make_numbered_film(&whole_file, (0, 300), 16, "-c:a aac -f matroska -live 1");
    let bytes = std::fs::read(&whole_file).unwrap();
    let (written, rest) = bytes.split_at(bytes.len() / 2);
    std::fs::write(&growing, written).unwrap();
    let (status, started) = player::start(&server, &growing, json!({"forceTranscode": true})).await;
    assert_eq!((status, &started["decision"]["video"]), (200, &json!("copy")), "{started}");
    std::fs::OpenOptions::new().append(true).open(&growing).unwrap().write_all(rest).unwrap();
    let player = PlayerSession::open(&server, &started).await.unwrap();
    let output = folder.path().join("kept.bin");
    std::fs::write(&output, player.fetch_all().await.unwrap()).unwrap();
    let numbers = media::frame_numbers(&output, 16);
    // The last frames of the half may lack their reference frames.
    let reliable = numbers.len().saturating_sub(3);
    assert!(reliable > 100 && numbers[..reliable].iter().enumerate().all(|(n, number)| n == *number), "{numbers:?}");
    player::stop(&server, &started).await;

    let song = folder.path().join("song.mp3");
    let ffmpeg_args = "-f lavfi -i sine=f=440:d=8 -c:a libmp3lame -q:a 4";
    let status =
        Command::new("ffmpeg").args(["-nostdin", "-v", "error"]).args(ffmpeg_args.split(' ')).arg(&song).status();
    assert!(status.unwrap().success());
    let (status, started) = player::start(&server, &song, json!({"forceTranscode": true})).await;
    assert_eq!(status, 200, "{started}");
    let player = PlayerSession::open(&server, &started).await.unwrap();
    assert!((player.duration() - 8.0).abs() < 0.03, "{}", player.duration());
    std::fs::write(&output, player.fetch_all().await.unwrap()).unwrap();
    assert!((player::decode(&output).await.audio_seconds() - 8.0).abs() < 0.06);
    player::stop(&server, &started).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_of_a_wmv_file_plays_to_its_last_packet() {
    let folder = tempfile::tempdir().unwrap();
    let (whole_file, half_file) = (folder.path().join("whole.bin"), folder.path().join("half.wmv"));
    let kept = folder.path().join("kept.bin");
    make_numbered_film(&whole_file, (0, 300), 16, "-c:v wmv2 -q:v 1 -bf 0 -c:a wmav2 -f asf");
    let bytes = std::fs::read(&whole_file).unwrap();
    std::fs::write(&half_file, &bytes[..bytes.len() / 2]).unwrap();
    let server = kit::start_server(&[folder.path()]).await;
    let (started, player) = start_and_open(&server, &half_file, json!({}), "encode").await;
    let duration = player.duration();
    assert!((4.0..8.0).contains(&duration), "{started}");
    std::fs::write(&kept, player.fetch_all().await.unwrap()).unwrap();
    let seen = media::frame_numbers(&kept, 16);
    // The last packets may lack their reference frames.
    let reliable = seen.len() - 5;
    assert!(
        reliable > 90 && seen[..reliable].iter().enumerate().all(|(n, number)| n.abs_diff(*number) <= 1),
        "{seen:?}"
    );
    assert!(((seen.len() as f64) / FRAME_RATE as f64 - duration).abs() < 0.1, "{} of {duration}", seen.len());
    player::stop(&server, &started).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_links_of_a_chained_ogg_play_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let server = kit::start_server(&[folder.path()]).await;
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
        let (status, started) = player::start(&server, &path, json!({"forceTranscode": true})).await;
        assert_eq!(status, 200, "{started}");
        let stream = PlayerSession::open(&server, &started).await.unwrap();
        assert!((stream.duration() - 24.0).abs() < 0.05, "{codec}: {}", stream.duration());
        // Runs that start in the second link, just before its beginning, and at 0.
        let at =
            |seconds: f64| (0..stream.segments.len()).find(|index| seconds < stream.segment_seconds(*index).1).unwrap();
        let order = [at(12.0), at(9.5)].into_iter().chain(0..stream.segments.len());
        std::fs::write(&kept, stream.fetch(order).await.unwrap()).unwrap();
        assert_eq!(misplaced_beeps(&kept), (vec![], 24), "{codec}");
        player::stop(&server, &started).await;
    }
}
