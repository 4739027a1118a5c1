//! Encoded channels that share the encode slots, and refusals when all slots are in use.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hearthcast::engine::fake_backend::FakeBackend;
use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::play::fetch_playlist;
use super::{add_channel, send_as_admin};
use crate::kit::response::{expect_error, expect_success};
use crate::kit::{self, Server, media, player};

async fn add_encoded_channel(server: &Server, path: &Path, ago_seconds: u64) -> Value {
    let start = (Timestamp::now() - Duration::from_secs(ago_seconds)).to_string();
    add_channel(server, &json!({"name": "Encoded", "startAt": start, "items": [{"path": path}]})).await["id"].clone()
}

async fn watch(server: &Server, id: &Value, player: &str) -> reqwest::Response {
    server.get(&format!("/api/livetv/watch/{id}?wait=15&watchSession={player}")).send().await.unwrap()
}

/// Starts a session as players do: on a busy machine the channels may need all of the slot until they are ahead.
async fn start_when_free(server: &Server, path: &Path) -> Value {
    for _ in 0..12 {
        let (status, answer) = player::start(server, path, json!({})).await;
        if status == 200 {
            return answer;
        }
        assert_eq!((status, &answer["code"]), (503, &json!("TRANSCODER_BUSY")), "{answer}");
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    panic!("the slot was never free");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_encoded_channels_and_a_film_play_on_one_encode_slot() {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<_> = (0..3).map(|n| folder.path().join(format!("{n}.avi"))).collect();
    for (path, seconds) in paths.iter().zip([80, 81, 20]) {
        media::flash_and_beep(path, seconds, "-c:v mpeg4 -q:v 5 -c:a ac3");
    }
    let server = kit::start_server_with(&[folder.path()], |config| config.limits.concurrent_jobs = 1).await;
    let mut lists = Vec::new();
    for (path, player) in paths[..2].iter().zip(["sofa", "kitchen"]) {
        let id = add_encoded_channel(&server, path, 30).await;
        let watched = watch(&server, &id, player).await;
        assert_eq!(watched.status(), 200);
        lists.push(format!("{}?{}", watched.url().path(), watched.url().query().unwrap()));
    }
    let session = start_when_free(&server, &paths[2]).await;
    // As players follow them, but without waiting: each playlist every 2 s of channel time.
    let client = reqwest::Client::new();
    let mut segment_sizes = vec![BTreeMap::new(); 2];
    for round in 0..10 {
        for (target, sizes) in lists.iter().zip(&mut segment_sizes) {
            let (text, base) = fetch_playlist(&server, target).await;
            let first = text.lines().find_map(|line| line.strip_prefix("#EXT-X-MEDIA-SEQUENCE:")).unwrap();
            let listed = (first.parse::<u64>().unwrap()..).zip(text.lines().filter(|line| !line.starts_with('#')));
            // A player starts with the last three segments.
            let skipped = if round == 0 { listed.clone().count().saturating_sub(3) } else { 0 };
            for (sequence, address) in listed.skip(skipped) {
                if sizes.last_key_value().is_some_and(|(last, _)| *last >= sequence) {
                    continue;
                }
                let answer = client.get(format!("{}{base}/{address}", server.base)).send().await.unwrap();
                assert_eq!(answer.status(), 200, "{address}");
                sizes.insert(sequence, answer.bytes().await.unwrap().len());
            }
        }
        server.service.clock.advance(Duration::from_secs(2));
    }
    for sizes in &segment_sizes {
        let (first, last) = (sizes.first_key_value().unwrap().0, sizes.last_key_value().unwrap().0);
        assert_eq!(last - first + 1, sizes.len() as u64, "no segment is missing");
        assert!(sizes.len() >= 11 && sizes.values().all(|bytes| *bytes > 1000), "{sizes:?}");
    }
    let folder = session["playlistUrl"].as_str().unwrap().rsplit_once('/').unwrap().0;
    for index in 0..5 {
        let answer = server.get(&format!("{folder}/v0-{index:05}.ts")).send().await.unwrap();
        assert_eq!(answer.status(), 200, "segment {index} of the film");
    }
    assert_eq!(server.service.renditions.active_jobs(), 1);
    player::stop(&server, &session).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_without_encode_slot_is_refused_before_its_playlist() {
    let folder = tempfile::tempdir().unwrap();
    // More pixels than one slot is expected to encode in real time, and a backend that makes none, so nothing is measured.
    let paths: Vec<_> = (4..7).map(|seconds| folder.path().join(format!("{seconds}.avi"))).collect();
    for (path, seconds) in paths.iter().zip(4..) {
        let frames = format!("color=size=1920x1080:rate=60:duration={seconds}");
        media::run_ffmpeg(path, &["-f lavfi -i", &frames, "-c:v mpeg4"]);
    }
    let server = kit::start_server_with(&[folder.path()], |config| config.limits.concurrent_jobs = 1).await;
    server.service.renditions.backends.force(Arc::new(FakeBackend::with_segment_time(Duration::from_secs(60))));
    let ids = [add_encoded_channel(&server, &paths[0], 60).await, add_encoded_channel(&server, &paths[1], 60).await];
    let target = |id: &Value, player: &str| format!("/api/livetv/watch/{id}/live.m3u8?watchSession={player}");
    assert_eq!(server.get(&target(&ids[0], "sofa")).send().await.unwrap().status(), 200);
    for target in [target(&ids[1], "kitchen"), format!("/api/livetv/watch/{}?wait=15&watchSession=kitchen", ids[1])] {
        // The refusal takes 1.5 s; the bound leaves room for a busy machine, and is far from the 60 s of the encode.
        let started = Instant::now();
        let answer = server.get(&target).send().await.unwrap();
        assert!(started.elapsed() < Duration::from_secs(10), "{target}: {:?}", started.elapsed());
        assert_eq!(answer.headers()["retry-after"], "5");
        let error = expect_error(answer, 503, "TRANSCODER_BUSY").await;
        assert_eq!(error["details"]["max"], 1, "{error}");
    }
    let started = Instant::now();
    let (status, error) = player::start(&server, &paths[2], json!({})).await;
    assert_eq!((status, &error["code"]), (503, &json!("TRANSCODER_BUSY")));
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    // A viewer that was admitted stays.
    assert_eq!(server.get(&target(&ids[0], "sofa")).send().await.unwrap().status(), 200);

    // The slot of a player that leaves or changes channels is free at once.
    let leave = server.request(Method::DELETE, &format!("/api/livetv/watch/{}?watchSession=sofa", ids[0]));
    expect_success(leave.bearer_auth(&server.token).send().await.unwrap(), 200).await;
    assert_eq!(server.get(&target(&ids[1], "kitchen")).send().await.unwrap().status(), 200);
    assert_eq!(server.get(&target(&ids[0], "sofa")).send().await.unwrap().status(), 503);
    assert_eq!(
        server.get(&target(&ids[0], "kitchen")).send().await.unwrap().status(),
        200,
        "the player changed channels"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_channels_are_warm_than_encode_slots_even_after_zapping() {
    let folder = tempfile::tempdir().unwrap();
    let server = kit::start_server_with(&[folder.path()], |config| config.limits.concurrent_jobs = 1).await;
    let mut ids = Vec::new();
    for n in 0..4 {
        let path = folder.path().join(format!("{n}.avi"));
        media::flash_and_beep(&path, 60 + n, "-c:v mpeg4 -q:v 5 -c:a ac3");
        ids.push(add_encoded_channel(&server, &path, 30).await);
    }
    // A viewer zaps through all channels, which opens their files.
    for id in &ids {
        assert_eq!(watch(&server, id, "zapper").await.status(), 200);
        let leave = server.request(Method::DELETE, &format!("/api/livetv/watch/{id}?watchSession=zapper"));
        expect_success(leave.bearer_auth(&server.token).send().await.unwrap(), 200).await;
    }
    // Another viewer takes the encode slot.
    assert_eq!(watch(&server, &ids[0], "sofa").await.status(), 200);
    let warm = send_as_admin(&server, Method::POST, "/api/livetv/warm", &json!({})).await;
    let response = expect_success(warm, 202).await;
    let skipped: Vec<&Value> =
        response["channels"].as_array().unwrap().iter().filter(|channel| channel["state"] == "skipped").collect();
    assert_eq!(
        (&response["accepted"], skipped.len()),
        (&json!(1), 3),
        "only the watched channel is accepted: {response}"
    );
    assert!(skipped.iter().all(|channel| channel["reason"] == "limit"), "{response}");
}
