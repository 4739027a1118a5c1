//! Seeks in a long film: each shows the right frames, starts one run, and encodes only what was requested.

use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kit::player::{self, PlayerSession};
use crate::kit::{self, media};

const FILM_SECONDS: usize = 7200;
/// Frames per second.
const FRAME_RATE: usize = 2;

/// Two hours of frames that encode their number in their colour: once in a format that browsers play, once in another.
fn make_library() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let colours = "geq=lum='20+10*mod(N\\,20)':cb='20+10*mod(floor(N/20)\\,20)':cr='20+5*floor(N/400)'";
    let status = Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-f", "lavfi", "-i"])
        .arg(format!("nullsrc=s=16x16:r={FRAME_RATE}:d={FILM_SECONDS},format=yuv420p,{colours}"))
        .args("-map 0 -c:v libx264 -preset ultrafast -qp 4 -g 4 -bf 0 -pix_fmt yuv420p".split(' '))
        .arg(folder.path().join("copied.mp4"))
        .args("-map 0 -c:v mpeg4 -q:v 2 -g 4".split(' '))
        .arg(folder.path().join("encoded.mkv"))
        .status();
    assert!(status.expect("ffmpeg runs").success());
    folder
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_ten_seeks_starts_one_run_and_shows_the_right_frames() {
    let folder = make_library();
    let server = kit::start_server(&[folder.path()]).await;
    for (name, action) in [("copied.mp4", "copy"), ("encoded.mkv", "encode")] {
        let options = json!({"forceTranscode": true});
        let (status, started) = player::start(&server, &folder.path().join(name), options).await;
        assert_eq!((status, &started["decision"]["video"]), (200, &json!(action)), "{started}");
        let player = PlayerSession::open(&server, &started).await.unwrap();
        assert!((player.duration() - FILM_SECONDS as f64).abs() < 1.0, "{}", player.duration());
        let folder_url = format!("/api/stream/transcode/{}", started["sessionId"].as_str().unwrap());
        let diagnostics = async || -> Value {
            let answer = server.get(&format!("{folder_url}/status")).send().await.unwrap();
            answer.json::<Value>().await.unwrap()["diagnostics"].take()
        };
        let (mut random_state, mut runs_started) =
            (2_463_534_242_u32, diagnostics().await["runsStarted"].as_u64().unwrap());
        let mut visited = vec![0];
        for _ in 0..10 {
            // Pseudorandom, and the same in every run (xorshift). Avoids segments that an earlier run has made ahead.
            let index = loop {
                random_state ^= random_state << 13;
                random_state ^= random_state >> 17;
                random_state ^= random_state << 5;
                let index = random_state as usize % player.segments.len();
                if visited.iter().all(|visited_index| index.abs_diff(*visited_index) > 20) {
                    break index;
                }
            };
            visited.push(index);
            let bytes = player.segment(index).await.unwrap();
            let diagnostics_now = diagnostics().await;
            assert_eq!(diagnostics_now["runsStarted"], runs_started + 1, "{name} {index}: {diagnostics_now}");
            assert_eq!(
                diagnostics_now["runFromSegment"], index,
                "{name}: the run began with the requested segment: {diagnostics_now}"
            );
            runs_started += 1;
            let output = folder.path().join("segment.ts");
            std::fs::write(&output, bytes).unwrap();
            let (begin, end) = player.segment_seconds(index);
            let (first, last) =
                ((begin * FRAME_RATE as f64).round() as usize, (end * FRAME_RATE as f64).round() as usize);
            assert_eq!(media::frame_numbers(&output, 16), (first..last).collect::<Vec<_>>(), "{name} segment {index}");
            let mut times: Vec<i64> = media::packets(&output).iter().map(|packet| packet.pts).collect();
            times.sort_unstable();
            let expected: Vec<i64> =
                (first..last).map(|n| 90_000 * (3600 * FRAME_RATE + n) as i64 / FRAME_RATE as i64).collect();
            assert_eq!(times, expected, "{name} segment {index}");
        }
        player::stop(&server, &started).await;
    }
}
