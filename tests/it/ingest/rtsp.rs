//! Streams over RTSP: our own camera as an ordinary server, and hostile servers.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hearthcast::domain::address::Address;
use hearthcast::domain::ssrf::AllowedSources;
use hearthcast::engine::outbound::rtsp::{self, RtspTimeouts};
use hearthcast::engine::outbound::{OutboundClient, OutboundError};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use super::camera::{
    Authentication, Camera, CameraAudio, CameraFilm, PASSWORD, VideoCodec, interleaved_packet, read_request, response,
};
use super::stream_forms::{check_plays, record_aired};
use super::*;

use crate::kit::wait::MAX_WAIT;

#[tokio::test(flavor = "multi_thread")]
async fn a_camera_is_shown_torn_down_and_resumed_after_an_interruption() {
    let folder = tempfile::tempdir().unwrap();
    let camera =
        Camera::start(CameraFilm::encode(folder.path(), 20, VideoCodec::Avc, CameraAudio::Aac), Authentication::Digest)
            .await;
    let server = start_server(folder.path()).await;
    let id = add_channel(&server, json!({"url": camera.url()}), None).await;
    let path = record_aired(&server, &id, folder.path(), 6).await;
    check_plays(&path, 9.0).await;
    assert_eq!(
        (camera.accepted_connections(), server.service.renditions.active_jobs()),
        (1, 0),
        "one connection, and nothing encoded"
    );
    let target = format!("{CHANNELS}/{id}");
    let answer = server.request(Method::GET, &target).bearer_auth(&server.admin).send().await.unwrap();
    let channel = expect_success(answer, 200).await;
    assert_eq!(channel["channel"]["source"]["url"], format!("rtsp://{}/…", camera.address));

    let report = || server.service.ingests.health(id.as_u64().unwrap() as u32);
    camera.switch_off();
    wait_until("a slate replaces the camera", async || {
        fetch_playlist(&server, &id, "viewer").await;
        report().is_some_and(|report| !report.shows_source)
    })
    .await;
    let fault = report().unwrap().fault.unwrap();
    camera.switch_on();
    wait_until("the camera is back", async || {
        fetch_playlist(&server, &id, "viewer").await;
        report().is_some_and(|report| report.shows_source)
    })
    .await;
    let teardowns = camera.teardowns();
    let session = format!("/api/livetv/watch/{id}?watchSession=viewer");
    expect_success(send_as_admin(&server, Method::DELETE, &session, &json!({})).await, 200).await;
    wait_until("TEARDOWN after the last viewer", async || {
        camera.open_connections() == 0 && camera.teardowns() == teardowns + 1
    })
    .await;

    for text in [channel.to_string(), fault] {
        assert!(!text.contains(PASSWORD) && !text.contains("correct%40horse") && !text.contains("hunter2"), "{text}");
    }
    assert!(camera.request_heads().iter().all(|head| !head.contains(PASSWORD) && !head.contains("correct%40horse")));
}

#[tokio::test(flavor = "multi_thread")]
async fn g711_audio_is_played_and_missing_audio_does_not_block() {
    let play_g711 = async {
        let folder = tempfile::tempdir().unwrap();
        let path = record_camera(folder.path(), CameraAudio::G711, Authentication::Basic, 5).await;
        check_plays(&path, 7.0).await;
    };
    let play_muted = async {
        let folder = tempfile::tempdir().unwrap();
        let path = record_camera(folder.path(), CameraAudio::Muted, Authentication::None, 4).await;
        let decoded = player::decode(&path).await;
        assert!(decoded.video_seconds() > 5.0, "{decoded:?}");
    };
    tokio::join!(play_g711, play_muted);
}

/// Watches a camera on a server of its own until it has aired `min_segments`; stores them in one file.
async fn record_camera(
    folder: &Path,
    audio: CameraAudio,
    authentication: Authentication,
    min_segments: usize,
) -> PathBuf {
    let camera = Camera::start(CameraFilm::encode(folder, 20, VideoCodec::Avc, audio), authentication).await;
    let server = start_server(folder).await;
    let id = add_channel(&server, json!({"url": camera.url()}), None).await;
    record_aired(&server, &id, folder, min_segments).await
}

#[tokio::test(flavor = "multi_thread")]
async fn hevc_video_is_encoded() {
    let folder = tempfile::tempdir().unwrap();
    let camera =
        Camera::start(CameraFilm::encode(folder.path(), 20, VideoCodec::Hevc, CameraAudio::Aac), Authentication::None)
            .await;
    let server = start_server(folder.path()).await;
    let id = add_channel(&server, json!({"url": camera.url()}), None).await;
    check_plays(&record_aired(&server, &id, folder.path(), 4).await, 5.0).await;
}

