//! Text drawn into the pictures of a segment by assrender.
//!
//! The element is made for text that comes beside the picture, and draws only while such a text is at hand; and pictures
//! that come before the form of the text pass it undrawn. So it is given everything before the first picture, by the
//! run's own thread: the part of the script that is shown in the segment as the form, whole lines included, which libass
//! reads as it reads a file (with every line's own times, order and fonts), and one empty text that lasts for all of it.

use std::sync::LazyLock;

use gstreamer as gst;
use gstreamer::prelude::*;

use super::live::Live;
use crate::domain::subtitles::Script;
use crate::engine::RunError;

/// Milliseconds beyond a segment at which lines are given too, for libass reads odd times in its own way.
const MARGIN_MS: i64 = 1000;

/// Whether this GStreamer can draw text.
pub(super) fn here() -> bool {
    static HERE: LazyLock<bool> =
        LazyLock::new(|| gst::init().is_ok() && gst::ElementFactory::find("assrender").is_some());
    *HERE
}

/// Whether there is anything to draw in this part of the item, milliseconds.
pub(super) fn speaks(script: &Script, start_ms: i64, end_ms: i64) -> bool {
    script.speaks(start_ms - MARGIN_MS, end_ms + MARGIN_MS)
}

/// Gives the element `draw` what is shown in this part of the item. The pipeline must have been started.
pub(super) fn give(live: &Live, script: &Script, start_ms: i64, end_ms: i64) -> Result<(), RunError> {
    let refused = |what: &str| RunError::Encoder(format!("the subtitle is not taken: {what}"));
    let pad = live.element("draw")?.static_pad("text_sink").ok_or_else(|| refused("no pad"))?;
    let text = script.during(start_ms - MARGIN_MS, end_ms + MARGIN_MS);
    let caps =
        gst::Caps::builder("application/x-ass").field("codec_data", gst::Buffer::from_slice(text.into_bytes())).build();
    let segment = gst::FormattedSegment::<gst::ClockTime>::new();
    let events = [
        ("start", gst::event::StreamStart::new("script")),
        ("form", gst::event::Caps::new(&caps)),
        ("clock", gst::event::Segment::new(&segment)),
    ];
    for (what, event) in events {
        if !pad.send_event(event) {
            return Err(refused(what));
        }
    }
    // Read order, layer, style, name, margins, effect, and no text.
    let mut nothing = gst::Buffer::from_slice(*b"0,0,Default,,0,0,0,,");
    let time = |ms: i64| gst::ClockTime::from_mseconds(u64::try_from(ms).unwrap_or(0));
    if let Some(buffer) = nothing.get_mut() {
        buffer.set_pts(time(start_ms - MARGIN_MS));
        buffer.set_duration(time(end_ms + MARGIN_MS) - time(start_ms - MARGIN_MS));
    }
    pad.chain(nothing).map_err(|flow| refused(&flow.to_string()))?;
    pad.send_event(gst::event::Eos::new());
    Ok(())
}
