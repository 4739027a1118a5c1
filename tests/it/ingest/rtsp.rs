//! Streams over RTSP: our own camera as an ordinary server, and hostile servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hearthcast::domain::address::Address;
use hearthcast::domain::ssrf::AllowedSources;
use hearthcast::engine::outbound::rtsp::{self, RtspTimeouts};
use hearthcast::engine::outbound::{OutboundError, OutboundClient};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use super::camera::{Camera, Film, Guard, Picture, SECRET, Sound, answer, packet, request};
use super::forms::{aired, plays};
use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_camera_is_taken_in_told_when_it_is_enough_and_comes_back_when_it_was_cut() {
    let folder = tempfile::tempdir().unwrap();
    let camera = Camera::of(Film::make(folder.path(), 20, Picture::Avc, Sound::Aac), Guard::Digest).await;
    let server = server(folder.path()).await;
    let id = channel(&server, json!({"url": camera.url()}), None).await;
    let path = aired(&server, &id, folder.path(), 6).await;
    plays(&path, 9.0).await;
    assert_eq!((camera.made(), server.service.sessions.active_jobs()), (1, 0), "one connection, and nothing encoded");
    let target = format!("{CHANNELS}/{id}");
    let seen = server.ask(Method::GET, &target).bearer_auth(&server.admin).send().await.unwrap();
    let told = success(seen, 200).await;
    assert_eq!(told["channel"]["source"]["url"], format!("rtsp://{}/…", camera.address));

    let report = || server.service.ingests.health(id.as_u64().unwrap() as u32);
    camera.off();
    until("a slate replaces the camera", async || {
        list(&server, &id, "viewer").await;
        report().is_some_and(|report| !report.shows_source)
    })
    .await;
    let fault = report().unwrap().fault.unwrap();
    camera.on();
    until("the camera is back", async || {
        list(&server, &id, "viewer").await;
        report().is_some_and(|report| report.shows_source)
    })
    .await;
    let torn = camera.torn();
    let session = format!("/api/livetv/watch/{id}?watchSession=viewer");
    success(send(&server, Method::DELETE, &session, &json!({})).await, 200).await;
    until("TEARDOWN after the last viewer", async || camera.open() == 0 && camera.torn() == torn + 1).await;

    for text in [told.to_string(), fault] {
        assert!(!text.contains(SECRET) && !text.contains("correct%40horse") && !text.contains("hunter2"), "{text}");
    }
    assert!(camera.asked().iter().all(|asked| !asked.contains(SECRET) && !asked.contains("correct%40horse")));
}

#[tokio::test(flavor = "multi_thread")]
async fn sound_of_telephones_is_heard_and_one_that_never_comes_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let camera = Camera::of(Film::make(folder.path(), 20, Picture::Avc, Sound::Voice), Guard::Basic).await;
    let muted = Camera::of(Film::make(folder.path(), 20, Picture::Avc, Sound::Muted), Guard::Nobody).await;
    let server = server(folder.path()).await;
    let id = channel(&server, json!({"url": camera.url()}), None).await;
    plays(&aired(&server, &id, folder.path(), 5).await, 7.0).await;
    let id = channel(&server, json!({"url": muted.url()}), None).await;
    let decoded = play::decode(&aired(&server, &id, folder.path(), 4).await).await;
    assert!(decoded.video_seconds() > 5.0, "{decoded:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pictures_in_hevc_are_encoded_for_whoever_watches() {
    let folder = tempfile::tempdir().unwrap();
    let camera = Camera::of(Film::make(folder.path(), 20, Picture::Hevc, Sound::Aac), Guard::Nobody).await;
    let server = server(folder.path()).await;
    let id = channel(&server, json!({"url": camera.url()}), None).await;
    plays(&aired(&server, &id, folder.path(), 4).await, 5.0).await;
}

/// A server that runs `with` on each connection; returns its address and the number of connections.
async fn serve<F: Future<Output = Option<()>> + Send>(
    with: impl Fn(TcpStream) -> F + Send + Sync + 'static,
) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("{}/hunter2", listener.local_addr().unwrap());
    let (came, with) = (Arc::new(AtomicUsize::new(0)), Arc::new(with));
    let count = came.clone();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            let with = with.clone();
            tokio::spawn(async move { with(socket).await });
        }
    });
    (address, came)
}