/// A server that runs `handle` on each connection; returns its address and the number of connections.
async fn start_hostile_server<F: Future<Output = Option<()>> + Send>(
    handle: impl Fn(TcpStream) -> F + Send + Sync + 'static,
) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("{}/hunter2", listener.local_addr().unwrap());
    let (connections, handle) = (Arc::new(AtomicUsize::new(0)), Arc::new(handle));
    let count = connections.clone();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            let handle = handle.clone();
            tokio::spawn(async move { handle(socket).await });
        }
    });
    (address, connections)
}

/// The error of a client that connects to this address and waits at most 3 s for anything.
async fn client_error(address: &str) -> OutboundError {
    client_error_within(Duration::from_secs(3), address).await
}

async fn client_error_within(time_limit: Duration, address: &str) -> OutboundError {
    let outbound = OutboundClient::new(AllowedSources::parse(&["127.0.0.1".to_owned()]).unwrap());
    let address = Address::parse_stream(&format!("rtsp://{address}")).unwrap();
    let time_limits = RtspTimeouts { until_playing: time_limit, idle: time_limit, first_output: time_limit };
    let mut stream = rtsp::connect(&address, outbound.resolve_and_reserve(&address).await.unwrap(), None, time_limits);
    let read_until_error = async {
        loop {
            if let Err(fault) = stream.next().await {
                return fault;
            }
        }
    };
    let fault = tokio::time::timeout(MAX_WAIT, read_until_error).await.expect("the client ends");
    assert!(!fault.to_string().contains("hunter2"), "{fault}");
    fault
}

const SDP: &str = "v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\na=tool:LIVE555 Streaming Media v2010.01.01\r\n\
    m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:one\r\n";

