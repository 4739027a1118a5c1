//! Burns text into the frames of a segment with assrender.
//!
//! assrender expects text as a stream beside the video: it draws only while a text buffer is active, and frames that arrive
//! before the text's caps pass through unchanged. So the run's thread sends everything before the first frame. The caps
//! carry the segment's part of the script with whole lines, which libass reads like a file (with every line's own times,
//! order and fonts). One empty text buffer lasts for the whole segment.

use gstreamer as gst;
use gstreamer::prelude::*;

use super::running_pipeline::RunningPipeline;
use crate::domain::subtitles::AssScript;
use crate::engine::{Result, RunError};

/// Lines this close before or after a segment are included too, milliseconds, because libass parses odd times differently.
const MARGIN_MS: i64 = 1000;

/// Whether the script shows anything in this range of the item, milliseconds.
pub(super) fn has_text(script: &AssScript, start_ms: i64, end_ms: i64) -> bool {
    script.has_dialogue(start_ms - MARGIN_MS, end_ms + MARGIN_MS)
}

/// Sends the element `subtitles` the script of this range of the item, milliseconds. The pipeline must have been started.
pub(super) fn send_script(pipeline: &RunningPipeline, script: &AssScript, start_ms: i64, end_ms: i64) -> Result<()> {
    let to_run_error = |step: &str| RunError::Encoder(format!("assrender refuses the subtitle: {step}"));
    let pad = pipeline.element("subtitles")?.static_pad("text_sink").ok_or_else(|| to_run_error("no pad"))?;
    let text = script.excerpt(start_ms - MARGIN_MS, end_ms + MARGIN_MS);
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
            return Err(to_run_error(what));
        }
    }
    // Read order, layer, style, name, margins, effect, and an empty text.
    let mut empty_text = gst::Buffer::from_slice(*b"0,0,Default,,0,0,0,,");
    let clock_time = |ms: i64| gst::ClockTime::from_mseconds(u64::try_from(ms).unwrap_or(0));
    if let Some(buffer) = empty_text.get_mut() {
        buffer.set_pts(clock_time(start_ms - MARGIN_MS));
        buffer.set_duration(clock_time(end_ms + MARGIN_MS) - clock_time(start_ms - MARGIN_MS));
    }
    pad.chain(empty_text).map_err(|flow| to_run_error(&flow.to_string()))?;
    pad.send_event(gst::event::Eos::new());
    Ok(())
}
