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

use super::relay::{self, UnparsedBytes};
use super::{OutboundError, USER_AGENT};
use crate::domain::address::Address;
use crate::domain::g711::{self, CompandingLaw, G711Decoder};
use crate::domain::mpegts::live_muxer::{Frame, LiveMuxer, StreamCodec};
use crate::domain::mpegts::psi::TrackKind;
use crate::domain::time::Ticks;

/// Maximum bytes received until playback starts, and then per frame together with what is interleaved with it.
const MAX_SETUP_BYTES: u64 = 1 << 20;
const MAX_FRAME_BYTES: u64 = 16 << 20;

/// Timeouts of a stream.
#[derive(Clone, Copy, Debug)]
pub struct RtspTimeouts {
    /// Until playback starts.
    pub until_playing: Duration,
    /// Without a video frame; without an audio frame, if there is no video.
    pub idle: Duration,
    /// Until the first output, which begins with a keyframe.
    pub first_output: Duration,
}

impl Default for RtspTimeouts {
    fn default() -> Self {
        Self {
            until_playing: Duration::from_secs(15),
            idle: Duration::from_secs(10),
            first_output: Duration::from_secs(30),
        }
    }
}

/// Maximum number of chunks queued for the reader.
const MAX_QUEUED_CHUNKS: usize = 2;

/// A running stream. Dropping it sends TEARDOWN and closes the connection.
#[derive(Debug)]
pub struct RtspReceiver {
    packets: mpsc::Receiver<Result<Bytes, OutboundError>>,
    task: JoinHandle<()>,
}

/// Starts playing an address from the server that it was resolved to.
pub fn connect(
    address: &Address,
    (server, slot): (SocketAddr, OwnedSemaphorePermit),
    user_agent: Option<&str>,
    timeouts: RtspTimeouts,
) -> RtspReceiver {
    let client = RtspClient {
        address: address.clone(),
        server,
        timeouts,
        user_agent: user_agent.unwrap_or(USER_AGENT).to_owned(),
        slot: Arc::new(slot),
    };
    let (sender, packets) = mpsc::channel(MAX_QUEUED_CHUNKS);
    let task = tokio::spawn(async move {
        let Err(error) = client.play(&sender).await else { return };
        let _ = sender.send(Err(error)).await;
    });
    RtspReceiver { packets, task }
}

impl RtspReceiver {
    /// The next packets of its transport stream; the error is why there are no more.
    pub async fn next(&mut self) -> Result<Bytes, OutboundError> {
        // The channel closes without an error only if the input made the client panic.
        self.packets.recv().await.unwrap_or_else(|| Err(malformed_error()))
    }
}

impl Drop for RtspReceiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct RtspClient {
    address: Address,
    server: SocketAddr,
    timeouts: RtspTimeouts,
    user_agent: String,
    slot: Arc<OwnedSemaphorePermit>,
}

impl RtspClient {
    /// Ok when the reader is gone.
    async fn play(&self, sender: &mpsc::Sender<Result<Bytes, OutboundError>>) -> Result<(), OutboundError> {
        let RtspTimeouts { until_playing, idle, first_output } = self.timeouts;
        let started = timeout(until_playing, self.start_playing()).await;
        let (unparsed, mut streams, mut frames) = started.map_err(|_| OutboundError::Timeout("no response"))??;
        let started_at = Instant::now();
        let (mut last_frame, mut has_output) = (started_at, false);
        loop {
            let deadline =
                if has_output { last_frame + idle } else { (last_frame + idle).min(started_at + first_output) };
            let item = timeout_at(deadline, frames.next()).await.map_err(|_| match last_frame + idle > deadline {
                true => OutboundError::Timeout("no keyframe received"),
                false => OutboundError::Timeout("no data received"),
            })?;
            let item = match item {
                Some(item) => item.map_err(|cause| client_error(&unparsed, &cause))?,
                None if unparsed.exceeded_limit().is_some() => return Err(OutboundError::TooLarge(MAX_FRAME_BYTES)),
                None => return Err(OutboundError::ConnectionFailed("the stream ended".into())),
            };
            let (is_leading, packets) = streams.push(item)?;
            if is_leading {
                last_frame = Instant::now();
                unparsed.reset();
            }
            if !packets.is_empty() {
                has_output = true;
                if sender.send(Ok(packets.into())).await.is_err() {
                    return Ok(());
                }
            }
        }
    }

    /// Sends DESCRIBE, SETUP and PLAY.
    async fn start_playing(&self) -> Result<(Arc<UnparsedBytes>, SelectedStreams, Demuxed), OutboundError> {
        let (mut unparsed, mut session) = self.describe(TeardownPolicy::Auto).await?;
        if session.tool().is_some_and(Tool::has_live555_tcp_bug) {
            // With such a server, retina would send TEARDOWN over a second connection, to an address that the server
            // chooses.
            (unparsed, session) = self.describe(TeardownPolicy::Never).await?;
        }
        let streams = SelectedStreams::select(session.streams());
        for stream in [streams.video, streams.audio].into_iter().flatten() {
            let options = SetupOptions::default().frame_format(FrameFormat::SIMPLE);
            session.setup(stream, options).await.map_err(|cause| client_error(&unparsed, &cause))?;
        }
        if streams.video.or(streams.audio).is_none() {
            return Err(OutboundError::ConnectionFailed("the stream has neither H.264, H.265, AAC nor G.711".into()));
        }
        let options = PlayOptions::default().initial_timestamp(InitialTimestampPolicy::Permissive);
        let playing = session.play(options).await.map_err(|cause| client_error(&unparsed, &cause))?;
        unparsed.set_limit(MAX_FRAME_BYTES);
        let demuxed = playing.demuxed().map_err(|cause| client_error(&unparsed, &cause))?;
        Ok((unparsed, streams, demuxed))
    }