/// Answers requests until PLAY; all URLs name `base`.
async fn answer_until_play(socket: &mut TcpStream, base: &str) -> Option<()> {
    loop {
        let request_head = read_request(socket).await?;
        let reply = match request_head.split(' ').next()? {
            "DESCRIBE" => {
                let headers = format!("Content-Base: rtsp://{base}/\r\nContent-Type: application/sdp\r\n");
                response(&request_head, "200 OK", &headers, SDP)
            }
            "SETUP" => response(
                &request_head,
                "200 OK",
                "Transport: RTP/AVP/TCP;interleaved=0-1\r\nSession: 7;timeout=60\r\n",
                "",
            ),
            _ => response(&request_head, "200 OK", "Session: 7\r\n", ""),
        };
        socket.write_all(&reply).await.ok()?;
        if request_head.starts_with("PLAY") {
            return Some(());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_are_not_followed() {
    let (trap_address, trap_connections) = start_hostile_server(async |_| None).await;
    for status in ["301 Moved", "302 Found", "303 See Other", "305 Use Proxy"] {
        for method in ["DESCRIBE", "SETUP", "PLAY"] {
            for target in [trap_address.as_str(), "10.0.0.1/x", "tv.example/x"] {
                let headers = format!("Location: rtsp://{target}\r\n");
                let (address, _) = start_hostile_server(move |mut socket| {
                    let headers = headers.clone();
                    async move {
                        loop {
                            let request_head = read_request(&mut socket).await?;
                            let reply = match request_head.split(' ').next()? {
                                current if current == method => response(&request_head, status, &headers, ""),
                                "DESCRIBE" => {
                                    response(&request_head, "200 OK", "Content-Type: application/sdp\r\n", SDP)
                                }
                                _ => response(
                                    &request_head,
                                    "200 OK",
                                    "Transport: RTP/AVP/TCP;interleaved=0-1\r\nSession: 7\r\n",
                                    "",
                                ),
                            };
                            socket.write_all(&reply).await.ok()?;
                        }
                    }
                })
                .await;
                let code = status[..3].parse().unwrap();
                assert_eq!(client_error(&address).await, OutboundError::Status(code), "{method} to {target}");
            }
        }
    }
    // Content-Base, a REDIRECT during playback and a lost connection: TEARDOWN does not go to the other server either.
    let other_server = trap_address.clone();
    let (address, connections) = start_hostile_server(move |mut socket| {
        let other_server = other_server.clone();
        async move {
            answer_until_play(&mut socket, other_server.split('/').next()?).await?;
            let redirect =
                format!("REDIRECT rtsp://camera/ RTSP/1.0\r\nCSeq: 1\r\nLocation: rtsp://{other_server}\r\n\r\n");
            socket.write_all(redirect.as_bytes()).await.ok()
        }
    })
    .await;
    assert!(matches!(client_error(&address).await, OutboundError::ConnectionFailed(_)));
    assert_eq!(connections.load(Ordering::SeqCst), 2, "one connection to identify the server");
    assert_eq!(trap_connections.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn client_waits_and_buffers_are_bounded() {
    let endless_server = |head: &'static [u8], tail: Vec<u8>| {
        start_hostile_server(move |mut socket| {
            let more = tail.clone();
            async move {
                read_request(&mut socket).await?;
                socket.write_all(head).await.ok()?;
                loop {
                    socket.write_all(&more).await.ok()?;
                }
            }
        })
    };
    // A busy machine needs longer for a megabyte.
    let ended_by_size = async |address: &str| client_error_within(Duration::from_secs(50), address).await;
    const HEAD_TOO_LARGE: OutboundError = OutboundError::TooLarge(1 << 20);
    const FRAME_TOO_LARGE: OutboundError = OutboundError::TooLarge(16 << 20);
    let (address, _) =
        endless_server(b"RTSP/1.0 200 OK\r\nCSeq: 1\r\n", b"X-More: and more of it\r\n".repeat(1000)).await;
    assert_eq!(ended_by_size(&address).await, HEAD_TOO_LARGE, "headers");
    let (address, _) = endless_server(b"RTSP/1.0 200 OK\r\nCSeq: 1\r\nX: ", vec![b'a'; 64 << 10]).await;
    assert_eq!(ended_by_size(&address).await, HEAD_TOO_LARGE, "one header");
    let giant_body = b"RTSP/1.0 200 OK\r\nCSeq: 1\r\nContent-Length: 999999999999\r\n\r\n";
    let (address, _) = endless_server(giant_body, vec![b'a'; 64 << 10]).await;
    assert_eq!(ended_by_size(&address).await, HEAD_TOO_LARGE, "a body");
    let (address, _) = endless_server(b"", interleaved_packet(9, 96, true, 1, 1, &[1; 1000])).await;
    assert_eq!(ended_by_size(&address).await, HEAD_TOO_LARGE, "unrequested packets");
    for garbage in [&b"HTTP/1.1 200 OK\r\n\r\n"[..], b"\x16\x03\x01", b"RTSP/1.0 200 OK\r\nCSeq: 9\r\n\r\n", b"$"] {
        let (address, _) = endless_server(garbage, b"\r\n".to_vec()).await;
        let fault = ended_by_size(&address).await;
        assert!(matches!(fault, OutboundError::ConnectionFailed(_) | OutboundError::TooLarge(_)), "{fault}");
    }

    // An endless frame, and frames without any keyframe.
    let (address, _) = start_hostile_server(async |mut socket| {
        answer_until_play(&mut socket, "camera").await?;
        for number in 0..u64::MAX {
            let start_bit = if number == 0 { 0x80 } else { 0 };
            let payload = [&[0x7c, 5 | start_bit][..], &[1; 1200]].concat();
            socket.write_all(&interleaved_packet(0, 96, false, number as u16, 1, &payload)).await.ok()?;
        }
        None
    })
    .await;
    assert_eq!(ended_by_size(&address).await, FRAME_TOO_LARGE, "a frame");

    // These end by a timeout.
    let (without_keyframe, _) = start_hostile_server(async |mut socket| {
        answer_until_play(&mut socket, "camera").await?;
        for number in 0..u64::MAX {
            socket
                .write_all(&interleaved_packet(0, 96, true, number as u16, number as u32 * 3600, &[0x41, 0x9a, 1, 2]))
                .await
                .ok()?;
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
        None
    })
    .await;
    let (without_response, _) = start_hostile_server(async |socket| {
        std::future::pending::<()>().await;
        drop(socket);
        None
    })
    .await;
    let (without_data, _) = start_hostile_server(async |mut socket| {
        answer_until_play(&mut socket, "camera").await?;
        std::future::pending::<()>().await;
        None
    })
    .await;
    let errors =
        tokio::join!(client_error(&without_keyframe), client_error(&without_response), client_error(&without_data));
    assert_eq!(errors.0, OutboundError::Timeout("no keyframe received"));
    assert_eq!(errors.1, OutboundError::Timeout("no response"));
    assert_eq!(errors.2, OutboundError::Timeout("no data received"));

    let (address, _) = start_hostile_server(async |mut socket| {
        let request_head = read_request(&mut socket).await?;
        let sdp = SDP.replace("H264", "JPEG");
        socket.write_all(&response(&request_head, "200 OK", "Content-Type: application/sdp\r\n", &sdp)).await.ok()
    })
    .await;
    assert!(client_error(&address).await.to_string().contains("neither H.264"));
    let (address, _) = start_hostile_server(async |mut socket| {
        let request_head = read_request(&mut socket).await?;
        socket
            .write_all(&response(&request_head, "401 Unauthorized", "WWW-Authenticate: Basic realm=\"a\"\r\n", ""))
            .await
            .ok()
    })
    .await;
    assert_eq!(client_error(&address).await, OutboundError::Status(401));
}
