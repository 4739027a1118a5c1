#![doc = include_str!("README.md")]

use std::sync::OnceLock;

mod aac;
mod audio_segment;
mod audio_timeline;
mod backend;
mod burned_text;
mod copied_audio;
mod decode;
mod decoder_trial;
mod descriptor_source;
pub mod discoverer;
mod downmix;
pub mod elements;
mod empty_stream;
mod encoder_elements;
mod encoder_trial;
mod examine;
mod frame_color;
mod frame_picker;
mod frame_skipping;
pub mod gallery;
pub mod graph;
mod held_stream;
mod image_decoder;
mod in_process_discoverer;
mod item_clock;
pub mod launch_text;
mod limited_range;
mod limiter;
mod opener;
mod overlay;
mod panic_guard;
mod pes_feed;
mod progress;
mod refusal;
pub mod registry;
mod run;
mod running_pipeline;
mod script_source;
mod segment_encoder;
mod source_refusal;
pub mod srt;
mod stall_timer;
mod still;
mod svg;
#[cfg(test)]
mod tests;
mod trial;
mod watermark;
pub mod worker;

pub use backend::{GstBackend, backend_version, check_report};
pub use decoder_trial::compare_decoder;
pub use encoder_elements::select_encoder;
pub use encoder_trial::run_trials;
pub use examine::examine;
pub use image_decoder::check_image;
pub use in_process_discoverer::{discover_in_process, start_discoverers};
pub use progress::{ProgressCounter, ReadGuard, progress};
pub use refusal::{check_job, refusal_reason};
pub use run::RunTask;
pub use script_source::{ScriptSource, text_to_burn};
pub use still::{StillTask, select_still_encoder};

/// Initialises GStreamer for this process: registers our own element, and restricts it to the elements needed. Blocks for
/// some 100 ms the first time; everything that uses GStreamer calls it first.
///
/// # Errors
/// Why GStreamer does not start, the same at every call.
pub fn initialize() -> Result<(), String> {
    static OUTCOME: OnceLock<Result<(), String>> = OnceLock::new();
    let outcome = OUTCOME.get_or_init(|| {
        gstreamer::init().map_err(|cause| cause.to_string())?;
        descriptor_source::register()?;
        elements::restrict();
        Ok(())
    });
    outcome.clone()
}

/// The version of the GStreamer library, e.g. `1.22.0`. Needs no initialisation.
pub fn gstreamer_version() -> String {
    let (major, minor, micro, _) = gstreamer::version();
    format!("{major}.{minor}.{micro}")
}
