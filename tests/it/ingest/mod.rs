//! External channels.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::response::{expect_error, expect_success};
use crate::kit::wait::MAX_WAIT;
use crate::kit::{self, Server, media, player, ts};

mod camera;
mod hls_source;
/// Streams over RTSP.
mod rtsp;
/// Streams over SRT.
mod srt;
/// Streams in all supported forms.
mod stream_forms;
pub mod transport_stream_source;

use transport_stream_source::{FILM_SECONDS, TransportStreamSource};

const CHANNELS: &str = "/api/livetv/channels";
const RECORDINGS: &str = "/api/livetv/recordings";

/// The largest gap between two video frames, 90 kHz ticks.
const MAX_FRAME_GAP: i64 = 3 * 3600;

async fn send_as_admin(server: &Server, method: Method, target: &str, body: &Value) -> reqwest::Response {
    server.request(method, target).bearer_auth(&server.admin).json(body).send().await.unwrap()
}

async fn start_server(recordings_folder: &Path) -> Server {
    let folder = recordings_folder.to_owned();
    kit::start_server_with(&[], |config| {
        config.recordings = Some(folder);
        config.allowed_sources = vec!["127.0.0.1".into()];
        config.limits.ingest_linger = Duration::from_millis(500);
        config.hdhomerun = true;
    })
    .await
}

/// Adds an external channel with this source and everything that is required to show it, and optionally to record it.
async fn add_channel(server: &Server, source: Value, recording_basis: Option<&str>) -> Value {
    let body = json!({
        "name": "Remote", "sourceType": "external", "source": source,
        "provenance": {"sourceName": "Own antenna", "sourceUrl": "https://antenna.example/", "importedAt": "2026-01-01"},
        "rights": {"basis": "own-content", "statement": "Received with my own antenna, for my own household.",
            "recordingBasis": recording_basis},
        "attestation": {"authorized": true},
    });
    expect_success(send_as_admin(server, Method::POST, CHANNELS, &body).await, 201).await["channel"]["id"].clone()
}

/// A playlist as a player reads it.
struct ParsedPlaylist {
    sequence: u64,
    discontinuities: u64,
    /// URLs, and whether a discontinuity precedes each.
    segments: Vec<(String, bool)>,
}

async fn fetch_playlist(server: &Server, channel: &Value, session: &str) -> ParsedPlaylist {
    let target = format!("/api/livetv/watch/{channel}/live.m3u8?watchSession={session}");
    let answer = server.get(&target).send().await.unwrap();
    let (status, text) = (answer.status(), answer.text().await.unwrap());
    assert_eq!(status, 200, "{text}");
    let tag_value = |tag: &str| text.lines().find_map(|line| line.strip_prefix(tag)?.parse().ok()).unwrap();
    let mut segments = Vec::new();
    let mut is_discontinuity = false;
    for line in text.lines() {
        match line {
            "#EXT-X-DISCONTINUITY" => is_discontinuity = true,
            line if line.starts_with('#') => {}
            line => {
                segments.push((format!("/api/livetv/watch/{channel}/{line}"), std::mem::take(&mut is_discontinuity)))
            }
        }
    }
    ParsedPlaylist {
        sequence: tag_value("#EXT-X-MEDIA-SEQUENCE:"),
        discontinuities: tag_value("#EXT-X-DISCONTINUITY-SEQUENCE:"),
        segments,
    }
}

async fn fetch_segment(server: &Server, address: &str) -> Vec<u8> {
    let answer = server.request(Method::GET, address).send().await.unwrap();
    let status = answer.status();
    let bytes = answer.bytes().await.unwrap();
    assert_eq!(status, 200, "{address}: {}", String::from_utf8_lossy(&bytes));
    bytes.to_vec()
}

