//! `hearthcast pipelines`: lists, checks and draws the GStreamer pipelines.

use clap::Subcommand;

use super::Outcome;
use crate::engine::gst::{self, gallery, launch_text, run_trials};
use crate::engine::video_encoders::encoder_elements;
use crate::engine::worker::message::TrialScope;

/// List, check or draw the GStreamer pipelines.
#[derive(Subcommand)]
pub enum PipelinesCommand {
    /// List the pipelines and the supported video encoders.
    List,
    /// Build every pipeline with every encoder of this machine, and encode a test with each encoder.
    Check,
    /// Print a page of all pipelines, or the graph of one.
    Draw {
        /// Name of the pipeline [default: all].
        name: Option<String>,
        /// Print plain text instead of a Mermaid flowchart.
        #[arg(long, requires = "name")]
        text: bool,
        /// Print an SVG image instead of a Mermaid flowchart.
        #[arg(long, requires = "name", conflicts_with = "text")]
        svg: bool,
    },
}

impl PipelinesCommand {
    pub(super) fn run(self) -> Outcome {
        gst::initialize()?;
        match self {
            Self::List => list(),
            Self::Check => check(),
            Self::Draw { name: None, .. } => {
                print!("{}", gallery::render_page().map_err(|error| error.to_string())?);
                Ok(())
            }
            Self::Draw { name: Some(name), text, svg } => {
                let graph = gallery::pipeline_graph(&name, gallery::default_encoder());
                let graph = graph.ok_or_else(|| {
                    format!("there is no pipeline {name:?}: run hearthcast pipelines list for the names")
                })?;
                let graph = graph.map_err(|error| error.to_string())?;
                let output = match (text, svg) {
                    (true, _) => graph.to_text(),
                    (_, true) => graph.to_svg(),
                    _ => graph.to_mermaid(),
                };
                print!("{output}");
                Ok(())
            }
        }
    }
}

fn list() -> Outcome {
    for text in launch_text::ALL {
        println!("{:<16} {}", text.name, text.purpose);
    }
    println!();
    for (encoder, gstreamer) in encoder_elements() {
        let kind = if encoder.is_hardware { "hardware" } else { "software" };
        println!("{:<16} {kind} encoder", gstreamer.element);
    }
    Ok(())
}

fn check() -> Outcome {
    let build = |name, encoder| {
        let graph = gallery::pipeline_graph(name, encoder).expect("the name is in the list");
        graph.map(drop).map_err(|error| error.to_string())
    };
    let mut working_encoders = 0;
    for (encoder, trial) in run_trials(TrialScope::All) {
        let Some(gstreamer) = &encoder.gstreamer else { continue };
        let element = gstreamer.element;
        match trial {
            Ok(()) => {
                working_encoders += 1;
                println!("ok      {element}");
                for text in launch_text::ALL.iter().filter(|text| text.takes_encoder_of(encoder.codec)) {
                    build(text.name, gstreamer)?;
                    println!("ok      {} with {element}", text.name);
                }
            }
            Err(reason) => println!("without {element}: {reason}"),
        }
    }
    for text in launch_text::ALL.iter().filter(|text| !text.launch.contains("{video_encoder}")) {
        build(text.name, gallery::default_encoder())?;
        println!("ok      {}", text.name);
    }
    if working_encoders == 0 { Err("no video encoder works".into()) } else { Ok(()) }
}
