//! Reports a demuxer that ends before its first buffer.
//!
//! decodebin3 of GStreamer 1.22 waits for the first buffer of a demuxer and ignores that the stream has ended. wavparse
//! ends that way when other bytes follow the `data` chunk, because it reads these as chunks.

use gstreamer as gst;
use gstreamer::prelude::*;

use super::panic_guard::ThreadWaker;
use super::running_pipeline::RunningPipeline;

/// Has each demuxer that is added to the pipeline post an error if its only stream ends before the first buffer. Demuxers of
/// several streams are left alone, since one of these may be empty.
pub(super) fn report_empty_streams(pipeline: &RunningPipeline, wake: &ThreadWaker) {
    let wake = wake.clone();
    pipeline.on_element_added(move |element| {
        let is_demuxer = element.factory().is_some_and(|factory| factory.has_type(gst::ElementFactoryType::DEMUXER));
        if is_demuxer && let Some(pad) = element.static_pad("src") {
            report_empty_stream(&pad, &wake);
        }
    });
}

fn report_empty_stream(pad: &gst::Pad, wake: &ThreadWaker) {
    let wake = wake.clone();
    let types = gst::PadProbeType::BUFFER | gst::PadProbeType::EVENT_DOWNSTREAM;
    pad.add_probe(types, move |pad, info| {
        wake.run_callback("empty-stream", gst::PadProbeReturn::Remove, || match &info.data {
            Some(gst::PadProbeData::Buffer(_)) => gst::PadProbeReturn::Remove,
            Some(gst::PadProbeData::Event(event)) if event.type_() == gst::EventType::Eos => {
                if let Some(demuxer) = pad.parent_element() {
                    demuxer.post_error_message(gst::error_msg!(gst::StreamError::Demux, ["the stream has no data"]));
                }
                gst::PadProbeReturn::Remove
            }
            _ => gst::PadProbeReturn::Ok,
        })
    });
}
