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

use crate::kit::film;

pub const USER: &str = "ada";
/// Must be escaped in a URL.
pub const SECRET: &str = "correct@horse";

/// Authentication that the camera requires.
#[derive(Clone, Copy, PartialEq)]
pub enum Guard {
    Nobody,
    Basic,
    Digest,
}

/// Video codec of the camera.
#[derive(Clone, Copy, PartialEq)]
pub enum Picture {
    Avc,
    Hevc,
}

impl Picture {
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
    fn delimits(self, unit: &[u8]) -> bool {
        if self == Self::Avc { unit[0] & 31 == 9 } else { unit[0] >> 1 & 63 == 35 }
    }

    /// Length of a NAL unit header, bytes.
    fn header(self) -> usize {
        if self == Self::Avc { 1 } else { 2 }
    }

    /// The header that replaces that of a fragmented NAL unit (RFC 6184 section 5.8, RFC 7798 section 4.4.3).
    fn fragment(self, unit: &[u8], first: bool, last: bool) -> Vec<u8> {
        let place = u8::from(first) << 7 | u8::from(last) << 6;
        match self {
            Self::Avc => vec![unit[0] & 0x60 | 28, unit[0] & 31 | place],
            Self::Hevc => vec![unit[0] & 0x81 | 49 << 1, unit[1], unit[0] >> 1 & 63 | place],
        }
    }
}

/// Audio of the camera.
#[derive(Clone, Copy, PartialEq)]
pub enum Sound {
    Aac,
    /// G.711 A-law.
    Voice,
    /// Announced and never sent.
    Muted,
}

/// Encoded video and audio.
pub struct Film {
    /// The NAL units of each frame, 25 frames per second.
    pictures: Vec<Vec<Vec<u8>>>,
    /// AAC frames of 1024 samples at 48 kHz, or 160 samples of G.711 each.
    sounds: Vec<Vec<u8>>,
    picture: Picture,
    sound: Sound,
}

impl Film {
    pub fn make(folder: &Path, seconds: u32, picture: Picture, sound: Sound) -> Self {
        let path = folder.join("camera.ts");
        let video = picture.encoder();
        film::flash_and_beep(&path, seconds, &format!("{video} -c:a aac -ar 48000 -ac 2 -f mpegts"));
        let part = |name: &str, args: &str| {
            let out = folder.join(name);
            film::make(&out, &["-i", path.to_str().unwrap(), args]);
            std::fs::read(out).unwrap()
        };
        let mut pictures: Vec<Vec<Vec<u8>>> = Vec::new();
        let bare = if picture == Picture::Avc { "-map 0:v -c copy -f h264" } else { "-map 0:v -c copy -f hevc" };
        for unit in units(&part("camera.pictures", bare)) {
            match pictures.last_mut() {
                _ if picture.delimits(unit) => pictures.push(Vec::new()),
                Some(picture) => picture.push(unit.to_vec()),
                None => panic!("a film begins with a delimiter"),
            }
        }
        let sounds = match sound {
            Sound::Voice => part("camera.alaw", "-map 0:a -ar 8000 -ac 1 -c:a pcm_alaw -f alaw")
                .chunks(160)
                .map(Vec::from)
                .collect(),
            _ => {
                let (adts, mut at, mut frames) = (part("camera.aac", "-map 0:a -c copy -f adts"), 0, Vec::new());
                while at < adts.len() {
                    let length = usize::from(adts[at + 3] & 3) << 11
                        | usize::from(adts[at + 4]) << 3
                        | usize::from(adts[at + 5] >> 5);
                    frames.push(adts[at + 7..at + length].to_vec());
                    at += length;
                }
                frames
            }
        };
        Self { pictures, sounds, picture, sound }
    }

    fn sdp(&self) -> String {
        let sound = match self.sound {
            Sound::Voice => "m=audio 0 RTP/AVP 8\r\na=control:track=sound\r\n",
            _ => {
                "m=audio 0 RTP/AVP 97\r\na=rtpmap:97 MPEG4-GENERIC/48000/2\r\na=fmtp:97 streamtype=5;mode=AAC-hbr;\
                sizelength=13;indexlength=3;indexdeltalength=3;config=1190\r\na=control:track=sound\r\n"
            }
        };
        // The video's control URL names another server, which clients must not use.
        format!(
            "v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=Camera\r\nt=0 0\r\na=control:*\r\nm=video 0 RTP/AVP 96\r\n\
             a=rtpmap:96 {}/90000\r\na=control:rtsp://10.9.8.7/live/track=picture\r\n{sound}",
            self.picture.name()
        )
    }
}

