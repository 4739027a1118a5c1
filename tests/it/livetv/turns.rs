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

use super::play::list;
use super::{add, send};
use crate::kit::answer::{refused, success};
use crate::kit::{self, Server, film, play};

async fn channel(server: &Server, path: &Path, ago: u64) -> Value {
    let start = (Timestamp::now() - Duration::from_secs(ago)).to_string();
    add(server, &json!({"name": "Encoded", "startAt": start, "items": [{"path": path}]})).await["id"].clone()
}

async fn watch(server: &Server, id: &Value, player: &str) -> reqwest::Response {
    server.get(&format!("/api/livetv/watch/{id}?wait=15&watchSession={player}")).send().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_encoded_channels_and_a_film_play_on_one_encode_slot() {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<_> = (0..3).map(|n| folder.path().join(format!("{n}.avi"))).collect();
    for (path, seconds) in paths.iter().zip([80, 81, 20]) {
        film::flash_and_beep(path, seconds, "-c:v mpeg4 -q:v 5 -c:a ac3");
    }
    let server = kit::server_with(&[folder.path()], |config| config.limits.concurrent_jobs = 1).await;
    let mut lists = Vec::new();
    for (path, player) in paths[..2].iter().zip(["sofa", "kitchen"]) {
        let id = channel(&server, path, 30).await;
        let watched = watch(&server, &id, player).await;
        assert_eq!(watched.status(), 200);
        lists.push(format!("{}?{}", watched.url().path(), watched.url().query().unwrap()));
    }
    let (status, session) = play::start(&server, &paths[2], json!({})).await;
    assert_eq!(status, 200, "{session}");
    // As players follow them, but without waiting: each playlist every 2 s of channel time.
    let client = reqwest::Client::new();
    let mut seen = vec![BTreeMap::new(); 2];
    for round in 0..10 {
        for (target, seen) in lists.iter().zip(&mut seen) {
            let (text, base) = list(&server, target).await;
            let first = text.lines().find_map(|line| line.strip_prefix("#EXT-X-MEDIA-SEQUENCE:")).unwrap();
            let named = (first.parse::<u64>().unwrap()..).zip(text.lines().filter(|line| !line.starts_with('#')));
            // A player starts with the last three segments.
            let skipped = if round == 0 { named.clone().count().saturating_sub(3) } else { 0 };
            for (sequence, address) in named.skip(skipped) {
                if seen.last_key_value().is_some_and(|(last, _)| *last >= sequence) {
                    continue;
                }
                let answer = client.get(format!("{}{base}/{address}", server.base)).send().await.unwrap();
                assert_eq!(answer.status(), 200, "{address}");
                seen.insert(sequence, answer.bytes().await.unwrap().len());
            }
        }
        server.service.clock.advance(Duration::from_secs(2));
    }
    for seen in &seen {
        let (first, last) = (seen.first_key_value().unwrap().0, seen.last_key_value().unwrap().0);
        assert_eq!(last - first + 1, seen.len() as u64, "no segment is missing");
        assert!(seen.len() >= 11 && seen.values().all(|bytes| *bytes > 1000), "{seen:?}");
    }
    let folder = session["playlistUrl"].as_str().unwrap().rsplit_once('/').unwrap().0;
    for index in 0..5 {
        let answer = server.get(&format!("{folder}/v0-{index:05}.ts")).send().await.unwrap();
        assert_eq!(answer.status(), 200, "segment {index} of the film");
    }
    assert_eq!(server.service.sessions.active_jobs(), 1);
    play::stop(&server, &session).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_comes_when_no_share_is_left_is_told_before_a_list_names_anything() {
    let folder = tempfile::tempdir().unwrap();
    // More pixels than one slot is expected to encode in real time, and a backend that makes none, so nothing is measured.
    let paths: Vec<_> = (4..7).map(|seconds| folder.path().join(format!("{seconds}.avi"))).collect();
    for (path, seconds) in paths.iter().zip(4..) {
        let frames = format!("color=size=1920x1080:rate=60:duration={seconds}");
        film::make(path, &["-f lavfi -i", &frames, "-c:v mpeg4"]);
    }
    let server = kit::server_with(&[folder.path()], |config| config.limits.concurrent_jobs = 1).await;
    server.service.sessions.force_backend(Arc::new(FakeBackend::with_segment_time(Duration::from_secs(60))));
    let ids = [channel(&server, &paths[0], 60).await, channel(&server, &paths[1], 60).await];
    let target = |id: &Value, player: &str| format!("/api/livetv/watch/{id}/live.m3u8?watchSession={player}");
    assert_eq!(server.get(&target(&ids[0], "sofa")).send().await.unwrap().status(), 200);
    for target in [target(&ids[1], "kitchen"), format!("/api/livetv/watch/{}?wait=15&watchSession=kitchen", ids[1])] {
        // The refusal takes 1.5 s; the bound leaves room for a busy machine, and is far from the 60 s of the encode.
        let began = Instant::now();
        let answer = server.get(&target).send().await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(10), "{target}: {:?}", began.elapsed());
        assert_eq!(answer.headers()["retry-after"], "5");
        let told = refused(answer, 503, "TRANSCODER_BUSY").await;
        assert_eq!(told["details"]["max"], 1, "{told}");
    }
    let began = Instant::now();
    let (status, told) = play::start(&server, &paths[2], json!({})).await;
    assert_eq!((status, &told["code"]), (503, &json!("TRANSCODER_BUSY")));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    // A viewer that was admitted stays.
    assert_eq!(server.get(&target(&ids[0], "sofa")).send().await.unwrap().status(), 200);

    // The slot of a player that leaves or changes channels is free at once.
    let leave = server.ask(Method::DELETE, &format!("/api/livetv/watch/{}?watchSession=sofa", ids[0]));
    success(leave.bearer_auth(&server.token).send().await.unwrap(), 200).await;
    assert_eq!(server.get(&target(&ids[1], "kitchen")).send().await.unwrap().status(), 200);
    assert_eq!(server.get(&target(&ids[0], "sofa")).send().await.unwrap().status(), 503);
    assert_eq!(
        server.get(&target(&ids[0], "kitchen")).send().await.unwrap().status(),
        200,
        "the player changed channels"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_channels_are_kept_ready_than_there_are_slots_for_even_after_a_zap() {
    let folder = tempfile::tempdir().unwrap();
    let server = kit::server_with(&[folder.path()], |config| config.limits.concurrent_jobs = 1).await;
    let mut ids = Vec::new();
    for n in 0..4 {
        let path = folder.path().join(format!("{n}.avi"));
        film::flash_and_beep(&path, 60 + n, "-c:v mpeg4 -q:v 5 -c:a ac3");
        ids.push(channel(&server, &path, 30).await);
    }
    // A viewer zaps through all channels, which opens their files.
    for id in &ids {
        assert_eq!(watch(&server, id, "zapper").await.status(), 200);
        let leave = server.ask(Method::DELETE, &format!("/api/livetv/watch/{id}?watchSession=zapper"));
        success(leave.bearer_auth(&server.token).send().await.unwrap(), 200).await;
    }
    // Another viewer takes the encode slot.
    assert_eq!(watch(&server, &ids[0], "sofa").await.status(), 200);
    let warm = send(&server, Method::POST, "/api/livetv/warm", &json!({})).await;
    let told = success(warm, 202).await;
    let skipped: Vec<&Value> =
        told["channels"].as_array().unwrap().iter().filter(|channel| channel["state"] == "skipped").collect();
    assert_eq!((&told["accepted"], skipped.len()), (&json!(1), 3), "only the watched channel is accepted: {told}");
    assert!(skipped.iter().all(|channel| channel["reason"] == "limit"), "{told}");
}
