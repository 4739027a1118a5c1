//! A stream by RTSP, as cameras send it: requests and packets share one connection (interleaved).
//!
//! The client is `retina`, which follows no redirects and has no unsafe readers. A `relay` makes sure that it connects to
//! one server only and buffers no more than its limit. The output is a transport stream for the same child process as
//! every other stream. No text of the client's errors is passed on, because it would contain paths with passwords.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use percent_encoding::percent_decode_str;
use retina::Error;
use retina::client::{
    Credentials, Demuxed, Described, InitialTimestampPolicy, PlayOptions, Session, SessionIdPolicy, SessionOptions,
    SetupOptions, Stream, TeardownPolicy, Tool, UnassignedChannelDataPolicy,
};
use retina::codec::{CodecItem, FrameFormat};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::relay::{self, Held};
use super::{Fault, USER_AGENT};
use crate::domain::address::Address;
use crate::domain::g711::{self, CompandingLaw, G711Decoder};
use crate::domain::mpegts::live_muxer::{StreamCodec, Frame, LiveMuxer};
use crate::domain::mpegts::psi::TrackKind;

/// Maximum bytes received until playback starts, and then per frame together with what is interleaved with it.
const ANSWERS: u64 = 1 << 20;
const MOST: u64 = 16 << 20;

/// Timeouts of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Until playback starts.
    pub head: Duration,
    /// Without a video frame; without an audio frame, if there is no video.
    pub idle: Duration,
    /// Until the first output, which begins with a keyframe.
    pub first: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { head: Duration::from_secs(15), idle: Duration::from_secs(10), first: Duration::from_secs(30) }
    }
}

/// Maximum number of chunks queued for the reader.
const WAITING: usize = 2;

/// A running stream. Dropping it sends TEARDOWN and closes the connection.
#[derive(Debug)]
pub struct Receiver {
    packets: mpsc::Receiver<Result<Bytes, Fault>>,
    playing: JoinHandle<()>,
}

/// Starts playing an address from the server `to` that it was resolved to.
pub fn call(
    address: &Address,
    (to, place): (SocketAddr, OwnedSemaphorePermit),
    user_agent: Option<&str>,
    patience: Patience,
) -> Receiver {
    let call = Call {
        address: address.clone(),
        to,
        patience,
        user_agent: user_agent.unwrap_or(USER_AGENT).to_owned(),
        place: Arc::new(place),
    };
    let (send, packets) = mpsc::channel(WAITING);
    let playing = tokio::spawn(async move {
        let Err(fault) = call.play(&send).await else { return };
        let _ = send.send(Err(fault)).await;
    });
    Receiver { packets, playing }
}

impl Receiver {
    /// The next packets of its transport stream.
    ///
    /// # Errors
    /// Why there are no more.
    pub async fn next(&mut self) -> Result<Bytes, Fault> {
        // The channel closes without a fault only if the input made the client panic.
        self.packets.recv().await.unwrap_or_else(|| Err(unreadable()))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.playing.abort();
    }
}

struct Call {
    address: Address,
    to: SocketAddr,
    patience: Patience,
    user_agent: String,
    place: Arc<OwnedSemaphorePermit>,
}

impl Call {
    /// Ok when the reader is gone.
    async fn play(&self, send: &mpsc::Sender<Result<Bytes, Fault>>) -> Result<(), Fault> {
        let Patience { head, idle, first } = self.patience;
        let began = timeout(head, self.begin()).await;
        let (held, mut joined, mut frames) = began.map_err(|_| Fault::TooSlow("no response"))??;
        let called = Instant::now();
        let (mut alive, mut shown) = (called, false);
        loop {
            let until = if shown { alive + idle } else { (alive + idle).min(called + first) };
            let item = timeout_at(until, frames.next()).await.map_err(|_| match alive + idle > until {
                true => Fault::TooSlow("no keyframe received"),
                false => Fault::TooSlow("no data received"),
            })?;
            let item = match item {
                Some(item) => item.map_err(|cause| fault(&held, &cause))?,
                None if held.is_over().is_some() => return Err(Fault::TooLarge(MOST)),
                None => return Err(Fault::Broken("the stream ended".into())),
            };
            let (leads, packets) = joined.put(item)?;
            if leads {
                alive = Instant::now();
                held.made();
            }
            if !packets.is_empty() {
                shown = true;
                if send.send(Ok(packets.into())).await.is_err() {
                    return Ok(());
                }
            }
        }
    }

    /// Sends DESCRIBE, SETUP and PLAY.
    async fn begin(&self) -> Result<(Arc<Held>, Joined, Demuxed), Fault> {
        let (mut held, mut session) = self.describe(TeardownPolicy::Auto).await?;
        if session.tool().is_some_and(Tool::has_live555_tcp_bug) {
            // With such a server, retina would send TEARDOWN over a second connection, to an address that the server
            // chooses.
            (held, session) = self.describe(TeardownPolicy::Never).await?;
        }
        let joined = Joined::of(session.streams());
        for stream in [joined.video, joined.audio].into_iter().flatten() {
            let options = SetupOptions::default().frame_format(FrameFormat::SIMPLE);
            session.setup(stream, options).await.map_err(|cause| fault(&held, &cause))?;
        }
        if joined.video.or(joined.audio).is_none() {
            return Err(Fault::Broken("the stream has neither H.264, H.265, AAC nor G.711".into()));
        }
        let options = PlayOptions::default().initial_timestamp(InitialTimestampPolicy::Permissive);
        let playing = session.play(options).await.map_err(|cause| fault(&held, &cause))?;
        held.may(MOST);
        let frames = playing.demuxed().map_err(|cause| fault(&held, &cause))?;
        Ok((held, joined, frames))
    }