fn units(stream: &[u8]) -> Vec<&[u8]> {
    let mut starts: Vec<usize> = (0..stream.len() - 3).filter(|&at| stream[at..at + 3] == [0, 0, 1]).collect();
    starts.push(stream.len());
    let between = |pair: &[usize]| {
        let unit = &stream[pair[0] + 3..pair[1]];
        // The first byte of a four-byte start code is left at the end of the unit before.
        &unit[..unit.iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1)]
    };
    starts.windows(2).map(between).collect()
}

/// A running camera. Dropping it stops it.
pub struct Camera {
    pub address: SocketAddr,
    state: Arc<State>,
    serving: tokio::task::JoinHandle<()>,
}

struct State {
    film: Film,
    guard: Guard,
    made: AtomicUsize,
    open: AtomicUsize,
    torn: AtomicUsize,
    off: AtomicBool,
    cut: watch::Sender<u64>,
    /// Heads of all requests.
    asked: Mutex<Vec<String>>,
}

impl Camera {
    pub async fn of(film: Film, guard: Guard) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let zero = || AtomicUsize::new(0);
        let (off, cut, asked) = (AtomicBool::new(false), watch::channel(0).0, Mutex::default());
        let state = Arc::new(State { film, guard, made: zero(), open: zero(), torn: zero(), off, cut, asked });
        let theirs = state.clone();
        let serving = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let state = theirs.clone();
                if state.off.load(Ordering::SeqCst) {
                    continue;
                }
                tokio::spawn(async move {
                    state.made.fetch_add(1, Ordering::SeqCst);
                    state.open.fetch_add(1, Ordering::SeqCst);
                    let mut cut = state.cut.subscribe();
                    tokio::select! {
                        _ = serve(socket, &state) => {}
                        _ = cut.changed() => {}
                    }
                    state.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, state, serving }
    }

    /// Its URL, with user name and password.
    pub fn url(&self) -> String {
        format!("rtsp://{USER}:{}@{}/live/hunter2?channel=1", SECRET.replace('@', "%40"), self.address)
    }

    pub fn made(&self) -> usize {
        self.state.made.load(Ordering::SeqCst)
    }

    pub fn open(&self) -> usize {
        self.state.open.load(Ordering::SeqCst)
    }

    /// Number of TEARDOWN requests.
    pub fn torn(&self) -> usize {
        self.state.torn.load(Ordering::SeqCst)
    }

    pub fn asked(&self) -> Vec<String> {
        self.state.asked.lock().unwrap().clone()
    }

    /// Cuts every connection and refuses new ones.
    pub fn off(&self) {
        self.state.off.store(true, Ordering::SeqCst);
        self.state.cut.send_modify(|cuts| *cuts += 1);
    }

    pub fn on(&self) {
        self.state.off.store(false, Ordering::SeqCst);
    }
}

impl Drop for Camera {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// The value of a header of a request.
pub fn header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    request
        .lines()
        .find_map(|line| line.split_once(": ").filter(|(key, _)| key.eq_ignore_ascii_case(name)))
        .map(|(_, value)| value)
}

/// Reads the head of the next request; None at the end of the connection.
pub async fn request(socket: &mut (impl AsyncReadExt + Unpin)) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).unwrap())
}

