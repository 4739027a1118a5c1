//! `hearthcast pipelines`: the texts of GStreamer pipelines, for people.

use clap::Subcommand;

use super::Outcome;
use crate::engine::gst::{gallery, text, trials};
use crate::engine::{elements, gst};

/// GStreamer pipelines.
#[derive(Subcommand)]
pub enum Pipelines {
    /// List them, and the encoders that can fill a slot.
    List,
    /// Build each with every encoder of this machine, and try the encoders.
    Check,
    /// Print the page of all pipelines, or the graph of one.
    Draw {
        /// The pipeline; all of them when absent.
        name: Option<String>,
        /// Print lines of text instead of a Mermaid flow chart.
        #[arg(long, requires = "name")]
        text: bool,
        /// Print a picture (SVG) instead.
        #[arg(long, requires = "name", conflicts_with = "text")]
        svg: bool,
    },
}

impl Pipelines {
    pub(super) fn run(self) -> Outcome {
        // Starts GStreamer.
        elements::missing()?;
        match self {
            Self::List => list(),
            Self::Check => check(),
            Self::Draw { name: None, .. } => {
                print!("{}", gallery::page().map_err(|error| error.to_string())?);
                Ok(())
            }
            Self::Draw { name: Some(name), text, svg } => {
                let graph = gallery::graph(&name, gallery::everyday());
                let graph =
                    graph.ok_or_else(|| format!("there is no pipeline {name}: see hearthcast pipelines list"))?;
                let graph = graph.map_err(|error| error.to_string())?;
                let drawn = match (text, svg) {
                    (true, _) => graph.text(),
                    (_, true) => graph.svg(),
                    _ => graph.mermaid(),
                };
                print!("{drawn}");
                Ok(())
            }
        }
    }
}

fn list() -> Outcome {
    for text in text::ALL {
        println!("{:<16} {}", text.name, text.purpose);
    }
    println!();
    for slot in &gst::SLOTS {
        println!("{:<16} {}", slot.element, if slot.hardware { "hardware encoder" } else { "software encoder" });
    }
    Ok(())
}

fn check() -> Outcome {
    let mut works = 0;
    for (slot, trial) in trials() {
        match trial {
            Ok(()) => {
                works += 1;
                println!("ok      {}", slot.element);
                for text in text::ALL.into_iter().filter(|text| text.launch().contains("{video_encoder}")) {
                    gallery::graph(text.name, slot).expect("a name of the list").map_err(|error| error.to_string())?;
                    println!("ok      {} with {}", text.name, slot.element);
                }
            }
            Err(why) => println!("without {}: {why}", slot.element),
        }
    }
    for text in text::ALL.into_iter().filter(|text| !text.launch().contains("{video_encoder}")) {
        gallery::graph(text.name, gallery::everyday())
            .expect("a name of the list")
            .map_err(|error| error.to_string())?;
        println!("ok      {}", text.name);
    }
    if works == 0 { Err("no video encoder works".into()) } else { Ok(()) }
}
