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

/// The version in the line `ffmpeg version 5.1.9-0+deb12u1 Copyright …`. Libraries may write lines before it.
pub(super) fn parse_ffmpeg_version(text: &str) -> Option<String> {
    let version = text.lines().find_map(|line| line.strip_prefix("ffmpeg version "))?;
    version.split_whitespace().next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_below_the_warning_of_a_library_that_may_not_lock_memory() {
        let banner =
            "Warning: using insecure memory!\nffmpeg version 5.1.9-0+deb12u1 Copyright (c) 2000\n  built with gcc\n";
        assert_eq!(parse_ffmpeg_version(banner).as_deref(), Some("5.1.9-0+deb12u1"));
        assert_eq!(parse_ffmpeg_version("Warning: using insecure memory!\n"), None);
    }
}
