//! All pipelines on one page, with graphs built on this machine.

use std::fmt::Write as _;

use gstreamer::prelude::*;

use super::graph::PipelineGraph;
use super::{aac, launch_text};
use crate::engine::Result;
use crate::engine::video_encoders::{EncoderElement, encoder_elements};

/// The graph of the pipeline with this name, built with this video encoder; None if there is no such pipeline.
///
/// # Errors
/// `Internal` with the element this machine lacks.
pub fn pipeline_graph(name: &str, encoder: &EncoderElement) -> Option<Result<PipelineGraph>> {
    let text = launch_text::ALL.iter().find(|text| text.name == name)?;
    Some(text.parse(encoder.launch, aac::ENCODER_LAUNCH).map(|pipeline| PipelineGraph::from_bin(pipeline.upcast_ref())))
}

/// The encoder that every machine is expected to have: x264enc.
///
/// # Panics
/// Never: the table has it.
pub fn default_encoder() -> &'static EncoderElement {
    let found = encoder_elements().map(|(_, found)| found).find(|found| found.element == "x264enc");
    found.expect("the table has x264enc")
}

/// The text of `pipelines/README.md`.
///
/// # Errors
/// `Internal` with the element this machine lacks.
pub fn render_page() -> Result<String> {
    let mut page = String::from(
        "# Pipelines\n\n\
         The GStreamer pipelines of this server as launch texts. A text contains topology, names and constant properties;\n\
         files, sizes and rates are set on the named elements afterwards. `{video_encoder}` and `{audio_encoder}` are\n\
         placeholders, filled from `encoders/` only. `hearthcast pipelines draw` writes this page, and a test checks it.\n\n\
         A run of encoded segments uses one `decode-video-…`, one `decode-audio-…`, one `encode-audio`, and one\n\
         `segment` pipeline per segment, two at a time.\n",
    );
    for text in launch_text::ALL {
        let _ = write!(page, "\n## {}\n\n{}\n\n```\n{}```\n", text.name, text.purpose, text.launch);
        let pipeline = text.parse(default_encoder().launch, aac::ENCODER_LAUNCH)?;
        let _ = write!(page, "\n```mermaid\n{}```\n", PipelineGraph::from_bin(pipeline.upcast_ref()).to_mermaid());
    }
    page.push_str("\n## Encoders\n\nBest first, software last; each is tested before it is used.\n");
    for (encoder, EncoderElement { element, launch, .. }) in encoder_elements() {
        let kind = if encoder.is_hardware { "hardware" } else { "software" };
        let _ = write!(page, "\n### {element} ({kind})\n\n```\n{launch}```\n");
    }
    Ok(page)
}