async fn wait_until(condition: &str, mut is_met: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + MAX_WAIT;
    while !is_met().await {
        assert!(Instant::now() < deadline, "never: {condition}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_viewers_share_one_connection_to_the_source() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ts");
    transport_stream_source::make_transport_stream(&path);
    let (stream_source, server) =
        (TransportStreamSource::start(&path, FILM_SECONDS).await, start_server(folder.path()).await);
    // The first URL is unreachable: the next one is used.
    let source = json!({"url": "http://127.0.0.1:1/none.ts", "failoverUrls": [stream_source.url()]});
    let id = add_channel(&server, source, None).await;
    let sessions: Vec<String> = (0..10).map(|n| format!("viewer-{n}")).collect();
    wait_until("every viewer has six segments of the source", async || {
        let lists =
            futures_util::future::join_all(sessions.iter().map(|session| fetch_playlist(&server, &id, session))).await;
        let continuous_count =
            |list: &ParsedPlaylist| list.segments.iter().rev().take_while(|(_, breaks)| !breaks).count();
        lists.iter().all(|list| continuous_count(list) >= 6) && stream_source.accepted_connections() > 0
    })
    .await;
    let last = fetch_playlist(&server, &id, &sessions[0]).await;
    let from = last.segments.iter().rposition(|(_, breaks)| *breaks).map_or(0, |at| at);
    let mut bytes = Vec::new();
    for (address, _) in &last.segments[from..] {
        bytes.extend(fetch_segment(&server, address).await);
    }
    let aired = folder.path().join("aired.ts");
    std::fs::write(&aired, bytes).unwrap();
    assert!(player::check_decodes_through(&aired, MAX_FRAME_GAP).await.1 > 9.0);
    let (flashes, beeps) = media::flash_and_beep_times(&aired, 25.0);
    assert!(flashes.len() >= 8 && beeps.len() >= 8, "{flashes:?} {beeps:?}");
    assert_eq!((stream_source.accepted_connections(), stream_source.open_connections()), (1, 1));

    for session in &sessions {
        let target = format!("/api/livetv/watch/{id}?watchSession={session}");
        expect_success(send_as_admin(&server, Method::DELETE, &target, &json!({})).await, 200).await;
    }
    wait_until("the connection is closed after the last viewer", async || stream_source.open_connections() == 0).await;
    assert!(server.service.ingests.health(id.as_u64().unwrap() as u32).is_none());
}

/// Cuts the source several times while a viewer watches and a recording runs. `pause` passes before each cut.
async fn check_interruptions(count: usize, pause: Duration) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ts");
    transport_stream_source::make_transport_stream(&path);
    let (stream_source, server) =
        (TransportStreamSource::start(&path, FILM_SECONDS).await, start_server(folder.path()).await);
    let id = add_channel(&server, json!({"url": stream_source.url()}), Some("My own pictures.")).await;
    let body = json!({"channelId": id, "start": Timestamp::now().to_string(),
        "end": (Timestamp::now() + Duration::from_secs(3600)).to_string()});
    let created = expect_success(send_as_admin(&server, Method::POST, RECORDINGS, &body).await, 201).await;
    let recording = format!("{RECORDINGS}/{}", created["recording"]["id"].as_str().unwrap());
    let started = Instant::now();
    let report = || server.service.ingests.health(id.as_u64().unwrap() as u32);

    let (mut last_sequence, mut segments, mut discontinuities) = (0, BTreeSet::new(), 0);
    let mut reload = async || {
        let list = fetch_playlist(&server, &id, "viewer").await;
        let last = list.sequence + list.segments.len() as u64;
        assert!(last >= last_sequence, "the media sequence went back from {last_sequence} to {last}");
        last_sequence = last;
        for ((address, _), number) in list.segments.iter().zip(list.sequence..) {
            let name = address.split('?').next().unwrap().to_owned();
            segments.insert((number, name));
        }
        discontinuities = discontinuities
            .max(list.discontinuities + list.segments.iter().filter(|(_, breaks)| *breaks).count() as u64);
        list.segments.iter().rev().take_while(|(_, breaks)| !breaks).count() >= 3
    };
    wait_until("the source is on air", async || reload().await && stream_source.open_connections() == 1).await;
    let discontinuities_at_start = discontinuity_count(&fetch_playlist(&server, &id, "viewer").await);
    for cut in 1..=count {
        let until_cut = Instant::now() + pause;
        while Instant::now() < until_cut {
            reload().await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        stream_source.switch_off();
        let expected = discontinuities_at_start + 2 * cut as u64 - 1;
        wait_until("a slate replaces the source", async || {
            reload().await;
            discontinuity_count(&fetch_playlist(&server, &id, "viewer").await) >= expected
        })
        .await;
        stream_source.switch_on();
        wait_until("the source is back", async || {
            reload().await;
            discontinuity_count(&fetch_playlist(&server, &id, "viewer").await) > expected
                && stream_source.open_connections() == 1
        })
        .await;
    }
    reload().await;
    // Sequence numbers are unique and have no gaps over all playlists.
    let numbers: Vec<u64> = segments.iter().map(|(number, _)| *number).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{segments:?}");
    assert!(report().is_some_and(|report| report.connections > count as u64));

    let elapsed = started.elapsed().as_secs_f64();
    let answer = expect_success(send_as_admin(&server, Method::DELETE, &recording, &json!({})).await, 200).await;
    assert_eq!(answer["state"], "cancelled");
    let answer = server.request(Method::GET, &recording).bearer_auth(&server.admin).send().await.unwrap();
    let recording_now = expect_success(answer, 200).await["recording"].clone();
    // Each interruption adds at least two seconds of slate, which count as missing.
    let slates = 2.0 * count as f64;
    assert!(recording_now["missingSeconds"].as_f64().unwrap() >= slates, "{recording_now}");
    ts::check_transport_stream(&std::fs::read(recording_now["path"].as_str().unwrap()).unwrap());
    let (_, seconds) =
        player::check_decodes_through(Path::new(recording_now["path"].as_str().unwrap()), MAX_FRAME_GAP).await;
    assert!((seconds - recording_now["recordedSeconds"].as_f64().unwrap()).abs() < 1.0, "{seconds} s: {recording_now}");
    // The recording covers everything except the start-up of the source.
    assert!(seconds > elapsed - 40.0, "{seconds} s of {elapsed} s");
    println!("{count} cuts: {} connections, {seconds:.0} s recorded", stream_source.accepted_connections());
}

fn discontinuity_count(list: &ParsedPlaylist) -> u64 {
    list.discontinuities + list.segments.iter().filter(|(_, breaks)| *breaks).count() as u64
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_source_is_replaced_by_a_slate_and_resumes() {
    // The long version: `HEARTHCAST_CUTS=20 HEARTHCAST_CUT_REST=22`, ten minutes.
    let environment_number =
        |name: &str, default: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (times, rest) = (environment_number("HEARTHCAST_CUTS", 2), environment_number("HEARTHCAST_CUT_REST", 3));
    check_interruptions(times as usize, Duration::from_secs(rest)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_address_replaces_a_stream_that_still_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ts");
    transport_stream_source::make_transport_stream(&path);
    let (former, next) = (
        TransportStreamSource::start(&path, FILM_SECONDS).await,
        TransportStreamSource::start(&path, FILM_SECONDS).await,
    );
    let server = start_server(folder.path()).await;
    let id = add_channel(&server, json!({"url": former.url()}), None).await;
    wait_until("the channel is on air", async || {
        fetch_playlist(&server, &id, "v").await.segments.len() >= 2 && former.open_connections() == 1
    })
    .await;
    let before = fetch_playlist(&server, &id, "v").await;
    let changed = json!({"source": {"url": next.url()}, "attestation": {"authorized": true}});
    expect_success(send_as_admin(&server, Method::PATCH, &format!("{CHANNELS}/{id}"), &changed).await, 200).await;
    wait_until("the new address is on air after a discontinuity", async || {
        let list = fetch_playlist(&server, &id, "v").await;
        let report = server.service.ingests.health(id.as_u64().unwrap() as u32);
        discontinuity_count(&list) > discontinuity_count(&before)
            && report.is_some_and(|report| report.shows_source)
            && next.open_connections() == 1
    })
    .await;
    wait_until("the former connection is closed", async || former.open_connections() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn withdrawing_rights_stops_a_channel_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ts");
    transport_stream_source::make_transport_stream(&path);
    let (stream_source, server) =
        (TransportStreamSource::start(&path, FILM_SECONDS).await, start_server(folder.path()).await);
    let id = add_channel(&server, json!({"url": stream_source.url()}), None).await;
    let range = json!({"channelId": id, "start": Timestamp::now().to_string(),
        "end": (Timestamp::now() + Duration::from_secs(600)).to_string()});
    let refusal =
        expect_error(send_as_admin(&server, Method::POST, RECORDINGS, &range).await, 422, "RIGHTS_BASIS_REQUIRED")
            .await;
    assert_eq!(refusal["details"]["missing"], json!(["rights.recordingBasis"]));
    let target = format!("{CHANNELS}/{id}");
    let grant = json!({"rights": {"recordingBasis": "My own pictures."}, "attestation": {"authorized": true}});
    expect_success(send_as_admin(&server, Method::PATCH, &target, &grant).await, 200).await;
    let created = expect_success(send_as_admin(&server, Method::POST, RECORDINGS, &range).await, 201).await;
    wait_until("the channel is on air", async || {
        fetch_playlist(&server, &id, "v").await.segments.len() >= 2 && stream_source.open_connections() == 1
    })
    .await;
    let address = fetch_playlist(&server, &id, "v").await.segments[0].0.clone();
    let playlist = format!("/api/livetv/watch/{id}/live.m3u8");

    let withdrawal = json!({"attestation": {"authorized": false}});
    expect_success(send_as_admin(&server, Method::PATCH, &target, &withdrawal).await, 200).await;
    expect_error(server.get(&playlist).send().await.unwrap(), 403, "RIGHTS_WITHDRAWN").await;
    expect_error(server.request(Method::GET, &address).send().await.unwrap(), 403, "RIGHTS_WITHDRAWN").await;
    wait_until("the connection is closed", async || stream_source.open_connections() == 0).await;
    let recording = format!("{RECORDINGS}/{}", created["recording"]["id"].as_str().unwrap());
    wait_until("its recording has failed", async || {
        let answer = server.request(Method::GET, &recording).bearer_auth(&server.admin).send().await.unwrap();
        let recording_now = expect_success(answer, 200).await["recording"].clone();
        recording_now["state"] == "failed" && recording_now["failure"]["code"] == "RIGHTS_WITHDRAWN"
    })
    .await;
    assert_eq!(stream_source.accepted_connections(), 1);
}
