//! Adaptive sessions: several renditions of one item with segments at the same times.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::sessions::{session_path, start, status};
use crate::kit::response::expect_error;
use crate::kit::{self, Server, media};

const BASE_TICKS: i64 = 3600 * 90_000;

/// Makes a film of 8 s with 360 lines at 25 frames per second.
fn make_film(encoder_args: &str, name: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let audio_args = ["-f lavfi -i", "sine=d=8:r=48000", "-ac 2"];
    media::run_ffmpeg(
        &path,
        &["-f lavfi -i", "testsrc2=s=640x360:r=25:d=8", audio_args[0], audio_args[1], audio_args[2], encoder_args],
    );
    (folder, path)
}

async fn start_adaptive(server: &Server, path: &Path, resolution: &str) -> Value {
    let profile = json!({"abr": true, "resolution": resolution});
    start(server, &json!({"mediaPath": path.to_str().unwrap(), "profile": profile})).await
}

async fn fetch(server: &Server, session: &Value, name: &str) -> Vec<u8> {
    let answer = server.get(&format!("{}/{name}", session_path(session))).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{name}");
    answer.bytes().await.unwrap().to_vec()
}

async fn fetch_master(server: &Server, session: &Value) -> m3u8_rs::MasterPlaylist {
    let text = fetch(server, session, "index.m3u8").await;
    m3u8_rs::parse_master_playlist_res(&text).unwrap()
}

/// Fetches a rung: its segment lengths and the time of the first frame of each segment. Asserts that it decodes without
/// warnings.
async fn fetch_rung(server: &Server, session: &Value, number: usize, folder: &Path) -> (Vec<f32>, Vec<i64>) {
    let text = fetch(server, session, &format!("v{number}.m3u8")).await;
    let playlist = m3u8_rs::parse_media_playlist_res(&text).unwrap();
    let (mut joined, mut first_times) = (Vec::new(), Vec::new());
    for index in 0..playlist.segments.len() {
        let bytes = fetch(server, session, &format!("v{number}-{index:05}.ts")).await;
        let path = folder.join("one.ts");
        std::fs::write(&path, &bytes).unwrap();
        let packets = media::packets(&path);
        let frame = packets.iter().find(|packet| packet.stream == 0).unwrap();
        assert!(frame.is_keyframe, "segment {index} of rung {number} begins with a keyframe");
        first_times.push(frame.pts - BASE_TICKS);
        joined.extend(bytes);
    }
    let path = folder.join(format!("{number}.ts"));
    std::fs::write(&path, joined).unwrap();
    assert_eq!(media::decoder_warnings(&path), "", "rung {number}");
    (playlist.segments.iter().map(|segment| segment.duration).collect(), first_times)
}

fn heights(master: &m3u8_rs::MasterPlaylist) -> Vec<u64> {
    master.variants.iter().map(|variant| variant.resolution.unwrap().height).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_rungs_have_the_same_segment_boundaries() {
    let (folder, path) = make_film("-c:v mpeg2video -q:v 4 -g 25 -c:a ac3", "film.mkv");
    let server = kit::start_server_with(&[folder.path()], |config| config.limits.concurrent_jobs = 1).await;
    let session = start_adaptive(&server, &path, "original").await;
    assert_eq!(session["decision"]["video"], "encode");
    let master = fetch_master(&server, &session).await;
    assert_eq!(heights(&master), [360, 240]);
    let bandwidths: Vec<u64> = master.variants.iter().map(|variant| variant.bandwidth).collect();
    assert!(bandwidths.is_sorted_by(|a, b| a > b), "{bandwidths:?}");
    for variant in &master.variants {
        let codecs = variant.codecs.as_deref().unwrap();
        assert!(codecs.starts_with("avc1.6400") && codecs.ends_with(",mp4a.40.2"), "{codecs}");
    }
    // With a single encode slot, the second rung takes over that of the first.
    let best = fetch_rung(&server, &session, 0, folder.path()).await;
    let lower = fetch_rung(&server, &session, 1, folder.path()).await;
    assert_eq!(best, lower);
    let diagnostics = status(&server, &session).await["diagnostics"].clone();
    assert_eq!(
        (&diagnostics["rungs"][1]["held"], &diagnostics["video"]["height"]),
        (&json!(true), &json!(240)),
        "{diagnostics}"
    );
    for name in ["v2.m3u8", "v2-00000.ts", "v0-00099.ts", "a0.m3u8"] {
        let answer = server.get(&format!("{}/{name}", session_path(&session))).send().await.unwrap();
        expect_error(answer, 404, "ASSET_NOT_FOUND").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_the_top_rung() {
    let encoder_args = "-c:v libx264 -preset ultrafast -b:v 3M -pix_fmt yuv420p -g 50 -sc_threshold 0 -c:a aac";
    let (folder, path) = make_film(encoder_args, "film.mp4");
    let server = kit::start_server(&[folder.path()]).await;
    let session = start_adaptive(&server, &path, "original").await;
    assert_eq!((&session["playbackMode"], &session["decision"]["video"]), (&json!("transcode"), &json!("copy")));
    let master = fetch_master(&server, &session).await;
    // At this bit rate, encoding at the same size is worthwhile, too.
    assert_eq!(heights(&master), [360, 360, 240]);
    let copied = fetch_rung(&server, &session, 0, folder.path()).await;
    let diagnostics = status(&server, &session).await["diagnostics"].clone();
    assert_eq!(
        (&diagnostics["pipeline"], &diagnostics["rungs"][0]["action"]),
        (&json!("packager"), &json!("copy")),
        "{diagnostics}"
    );
    let encoded = fetch_rung(&server, &session, 2, folder.path()).await;
    assert_eq!(copied.1, [0, 2, 4, 6].map(|second| second * 90_000));
    assert_eq!(copied.1, encoded.1);
    assert_eq!(copied.0, encoded.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_with_other_segment_boundaries_is_left_out_with_a_reason() {
    let encoder_args = "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 1000 -c:a aac -force_key_frames 2,5.2";
    let (folder, path) = make_film(encoder_args, "film.mp4");
    let server = kit::start_server_with(&[folder.path()], |config| config.limits.concurrent_jobs = 2).await;
    let session = start_adaptive(&server, &path, "240p").await;
    assert_eq!(heights(&fetch_master(&server, &session).await), [240], "no rung above the requested resolution");
    let session = start_adaptive(&server, &path, "original").await;
    assert_eq!(session["decision"]["video"], "encode");
    let master = fetch_master(&server, &session).await;
    assert_eq!(heights(&master), [360, 240]);
    let diagnostics = status(&server, &session).await["diagnostics"].clone();
    assert_eq!(
        diagnostics["copyLeftOut"], "its keyframes do not match the even grid of the other rungs",
        "{diagnostics}"
    );
}
