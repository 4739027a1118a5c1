//! All pipelines on one page, and whether this machine can build them.

use std::fmt::Write as _;

use gstreamer::prelude::*;

use super::graph::Graph;
use super::slots::{SLOTS, Slot};
use super::{aac, text};
use crate::engine::RunError;

/// The graph of a pipeline by the name of its text, with one encoder in its slot; None when there is no such text.
///
/// # Errors
/// What this machine lacks for it.
pub fn graph(name: &str, slot: &Slot) -> Option<Result<Graph, RunError>> {
    let text = text::ALL.into_iter().find(|text| text.name == name)?;
    Some(text.parse(slot.launch(), aac::ENCODER).map(|pipeline| Graph::of(pipeline.upcast_ref())))
}

/// The encoder that every machine is expected to have.
pub fn everyday() -> &'static Slot {
    SLOTS.iter().find(|slot| slot.element == "x264enc").unwrap_or(&SLOTS[0])
}

/// The page `pipelines/README.md`.
///
/// # Errors
/// What this machine lacks.
pub fn page() -> Result<String, RunError> {
    let mut out = String::from(
        "# Pipelines\n\n\
         What GStreamer does in this server, as text. A text holds topology, names and constant properties; paths, sizes\n\
         and rates are set on the named elements afterwards. `{video_encoder}` and `{audio_encoder}` are slots, filled from\n\
         `encoders/` only. This page is written by `hearthcast pipelines draw`, and a test holds it to the texts.\n\n\
         A run of encoded segments is one `decode-picture-…`, one `decode-sound-…`, one `encode-sound`, and a\n\
         `segment` for each of its segments, two at a time.\n",
    );
    for text in text::ALL {
        let _ = write!(out, "\n## {}\n\n{}\n\n```\n{}```\n", text.name, text.purpose, text.launch());
        let pipeline = text.parse(everyday().launch(), aac::ENCODER)?;
        let _ = write!(out, "\n```mermaid\n{}```\n", Graph::of(pipeline.upcast_ref()).mermaid());
    }
    out.push_str("\n## Encoders\n\nRanked; each is tried with some pictures before it is used, software last.\n");
    for slot in &SLOTS {
        let kind = if slot.hardware { "hardware" } else { "software" };
        let _ = write!(out, "\n### {} ({kind})\n\n```\n{}```\n", slot.element, slot.launch());
    }
    Ok(out)
}
