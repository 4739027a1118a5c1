//! A camera: an RTSP server that sends a film in real time, interleaved on the RTSP connection.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use data_encoding::{BASE64, HEXLOWER};
use md5::{Digest, Md5};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

use crate::kit::media;

pub const USER: &str = "ada";
/// Must be escaped in a URL.
pub const PASSWORD: &str = "correct@horse";

/// Authentication that the camera requires.
#[derive(Clone, Copy, PartialEq)]
pub enum Authentication {
    None,
    Basic,
    Digest,
}

/// Video codec of the camera.
#[derive(Clone, Copy, PartialEq)]
pub enum VideoCodec {
    Avc,
    Hevc,
}

impl VideoCodec {
    fn encoder(self) -> &'static str {
        match self {
            Self::Avc => "-c:v libx264 -preset ultrafast -tune zerolatency -g 25 -bf 0 -x264-params aud=1",
            Self::Hevc => "-c:v libx265 -preset ultrafast -x265-params keyint=25:bframes=0:aud=1:log-level=error",
        }
    }

    fn name(self) -> &'static str {
        if self == Self::Avc { "H264" } else { "H265" }
    }

    /// Whether a NAL unit is an access unit delimiter.
    fn is_delimiter(self, unit: &[u8]) -> bool {
        if self == Self::Avc { unit[0] & 31 == 9 } else { unit[0] >> 1 & 63 == 35 }
    }

    /// Length of a NAL unit header, bytes.
    fn header_length(self) -> usize {
        if self == Self::Avc { 1 } else { 2 }
    }

    /// The header that replaces that of a fragmented NAL unit (RFC 6184 section 5.8, RFC 7798 section 4.4.3).
    fn fragment_header(self, unit: &[u8], first: bool, last: bool) -> Vec<u8> {
        let position_flags = u8::from(first) << 7 | u8::from(last) << 6;
        match self {
            Self::Avc => vec![unit[0] & 0x60 | 28, unit[0] & 31 | position_flags],
            Self::Hevc => vec![unit[0] & 0x81 | 49 << 1, unit[1], unit[0] >> 1 & 63 | position_flags],
        }
    }
}

/// Audio of the camera.
#[derive(Clone, Copy, PartialEq)]
pub enum CameraAudio {
    Aac,
    /// G.711 A-law.
    G711,
    /// Announced and never sent.
    Muted,
}

/// Encoded video and audio.
pub struct CameraFilm {
    /// The NAL units of each frame, 25 frames per second.
    frames: Vec<Vec<Vec<u8>>>,
    /// AAC frames of 1024 samples at 48 kHz, or 160 samples of G.711 each.
    audio_frames: Vec<Vec<u8>>,
    video_codec: VideoCodec,
    audio: CameraAudio,
}

impl CameraFilm {
    pub fn encode(folder: &Path, seconds: u32, video_codec: VideoCodec, audio: CameraAudio) -> Self {
        let path = folder.join("camera.ts");
        let video = video_codec.encoder();
        media::flash_and_beep(&path, seconds, &format!("{video} -c:a aac -ar 48000 -ac 2 -f mpegts"));
        let extract = |name: &str, args: &str| {
            let out = folder.join(name);
            media::run_ffmpeg(&out, &["-i", path.to_str().unwrap(), args]);
            std::fs::read(out).unwrap()
        };
        let mut frames: Vec<Vec<Vec<u8>>> = Vec::new();
        let args = if video_codec == VideoCodec::Avc { "-map 0:v -c copy -f h264" } else { "-map 0:v -c copy -f hevc" };
        for unit in nal_units(&extract("camera.pictures", args)) {
            match frames.last_mut() {
                _ if video_codec.is_delimiter(unit) => frames.push(Vec::new()),
                Some(frame) => frame.push(unit.to_vec()),
                None => panic!("a film begins with a delimiter"),
            }
        }
        let audio_frames = match audio {
            CameraAudio::G711 => extract("camera.alaw", "-map 0:a -ar 8000 -ac 1 -c:a pcm_alaw -f alaw")
                .chunks(160)
                .map(Vec::from)
                .collect(),
            _ => {
                let (adts, mut offset, mut frames) = (extract("camera.aac", "-map 0:a -c copy -f adts"), 0, Vec::new());
                while offset < adts.len() {
                    let length = usize::from(adts[offset + 3] & 3) << 11
                        | usize::from(adts[offset + 4]) << 3
                        | usize::from(adts[offset + 5] >> 5);
                    frames.push(adts[offset + 7..offset + length].to_vec());
                    offset += length;
                }
                frames
            }
        };
        Self { frames, audio_frames, video_codec, audio }
    }

