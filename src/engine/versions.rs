//! Which GStreamer and which ffmpeg this machine has.

use std::path::Path;
use std::process::Stdio;

use super::ffmpeg::spawn::confined;

/// The GStreamer library this program runs with, e.g. `1.22.0`.
pub fn gstreamer() -> String {
    let (major, minor, micro, _) = gstreamer::version();
    format!("{major}.{minor}.{micro}")
}

/// The first `ffmpeg` in `PATH`, e.g. `5.1.9-0+deb12u1`; None when there is none that runs.
pub fn ffmpeg() -> Option<String> {
    let output = confined(Path::new("ffmpeg")).arg("-version").stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next()?.strip_prefix("ffmpeg version ")?.split(' ').next().map(str::to_owned)
}
