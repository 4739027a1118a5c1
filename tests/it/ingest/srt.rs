//! Streams over SRT: ffmpeg is the remote server in listener mode.

use std::net::UdpSocket;
use std::path::Path;
use std::process::Stdio;

use hearthcast::domain::address::Address;
use hearthcast::domain::ssrf::AllowedSources;
use hearthcast::engine::outbound::{OutboundClient, OutboundError};
use tokio::process::{Child, Command};

use super::stream_forms::{check_plays, record_aired};
use super::*;

const PASSPHRASE: &str = "correct-horse-battery";

/// Sends a film in a loop to every caller. Dropping it stops it.
fn start_sender(film: &Path, port: u16) -> Child {
    let to = format!("srt://127.0.0.1:{port}?mode=listener&passphrase={PASSPHRASE}&transtype=live");
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-re", "-stream_loop", "-1", "-i"]).arg(film);
    command.args(["-c", "copy", "-f", "mpegts", &to]).stderr(Stdio::null()).kill_on_drop(true);
    command.spawn().unwrap()
}

/// Whether GStreamer and ffmpeg on this machine support SRT.
fn has_srt() -> bool {
    gstreamer::init().unwrap();
    let protocols = std::process::Command::new("ffmpeg").args(["-hide_banner", "-protocols"]).output().unwrap();
    let ffmpeg_has_srt = String::from_utf8_lossy(&protocols.stdout).lines().any(|line| line.trim() == "srt");
    let has_both = ffmpeg_has_srt && gstreamer::ElementFactory::find("srtsrc").is_some();
    if !has_both {
        eprintln!("skipped: no srtsrc in GStreamer, or no SRT in ffmpeg");
    }
    has_both
}

#[tokio::test(flavor = "multi_thread")]
async fn an_srt_stream_is_shown_and_resumed_after_an_interruption() {
    if !has_srt() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("a.ts");
    transport_stream_source::make_transport_stream(&film);
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let sender = start_sender(&film, port);
    let server = start_server(folder.path()).await;
    let url = format!("srt://127.0.0.1:{port}?passphrase={PASSPHRASE}&latency=120");
    let id = add_channel(&server, json!({"url": url}), None).await;
    let path = record_aired(&server, &id, folder.path(), 6).await;
    check_plays(&path, 9.0).await;
    let target = format!("{CHANNELS}/{id}");
    let answer = server.request(Method::GET, &target).bearer_auth(&server.admin).send().await.unwrap();
    let channel = expect_success(answer, 200).await;
    assert_eq!(channel["channel"]["source"]["url"], format!("srt://127.0.0.1:{port}/…"));
    assert!(!channel.to_string().contains(PASSPHRASE), "{channel}");

    drop(sender);
    let report = || server.service.ingests.health(id.as_u64().unwrap() as u32);
    wait_until("a slate replaces the source", async || {
        fetch_playlist(&server, &id, "viewer").await;
        report().is_some_and(|report| !report.shows_source)
    })
    .await;
    let fault = report().unwrap().fault.unwrap();
    assert!(!fault.contains(PASSPHRASE) && !fault.contains(&port.to_string()), "{fault}");
    let _sender = start_sender(&film, port);
    wait_until("the source is back", async || {
        fetch_playlist(&server, &id, "viewer").await;
        report().is_some_and(|report| report.shows_source)
    })
    .await;
}

#[tokio::test]
async fn ssrf_private_addresses_are_refused_unless_allowed() {
    let resolve = |name: String| {
        let is_private = name.starts_with("inside");
        let address = if is_private { "127.0.0.1" } else { "93.184.215.14" };
        Box::pin(async move { Ok(vec![address.parse().unwrap()]) }) as hearthcast::engine::outbound::LookupFuture
    };
    let outbound = OutboundClient::with_lookup(AllowedSources::default(), std::sync::Arc::new(resolve));
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "10.0.0.1",
        "169.254.169.254",
        "inside.example",
        "%6cocalhost.inside",
    ] {
        for url in [format!("srt://{host}:9000"), format!("rtsp://{host}/live"), format!("rtsp://a:b@{host}:554/")] {
            let Ok(address) = Address::parse_stream(&url) else { continue };
            let outcome = outbound.resolve_and_reserve(&address).await.map(|(to, _)| to);
            let is_refused = matches!(outcome, Err(OutboundError::BlockedAddress(_)));
            assert!(is_refused || host.starts_with('%'), "{url}: {outcome:?}");
        }
    }
    let public = Address::parse_stream("srt://tv.example:9000").unwrap();
    assert_eq!(outbound.resolve_and_reserve(&public).await.unwrap().0, "93.184.215.14:9000".parse().unwrap());
    let server = kit::start_server(&[]).await;
    let body = json!({"name": "E", "sourceType": "external", "source": {"url": "rtsps://tv.example/"},
        "provenance": {"sourceName": "A", "sourceUrl": "https://a.example/", "importedAt": "2026-01-01"},
        "rights": {"basis": "own-content", "statement": "Received with my own antenna, for my own household."},
        "attestation": {"authorized": true}});
    let refusal =
        expect_error(send_as_admin(&server, Method::POST, CHANNELS, &body).await, 400, "VALIDATION_ERROR").await;
    assert!(refusal["error"].as_str().unwrap().contains("RTSP"), "{refusal}");
}
