//! GStreamer and ffmpeg versions of this machine.

use std::path::Path;
use std::process::Stdio;

use super::process::confined_command;

/// The version of the GStreamer library this process uses, e.g. `1.22.0`.
pub fn gstreamer_version() -> String {
    super::gst::gstreamer_version()
}

/// The version of this machine's workers: this program's and GStreamer's. Part of what a quarantine applies to.
pub fn worker_version() -> String {
    format!("{}, GStreamer {}", env!("CARGO_PKG_VERSION"), gstreamer_version())
}

/// The version of the first `ffmpeg` in `PATH`, e.g. `5.1.9-0+deb12u1`; None if it is missing or does not run.
pub fn ffmpeg_version() -> Option<String> {
    let output = confined_command(Path::new("ffmpeg")).arg("-version").stderr(Stdio::null()).output().ok()?;
    parse_ffmpeg_version(&String::from_utf8_lossy(&output.stdout))
}

/// The version in `ffmpeg version 5.1.9-0+deb12u1 Copyright …`.
pub(super) fn parse_ffmpeg_version(text: &str) -> Option<String> {
    text.lines().next()?.strip_prefix("ffmpeg version ")?.split_whitespace().next().map(str::to_owned)
}