/// The error of a client that connects to this address.
async fn outcome(address: &str) -> OutboundError {
    let outbound = OutboundClient::new(AllowedSources::parse(&["127.0.0.1".to_owned()]).unwrap());
    let address = Address::parse_stream(&format!("rtsp://{}", address)).unwrap();
    let idle = Duration::from_secs(3);
    let patience = RtspTimeouts { until_playing: idle, idle, first_output: idle };
    let mut stream = rtsp::connect(&address, outbound.resolve_and_reserve(&address).await.unwrap(), None, patience);
    let ended = async {
        loop {
            if let Err(fault) = stream.next().await {
                return fault;
            }
        }
    };
    let fault = tokio::time::timeout(Duration::from_secs(60), ended).await.expect("the client ends");
    assert!(!fault.to_string().contains("hunter2"), "{fault}");
    fault
}

const SDP: &str = "v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\na=tool:LIVE555 Streaming Media v2010.01.01\r\n\
    m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:one\r\n";

/// Answers requests until PLAY; all URLs name `base`.
async fn prepared(socket: &mut TcpStream, base: &str) -> Option<()> {
    loop {
        let asked = request(socket).await?;
        let said = match asked.split(' ').next()? {
            "DESCRIBE" => {
                let told = format!("Content-Base: rtsp://{base}/\r\nContent-Type: application/sdp\r\n");
                answer(&asked, "200 OK", &told, SDP)
            }
            "SETUP" => {
                answer(&asked, "200 OK", "Transport: RTP/AVP/TCP;interleaved=0-1\r\nSession: 7;timeout=60\r\n", "")
            }
            _ => answer(&asked, "200 OK", "Session: 7\r\n", ""),
        };
        socket.write_all(&said).await.ok()?;
        if asked.starts_with("PLAY") {
            return Some(());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_sent_elsewhere() {
    let (trap, trapped) = serve(async |_| None).await;
    for status in ["301 Moved", "302 Found", "303 See Other", "305 Use Proxy"] {
        for method in ["DESCRIBE", "SETUP", "PLAY"] {
            for to in [trap.as_str(), "10.0.0.1/x", "tv.example/x"] {
                let told = format!("Location: rtsp://{to}\r\n");
                let (address, _) = serve(move |mut socket| {
                    let told = told.clone();
                    async move {
                        loop {
                            let asked = request(&mut socket).await?;
                            let said = match asked.split(' ').next()? {
                                now if now == method => answer(&asked, status, &told, ""),
                                "DESCRIBE" => answer(&asked, "200 OK", "Content-Type: application/sdp\r\n", SDP),
                                _ => answer(
                                    &asked,
                                    "200 OK",
                                    "Transport: RTP/AVP/TCP;interleaved=0-1\r\nSession: 7\r\n",
                                    "",
                                ),
                            };
                            socket.write_all(&said).await.ok()?;
                        }
                    }
                })
                .await;
                let code = status[..3].parse().unwrap();
                assert_eq!(outcome(&address).await, OutboundError::Status(code), "{method} to {to}");
            }
        }
    }
    // Content-Base, a REDIRECT during playback and a lost connection: TEARDOWN does not go to the other server either.
    let place = trap.clone();
    let (address, came) = serve(move |mut socket| {
        let place = place.clone();
        async move {
            prepared(&mut socket, place.split('/').next()?).await?;
            let told = format!("REDIRECT rtsp://camera/ RTSP/1.0\r\nCSeq: 1\r\nLocation: rtsp://{place}\r\n\r\n");
            socket.write_all(told.as_bytes()).await.ok()
        }
    })
    .await;
    assert!(matches!(outcome(&address).await, OutboundError::ConnectionFailed(_)));
    assert_eq!(came.load(Ordering::SeqCst), 2, "one connection to identify the server");
    assert_eq!(trapped.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_waited_for_or_kept_without_end() {
    let endless = |head: &'static [u8], more: Vec<u8>| {
        serve(move |mut socket| {
            let more = more.clone();
            async move {
                request(&mut socket).await?;
                socket.write_all(head).await.ok()?;
                loop {
                    socket.write_all(&more).await.ok()?;
                }
            }
        })
    };
    const MUCH: OutboundError = OutboundError::TooLarge(1 << 20);
    const MOST: OutboundError = OutboundError::TooLarge(16 << 20);
    let (address, _) = endless(b"RTSP/1.0 200 OK\r\nCSeq: 1\r\n", b"X-More: and more of it\r\n".repeat(1000)).await;
    assert_eq!(outcome(&address).await, MUCH, "headers");
    let (address, _) = endless(b"RTSP/1.0 200 OK\r\nCSeq: 1\r\nX: ", vec![b'a'; 64 << 10]).await;
    assert_eq!(outcome(&address).await, MUCH, "one header");
    let giant = b"RTSP/1.0 200 OK\r\nCSeq: 1\r\nContent-Length: 999999999999\r\n\r\n";
    let (address, _) = endless(giant, vec![b'a'; 64 << 10]).await;
    assert_eq!(outcome(&address).await, MUCH, "a body");
    let (address, _) = endless(b"", packet(9, 96, true, 1, 1, &[1; 1000])).await;
    assert_eq!(outcome(&address).await, MUCH, "unrequested packets");
    for garbage in [&b"HTTP/1.1 200 OK\r\n\r\n"[..], b"\x16\x03\x01", b"RTSP/1.0 200 OK\r\nCSeq: 9\r\n\r\n", b"$"] {
        let (address, _) = endless(garbage, b"\r\n".to_vec()).await;
        let fault = outcome(&address).await;
        assert!(matches!(fault, OutboundError::ConnectionFailed(_) | OutboundError::TooLarge(_)), "{fault}");
    }

    // An endless frame, and frames without any keyframe.
    let (address, _) = serve(async |mut socket| {
        prepared(&mut socket, "camera").await?;
        for number in 0..u64::MAX {
            let place = if number == 0 { 0x80 } else { 0 };
            let payload = [&[0x7c, 5 | place][..], &[1; 1200]].concat();
            socket.write_all(&packet(0, 96, false, number as u16, 1, &payload)).await.ok()?;
        }
        None
    })
    .await;
    assert_eq!(outcome(&address).await, MOST, "a frame");
    let (address, _) = serve(async |mut socket| {
        prepared(&mut socket, "camera").await?;
        for number in 0..u64::MAX {
            socket
                .write_all(&packet(0, 96, true, number as u16, number as u32 * 3600, &[0x41, 0x9a, 1, 2]))
                .await
                .ok()?;
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
        None
    })
    .await;
    assert_eq!(outcome(&address).await, OutboundError::Timeout("no keyframe received"));

    let (address, _) = serve(async |socket| {
        std::future::pending::<()>().await;
        drop(socket);
        None
    })
    .await;
    assert_eq!(outcome(&address).await, OutboundError::Timeout("no response"));
    let (address, _) = serve(async |mut socket| {
        prepared(&mut socket, "camera").await?;
        std::future::pending::<()>().await;
        None
    })
    .await;
    assert_eq!(outcome(&address).await, OutboundError::Timeout("no data received"));
    let (address, _) = serve(async |mut socket| {
        let asked = request(&mut socket).await?;
        let sdp = SDP.replace("H264", "JPEG");
        socket.write_all(&answer(&asked, "200 OK", "Content-Type: application/sdp\r\n", &sdp)).await.ok()
    })
    .await;
    assert!(outcome(&address).await.to_string().contains("neither H.264"));
    let (address, _) = serve(async |mut socket| {
        let asked = request(&mut socket).await?;
        socket.write_all(&answer(&asked, "401 Unauthorized", "WWW-Authenticate: Basic realm=\"a\"\r\n", "")).await.ok()
    })
    .await;
    assert_eq!(outcome(&address).await, OutboundError::Status(401));
}
