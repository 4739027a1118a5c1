//! External channels.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::answer::{refused, success};
use crate::kit::{self, Server, film, play, ts};

pub mod antenna;
mod camera;
/// Streams in all supported forms.
mod forms;
mod headend;
/// Streams over RTSP.
mod rtsp;
/// Streams over SRT.
mod srt;

use antenna::Antenna;

const CHANNELS: &str = "/api/livetv/channels";
const RECORDINGS: &str = "/api/livetv/recordings";

/// The largest gap between two video frames, 90 kHz ticks.
const HOLE: i64 = 3 * 3600;

async fn send(server: &Server, method: Method, target: &str, body: &Value) -> reqwest::Response {
    server.ask(method, target).bearer_auth(&server.admin).json(body).send().await.unwrap()
}

async fn server(recorded: &Path) -> Server {
    let folder = recorded.to_owned();
    kit::server_with(&[], |config| {
        config.recordings = Some(folder);
        config.allowed_sources = vec!["127.0.0.1".into()];
        config.limits.ingest_linger = Duration::from_millis(500);
        config.hdhomerun = true;
    })
    .await
}

/// Adds an external channel with this source and everything that is required to show it, and optionally to record it.
async fn channel(server: &Server, source: Value, recording_basis: Option<&str>) -> Value {
    let body = json!({
        "name": "Elsewhere", "sourceType": "external", "source": source,
        "provenance": {"sourceName": "Own antenna", "sourceUrl": "https://antenna.example/", "importedAt": "2026-01-01"},
        "rights": {"basis": "own-content", "statement": "Received with my own antenna, for my own household.",
            "recordingBasis": recording_basis},
        "attestation": {"authorized": true},
    });
    success(send(server, Method::POST, CHANNELS, &body).await, 201).await["channel"]["id"].clone()
}

/// A playlist as a player reads it.
struct List {
    sequence: u64,
    breaks: u64,
    /// URLs, and whether a discontinuity precedes each.
    segments: Vec<(String, bool)>,
}

async fn list(server: &Server, channel: &Value, session: &str) -> List {
    let target = format!("/api/livetv/watch/{channel}/live.m3u8?watchSession={session}");
    let answer = server.get(&target).send().await.unwrap();
    let (status, text) = (answer.status(), answer.text().await.unwrap());
    assert_eq!(status, 200, "{text}");
    let number = |tag: &str| text.lines().find_map(|line| line.strip_prefix(tag)?.parse().ok()).unwrap();
    let mut segments = Vec::new();
    let mut breaks = false;
    for line in text.lines() {
        match line {
            "#EXT-X-DISCONTINUITY" => breaks = true,
            line if line.starts_with('#') => {}
            line => segments.push((format!("/api/livetv/watch/{channel}/{line}"), std::mem::take(&mut breaks))),
        }
    }
    List { sequence: number("#EXT-X-MEDIA-SEQUENCE:"), breaks: number("#EXT-X-DISCONTINUITY-SEQUENCE:"), segments }
}

async fn segment(server: &Server, address: &str) -> Vec<u8> {
    let answer = server.ask(Method::GET, address).send().await.unwrap();
    let status = answer.status();
    let bytes = answer.bytes().await.unwrap();
    assert_eq!(status, 200, "{address}: {}", String::from_utf8_lossy(&bytes));
    bytes.to_vec()
}