    fn sdp(&self) -> String {
        let audio_section = match self.audio {
            CameraAudio::G711 => "m=audio 0 RTP/AVP 8\r\na=control:track=audio\r\n",
            _ => {
                "m=audio 0 RTP/AVP 97\r\na=rtpmap:97 MPEG4-GENERIC/48000/2\r\na=fmtp:97 streamtype=5;mode=AAC-hbr;\
                sizelength=13;indexlength=3;indexdeltalength=3;config=1190\r\na=control:track=audio\r\n"
            }
        };
        // The video's control URL names another server, which clients must not use.
        format!(
            "v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=Camera\r\nt=0 0\r\na=control:*\r\nm=video 0 RTP/AVP 96\r\n\
             a=rtpmap:96 {}/90000\r\na=control:rtsp://10.9.8.7/live/track=video\r\n{audio_section}",
            self.video_codec.name()
        )
    }
}

fn nal_units(stream: &[u8]) -> Vec<&[u8]> {
    let mut starts: Vec<usize> =
        (0..stream.len() - 3).filter(|&offset| stream[offset..offset + 3] == [0, 0, 1]).collect();
    starts.push(stream.len());
    let unit_between = |pair: &[usize]| {
        let unit = &stream[pair[0] + 3..pair[1]];
        // The first byte of a four-byte start code is left at the end of the unit before.
        &unit[..unit.iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1)]
    };
    starts.windows(2).map(unit_between).collect()
}

/// A running camera. Dropping it stops it.
pub struct Camera {
    pub address: SocketAddr,
    state: Arc<CameraState>,
    task: tokio::task::JoinHandle<()>,
}

struct CameraState {
    film: CameraFilm,
    authentication: Authentication,
    accepted_connections: AtomicUsize,
    open_connections: AtomicUsize,
    teardowns: AtomicUsize,
    is_off: AtomicBool,
    disconnect: watch::Sender<u64>,
    /// Heads of all requests.
    request_heads: Mutex<Vec<String>>,
}

impl Camera {
    pub async fn start(film: CameraFilm, authentication: Authentication) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let zero = || AtomicUsize::new(0);
        let (is_off, disconnect, request_heads) = (AtomicBool::new(false), watch::channel(0).0, Mutex::default());
        let state = Arc::new(CameraState {
            film,
            authentication,
            accepted_connections: zero(),
            open_connections: zero(),
            teardowns: zero(),
            is_off,
            disconnect,
            request_heads,
        });
        let task_state = state.clone();
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let state = task_state.clone();
                if state.is_off.load(Ordering::SeqCst) {
                    continue;
                }
                tokio::spawn(async move {
                    state.accepted_connections.fetch_add(1, Ordering::SeqCst);
                    state.open_connections.fetch_add(1, Ordering::SeqCst);
                    let mut disconnected = state.disconnect.subscribe();
                    tokio::select! {
                        _ = serve_client(socket, &state) => {}
                        _ = disconnected.changed() => {}
                    }
                    state.open_connections.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, state, task }
    }

    /// Its URL, with user name and password.
    pub fn url(&self) -> String {
        format!("rtsp://{USER}:{}@{}/live/hunter2?channel=1", PASSWORD.replace('@', "%40"), self.address)
    }

    pub fn accepted_connections(&self) -> usize {
        self.state.accepted_connections.load(Ordering::SeqCst)
    }

