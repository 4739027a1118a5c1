//! GStreamer's Discoverer in this process: what the decoders see in a file whose outline is known.
//!
//! It runs on two threads of its own with a short queue. A file that blocks longer than the timeout occupies its thread
//! until GStreamer returns, never an async thread. While both are occupied, the result is "busy" and ffprobe runs instead.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_pbutils as pbutils;
use gstreamer_pbutils::prelude::*;
use tokio::sync::oneshot;

use super::InProcessGuard;
use super::decoder_info::{DecoderInfo, color_name};
use super::outline::{Result, refuse_if};
use crate::domain::media::Color;
use crate::engine::source::SourceFile;

const THREADS: usize = 2;
const MAX_QUEUED: usize = 8;
/// Twenty times as long as any file of the corpus took.
const DISCOVERER_TIMEOUT: gst::ClockTime = gst::ClockTime::from_mseconds(1500);

struct DiscoverRequest {
    source: Arc<SourceFile>,
    guard: InProcessGuard,
    reply: oneshot::Sender<Result<Vec<DecoderInfo>>>,
}

/// Runs the discoverer. `guard` is dropped when this process has closed the file.
pub(super) async fn discover(source: &Arc<SourceFile>, guard: InProcessGuard) -> Result<Vec<DecoderInfo>> {
    let queue = request_queue().ok_or("GStreamer could not be initialized")?;
    let (reply, result) = oneshot::channel();
    queue.try_send(DiscoverRequest { source: source.clone(), guard, reply }).map_err(|refused| match refused {
        TrySendError::Full(_) => "the discoverer is busy",
        TrySendError::Disconnected(_) => "the discoverer has ended",
    })?;
    let reply_timeout = std::time::Duration::from_millis(DISCOVERER_TIMEOUT.mseconds() + 300);
    let answer = tokio::time::timeout(reply_timeout, result).await.map_err(|_| "the discoverer timed out");
    answer?.map_err(|_| "the discoverer has ended")?
}

/// Initializes GStreamer and starts the threads, so that the first probe does not wait for it (0.2 s).
pub(super) fn warm() {
    request_queue();
}

fn request_queue() -> Option<&'static SyncSender<DiscoverRequest>> {
    static QUEUE: OnceLock<Option<SyncSender<DiscoverRequest>>> = OnceLock::new();
    QUEUE
        .get_or_init(|| {
            gst::init().ok()?;
            crate::engine::gst::elements::restrict_elements();
            let (sender, requests) = sync_channel(MAX_QUEUED);
            let requests = Arc::new(Mutex::new(requests));
            for number in 0..THREADS {
                let worker_requests = requests.clone();
                std::thread::Builder::new()
                    .name(format!("discoverer-{number}"))
                    .spawn(move || run_worker(&worker_requests))
                    .ok()?;
            }
            Some(sender)
        })
        .as_ref()
}

fn run_worker(requests: &Mutex<Receiver<DiscoverRequest>>) {
    let discoverer = pbutils::Discoverer::new(DISCOVERER_TIMEOUT);
    loop {
        let request = requests.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(request) = request else { return };
        if request.reply.is_closed() {
            continue;
        }
        let result = match &discoverer {
            Ok(discoverer) => discover_streams(discoverer, &request.source),
            Err(_) => Err("GStreamer has no discoverer"),
        };
        drop(request.guard);
        let _ = request.reply.send(result);
    }
}

fn discover_streams(discoverer: &pbutils::Discoverer, source: &SourceFile) -> Result<Vec<DecoderInfo>> {
    // The URI refers to the open descriptor of this process, never to a path.
    let info =
        discoverer.discover_uri(&format!("file://{}", source.proc_path())).map_err(|_| "the discoverer failed")?;
    refuse_if(info.result() != pbutils::DiscovererResult::Ok, "the discoverer's result is incomplete")?;
    info.stream_list()
        .iter()
        .filter(|stream| !stream.is::<pbutils::DiscovererContainerInfo>())
        .map(parse_stream_info)
        .collect()
}

