//! Output settings of a channel: loudness, frame rate, and the text on its slate.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use super::play::{fetch_playlist, fetch_segments};
use super::{CHANNELS, add_channel, expect_refused_field, send_as_admin};
use crate::kit::{self, Server, media, player};

/// Stores what a channel airs from `after` to `until` seconds after its start.
pub(super) async fn record_aired(server: &Server, channel: &Value, (after, until): (u64, u64), path: &Path) {
    let start = channel["epoch"].as_str().unwrap().parse::<Timestamp>().unwrap();
    let (from, to) = (start + Duration::from_secs(after), start + Duration::from_secs(until));
    let target = format!("/api/livetv/watch/{}?at={from}&end={to}&wait=15", channel["id"]);
    let answer = server.get(&target).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let url = answer.url().clone();
    let playlist = fetch_playlist(server, &format!("{}?{}", url.path(), url.query().unwrap())).await;
    std::fs::write(path, fetch_segments(server, &playlist).await).unwrap();
}

/// Integrated loudness, LUFS.
fn integrated_lufs(path: &Path) -> f64 {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-hide_banner", "-v", "info", "-i"]).arg(path);
    let output = command.args("-map 0:a:0 -af ebur128=framelog=verbose -f null -".split(' ')).output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    let summary = log.rsplit_once("Integrated loudness:").expect("a summary").1;
    let number = summary.split("I:").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
    number.parse().unwrap()
}

fn make_tone(path: &Path, volume: &str, encoder_args: &str) {
    let sine = format!("aevalsrc='{volume}*sin(2*PI*440*t)|{volume}*sin(2*PI*440*t)':s=48000:d=20");
    media::run_ffmpeg(path, &["-f lavfi -i", "testsrc2=s=320x180:r=25:d=20", "-f lavfi -i", &sine, encoder_args]);
}

#[tokio::test(flavor = "multi_thread")]
async fn items_are_aired_with_the_same_loudness_and_frame_rate() {
    let folder = tempfile::tempdir().unwrap();
    make_tone(&folder.path().join("0 soft.mp4"), "0.02", "-c:v libx264 -preset ultrafast -g 50 -c:a aac");
    make_tone(&folder.path().join("1 loud.mkv"), "0.9", "-c:v libx264 -preset ultrafast -g 50 -c:a ac3");
    let server = kit::start_server(&[folder.path()]).await;
    let start = (Timestamp::now() - Duration::from_secs(60)).to_string();
    let mut body = json!({"name": "Level", "scheduleMode": "sequential", "startAt": start, "items": [{"path": folder.path()}],
        "output": {"loudnessLufs": -23, "frameRate": 30}});
    let channel = add_channel(&server, &body).await;
    let path = folder.path().join("aired.ts");
    for (from, to) in [(2, 18), (22, 38)] {
        record_aired(&server, &channel, (from, to), &path).await;
        let lufs = integrated_lufs(&path);
        assert!((lufs + 23.0).abs() < 1.0, "{lufs} LUFS after {from} s");
        let decoded = player::decode(&path).await;
        let steps = decoded.video.windows(2).map(|pair| pair[1].start_seconds - pair[0].start_seconds);
        assert!(steps.clone().count() > 300 && steps.into_iter().all(|step| (step - 1.0 / 30.0).abs() < 0.001));
    }
    for (output, field) in
        [(json!({"loudnessLufs": -4}), "output.loudnessLufs"), (json!({"frameRate": 26}), "output.frameRate")]
    {
        body["output"] = output;
        expect_refused_field(&server, Method::POST, CHANNELS, &body, field).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slate_shows_the_configured_message() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mp4");
    media::flash_and_beep(&path, 20, "-c:v libx264 -preset ultrafast -g 50 -s 640x360 -c:a aac");
    let server = kit::start_server(&[folder.path()]).await;
    let start = (Timestamp::now() - Duration::from_secs(19)).to_string();
    let channel = add_channel(&server, &json!({"name": "Gone", "startAt": start, "items": [{"path": path}]})).await;
    std::fs::remove_file(&path).unwrap();
    let (plain, with_message) = (folder.path().join("plain.ts"), folder.path().join("message.ts"));
    record_aired(&server, &channel, (2, 6), &plain).await;
    let change = json!({"offline": {"message": "Back at {eight}, \\ soon"}});
    let target = format!("{CHANNELS}/{}", channel["id"]);
    assert_eq!(send_as_admin(&server, Method::PATCH, &target, &change).await.status(), 200);
    record_aired(&server, &channel, (2, 6), &with_message).await;
    let decoded = player::decode(&with_message).await;
    assert_eq!((decoded.warnings.len(), decoded.video.len() > 50), (0, true), "{:?}", decoded.warnings);
    assert!(media::worst_psnr_decibels(&plain, &with_message) < 40.0, "the slate has text");
    let wrong = json!({"offline": {"message": ""}});
    expect_refused_field(&server, Method::PATCH, &target, &wrong, "offline.message").await;
    let wrong = json!({"offline": {"imageUrl": "/a.png"}});
    expect_refused_field(&server, Method::PATCH, &target, &wrong, "offline.imageUrl").await;
}