    pub fn open_connections(&self) -> usize {
        self.state.open_connections.load(Ordering::SeqCst)
    }

    /// Number of TEARDOWN requests.
    pub fn teardowns(&self) -> usize {
        self.state.teardowns.load(Ordering::SeqCst)
    }

    pub fn request_heads(&self) -> Vec<String> {
        self.state.request_heads.lock().unwrap().clone()
    }

    /// Cuts every connection and refuses new ones.
    pub fn switch_off(&self) {
        self.state.is_off.store(true, Ordering::SeqCst);
        self.state.disconnect.send_modify(|cuts| *cuts += 1);
    }

    pub fn switch_on(&self) {
        self.state.is_off.store(false, Ordering::SeqCst);
    }
}

impl Drop for Camera {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The value of a header of a request.
pub fn request_header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    request
        .lines()
        .find_map(|line| line.split_once(": ").filter(|(key, _)| key.eq_ignore_ascii_case(name)))
        .map(|(_, value)| value)
}

/// Reads the head of the next request; None at the end of the connection.
pub async fn read_request(socket: &mut (impl AsyncReadExt + Unpin)) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).unwrap())
}

pub fn response(request: &str, status: &str, headers: &str, body: &str) -> Vec<u8> {
    let number = request_header(request, "CSeq").unwrap_or("0");
    format!("RTSP/1.0 {status}\r\nCSeq: {number}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

async fn serve_client(socket: TcpStream, state: &CameraState) -> Option<()> {
    let (mut read_half, mut write_half) = socket.into_split();
    let (send, mut requests) = mpsc::channel(8);
    let reader = tokio::spawn(async move {
        while let Some(request) = read_request(&mut read_half).await {
            if send.send(request).await.is_err() {
                break;
            }
        }
    });
    let base = "Content-Base: rtsp://10.9.8.7/live/\r\nContent-Type: application/sdp\r\n";
    let (mut player, mut ticks) = (None, tokio::time::interval(Duration::from_millis(40)));
    let finished = loop {
        let request = tokio::select! {
            request = requests.recv() => request,
            _ = ticks.tick(), if player.is_some() => {
                let player: &mut FilmPosition = player.as_mut().unwrap();
                if write_half.write_all(&player.next_packets(&state.film)).await.is_err() {
                    break None;
                }
                continue;
            }
        };
        let Some(request) = request else { break None };
        state.request_heads.lock().unwrap().push(request.clone());
        let reply = match request.split(' ').next().unwrap() {
            _ if !is_authorized(state.authentication, &request) => {
                let realm = match state.authentication {
                    Authentication::Basic => "Basic realm=\"camera\"",
                    _ => "Digest realm=\"camera\", nonce=\"0a4f113b\"",
                };
                response(&request, "401 Unauthorized", &format!("WWW-Authenticate: {realm}\r\n"), "")
            }
            "DESCRIBE" => response(&request, "200 OK", base, &state.film.sdp()),
            "SETUP" => {
                let transport = request_header(&request, "Transport").unwrap();
                let headers = format!("Transport: {transport};ssrc=0000002A\r\nSession: 77;timeout=60\r\n");
                response(&request, "200 OK", &headers, "")
            }
            "PLAY" => {
                player = Some(FilmPosition::default());
                let headers = "Session: 77\r\nRTP-Info: url=rtsp://10.9.8.7/live/track=video;seq=100;rtptime=90000,\
                    url=rtsp://10.9.8.7/live/track=audio;seq=100;rtptime=0\r\n";
                response(&request, "200 OK", headers, "")
            }
            "TEARDOWN" => {
                state.teardowns.fetch_add(1, Ordering::SeqCst);
                let _ = write_half.write_all(&response(&request, "200 OK", "", "")).await;
                break Some(());
            }
            _ => response(&request, "200 OK", "Public: OPTIONS, GET_PARAMETER\r\n", ""),
        };
        if write_half.write_all(&reply).await.is_err() {
            break None;
        }
    };
    reader.abort();
    finished
}

fn is_authorized(authentication: Authentication, request: &str) -> bool {
    let md5 = |text: String| HEXLOWER.encode(&Md5::digest(text));
    let authorization = request_header(request, "Authorization").unwrap_or_default();
    match authentication {
        Authentication::None => true,
        Authentication::Basic => {
            authorization == format!("Basic {}", BASE64.encode(format!("{USER}:{PASSWORD}").as_bytes()))
        }
        Authentication::Digest => {
            let mut words = request.split(' ');
            let (method, uri) = (words.next().unwrap(), words.next().unwrap());
            let secret = md5(format!("{USER}:camera:{PASSWORD}"));
            let expected = md5(format!("{secret}:0a4f113b:{}", md5(format!("{method}:{uri}"))));
            authorization.contains(&format!("response=\"{expected}\""))
        }
    }
}

/// Position of one client in the film.
#[derive(Default)]
struct FilmPosition {
    frames_sent: usize,
    audio_frames_sent: usize,
    sequence_numbers: [u16; 2],
}

impl FilmPosition {
    /// RTP packets of the next video frame, and of the audio up to its end.
    fn next_packets(&mut self, film: &CameraFilm) -> Vec<u8> {
        let mut out = Vec::new();
        let frame = &film.frames[self.frames_sent % film.frames.len()];
        let time = 90_000 + self.frames_sent as u32 * 3600;
        for (index, unit) in frame.iter().enumerate() {
            let last = index + 1 == frame.len();
            if unit.len() <= 1200 {
                self.push_packet(&mut out, 0, 96, last, time, unit);
                continue;
            }
            let body = &unit[film.video_codec.header_length()..];
            let fragments = body.chunks(1200).count();
            for (n, fragment) in body.chunks(1200).enumerate() {
                let is_last_fragment = n + 1 == fragments;
                let payload = [&film.video_codec.fragment_header(unit, n == 0, is_last_fragment), fragment].concat();
                self.push_packet(&mut out, 0, 96, last && is_last_fragment, time, &payload);
            }
        }
        self.frames_sent += 1;
        let (rate, samples, payload_type) =
            if film.audio == CameraAudio::G711 { (8000, 160, 8) } else { (48_000, 1024, 97) };
        while self.audio_frames_sent * samples * 25 < self.frames_sent * rate {
            let audio_frame = &film.audio_frames[self.audio_frames_sent % film.audio_frames.len()];
            let time = (self.audio_frames_sent * samples) as u32;
            let mut payload = if payload_type == 97 {
                vec![0, 16, (audio_frame.len() >> 5) as u8, (audio_frame.len() << 3) as u8]
            } else {
                vec![]
            };
            payload.extend_from_slice(audio_frame);
            if film.audio != CameraAudio::Muted {
                self.push_packet(&mut out, 2, payload_type, true, time, &payload);
            }
            self.audio_frames_sent += 1;
        }
        out
    }

    fn push_packet(
        &mut self,
        out: &mut Vec<u8>,
        channel: u8,
        payload_type: u8,
        is_last: bool,
        time: u32,
        payload: &[u8],
    ) {
        let number = &mut self.sequence_numbers[usize::from(channel / 2)];
        out.extend(interleaved_packet(channel, payload_type, is_last, 100u16.wrapping_add(*number), time, payload));
        *number = number.wrapping_add(1);
    }
}

/// One RTP packet, interleaved for the RTSP connection (RFC 2326 section 10.12).
pub fn interleaved_packet(
    channel: u8,
    payload_type: u8,
    is_last: bool,
    sequence_number: u16,
    timestamp: u32,
    payload: &[u8],
) -> Vec<u8> {
    let mut out = vec![b'$', channel];
    out.extend_from_slice(&(12 + payload.len() as u16).to_be_bytes());
    out.extend_from_slice(&[0x80, if is_last { 0x80 } else { 0 } | payload_type]);
    out.extend_from_slice(&sequence_number.to_be_bytes());
    out.extend_from_slice(&timestamp.to_be_bytes());
    out.extend_from_slice(&[0, 0, 0, 42]);
    out.extend_from_slice(payload);
    out
}
