//! The lineup as an HDHomeRun tuner.

use std::process::Stdio;
use std::time::Duration;

use futures_util::StreamExt;
use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::process::Command;

use super::{CHANNELS, add, get};
use crate::kit::answer::{refused, success};
use crate::kit::{self, Server, film, play};

/// Creates a stream token; returns its secret and id.
async fn token(server: &Server, channels: Value) -> (String, String) {
    let asked = json!({"name": "Tuner", "channelIds": channels});
    let made = success(server.post("/api/livetv/tokens", &asked).send().await.unwrap(), 201).await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&made["secret"]), text(&made["token"]["id"]))
}

async fn revoke(server: &Server, id: &str) {
    let gone = server.ask(Method::DELETE, &format!("/api/livetv/tokens/{id}")).bearer_auth(&server.token).send().await;
    assert_eq!(success(gone.unwrap(), 200).await["deleted"], json!(true));
}

/// Waits until the channel has this number of viewers.
async fn viewers(server: &Server, id: &Value, wanted: u64) {
    for _ in 0..100 {
        let seen = get(server, &format!("{CHANNELS}/{id}")).await["channel"]["viewers"].as_u64();
        if seen == Some(wanted) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the channel did not reach {wanted} viewers");
}

#[tokio::test]
async fn a_tuner_gives_one_stream_over_the_end_of_a_programme_until_its_token_is_revoked() {
    let folder = tempfile::tempdir().unwrap();
    film::flash_and_beep(&folder.path().join("0.mp4"), 6, "-c:v libx264 -preset ultrafast -bf 2 -g 50 -c:a aac");
    film::flash_and_beep(
        &folder.path().join("1.mkv"),
        6,
        "-c:v libx264 -preset ultrafast -profile:v baseline -g 25 -an",
    );
    let server = kit::server_with(&[folder.path()], |config| {
        config.hdhomerun = true;
        config.limits.sessions_per_user = 1;
    })
    .await;
    // The first programme ends while the stream is read: 24 s of complete programmes and 1.5 s of the next are past.
    let start = (Timestamp::now() - Duration::from_millis(25_500)).to_string();
    let body = json!({"name": "One & Two", "number": 7, "scheduleMode": "sequential", "startAt": start, "items": [{"path": folder.path()}]});
    let made = add(&server, &body).await;
    let hidden = add(&server, &json!({"name": "Other", "items": [{"path": folder.path()}]})).await;
    let (secret, id) = token(&server, json!([made["id"]])).await;
    let tuner = format!("{}/hdhr/{secret}", server.base);
    let ask = async |path: &str| server.ask(Method::GET, &format!("/hdhr/{secret}{path}")).send().await.unwrap();

    let found = success(ask("/discover.json").await, 200).await;
    assert_eq!((&found["BaseURL"], &found["TunerCount"]), (&json!(tuner), &json!(1)));
    assert_eq!(found["DeviceID"].as_str().unwrap().len(), 8);
    let address = format!("{tuner}/auto/v7");
    let lineup = success(server.client.get(found["LineupURL"].as_str().unwrap()).send().await.unwrap(), 200).await;
    let known = json!([{"GuideNumber": "7", "GuideName": "One & Two", "URL": address, "VideoCodec": "H264", "AudioCodec": "AAC", "HD": 1}]);
    assert_eq!(lineup, known);
    assert_eq!(success(ask("/lineup_status.json").await, 200).await["ScanInProgress"], json!(0));
    let device = ask("/device.xml").await.text().await.unwrap();
    assert!(
        device.contains(&format!("<serialNumber>{}</serialNumber>", found["DeviceID"].as_str().unwrap())),
        "{device}"
    );
    refused(ask("/auto/vx").await, 404, "CHANNEL_NOT_FOUND").await;
    refused(ask(&format!("/auto/v{}", hidden["number"])).await, 404, "CHANNEL_NOT_FOUND").await;

    let path = folder.path().join("received.ts");
    let mut player = Command::new("ffmpeg");
    player.args(["-nostdin", "-v", "error", "-y", "-i", &address, "-t", "12", "-map", "0", "-c", "copy"]).arg(&path);
    let read = player.stderr(Stdio::piped()).kill_on_drop(true).output();
    let read = tokio::time::timeout(Duration::from_secs(90), read).await.expect("ffmpeg ends").unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let decoded = play::decode(&path).await;
    assert_eq!(decoded.warnings, Vec::<String>::new());
    assert!(decoded.video_seconds() > 11.0 && decoded.audio_seconds() > 11.0, "{decoded:?}");
    for pair in decoded.video.windows(2) {
        let step = pair[1].at - pair[0].at;
        assert!((0.02..0.06).contains(&step), "video steps by {step} at {}", pair[0].at);
    }
    for pair in decoded.audio.windows(2) {
        let gap = pair[1].at - pair[0].at - pair[0].length;
        assert!(gap.abs() < 0.022, "audio steps by {gap} at {}", pair[0].at);
    }
    viewers(&server, &made["id"], 0).await;

    // The limit is one stream; it ends when the token is revoked.
    let answer = ask("/auto/v7").await;
    assert_eq!((answer.status().as_u16(), &answer.headers()["content-type"]), (200, &"video/mp2t".parse().unwrap()));
    viewers(&server, &made["id"], 1).await;
    let busy = ask("/auto/v7").await;
    assert_eq!(busy.headers()["x-hdhomerun-error"], "805 All Tuners In Use");
    refused(busy, 503, "SERVER_BUSY").await;
    revoke(&server, &id).await;
    let mut pieces = answer.bytes_stream();
    let ended = async { while pieces.next().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(20), ended).await.expect("the stream ends with its token");
    viewers(&server, &made["id"], 0).await;
    refused(ask("/lineup.json").await, 401, "UNAUTHORIZED").await;
}

#[tokio::test]
async fn there_is_no_tuner_unless_it_is_asked_for() {
    let server = kit::server(&[]).await;
    let (secret, _) = token(&server, Value::Null).await;
    let answer = server.ask(Method::GET, &format!("/hdhr/{secret}/discover.json")).send().await.unwrap();
    refused(answer, 404, "NOT_FOUND").await;
}