fn parse_stream_info(stream: &pbutils::DiscovererStreamInfo) -> Result<DecoderInfo> {
    let id = stream.stream_id().ok_or("a stream without an id")?;
    // `<hash>/<track>` in mp4, `<hash>/<track>:<uid>` in Matroska.
    let container_id = id.rsplit('/').next().and_then(|tail| tail.split(':').next()?.parse().ok());
    let mut info =
        DecoderInfo { container_id: container_id.ok_or("a stream id of another form")?, ..DecoderInfo::default() };
    let caps = stream.caps().ok_or("a stream without caps")?;
    let fields = caps.structure(0).ok_or("a stream without caps")?;
    let text = |name: &str| fields.get::<String>(name).ok();
    (info.level, info.chroma) = (text("level"), text("chroma-format"));
    info.codec = codec_name(fields.name(), fields.get::<i32>("layer").ok());
    info.profile = text("profile").map(|name| profile_name(info.codec.unwrap_or_default(), &name));
    info.color = parse_colorimetry(text("colorimetry").as_deref())?;
    info.bit_depth = fields.get::<u32>("bit-depth-luma").ok();
    info.is_interlaced = text("interlace-mode").is_some_and(|mode| mode != "progressive");
    if let Some(video) = stream.downcast_ref::<pbutils::DiscovererVideoInfo>() {
        (info.width, info.height) = (video.width(), video.height());
        info.is_interlaced |= video.is_interlaced();
        let aspect = video.par();
        let pair = (u32::try_from(aspect.numer()), u32::try_from(aspect.denom()));
        info.sample_aspect = match pair {
            (Ok(num), Ok(den)) if num > 0 && den > 0 => Some((num, den)),
            _ => None,
        };
    }
    if let Some(audio) = stream.downcast_ref::<pbutils::DiscovererAudioInfo>() {
        (info.channels, info.sample_rate) = (audio.channels(), audio.sample_rate());
    }
    Ok(info)
}

/// ffmpeg's name of a media type.
fn codec_name(caps: &str, mpeg_layer: Option<i32>) -> Option<&'static str> {
    Some(match caps {
        "video/x-h264" => "h264",
        "video/x-h265" => "hevc",
        "video/x-vp8" => "vp8",
        "video/x-vp9" => "vp9",
        "video/x-av1" => "av1",
        "audio/mpeg" if mpeg_layer == Some(3) => "mp3",
        "audio/mpeg" if mpeg_layer.is_none() => "aac",
        "audio/x-ac3" => "ac3",
        "audio/x-eac3" => "eac3",
        "audio/x-opus" => "opus",
        "audio/x-vorbis" => "vorbis",
        "audio/x-flac" => "flac",
        _ => return None,
    })
}

/// GStreamer's profile names as ffmpeg writes them.
fn profile_name(codec: &str, name: &str) -> String {
    match (codec, name) {
        ("h264", "high-4:4:4") => "high-4:4:4-predictive".into(),
        ("vp9", number) if number.len() == 1 => format!("profile-{number}"),
        ("aac", "he-aac-v1") => "he-aac".into(),
        ("aac", "he-aac-v2") => "he-aacv2".into(),
        _ => name.to_owned(),
    }
}

/// Parses a colorimetry string, a name or `range:matrix:transfer:primaries`. Wide gamuts are left to ffprobe.
fn parse_colorimetry(text: Option<&str>) -> Result<Color> {
    let color_of = |primaries: &str, transfer: &str, matrix: &str, range: &str| Color {
        primaries: Some(primaries.into()),
        transfer: Some(transfer.into()),
        matrix: Some(matrix.into()),
        range: Some(range.into()),
    };
    match text {
        None => Ok(Color::default()),
        Some("bt709") => Ok(color_of("bt709", "bt709", "bt709", "limited")),
        Some("bt601") => Ok(color_of("smpte170m", "smpte170m", "smpte170m", "limited")),
        Some(text) => {
            let numbers: Vec<u8> = text.split(':').filter_map(|part| part.parse().ok()).collect();
            let [range, matrix, transfer, primaries] = numbers[..] else { return Err("unusual colours") };
            // Numbers of GstVideoColorRange, -Matrix, -TransferFunction and -Primaries.
            Ok(Color {
                range: color_name(range, 0, &[(1, "full"), (2, "limited")])?,
                matrix: color_name(matrix, 0, &[(3, "bt709"), (4, "smpte170m")])?,
                transfer: color_name(transfer, 0, &[(5, "bt709"), (16, "smpte170m")])?,
                primaries: color_name(primaries, 0, &[(1, "bt709"), (3, "bt470bg"), (4, "smpte170m")])?,
            })
        }
    }
}
