//! The lineup as an HDHomeRun tuner.

use std::process::Stdio;
use std::time::Duration;

use futures_util::StreamExt;
use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::process::Command;

use super::{CHANNELS, add_channel, get};
use crate::kit::response::{expect_error, expect_success};
use crate::kit::wait::MAX_WAIT;
use crate::kit::{self, Server, media, player};

/// Between two reference frames of the films.
const MAX_B_FRAMES: usize = 2;

/// Creates a stream token; returns its secret and id.
async fn create_token(server: &Server, channels: Value) -> (String, String) {
    let body = json!({"name": "Tuner", "channelIds": channels});
    let created = expect_success(server.post("/api/livetv/tokens", &body).send().await.unwrap(), 201).await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&created["secret"]), text(&created["token"]["id"]))
}

async fn revoke_token(server: &Server, id: &str) {
    let answer =
        server.request(Method::DELETE, &format!("/api/livetv/tokens/{id}")).bearer_auth(&server.token).send().await;
    assert_eq!(expect_success(answer.unwrap(), 200).await["deleted"], json!(true));
}

/// Waits until the channel has this number of viewers.
async fn wait_for_viewers(server: &Server, id: &Value, expected: u64) {
    for _ in 0..100 {
        let viewers = get(server, &format!("{CHANNELS}/{id}")).await["channel"]["viewers"].as_u64();
        if viewers == Some(expected) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the channel did not reach {expected} viewers");
}

#[tokio::test]
async fn a_tuner_streams_across_programmes_until_its_token_is_revoked() {
    let folder = tempfile::tempdir().unwrap();
    media::flash_and_beep(&folder.path().join("0.mp4"), 6, "-c:v libx264 -preset ultrafast -bf 2 -g 50 -c:a aac");
    media::flash_and_beep(
        &folder.path().join("1.mkv"),
        6,
        "-c:v libx264 -preset ultrafast -profile:v baseline -g 25 -an",
    );
    let server = kit::start_server_with(&[folder.path()], |config| {
        config.hdhomerun = true;
        config.limits.sessions_per_user = 1;
    })
    .await;
    // The first programme ends while the stream is read: 24 s of complete programmes and 1.5 s of the next are past.
    let start = (Timestamp::now() - Duration::from_millis(25_500)).to_string();
    let body = json!({"name": "One & Two", "number": 7, "scheduleMode": "sequential", "startAt": start, "items": [{"path": folder.path()}]});
    let channel = add_channel(&server, &body).await;
    let other_channel = add_channel(&server, &json!({"name": "Other", "items": [{"path": folder.path()}]})).await;
    let (secret, id) = create_token(&server, json!([channel["id"]])).await;
    let tuner = format!("{}/hdhr/{secret}", server.base);
    let get_from_tuner =
        async |path: &str| server.request(Method::GET, &format!("/hdhr/{secret}{path}")).send().await.unwrap();

    let discovery = expect_success(get_from_tuner("/discover.json").await, 200).await;
    assert_eq!((&discovery["BaseURL"], &discovery["TunerCount"]), (&json!(tuner), &json!(1)));
    assert_eq!(discovery["DeviceID"].as_str().unwrap().len(), 8);
    let address = format!("{tuner}/auto/v7");
    let lineup =
        expect_success(server.client.get(discovery["LineupURL"].as_str().unwrap()).send().await.unwrap(), 200).await;
    let expected = json!([{"GuideNumber": "7", "GuideName": "One & Two", "URL": address, "VideoCodec": "H264", "AudioCodec": "AAC", "HD": 1}]);
    assert_eq!(lineup, expected);
    assert_eq!(expect_success(get_from_tuner("/lineup_status.json").await, 200).await["ScanInProgress"], json!(0));
    let device = get_from_tuner("/device.xml").await.text().await.unwrap();
    assert!(
        device.contains(&format!("<serialNumber>{}</serialNumber>", discovery["DeviceID"].as_str().unwrap())),
        "{device}"
    );
    expect_error(get_from_tuner("/auto/vx").await, 404, "CHANNEL_NOT_FOUND").await;
    expect_error(get_from_tuner(&format!("/auto/v{}", other_channel["number"])).await, 404, "CHANNEL_NOT_FOUND").await;

    let path = folder.path().join("received.ts");
    let mut player = Command::new("ffmpeg");
    player.args(["-nostdin", "-v", "error", "-y", "-i", &address, "-t", "12", "-map", "0", "-c", "copy"]).arg(&path);
    let recording = player.stderr(Stdio::piped()).kill_on_drop(true).output();
    let output = tokio::time::timeout(MAX_WAIT, recording).await.expect("ffmpeg ends").unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let decoded = player::decode(&path).await;
    assert_eq!(decoded.warnings, Vec::<String>::new());
    assert!(decoded.video_seconds() > 11.0 && decoded.audio_seconds() > 11.0, "{decoded:?}");
    // ffmpeg ends a copy by decoding time, which may cut off B-frames that are shown before the last frame.
    let complete = decoded.video.len() - MAX_B_FRAMES - 1;
    for pair in decoded.video[..complete].windows(2) {
        let step = pair[1].start_seconds - pair[0].start_seconds;
        assert!((0.02..0.06).contains(&step), "video steps by {step} at {}", pair[0].start_seconds);
    }
    for pair in decoded.audio.windows(2) {
        let gap = pair[1].start_seconds - pair[0].start_seconds - pair[0].length_seconds;
        assert!(gap.abs() < 0.022, "audio steps by {gap} at {}", pair[0].start_seconds);
    }
    wait_for_viewers(&server, &channel["id"], 0).await;

    // The limit is one stream; it ends when the token is revoked.
    let answer = get_from_tuner("/auto/v7").await;
    assert_eq!((answer.status().as_u16(), &answer.headers()["content-type"]), (200, &"video/mp2t".parse().unwrap()));
    wait_for_viewers(&server, &channel["id"], 1).await;
    let busy = get_from_tuner("/auto/v7").await;
    assert_eq!(busy.headers()["x-hdhomerun-error"], "805 All Tuners In Use");
    expect_error(busy, 503, "SERVER_BUSY").await;
    revoke_token(&server, &id).await;
    let mut chunks = answer.bytes_stream();
    let drained = async { while chunks.next().await.is_some() {} };
    tokio::time::timeout(MAX_WAIT, drained).await.expect("the stream ends with its token");
    wait_for_viewers(&server, &channel["id"], 0).await;
    expect_error(get_from_tuner("/lineup.json").await, 401, "UNAUTHORIZED").await;
}

#[tokio::test]
async fn the_tuner_is_off_by_default() {
    let server = kit::start_server(&[]).await;
    let (secret, _) = create_token(&server, Value::Null).await;
    let answer = server.request(Method::GET, &format!("/hdhr/{secret}/discover.json")).send().await.unwrap();
    expect_error(answer, 404, "NOT_FOUND").await;
}
