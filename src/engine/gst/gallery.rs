//! All pipelines on one page, with graphs built on this machine.

use std::fmt::Write as _;

use gstreamer::prelude::*;

use super::graph::Graph;
use super::slots::{SLOTS, Slot};
use super::{aac, text};
use crate::engine::RunError;

/// The graph of the pipeline with this name, built with this video encoder; None if there is no such pipeline.
///
/// # Errors
/// `Internal` with the element this machine lacks.
pub fn graph(name: &str, slot: &Slot) -> Option<Result<Graph, RunError>> {
    let text = text::ALL.into_iter().find(|text| text.name == name)?;
    Some(text.parse(slot.launch(), aac::ENCODER).map(|pipeline| Graph::of(pipeline.upcast_ref())))
}

/// The encoder that every machine is expected to have: x264enc.
pub fn everyday() -> &'static Slot {
    SLOTS.iter().find(|slot| slot.element == "x264enc").unwrap_or(&SLOTS[0])
}

/// The text of `pipelines/README.md`.
///
/// # Errors
/// `Internal` with the element this machine lacks.
pub fn page() -> Result<String, RunError> {
    let mut out = String::from(
        "# Pipelines\n\n\
         The GStreamer pipelines of this server as launch texts. A text contains topology, names and constant properties;\n\
         paths, sizes and rates are set on the named elements afterwards. `{video_encoder}` and `{audio_encoder}` are slots,\n\
         filled from `encoders/` only. `hearthcast pipelines draw` writes this page, and a test compares it with the texts.\n\n\
         A run of encoded segments uses one `decode-picture-…`, one `decode-sound-…`, one `encode-sound`, and one\n\
         `segment` pipeline per segment, two at a time.\n",
    );
    for text in text::ALL {
        let _ = write!(out, "\n## {}\n\n{}\n\n```\n{}```\n", text.name, text.purpose, text.launch());
        let pipeline = text.parse(everyday().launch(), aac::ENCODER)?;
        let _ = write!(out, "\n```mermaid\n{}```\n", Graph::of(pipeline.upcast_ref()).mermaid());
    }
    out.push_str("\n## Encoders\n\nBest first, software last; each is tested with two frames before it is used.\n");
    for slot in &SLOTS {
        let kind = if slot.hardware { "hardware" } else { "software" };
        let _ = write!(out, "\n### {} ({kind})\n\n```\n{}```\n", slot.element, slot.launch());
    }
    Ok(out)
}