    async fn describe(
        &self,
        teardown: TeardownPolicy,
    ) -> Result<(Arc<UnparsedBytes>, Session<Described>), OutboundError> {
        let (port, unparsed) = relay::open_relay(self.server, MAX_SETUP_BYTES, self.slot.clone()).await?;
        let mut url = self.address.full_url().clone();
        let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let has_credentials = !url.username().is_empty() || url.password().is_some();
        let credentials = has_credentials.then(|| Credentials {
            username: decode(url.username()),
            password: decode(url.password().unwrap_or_default()),
        });
        // Servers go by the path: a client outside a router also uses a different host and port.
        let is_rewritten = url.set_host(Some("127.0.0.1")).is_ok()
            && url.set_port(Some(port)).is_ok()
            && url.set_username("").is_ok()
            && url.set_password(None).is_ok();
        if !is_rewritten {
            return Err(OutboundError::InvalidAddress("not an rtsp address"));
        }
        let options = SessionOptions::default()
            .creds(credentials)
            .user_agent(self.user_agent.clone())
            .teardown(teardown)
            .session_id(SessionIdPolicy::UseFirst)
            .unassigned_channel_data(UnassignedChannelDataPolicy::Ignore);
        let session = Session::describe(url, options).await.map_err(|cause| client_error(&unparsed, &cause))?;
        Ok((unparsed, session))
    }
}

/// The selected streams and the muxer they are written to.
struct SelectedStreams {
    video: Option<usize>,
    audio: Option<usize>,
    g711_decoder: Option<G711Decoder>,
    muxer: LiveMuxer,
}

impl SelectedStreams {
    fn select(streams: &[Stream]) -> Self {
        let video_codec = |stream: &Stream| match (stream.media(), stream.encoding_name()) {
            ("video", "h264") => Some(StreamCodec::H264),
            ("video", "h265") => Some(StreamCodec::H265),
            _ => None,
        };
        let decoder_for = |stream: &Stream| match (stream.media(), stream.encoding_name(), stream.channels()) {
            (_, _, Some(channels)) if channels.get() > 1 => None,
            ("audio", "pcma", _) => G711Decoder::new(CompandingLaw::A, stream.clock_rate_hz()),
            ("audio", "pcmu", _) => G711Decoder::new(CompandingLaw::Mu, stream.clock_rate_hz()),
            _ => None,
        };
        let audio_codec = |stream: &Stream| match (stream.media(), stream.encoding_name()) {
            // Without parameters the AAC cannot be decoded.
            ("audio", "mpeg4-generic") if stream.parameters().is_some() => Some(StreamCodec::Aac),
            _ => decoder_for(stream).map(|_| StreamCodec::Pcm),
        };
        let find_first = |codec_of: &dyn Fn(&Stream) -> Option<StreamCodec>| {
            streams.iter().enumerate().find_map(|(index, stream)| Some((index, codec_of(stream)?))).unzip()
        };
        let ((video, selected_video_codec), (audio, selected_audio_codec)) =
            (find_first(&video_codec), find_first(&audio_codec));
        let g711_decoder = audio.and_then(|index| decoder_for(&streams[index]));
        Self { video, audio, g711_decoder, muxer: LiveMuxer::new(selected_video_codec, selected_audio_codec) }
    }

    /// Returns whether the item belongs to the leading stream (video, or audio alone), and the packets it completed.
    fn push(&mut self, item: CodecItem) -> Result<(bool, Vec<u8>), OutboundError> {
        let ticks = |time: retina::Timestamp| Ticks::from_units(time.elapsed(), time.clock_rate().get());
        let clock_jump = |_| OutboundError::ConnectionFailed("the stream's clock jumps".into());
        match item {
            CodecItem::VideoFrame(frame) => {
                let (timestamp, random_access) = (ticks(frame.timestamp()), frame.is_random_access_point());
                let frame = Frame { track: TrackKind::Video, timestamp, random_access, bytes: frame.into_data() };
                Ok((true, self.muxer.push_frame(frame).map_err(clock_jump)?))
            }
            CodecItem::AudioFrame(frame) => {
                let (timestamp, mut packets) = (ticks(frame.timestamp()), Vec::new());
                let mut push = |frame_time, bytes| {
                    let frame = Frame { track: TrackKind::Audio, timestamp: frame_time, random_access: true, bytes };
                    self.muxer.push_frame(frame).map(|more| packets.extend(more)).map_err(clock_jump)
                };
                match &mut self.g711_decoder {
                    None => push(timestamp, frame.data().to_vec())?,
                    Some(decoder) => {
                        let rate = frame.timestamp().clock_rate().get();
                        for (n, samples) in frame.data().chunks(g711::MAX_SAMPLES).enumerate() {
                            let delay = Ticks::from_units((n * g711::MAX_SAMPLES) as i64, rate);
                            push(timestamp + delay, decoder.decode_packet(samples))?;
                        }
                    }
                }
                Ok((self.video.is_none(), packets))
            }
            _ => Ok((false, Vec::new())),
        }
    }
}

fn malformed_error() -> OutboundError {
    OutboundError::ConnectionFailed("the server's data is malformed".into())
}

/// Converts an error of the client, without its text.
fn client_error(unparsed: &UnparsedBytes, cause: &Error) -> OutboundError {
    match (unparsed.exceeded_limit(), cause.status_code()) {
        (Some(limit), _) => OutboundError::TooLarge(limit),
        (None, Some(status)) if !(200..300).contains(&status) => OutboundError::Status(status),
        _ => malformed_error(),
    }
}