async fn until(what: &str, mut so: impl AsyncFnMut() -> bool) {
    // The tests count what was aired, not how long it took: the machine may be busy.
    let deadline = Instant::now() + Duration::from_secs(170);
    while !so().await {
        assert!(Instant::now() < deadline, "not within 170 s: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_viewers_are_one_connection_outward() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ts");
    antenna::film(&path, 180);
    let (antenna, server) = (Antenna::of(&path, 180).await, server(folder.path()).await);
    // The first URL is unreachable: the next one is used.
    let source = json!({"url": "http://127.0.0.1:1/none.ts", "failoverUrls": [antenna.url()]});
    let id = channel(&server, source, None).await;
    let sessions: Vec<String> = (0..10).map(|n| format!("viewer-{n}")).collect();
    until("every viewer has six segments of the source", async || {
        let lists = futures_util::future::join_all(sessions.iter().map(|session| list(&server, &id, session))).await;
        let tail = |list: &List| list.segments.iter().rev().take_while(|(_, breaks)| !breaks).count();
        lists.iter().all(|list| tail(list) >= 6) && antenna.made() > 0
    })
    .await;
    let last = list(&server, &id, &sessions[0]).await;
    let from = last.segments.iter().rposition(|(_, breaks)| *breaks).map_or(0, |at| at);
    let mut bytes = Vec::new();
    for (address, _) in &last.segments[from..] {
        bytes.extend(segment(&server, address).await);
    }
    let aired = folder.path().join("aired.ts");
    std::fs::write(&aired, bytes).unwrap();
    assert!(play::decodes_through(&aired, HOLE).await.1 > 9.0);
    let (flashes, beeps) = film::flashes_and_beeps(&aired, 25.0);
    assert!(flashes.len() >= 8 && beeps.len() >= 8, "{flashes:?} {beeps:?}");
    assert_eq!((antenna.made(), antenna.open()), (1, 1));

    for session in &sessions {
        let target = format!("/api/livetv/watch/{id}?watchSession={session}");
        success(send(&server, Method::DELETE, &target, &json!({})).await, 200).await;
    }
    until("the connection is closed after the last viewer", async || antenna.open() == 0).await;
    assert!(server.service.ingests.health(id.as_u64().unwrap() as u32).is_none());
}

/// Cuts the source several times while a viewer watches and a recording runs. `rest` passes before each cut.
async fn cuts(times: usize, rest: Duration) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ts");
    antenna::film(&path, 180);
    let (antenna, server) = (Antenna::of(&path, 180).await, server(folder.path()).await);
    let id = channel(&server, json!({"url": antenna.url()}), Some("My own pictures.")).await;
    let body = json!({"channelId": id, "start": Timestamp::now().to_string(),
        "end": (Timestamp::now() + Duration::from_secs(3600)).to_string()});
    let made = success(send(&server, Method::POST, RECORDINGS, &body).await, 201).await;
    let recording = format!("{RECORDINGS}/{}", made["recording"]["id"].as_str().unwrap());
    let began = Instant::now();
    let report = || server.service.ingests.health(id.as_u64().unwrap() as u32);

    let (mut newest, mut seen, mut breaks) = (0, BTreeSet::new(), 0);
    let mut look = async || {
        let list = list(&server, &id, "viewer").await;
        let last = list.sequence + list.segments.len() as u64;
        assert!(last >= newest, "the media sequence went back from {newest} to {last}");
        newest = last;
        for ((address, _), number) in list.segments.iter().zip(list.sequence..) {
            let name = address.split('?').next().unwrap().to_owned();
            seen.insert((number, name));
        }
        breaks = breaks.max(list.breaks + list.segments.iter().filter(|(_, breaks)| *breaks).count() as u64);
        list.segments.iter().rev().take_while(|(_, breaks)| !breaks).count() >= 3
    };
    until("the source is on air", async || look().await && antenna.open() == 1).await;
    let first = breaks_of(&list(&server, &id, "viewer").await);
    for cut in 1..=times {
        let until_cut = Instant::now() + rest;
        while Instant::now() < until_cut {
            look().await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        antenna.off();
        let wanted = first + 2 * cut as u64 - 1;
        until("a slate replaces the source", async || {
            look().await;
            breaks_of(&list(&server, &id, "viewer").await) >= wanted
        })
        .await;
        antenna.on();
        until("the source is back", async || {
            look().await;
            breaks_of(&list(&server, &id, "viewer").await) > wanted && antenna.open() == 1
        })
        .await;
    }
    look().await;
    // Sequence numbers are unique and have no gaps over all playlists.
    let numbers: Vec<u64> = seen.iter().map(|(number, _)| *number).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{seen:?}");
    assert!(report().is_some_and(|report| report.connections > times as u64));

    let elapsed = began.elapsed().as_secs_f64();
    let gone = success(send(&server, Method::DELETE, &recording, &json!({})).await, 200).await;
    assert_eq!(gone["state"], "cancelled");
    let answer = server.ask(Method::GET, &recording).bearer_auth(&server.admin).send().await.unwrap();
    let kept = success(answer, 200).await["recording"].clone();
    // Each interruption adds at least two seconds of slate, which count as missing.
    let slates = 2.0 * times as f64;
    assert!(kept["missingSeconds"].as_f64().unwrap() >= slates, "{kept}");
    ts::check(&std::fs::read(kept["path"].as_str().unwrap()).unwrap());
    let (_, seconds) = play::decodes_through(Path::new(kept["path"].as_str().unwrap()), HOLE).await;
    assert!((seconds - kept["recordedSeconds"].as_f64().unwrap()).abs() < 1.0, "{seconds} s: {kept}");
    // The recording covers everything except the start-up of the source.
    assert!(seconds > elapsed - 40.0, "{seconds} s of {elapsed} s");
    println!("{times} cuts: {} connections, {seconds:.0} s recorded", antenna.made());
}

fn breaks_of(list: &List) -> u64 {
    list.breaks + list.segments.iter().filter(|(_, breaks)| *breaks).count() as u64
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_is_cut_is_stood_in_for_and_comes_back() {
    // The long version: `HEARTHCAST_CUTS=20 HEARTHCAST_CUT_REST=22`, ten minutes.
    let number = |name: &str, usual: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (times, rest) = (number("HEARTHCAST_CUTS", 2), number("HEARTHCAST_CUT_REST", 3));
    cuts(times as usize, Duration::from_secs(rest)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_address_replaces_a_stream_that_still_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ts");
    // Longer than `until` waits.
    antenna::film(&path, 200);
    let (former, next) = (Antenna::of(&path, 200).await, Antenna::of(&path, 200).await);
    let server = server(folder.path()).await;
    let id = channel(&server, json!({"url": former.url()}), None).await;
    until("the channel is on air", async || list(&server, &id, "v").await.segments.len() >= 2 && former.open() == 1)
        .await;
    let before = list(&server, &id, "v").await;
    let changed = json!({"source": {"url": next.url()}, "attestation": {"authorized": true}});
    success(send(&server, Method::PATCH, &format!("{CHANNELS}/{id}"), &changed).await, 200).await;
    until("the new address is on air after a discontinuity", async || {
        let list = list(&server, &id, "v").await;
        let report = server.service.ingests.health(id.as_u64().unwrap() as u32);
        breaks_of(&list) > breaks_of(&before) && report.is_some_and(|report| report.shows_source) && next.open() == 1
    })
    .await;
    until("the former connection is closed", async || former.open() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_withdrawn_stops_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ts");
    antenna::film(&path, 30);
    let (antenna, server) = (Antenna::of(&path, 30).await, server(folder.path()).await);
    let id = channel(&server, json!({"url": antenna.url()}), None).await;
    let span = json!({"channelId": id, "start": Timestamp::now().to_string(),
        "end": (Timestamp::now() + Duration::from_secs(600)).to_string()});
    let refusal = refused(send(&server, Method::POST, RECORDINGS, &span).await, 422, "RIGHTS_BASIS_REQUIRED").await;
    assert_eq!(refusal["details"]["missing"], json!(["rights.recordingBasis"]));
    let target = format!("{CHANNELS}/{id}");
    let based = json!({"rights": {"recordingBasis": "My own pictures."}, "attestation": {"authorized": true}});
    success(send(&server, Method::PATCH, &target, &based).await, 200).await;
    let made = success(send(&server, Method::POST, RECORDINGS, &span).await, 201).await;
    until("the channel is on air", async || list(&server, &id, "v").await.segments.len() >= 2 && antenna.open() == 1)
        .await;
    let address = list(&server, &id, "v").await.segments[0].0.clone();
    let playlist = format!("/api/livetv/watch/{id}/live.m3u8");

    let no = json!({"attestation": {"authorized": false}});
    success(send(&server, Method::PATCH, &target, &no).await, 200).await;
    refused(server.get(&playlist).send().await.unwrap(), 403, "RIGHTS_WITHDRAWN").await;
    refused(server.ask(Method::GET, &address).send().await.unwrap(), 403, "RIGHTS_WITHDRAWN").await;
    until("the connection is closed", async || antenna.open() == 0).await;
    let recording = format!("{RECORDINGS}/{}", made["recording"]["id"].as_str().unwrap());
    until("its recording has failed", async || {
        let answer = server.ask(Method::GET, &recording).bearer_auth(&server.admin).send().await.unwrap();
        let one = success(answer, 200).await["recording"].clone();
        one["state"] == "failed" && one["failure"]["code"] == "RIGHTS_WITHDRAWN"
    })
    .await;
    assert_eq!(antenna.made(), 1);
}
