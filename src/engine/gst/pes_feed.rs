//! Feeds one stream to its decoder, from a thread of its own: PES payloads of a transport stream, pictures or payloads of a program
//! stream, or MPEG-4 frames of an AVI file.
//!
//! The thread waits for the decoder and for the disk, and ends with the pipeline, whose input then refuses data.

use std::str::FromStr;
use std::sync::Arc;

use gstreamer as gst;
use gstreamer_app as app;

use super::panic_guard::ThreadWaker;
use super::progress::progress;
use super::running_pipeline::RunningPipeline;
use crate::domain::media::{Container, Media};
use crate::domain::time::Ticks;
use crate::engine::avi_video::AviVideo;
use crate::engine::clock::{ElementaryStream, PesPayload};
use crate::engine::program_stream::ProgramStream;
use crate::engine::source::SourceFile;
use crate::engine::{Result, RunError};

/// The item's 0 in the pipeline, seconds. Not 0, because audio may begin before the item, and timestamps are not negative.
pub(super) const ITEM_ZERO_SECONDS: i64 = 3600;

/// Caps of the payloads of a codec, by its name in ffmpeg; None if it is not fed. A parser finds its frames.
pub(super) fn payload_caps(codec: &str) -> Option<&'static str> {
    Some(match codec {
        "mpeg1video" => "video/mpeg,mpegversion=1,systemstream=false,parsed=false",
        "mpeg2video" => "video/mpeg,mpegversion=2,systemstream=false,parsed=false",
        "h264" => "video/x-h264,stream-format=byte-stream",
        "hevc" => "video/x-h265,stream-format=byte-stream",
        "mp1" | "mp2" | "mp3" => "audio/mpeg,mpegversion=1",
        "aac" => "audio/mpeg,mpegversion=4,stream-format=adts",
        "aac_latm" => "audio/mpeg,mpegversion=4,stream-format=loas",
        "ac3" => "audio/x-ac3",
        "eac3" => "audio/x-eac3",
        "dts" => "audio/x-dts",
        _ => return None,
    })
}

/// Caps of MPEG-4 video.
const MPEG4_CAPS: &str = "video/mpeg,mpegversion=4,systemstream=false,parsed=false";

/// The stream to feed, and where it starts.
#[derive(Debug)]
pub(super) struct PesFeed {
    pub source: Arc<SourceFile>,
    pub media: Arc<Media>,
    /// Index of the stream in the file.
    pub stream: u32,
    /// Start time, seconds of the item.
    pub start_seconds: f64,
}

impl PesFeed {
    /// Starts feeding a pipeline, which must have been started: before that its input refuses data.
    pub(super) fn start(self, pipeline: &RunningPipeline, wake: &ThreadWaker) -> Result<()> {
        let codec = self.media.stream(self.stream).map_or("unknown", |stream| &stream.codec);
        let caps = match self.media.container {
            Container::Avi => Some(MPEG4_CAPS),
            _ => payload_caps(codec),
        };
        let caps = caps.and_then(|text| gst::Caps::from_str(text).ok());
        let caps = caps.ok_or_else(|| RunError::Internal(format!("{codec} is not fed to a decoder")))?;
        let input: app::AppSrc = pipeline.element_of_type("pes")?;
        input.set_caps(Some(&caps));
        let wake = wake.clone();
        let thread = std::thread::Builder::new().name("pes-feed".into());
        let spawned = thread.spawn(move || {
            wake.run_callback("feed", (), || {
                if let Err(cause) = self.push_payloads(&input) {
                    gst::element_error!(input, gst::ResourceError::Read, ("{cause}"));
                }
            });
        });
        spawned.map_err(|cause| RunError::Internal(format!("no thread to read a stream: {cause}")))?;
        Ok(())
    }

    /// Pushes payloads until the stream or the pipeline ends.
    fn push_payloads(&self, input: &app::AppSrc) -> std::io::Result<()> {
        let start = Ticks::from_seconds(self.start_seconds);
        let mut stream = {
            let _reading = progress().reading();
            PayloadReader::open(&self.source, &self.media, self.stream, start)?
        };
        while let Some(payload) = Self::read_payload(&mut stream)? {
            let mut buffer = gst::Buffer::from_mut_slice(payload.bytes);
            if let Some(buffer) = buffer.get_mut() {
                buffer.set_pts(payload.pts.and_then(pipeline_time));
                buffer.set_dts(payload.dts.and_then(pipeline_time));
            }
            if input.push_buffer(buffer).is_err() {
                return Ok(());
            }
        }
        // An error means that the pipeline has ended.
        let _ = input.end_of_stream();
        Ok(())
    }

    fn read_payload(stream: &mut PayloadReader) -> std::io::Result<Option<PesPayload>> {
        let _reading = progress().reading();
        let payload = stream.next_payload()?;
        progress().add(payload.as_ref().map_or(0, |payload| payload.bytes.len() as u64));
        Ok(payload)
    }
}

/// Reads the payloads of a stream by its container.
#[derive(Debug)]
enum PayloadReader {
    Transport(Box<ElementaryStream>),
    Program(Box<ProgramStream>),
    Avi(Box<AviVideo>),
}

impl PayloadReader {
    fn open(source: &Arc<SourceFile>, media: &Media, index: u32, start: Ticks) -> std::io::Result<Self> {
        Ok(match media.container {
            Container::MpegPs => Self::Program(Box::new(ProgramStream::open(source, media, index, start)?)),
            Container::Avi => Self::Avi(Box::new(AviVideo::open(source, media, index, start)?)),
            _ => Self::Transport(Box::new(ElementaryStream::open(source, media, index, start)?)),
        })
    }

    fn next_payload(&mut self) -> std::io::Result<Option<PesPayload>> {
        match self {
            Self::Transport(stream) => stream.next_payload(),
            Self::Program(stream) => stream.next_payload(),
            Self::Avi(video) => video.next_payload(),
        }
    }
}

/// A time of the item in the pipeline; None if it is too early.
fn pipeline_time(time: Ticks) -> Option<gst::ClockTime> {
    let nanoseconds = (time + Ticks::from_ms(ITEM_ZERO_SECONDS * 1000)).to_units(1_000_000_000);
    u64::try_from(nanoseconds).ok().map(gst::ClockTime::from_nseconds)
}
