//! Opens a file and selects one of its streams.
//!
//! decodebin3 detects the contents of a file by itself. Stopped over a file with several streams, it may crash the
//! process, even if the other streams were never selected (GStreamer 1.22, seen twice). So for mp4, Matroska and AVI
//! the launch text names the demuxer, and the selected stream is linked to a decodebin of its own, the others to nothing.

use gstreamer as gst;
use gstreamer::prelude::*;

use super::descriptor_source;
use super::empty_stream::report_empty_streams;
use super::held_stream::HeldStream;
use super::panic_guard::ThreadWaker;
use super::running_pipeline::RunningPipeline;
use super::source_refusal::is_reordered_mpeg4;
use crate::domain::media::{Container, Media, StreamKind};
use crate::engine::container::avi;
use crate::engine::source::SourceFile;
use crate::engine::{Result, RunError};

/// Which element opens a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opener {
    /// decodebin3, for every other container: audio-only files.
    Decodebin3,
    Avi,
    Matroska,
    Mp4,
    /// No demuxer: this program feeds one stream of a transport or program stream, or the reordered video of an AVI file.
    PesFeed,
}

/// The stream to decode: its position among the streams of its kind (video or audio), and their number.
#[derive(Clone, Copy, Debug)]
pub(super) struct SelectedStream {
    is_video: bool,
    position: usize,
    count: usize,
}

impl SelectedStream {
    /// None when the file has no such video or audio stream.
    pub(super) fn find(media: &Media, stream: u32) -> Option<Self> {
        let is_video = matches!(media.stream(stream)?.kind, StreamKind::Video(_));
        let indices: Vec<u32> = match is_video {
            true => media.video_streams().map(|(stream, _)| stream.index).collect(),
            false => media.audio_streams().map(|(stream, _)| stream.index).collect(),
        };
        let position = indices.iter().position(|&index| index == stream)?;
        Some(Self { is_video, position, count: indices.len() })
    }
}

impl Opener {
    /// The opener of stream `index`.
    pub(super) fn for_stream(media: &Media, index: u32) -> Self {
        match media.container {
            Container::Avi if media.stream(index).is_some_and(is_reordered_mpeg4) => Self::PesFeed,
            Container::Avi => Self::Avi,
            Container::Matroska | Container::Webm => Self::Matroska,
            Container::MpegTs | Container::MpegPs => Self::PesFeed,
            Container::Mp4 => Self::Mp4,
            _ => Self::Decodebin3,
        }
    }

    /// Sets up a pipeline to read this file and decode this stream, `held_stream` if it is to be held at its demuxer. The file must stay
    /// open until the pipeline has started.
    pub(super) fn configure(
        self,
        pipeline: &RunningPipeline,
        source: &SourceFile,
        selected: SelectedStream,
        held_stream: Option<&HeldStream>,
        wake: &ThreadWaker,
    ) -> Result<()> {
        match self {
            // The feed selects the stream.
            Self::PesFeed => {}
            Self::Decodebin3 => {
                // Not descriptorsrc and decodebin3: decodebin3 decides how to read when it is linked, before the file is set.
                let decode = pipeline.element("decode")?;
                decode.set_property("uri", descriptor_source::uri(source));
                select_stream(&decode, selected, wake);
                report_empty_streams(pipeline, wake);
            }
            Self::Avi if !avi::has_index(source) => {
                // avidemux then takes every frame for a keyframe, and a seek shows broken frames (measured).
                return Err(RunError::SourceRead("the AVI file has no index".into()));
            }
            Self::Avi | Self::Matroska | Self::Mp4 => {
                descriptor_source::set_source(&pipeline.element("file")?, source);
                let (demux, decode) = (pipeline.element("demux")?, pipeline.element("decode")?);
                link_stream(&demux, &decode, selected, held_stream.cloned(), wake);
            }
        }
        Ok(())
    }
}

/// Makes decodebin3 decode this stream only.
fn select_stream(decode: &gst::Element, selected: SelectedStream, wake: &ThreadWaker) {
    let kind = if selected.is_video { gst::StreamType::VIDEO } else { gst::StreamType::AUDIO };
    let wake = wake.clone();
    decode.connect("select-stream", false, move |values| {
        let is_selected = wake.run_callback("select-stream", 0, || {
            let collection = values.get(1).and_then(|value| value.get::<gst::StreamCollection>().ok());
            let stream = values.get(2).and_then(|value| value.get::<gst::Stream>().ok());
            let (Some(collection), Some(stream)) = (collection, stream) else { return 0 };
            let same_kind: Vec<_> = collection.iter().filter(|other| other.stream_type() == kind).collect();
            // If decodebin3 finds other streams than the probe, they cannot be matched: nothing is decoded.
            let is_same_count = same_kind.len() == selected.count;
            let position = same_kind.iter().position(|other| other.stream_id() == stream.stream_id());
            i32::from(is_same_count && position == Some(selected.position))
        });
        Some(is_selected.to_value())
    });
}

/// Links this stream of a demuxer when all its pads exist, before data flows.
fn link_stream(
    demux: &gst::Element,
    decode: &gst::Element,
    selected: SelectedStream,
    held_stream: Option<HeldStream>,
    wake: &ThreadWaker,
) {
    let kind = if selected.is_video { "video_" } else { "audio_" };
    let (decode, wake) = (decode.downgrade(), wake.clone());
    demux.connect_no_more_pads(move |demux| {
        wake.run_callback("no-more-pads", (), || {
            let same_kind: Vec<_> = demux.src_pads().into_iter().filter(|pad| pad.name().starts_with(kind)).collect();
            let sink_pad = decode.upgrade().and_then(|decode| decode.static_pad("sink"));
            // As above, if the demuxer finds other streams than the probe; it then reports an error for unlinked pads.
            if same_kind.len() == selected.count
                && let (Some(pad), Some(sink_pad)) = (same_kind.get(selected.position), sink_pad)
            {
                if let Some(held_stream) = &held_stream {
                    held_stream.hold(pad, &wake);
                }
                let _ = pad.link(&sink_pad);
            }
        });
    });
}
