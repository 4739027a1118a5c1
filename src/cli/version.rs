//! `hearthcast --version`.

use super::Outcome;
use crate::engine::versions;

pub fn print() -> Outcome {
    println!("hearthcast {}", env!("CARGO_PKG_VERSION"));
    println!("GStreamer {}", versions::gstreamer_version());
    println!("ffmpeg {}", versions::ffmpeg_version().unwrap_or_else(|| "not found".to_owned()));
    Ok(())
}
