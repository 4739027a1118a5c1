//! Seeks in a long film: each shows the right frames, starts one run, and encodes nothing that nobody requested.

use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kit::play::{self, Stream};
use crate::kit::{self, film};

const SECONDS: usize = 7200;
/// Frames per second.
const RATE: usize = 2;

/// Two hours of frames that encode their number in their colour: once in a format that browsers play, once in another.
fn library() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let colours = "geq=lum='20+10*mod(N\\,20)':cb='20+10*mod(floor(N/20)\\,20)':cr='20+5*floor(N/400)'";
    let made = Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-f", "lavfi", "-i"])
        .arg(format!("nullsrc=s=16x16:r={RATE}:d={SECONDS},format=yuv420p,{colours}"))
        .args("-map 0 -c:v libx264 -preset ultrafast -qp 4 -g 4 -bf 0 -pix_fmt yuv420p".split(' '))
        .arg(folder.path().join("copied.mp4"))
        .args("-map 0 -c:v mpeg4 -q:v 2 -g 4".split(' '))
        .arg(folder.path().join("encoded.mkv"))
        .status();
    assert!(made.expect("ffmpeg runs").success());
    folder
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_seeks_in_a_long_film_each_cost_one_start_and_give_the_right_pictures() {
    let folder = library();
    let server = kit::server(&[folder.path()]).await;
    for (name, action) in [("copied.mp4", "copy"), ("encoded.mkv", "encode")] {
        let wish = json!({"forceTranscode": true});
        let (status, started) = play::start(&server, &folder.path().join(name), wish).await;
        assert_eq!((status, &started["decision"]["video"]), (200, &json!(action)), "{started}");
        let stream = Stream::open(&server, &started).await.unwrap();
        assert!((stream.duration() - SECONDS as f64).abs() < 1.0, "{}", stream.duration());
        let folder_url = format!("/api/stream/transcode/{}", started["sessionId"].as_str().unwrap());
        let runs = async || -> Value {
            let answer = server.get(&format!("{folder_url}/status")).send().await.unwrap();
            answer.json::<Value>().await.unwrap()["diagnostics"].take()
        };
        let (mut place, mut starts) = (2_463_534_242_u32, runs().await["runsStarted"].as_u64().unwrap());
        let mut visited = vec![0];
        for _ in 0..10 {
            // Pseudorandom, and the same in every run (xorshift). Avoids segments that an earlier run has made ahead.
            let index = loop {
                place ^= place << 13;
                place ^= place >> 17;
                place ^= place << 5;
                let index = place as usize % stream.segments.len();
                if visited.iter().all(|known| index.abs_diff(*known) > 20) {
                    break index;
                }
            };
            visited.push(index);
            let bytes = stream.segment(index).await.unwrap();
            let now = runs().await;
            assert_eq!(now["runsStarted"], starts + 1, "{name} {index}: {now}");
            assert_eq!(now["runFromSegment"], index, "{name}: the run began with the requested segment: {now}");
            starts += 1;
            let kept = folder.path().join("segment.ts");
            std::fs::write(&kept, bytes).unwrap();
            let (begin, end) = stream.span(index);
            let (first, last) = ((begin * RATE as f64).round() as usize, (end * RATE as f64).round() as usize);
            assert_eq!(film::numbers(&kept, 16), (first..last).collect::<Vec<_>>(), "{name} segment {index}");
            let mut times: Vec<i64> = film::packets(&kept).iter().map(|packet| packet.pts).collect();
            times.sort_unstable();
            let expected: Vec<i64> = (first..last).map(|n| 90_000 * (3600 * RATE + n) as i64 / RATE as i64).collect();
            assert_eq!(times, expected, "{name} segment {index}");
        }
        play::stop(&server, &started).await;
    }
}
