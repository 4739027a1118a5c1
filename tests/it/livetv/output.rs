//! Output settings of a channel: loudness, frame rate, and the text on its slate.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use super::play::{fetch, list};
use super::{CHANNELS, add, refused_field, send};
use crate::kit::{self, Server, film, play};

/// Stores what a channel airs from `after` to `until` seconds after its start.
pub(super) async fn aired(server: &Server, made: &Value, (after, until): (u64, u64), path: &Path) {
    let start = made["epoch"].as_str().unwrap().parse::<Timestamp>().unwrap();
    let (from, to) = (start + Duration::from_secs(after), start + Duration::from_secs(until));
    let target = format!("/api/livetv/watch/{}?at={from}&end={to}&wait=15", made["id"]);
    let answer = server.get(&target).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let url = answer.url().clone();
    let listed = list(server, &format!("{}?{}", url.path(), url.query().unwrap())).await;
    std::fs::write(path, fetch(server, &listed).await).unwrap();
}

/// Integrated loudness, LUFS.
fn loudness(path: &Path) -> f64 {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-hide_banner", "-v", "info", "-i"]).arg(path);
    let output = command.args("-map 0:a:0 -af ebur128=framelog=verbose -f null -".split(' ')).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let summary = said.rsplit_once("Integrated loudness:").expect("a summary").1;
    let number = summary.split("I:").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
    number.parse().unwrap()
}

fn tone(path: &Path, volume: &str, more: &str) {
    let sound = format!("aevalsrc='{volume}*sin(2*PI*440*t)|{volume}*sin(2*PI*440*t)':s=48000:d=20");
    film::make(path, &["-f lavfi -i", "testsrc2=s=320x180:r=25:d=20", "-f lavfi -i", &sound, more]);
}

#[tokio::test(flavor = "multi_thread")]
async fn soft_and_loud_items_are_aired_at_one_level_and_one_rate() {
    let folder = tempfile::tempdir().unwrap();
    tone(&folder.path().join("0 soft.mp4"), "0.02", "-c:v libx264 -preset ultrafast -g 50 -c:a aac");
    tone(&folder.path().join("1 loud.mkv"), "0.9", "-c:v libx264 -preset ultrafast -g 50 -c:a ac3");
    let server = kit::server(&[folder.path()]).await;
    let start = (Timestamp::now() - Duration::from_secs(60)).to_string();
    let mut body = json!({"name": "Level", "scheduleMode": "sequential", "startAt": start, "items": [{"path": folder.path()}],
        "output": {"loudnessLufs": -23, "frameRate": 30}});
    let made = add(&server, &body).await;
    let path = folder.path().join("aired.ts");
    for (from, to) in [(2, 18), (22, 38)] {
        aired(&server, &made, (from, to), &path).await;
        let heard = loudness(&path);
        assert!((heard + 23.0).abs() < 1.0, "{heard} LUFS after {from} s");
        let decoded = play::decode(&path).await;
        let steps = decoded.video.windows(2).map(|pair| pair[1].at - pair[0].at);
        assert!(steps.clone().count() > 300 && steps.into_iter().all(|step| (step - 1.0 / 30.0).abs() < 0.001));
    }
    for (output, field) in
        [(json!({"loudnessLufs": -4}), "output.loudnessLufs"), (json!({"frameRate": 26}), "output.frameRate")]
    {
        body["output"] = output;
        refused_field(&server, Method::POST, CHANNELS, &body, field).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slate_says_what_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mp4");
    film::flash_and_beep(&path, 20, "-c:v libx264 -preset ultrafast -g 50 -s 640x360 -c:a aac");
    let server = kit::server(&[folder.path()]).await;
    let start = (Timestamp::now() - Duration::from_secs(19)).to_string();
    let made = add(&server, &json!({"name": "Gone", "startAt": start, "items": [{"path": path}]})).await;
    std::fs::remove_file(&path).unwrap();
    let (plain, told) = (folder.path().join("plain.ts"), folder.path().join("told.ts"));
    aired(&server, &made, (2, 6), &plain).await;
    let change = json!({"offline": {"message": "Back at {eight}, \\ soon"}});
    let target = format!("{CHANNELS}/{}", made["id"]);
    assert_eq!(send(&server, Method::PATCH, &target, &change).await.status(), 200);
    aired(&server, &made, (2, 6), &told).await;
    let decoded = play::decode(&told).await;
    assert_eq!((decoded.warnings.len(), decoded.video.len() > 50), (0, true), "{:?}", decoded.warnings);
    assert!(film::psnr(&plain, &told) < 40.0, "the slate has text");
    let wrong = json!({"offline": {"message": ""}});
    refused_field(&server, Method::PATCH, &target, &wrong, "offline.message").await;
    let wrong = json!({"offline": {"imageUrl": "/a.png"}});
    refused_field(&server, Method::PATCH, &target, &wrong, "offline.imageUrl").await;
}