pub fn answer(request: &str, status: &str, more: &str, body: &str) -> Vec<u8> {
    let number = header(request, "CSeq").unwrap_or("0");
    format!("RTSP/1.0 {status}\r\nCSeq: {number}\r\n{more}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

async fn serve(socket: TcpStream, state: &State) -> Option<()> {
    let (mut reading, mut writing) = socket.into_split();
    let (send, mut requests) = mpsc::channel(8);
    let reader = tokio::spawn(async move {
        while let Some(request) = request(&mut reading).await {
            if send.send(request).await.is_err() {
                break;
            }
        }
    });
    let base = "Content-Base: rtsp://10.9.8.7/live/\r\nContent-Type: application/sdp\r\n";
    let (mut playing, mut ticks) = (None, tokio::time::interval(Duration::from_millis(40)));
    let ended = loop {
        let request = tokio::select! {
            request = requests.recv() => request,
            _ = ticks.tick(), if playing.is_some() => {
                let player: &mut Player = playing.as_mut().unwrap();
                if writing.write_all(&player.next(&state.film)).await.is_err() {
                    break None;
                }
                continue;
            }
        };
        let Some(request) = request else { break None };
        state.asked.lock().unwrap().push(request.clone());
        let said = match request.split(' ').next().unwrap() {
            _ if !admits(state.guard, &request) => {
                let realm = match state.guard {
                    Guard::Basic => "Basic realm=\"camera\"",
                    _ => "Digest realm=\"camera\", nonce=\"0a4f113b\"",
                };
                answer(&request, "401 Unauthorized", &format!("WWW-Authenticate: {realm}\r\n"), "")
            }
            "DESCRIBE" => answer(&request, "200 OK", base, &state.film.sdp()),
            "SETUP" => {
                let transport = header(&request, "Transport").unwrap();
                let told = format!("Transport: {transport};ssrc=0000002A\r\nSession: 77;timeout=60\r\n");
                answer(&request, "200 OK", &told, "")
            }
            "PLAY" => {
                playing = Some(Player::default());
                let told = "Session: 77\r\nRTP-Info: url=rtsp://10.9.8.7/live/track=picture;seq=100;rtptime=90000,\
                    url=rtsp://10.9.8.7/live/track=sound;seq=100;rtptime=0\r\n";
                answer(&request, "200 OK", told, "")
            }
            "TEARDOWN" => {
                state.torn.fetch_add(1, Ordering::SeqCst);
                let _ = writing.write_all(&answer(&request, "200 OK", "", "")).await;
                break Some(());
            }
            _ => answer(&request, "200 OK", "Public: OPTIONS, GET_PARAMETER\r\n", ""),
        };
        if writing.write_all(&said).await.is_err() {
            break None;
        }
    };
    reader.abort();
    ended
}

fn admits(guard: Guard, request: &str) -> bool {
    let md5 = |text: String| HEXLOWER.encode(&Md5::digest(text));
    let told = header(request, "Authorization").unwrap_or_default();
    match guard {
        Guard::Nobody => true,
        Guard::Basic => told == format!("Basic {}", BASE64.encode(format!("{USER}:{SECRET}").as_bytes())),
        Guard::Digest => {
            let mut words = request.split(' ');
            let (method, uri) = (words.next().unwrap(), words.next().unwrap());
            let secret = md5(format!("{USER}:camera:{SECRET}"));
            let whole = md5(format!("{secret}:0a4f113b:{}", md5(format!("{method}:{uri}"))));
            told.contains(&format!("response=\"{whole}\""))
        }
    }
}

/// Position of one client in the film.
#[derive(Default)]
struct Player {
    pictures: usize,
    sounds: usize,
    numbers: [u16; 2],
}

impl Player {
    /// RTP packets of the next video frame, and of the audio up to its end.
    fn next(&mut self, film: &Film) -> Vec<u8> {
        let mut out = Vec::new();
        let picture = &film.pictures[self.pictures % film.pictures.len()];
        let time = 90_000 + self.pictures as u32 * 3600;
        for (at, unit) in picture.iter().enumerate() {
            let last = at + 1 == picture.len();
            if unit.len() <= 1200 {
                self.packet(&mut out, 0, 96, last, time, unit);
                continue;
            }
            let body = &unit[film.picture.header()..];
            let pieces = body.chunks(1200).count();
            for (n, piece) in body.chunks(1200).enumerate() {
                let ends = n + 1 == pieces;
                let payload = [&film.picture.fragment(unit, n == 0, ends), piece].concat();
                self.packet(&mut out, 0, 96, last && ends, time, &payload);
            }
        }
        self.pictures += 1;
        let (rate, samples, kind) = if film.sound == Sound::Voice { (8000, 160, 8) } else { (48_000, 1024, 97) };
        while self.sounds * samples * 25 < self.pictures * rate {
            let sound = &film.sounds[self.sounds % film.sounds.len()];
            let time = (self.sounds * samples) as u32;
            let mut payload =
                if kind == 97 { vec![0, 16, (sound.len() >> 5) as u8, (sound.len() << 3) as u8] } else { vec![] };
            payload.extend_from_slice(sound);
            if film.sound != Sound::Muted {
                self.packet(&mut out, 2, kind, true, time, &payload);
            }
            self.sounds += 1;
        }
        out
    }

    fn packet(&mut self, out: &mut Vec<u8>, channel: u8, kind: u8, last: bool, time: u32, payload: &[u8]) {
        let number = &mut self.numbers[usize::from(channel / 2)];
        out.extend(packet(channel, kind, last, 100u16.wrapping_add(*number), time, payload));
        *number = number.wrapping_add(1);
    }
}

/// One RTP packet, interleaved for the RTSP connection (RFC 2326 section 10.12).
pub fn packet(channel: u8, kind: u8, last: bool, number: u16, time: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![b'$', channel];
    out.extend_from_slice(&(12 + payload.len() as u16).to_be_bytes());
    out.extend_from_slice(&[0x80, if last { 0x80 } else { 0 } | kind]);
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(&time.to_be_bytes());
    out.extend_from_slice(&[0, 0, 0, 42]);
    out.extend_from_slice(payload);
    out
}
