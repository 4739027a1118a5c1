//! Opens a file and selects one of its streams.
//!
//! decodebin3 detects the contents of a file by itself. Stopped over a file with several streams, it may crash the
//! process, even if the other streams were never selected (GStreamer 1.22, seen twice). So for mp4 and Matroska the
//! launch text names the demuxer, and the selected stream is linked to a decodebin of its own, the others to nothing.

use gstreamer as gst;
use gstreamer::prelude::*;

use super::guard::Wake;
use super::live::Live;
use crate::domain::media::{Container, Media, StreamKind};
use crate::engine::RunError;
use crate::engine::source::Source;

/// Which element opens a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// decodebin3, for every other container: audio-only files.
    Itself,
    Matroska,
    Mp4,
}

/// The stream to decode: its position among the streams of its kind (video or audio), and their number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    picture: bool,
    place: usize,
    count: usize,
}

impl Wanted {
    /// None when the file has no such video or audio stream.
    pub(super) fn of(media: &Media, stream: u32) -> Option<Self> {
        let picture = matches!(media.stream(stream)?.kind, StreamKind::Video(_));
        let indices: Vec<u32> = match picture {
            true => media.video_streams().map(|(stream, _)| stream.index).collect(),
            false => media.audio_streams().map(|(stream, _)| stream.index).collect(),
        };
        let place = indices.iter().position(|&index| index == stream)?;
        Some(Self { picture, place, count: indices.len() })
    }
}

impl Way {
    pub(super) fn of(media: &Media) -> Self {
        match media.container {
            Container::Matroska | Container::Webm => Self::Matroska,
            Container::Mp4 => Self::Mp4,
            _ => Self::Itself,
        }
    }

    /// Sets up a pipeline to read this file and decode this stream.
    pub(super) fn open(self, live: &Live, source: &Source, wanted: Wanted, wake: &Wake) -> Result<(), RunError> {
        let decode = live.element("decode")?;
        if self == Self::Itself {
            // Not filesrc and decodebin3: decodebin3 decides how to read when it is linked, before the file is set.
            decode.set_property("uri", format!("file://{}", source.proc_path()));
            choose(&decode, wanted, wake);
        } else {
            live.element("file")?.set_property("location", source.proc_path());
            link(&live.element("demux")?, &decode, wanted, wake);
        }
        Ok(())
    }
}

/// Makes decodebin3 decode this stream only.
fn choose(decode: &gst::Element, wanted: Wanted, wake: &Wake) {
    let kind = if wanted.picture { gst::StreamType::VIDEO } else { gst::StreamType::AUDIO };
    let wake = wake.clone();
    decode.connect("select-stream", false, move |values| {
        let chosen = wake.callback("select-stream", 0, || {
            let collection = values.get(1).and_then(|value| value.get::<gst::StreamCollection>().ok());
            let stream = values.get(2).and_then(|value| value.get::<gst::Stream>().ok());
            let (Some(collection), Some(stream)) = (collection, stream) else { return 0 };
            let alike: Vec<_> = collection.iter().filter(|other| other.stream_type() == kind).collect();
            // If decodebin3 finds other streams than the probe, they cannot be matched: nothing is decoded.
            let same = alike.len() == wanted.count;
            let at = alike.iter().position(|other| other.stream_id() == stream.stream_id());
            i32::from(same && at == Some(wanted.place))
        });
        Some(chosen.to_value())
    });
}

/// Links this stream of a demuxer when all its pads exist, before data flows.
fn link(demux: &gst::Element, decode: &gst::Element, wanted: Wanted, wake: &Wake) {
    let kind = if wanted.picture { "video_" } else { "audio_" };
    let (decode, wake) = (decode.downgrade(), wake.clone());
    demux.connect_no_more_pads(move |demux| {
        wake.callback("no-more-pads", (), || {
            let alike: Vec<_> = demux.src_pads().into_iter().filter(|pad| pad.name().starts_with(kind)).collect();
            let into = decode.upgrade().and_then(|decode| decode.static_pad("sink"));
            // As above, if the demuxer finds other streams than the probe; it then reports an error for unlinked pads.
            if alike.len() == wanted.count
                && let (Some(pad), Some(into)) = (alike.get(wanted.place), into)
            {
                let _ = pad.link(&into);
            }
        });
    });
}