    async fn describe(&self, teardown: TeardownPolicy) -> Result<(Arc<Held>, Session<Described>), Fault> {
        let (port, held) = relay::open(self.to, ANSWERS, self.place.clone()).await?;
        let mut url = self.address.full_url().clone();
        let plain = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let told = !url.username().is_empty() || url.password().is_some();
        let credentials = told.then(|| Credentials {
            username: plain(url.username()),
            password: plain(url.password().unwrap_or_default()),
        });
        // Servers go by the path: a client outside a router also uses a different host and port.
        let local = url.set_host(Some("127.0.0.1")).is_ok()
            && url.set_port(Some(port)).is_ok()
            && url.set_username("").is_ok()
            && url.set_password(None).is_ok();
        if !local {
            return Err(Fault::Address("not an rtsp address"));
        }
        let options = SessionOptions::default()
            .creds(credentials)
            .user_agent(self.user_agent.clone())
            .teardown(teardown)
            .session_id(SessionIdPolicy::UseFirst)
            .unassigned_channel_data(UnassignedChannelDataPolicy::Ignore);
        let session = Session::describe(url, options).await.map_err(|cause| fault(&held, &cause))?;
        Ok((held, session))
    }
}

/// The selected streams and the muxer they are written to.
struct Joined {
    video: Option<usize>,
    audio: Option<usize>,
    voice: Option<G711Decoder>,
    joiner: LiveMuxer,
}

impl Joined {
    fn of(streams: &[Stream]) -> Self {
        let picture = |stream: &Stream| match (stream.media(), stream.encoding_name()) {
            ("video", "h264") => Some(StreamCodec::H264),
            ("video", "h265") => Some(StreamCodec::H265),
            _ => None,
        };
        let voice = |stream: &Stream| match (stream.media(), stream.encoding_name(), stream.channels()) {
            (_, _, Some(channels)) if channels.get() > 1 => None,
            ("audio", "pcma", _) => G711Decoder::new(CompandingLaw::A, stream.clock_rate_hz()),
            ("audio", "pcmu", _) => G711Decoder::new(CompandingLaw::Mu, stream.clock_rate_hz()),
            _ => None,
        };
        let sound = |stream: &Stream| match (stream.media(), stream.encoding_name()) {
            // Without parameters the AAC cannot be decoded.
            ("audio", "mpeg4-generic") if stream.parameters().is_some() => Some(StreamCodec::Aac),
            _ => voice(stream).map(|_| StreamCodec::Pcm),
        };
        let first = |form: &dyn Fn(&Stream) -> Option<StreamCodec>| {
            streams.iter().enumerate().find_map(|(at, stream)| Some((at, form(stream)?))).unzip()
        };
        let ((video, pictures), (audio, sounds)) = (first(&picture), first(&sound));
        let voice = audio.and_then(|at| voice(&streams[at]));
        Self { video, audio, voice, joiner: LiveMuxer::new(pictures, sounds) }
    }

    /// Returns whether the item belongs to the leading stream (video, or audio alone), and the packets it completed.
    fn put(&mut self, item: CodecItem) -> Result<(bool, Vec<u8>), Fault> {
        let ticks = |time: retina::Timestamp| {
            let ticks = i128::from(time.elapsed()) * 90_000 / i128::from(time.clock_rate().get());
            i64::try_from(ticks).unwrap_or_default()
        };
        let jump = |_| Fault::Broken("the stream's clock jumps".into());
        match item {
            CodecItem::VideoFrame(picture) => {
                let (at, random_access) = (ticks(picture.timestamp()), picture.is_random_access_point());
                let frame = Frame { track: TrackKind::Video, timestamp, random_access, bytes: picture.into_data() };
                Ok((true, self.joiner.push_frame(frame).map_err(jump)?))
            }
            CodecItem::AudioFrame(sound) => {
                let (at, mut packets) = (ticks(sound.timestamp()), Vec::new());
                let mut put = |at, bytes| {
                    let frame = Frame { track: TrackKind::Audio, timestamp: frame_time, random_access: true, bytes };
                    self.joiner.push_frame(frame).map(|more| packets.extend(more)).map_err(jump)
                };
                match &mut self.voice {
                    None => put(at, sound.data().to_vec())?,
                    Some(voice) => {
                        let rate = i64::from(sound.timestamp().clock_rate().get());
                        for (n, piece) in sound.data().chunks(g711::MAX_SAMPLES).enumerate() {
                            put(at + (n * g711::MAX_SAMPLES) as i64 * 90_000 / rate, voice.decode_packet(piece))?;
                        }
                    }
                }
                Ok((self.video.is_none(), packets))
            }
            _ => Ok((false, Vec::new())),
        }
    }
}

fn unreadable() -> Fault {
    Fault::Broken("the server's data is malformed".into())
}

/// Converts an error of the client, without its text.
fn fault(held: &Held, cause: &Error) -> Fault {
    match (held.is_over(), cause.status_code()) {
        (Some(most), _) => Fault::TooLarge(most),
        (None, Some(status)) if !(200..300).contains(&status) => Fault::Status(status),
        _ => unreadable(),
    }
}
