//! GStreamer's Discoverer in this process: what the decoders see in a file whose outline is already known.
//!
//! It runs on two threads of its own with a short queue. A file that holds one up for longer than its time-out costs
//! that thread until GStreamer lets go, never an async thread; when both are held the answer is "busy", and ffprobe
//! is asked instead.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_pbutils as pbutils;
use gstreamer_pbutils::prelude::*;
use tokio::sync::oneshot;

use super::Held;
use super::outline::Unsure;
use crate::engine::source::Source;

const THREADS: usize = 2;
const WAITING: usize = 8;
/// Longer than any file of the corpus by a factor of twenty.
const PATIENCE: gst::ClockTime = gst::ClockTime::from_mseconds(1500);

/// Elements that open what a file names, or reach for the network. None is ever chosen in this process.
const FORBIDDEN: [&str; 16] = [
    "hlsdemux",
    "hlsdemux2",
    "dashdemux",
    "dashdemux2",
    "mssdemux",
    "mssdemux2",
    "sdpdemux",
    "sdpsrc",
    "rtspsrc",
    "rtpbin",
    "souphttpsrc",
    "curlhttpsrc",
    "neonhttpsrc",
    "rtmpsrc",
    "rtmp2src",
    "giosrc",
];

/// One stream as the demuxer names it and the decoder sees it.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// The container's track number.
    pub key: u64,
    /// Media type of the caps, e.g. `video/x-h264`.
    pub caps: String,
    pub profile: Option<String>,
    pub level: Option<String>,
    pub width: u32,
    pub height: u32,
    pub sample_aspect: Option<(u32, u32)>,
    pub bit_depth: Option<u32>,
    pub chroma: Option<String>,
    pub interlaced: bool,
    pub colorimetry: Option<String>,
    pub channels: u32,
    pub sample_rate: u32,
    pub mpeg_layer: Option<i32>,
}

struct Question {
    source: Arc<Source>,
    held: Held,
    answer: oneshot::Sender<Result<Vec<Seen>, Unsure>>,
}

/// What the discoverer sees.
/// `held` is dropped when the file is closed here.
pub(super) async fn discover(source: &Arc<Source>, held: Held) -> Result<Vec<Seen>, Unsure> {
    let queue = queue().ok_or(Unsure("GStreamer cannot be started"))?;
    let (answer, outcome) = oneshot::channel();
    queue.try_send(Question { source: source.clone(), held, answer }).map_err(|refused| match refused {
        TrySendError::Full(_) => Unsure("the discoverer is busy"),
        TrySendError::Disconnected(_) => Unsure("the discoverer has ended"),
    })?;
    let within = std::time::Duration::from_millis(PATIENCE.mseconds() + 300);
    tokio::time::timeout(within, outcome)
        .await
        .map_err(|_| Unsure("the discoverer takes too long"))?
        .map_err(|_| Unsure("the discoverer has ended"))?
}

/// Starts GStreamer and the threads, which otherwise the first question waits for (0.2 s).
pub(super) fn warm() {
    queue();
}

fn queue() -> Option<&'static SyncSender<Question>> {
    static QUEUE: OnceLock<Option<SyncSender<Question>>> = OnceLock::new();
    QUEUE
        .get_or_init(|| {
            gst::init().ok()?;
            forbid();
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

/// Takes playlist readers and network sources out of GStreamer's choice, for the whole process: an HLS playlist named
/// .mp4 made it open the files and addresses inside (measured).
fn forbid() {
    let registry = gst::Registry::get();
    for name in FORBIDDEN {
        if let Some(feature) = registry.lookup_feature(name) {
            feature.set_rank(gst::Rank::NONE);
        }
    }
    for factory in gst::ElementFactory::factories_with_type(gst::ElementFactoryType::ANY, gst::Rank::MARGINAL) {
        let class = factory.metadata("klass").unwrap_or_default();
        if class.contains("Network") || class.contains("Adaptive") {
            factory.set_rank(gst::Rank::NONE);
        }
    }
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
    // The address names the open descriptor of this process, never a path.
    let info = discoverer
        .discover_uri(&format!("file://{}", source.proc_path()))
        .map_err(|_| Unsure("the discoverer gives up"))?;
    if info.result() != pbutils::DiscovererResult::Ok {
        return Err(Unsure("the discoverer misses something"));
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
    seen.caps = fields.name().to_string();
    let text = |name: &str| fields.get::<String>(name).ok();
    (seen.profile, seen.level, seen.colorimetry, seen.chroma) =
        (text("profile"), text("level"), text("colorimetry"), text("chroma-format"));
    seen.bit_depth = fields.get::<u32>("bit-depth-luma").ok();
    seen.interlaced = text("interlace-mode").is_some_and(|mode| mode != "progressive");
    seen.mpeg_layer = fields.get::<i32>("layer").ok();
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
