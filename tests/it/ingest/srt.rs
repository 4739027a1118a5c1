//! Streams over SRT: ffmpeg is the remote server in listener mode.

use std::net::UdpSocket;
use std::path::Path;
use std::process::Stdio;

use hearthcast::domain::address::Address;
use hearthcast::domain::ssrf::AllowedSources;
use hearthcast::engine::outbound::{OutboundError, OutboundClient};
use tokio::process::{Child, Command};

use super::forms::{aired, plays};
use super::*;

const SECRET: &str = "correct-horse-battery";

/// Sends a film in a loop to every caller. Dropping it stops it.
fn broadcast(film: &Path, port: u16) -> Child {
    let to = format!("srt://127.0.0.1:{port}?mode=listener&passphrase={SECRET}&transtype=live");
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-re", "-stream_loop", "-1", "-i"]).arg(film);
    command.args(["-c", "copy", "-f", "mpegts", &to]).stderr(Stdio::null()).kill_on_drop(true);
    command.spawn().unwrap()
}

/// Whether GStreamer and ffmpeg on this machine support SRT.
fn is_there() -> bool {
    gstreamer::init().unwrap();
    let protocols = std::process::Command::new("ffmpeg").args(["-hide_banner", "-protocols"]).output().unwrap();
    let sends = String::from_utf8_lossy(&protocols.stdout).lines().any(|line| line.trim() == "srt");
    let there = sends && gstreamer::ElementFactory::find("srtsrc").is_some();
    if !there {
        eprintln!("skipped: no srtsrc in GStreamer, or no SRT in ffmpeg");
    }
    there
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_by_srt_is_taken_in_and_comes_back_when_it_was_cut() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("a.ts");
    antenna::film(&film, 60);
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let sender = broadcast(&film, port);
    let server = server(folder.path()).await;
    let url = format!("srt://127.0.0.1:{port}?passphrase={SECRET}&latency=120");
    let id = channel(&server, json!({"url": url}), None).await;
    let path = aired(&server, &id, folder.path(), 6).await;
    plays(&path, 9.0).await;
    let target = format!("{CHANNELS}/{id}");
    let answer = server.ask(Method::GET, &target).bearer_auth(&server.admin).send().await.unwrap();
    let told = success(answer, 200).await;
    assert_eq!(told["channel"]["source"]["url"], format!("srt://127.0.0.1:{port}/…"));
    assert!(!told.to_string().contains(SECRET), "{told}");

    drop(sender);
    let report = || server.service.ingests.health(id.as_u64().unwrap() as u32);
    until("a slate replaces the source", async || {
        list(&server, &id, "viewer").await;
        report().is_some_and(|report| !report.shows_source)
    })
    .await;
    let fault = report().unwrap().fault.unwrap();
    assert!(!fault.contains(SECRET) && !fault.contains(&port.to_string()), "{fault}");
    let _sender = broadcast(&film, port);
    until("the source is back", async || {
        list(&server, &id, "viewer").await;
        report().is_some_and(|report| report.shows_source)
    })
    .await;
}

#[tokio::test]
async fn nothing_inside_is_called_unless_it_was_named() {
    let names = |name: String| {
        let inside = name.starts_with("inside");
        let found = if inside { "127.0.0.1" } else { "93.184.215.14" };
        Box::pin(async move { Ok(vec![found.parse().unwrap()]) }) as hearthcast::engine::outbound::LookupFuture
    };
    let outbound = OutboundClient::with_lookup(AllowedSources::default(), std::sync::Arc::new(names));
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
        for written in [format!("srt://{host}:9000"), format!("rtsp://{host}/live"), format!("rtsp://a:b@{host}:554/")]
        {
            let Ok(address) = Address::parse_stream(&written) else { continue };
            let outcome = outbound.resolve_and_reserve(&address).await.map(|(to, _)| to);
            let refused = matches!(outcome, Err(OutboundError::BlockedAddress(_)));
            assert!(refused || host.starts_with('%'), "{written}: {outcome:?}");
        }
    }
    let outside = Address::parse_stream("srt://tv.example:9000").unwrap();
    assert_eq!(outbound.resolve_and_reserve(&outside).await.unwrap().0, "93.184.215.14:9000".parse().unwrap());
    let server = kit::server(&[]).await;
    let body = json!({"name": "E", "sourceType": "external", "source": {"url": "rtsps://tv.example/"},
        "provenance": {"sourceName": "A", "sourceUrl": "https://a.example/", "importedAt": "2026-01-01"},
        "rights": {"basis": "own-content", "statement": "Received with my own antenna, for my own household."},
        "attestation": {"authorized": true}});
    let refusal = refused(send(&server, Method::POST, CHANNELS, &body).await, 400, "VALIDATION_ERROR").await;
    assert!(refusal["error"].as_str().unwrap().contains("RTSP"), "{refusal}");
}
