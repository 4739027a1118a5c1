//! Which GStreamer plugins this machine lacks of those that probing and playing rest on.

use gstreamer::ElementFactory;

/// One element per plugin package that matters, by Debian's package names.
const NEEDED: [(&str, &str); 9] = [
    ("typefind", "libgstreamer1.0-0"),
    ("decodebin", "gstreamer1.0-plugins-base"),
    ("oggdemux", "gstreamer1.0-plugins-base"),
    ("qtdemux", "gstreamer1.0-plugins-good"),
    ("matroskademux", "gstreamer1.0-plugins-good"),
    ("tsdemux", "gstreamer1.0-plugins-bad"),
    ("h264parse", "gstreamer1.0-plugins-bad"),
    ("x264enc", "gstreamer1.0-plugins-ugly"),
    ("avdec_h264", "gstreamer1.0-libav"),
];

/// Missing elements with the package that brings each; empty when all is well.
///
/// # Errors
/// When GStreamer itself does not start.
pub fn missing() -> Result<Vec<(&'static str, &'static str)>, String> {
    gstreamer::init().map_err(|cause| cause.to_string())?;
    Ok(NEEDED.into_iter().filter(|(element, _)| ElementFactory::find(element).is_none()).collect())
}
