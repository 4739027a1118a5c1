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

use super::Held;
use super::outline::Unsure;
use super::seen::Seen;
use crate::domain::media::Color;
use crate::engine::source::Source;

const THREADS: usize = 2;
const WAITING: usize = 8;
/// Twenty times as long as any file of the corpus took.
const PATIENCE: gst::ClockTime = gst::ClockTime::from_mseconds(1500);

struct Question {
    source: Arc<Source>,
    held: Held,
    answer: oneshot::Sender<Result<Vec<Seen>, Unsure>>,
}

/// Runs the discoverer. `held` is dropped when this process has closed the file.
pub(super) async fn discover(source: &Arc<Source>, held: Held) -> Result<Vec<Seen>, Unsure> {
    let queue = queue().ok_or(Unsure("GStreamer could not be initialized"))?;
    let (answer, outcome) = oneshot::channel();
    queue.try_send(Question { source: source.clone(), held, answer }).map_err(|refused| match refused {
        TrySendError::Full(_) => Unsure("the discoverer is busy"),
        TrySendError::Disconnected(_) => Unsure("the discoverer has ended"),
    })?;
    let within = std::time::Duration::from_millis(PATIENCE.mseconds() + 300);
    tokio::time::timeout(within, outcome)
        .await
        .map_err(|_| Unsure("the discoverer timed out"))?
        .map_err(|_| Unsure("the discoverer has ended"))?
}

/// Initializes GStreamer and starts the threads, so that the first probe does not wait for it (0.2 s).
pub(super) fn warm() {
    queue();
}

fn queue() -> Option<&'static SyncSender<Question>> {
    static QUEUE: OnceLock<Option<SyncSender<Question>>> = OnceLock::new();
    QUEUE
        .get_or_init(|| {
            gst::init().ok()?;
            crate::engine::gstreamer_elements::restrict_elements();
            let (sender, questions) = sync_channel(WAITING);
            let questions = Arc::new(Mutex::new(questions));
            for place in 0..THREADS {
                let questions = questions.clone();
                std::thread::Builder::new()
                    .name(format!("discoverer-{place}"))
                    .spawn(move || serve(&questions))
                    .ok()?;
            }
            Some(sender)
        })
        .as_ref()
}

fn serve(questions: &Mutex<Receiver<Question>>) {
    let discoverer = pbutils::Discoverer::new(PATIENCE);
    loop {
        let question = questions.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(question) = question else { return };
        if question.answer.is_closed() {
            continue;
        }
        let outcome = match &discoverer {
            Ok(discoverer) => look(discoverer, &question.source),
            Err(_) => Err(Unsure("GStreamer has no discoverer")),
        };
        drop(question.held);
        let _ = question.answer.send(outcome);
    }
}

fn look(discoverer: &pbutils::Discoverer, source: &Source) -> Result<Vec<Seen>, Unsure> {
    // The URI refers to the open descriptor of this process, never to a path.
    let info = discoverer
        .discover_uri(&format!("file://{}", source.proc_path()))
        .map_err(|_| Unsure("the discoverer failed"))?;
    if info.result() != pbutils::DiscovererResult::Ok {
        return Err(Unsure("the discoverer's result is incomplete"));
    }
    info.stream_list().iter().filter(|stream| !stream.is::<pbutils::DiscovererContainerInfo>()).map(seen).collect()
}

fn seen(stream: &pbutils::DiscovererStreamInfo) -> Result<Seen, Unsure> {
    let id = stream.stream_id().ok_or(Unsure("a stream without an id"))?;
    // `<hash>/<track>` in mp4, `<hash>/<track>:<uid>` in Matroska.
    let key = id.rsplit('/').next().and_then(|tail| tail.split(':').next()?.parse().ok());
    let mut seen = Seen { key: key.ok_or(Unsure("a stream id of another form"))?, ..Seen::default() };
    let caps = stream.caps().ok_or(Unsure("a stream without caps"))?;
    let fields = caps.structure(0).ok_or(Unsure("a stream without caps"))?;
    let text = |name: &str| fields.get::<String>(name).ok();
    (seen.level, seen.chroma) = (text("level"), text("chroma-format"));
    seen.codec = codec(fields.name(), fields.get::<i32>("layer").ok());
    seen.profile = text("profile").map(|name| profile_name(seen.codec.unwrap_or_default(), &name));
    seen.color = color(text("colorimetry").as_deref())?;
    seen.bit_depth = fields.get::<u32>("bit-depth-luma").ok();
    seen.interlaced = text("interlace-mode").is_some_and(|mode| mode != "progressive");
    if let Some(video) = stream.downcast_ref::<pbutils::DiscovererVideoInfo>() {
        (seen.width, seen.height) = (video.width(), video.height());
        seen.interlaced |= video.is_interlaced();
        let aspect = video.par();
        let pair = (u32::try_from(aspect.numer()), u32::try_from(aspect.denom()));
        seen.sample_aspect = match pair {
            (Ok(num), Ok(den)) if num > 0 && den > 0 => Some((num, den)),
            _ => None,
        };
    }
    if let Some(audio) = stream.downcast_ref::<pbutils::DiscovererAudioInfo>() {
        (seen.channels, seen.sample_rate) = (audio.channels(), audio.sample_rate());
    }
    Ok(seen)
}

/// ffmpeg's name of a media type.
fn codec(caps: &str, mpeg_layer: Option<i32>) -> Option<&'static str> {
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
fn color(text: Option<&str>) -> Result<Color, Unsure> {
    let named = |primaries: &str, transfer: &str, matrix: &str, range: &str| Color {
        primaries: Some(primaries.into()),
        transfer: Some(transfer.into()),
        matrix: Some(matrix.into()),
        range: Some(range.into()),
    };
    match text {
        None => Ok(Color::default()),
        Some("bt709") => Ok(named("bt709", "bt709", "bt709", "limited")),
        Some("bt601") => Ok(named("smpte170m", "smpte170m", "smpte170m", "limited")),
        Some(text) => {
            let numbers: Vec<u8> = text.split(':').filter_map(|part| part.parse().ok()).collect();
            let [range, matrix, transfer, primaries] = numbers[..] else { return Err(Unsure("unusual colours")) };
            let name = |table: &[(u8, &str)], number: u8| match number {
                0 => Ok(None),
                _ => table
                    .iter()
                    .find(|(known, _)| *known == number)
                    .map(|(_, name)| Some((*name).to_owned()))
                    .ok_or(Unsure("unusual colours")),
            };
            // Numbers of GstVideoColorRange, -Matrix, -TransferFunction and -Primaries.
            Ok(Color {
                range: name(&[(1, "full"), (2, "limited")], range)?,
                matrix: name(&[(3, "bt709"), (4, "smpte170m")], matrix)?,
                transfer: name(&[(5, "bt709"), (16, "smpte170m")], transfer)?,
                primaries: name(&[(1, "bt709"), (3, "bt470bg"), (4, "smpte170m")], primaries)?,
            })
        }
    }
}
