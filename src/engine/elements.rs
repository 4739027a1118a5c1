//! The GStreamer elements that probing and playing rest on, and those that are never used.

use gstreamer as gst;
use gstreamer::ElementFactory;
use gstreamer::prelude::*;

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

/// Elements that open what a file names, or reach for the network. None is ever chosen in this process.
const FORBIDDEN: [&str; 16] = [
    "hlsdemux",
    "hlsdemux2",
    "dashdemux",
    "dashdemux2",
    "mssdemux",
    "mssdemux2",
    "sdpdemux",
    "sdpsrc",
    "rtspsrc",
    "rtpbin",
    "souphttpsrc",
    "curlhttpsrc",
    "neonhttpsrc",
    "rtmpsrc",
    "rtmp2src",
    "giosrc",
];

/// Missing elements with the package that brings each; empty when all is well.
///
/// # Errors
/// When GStreamer itself does not start.
pub fn missing() -> Result<Vec<(&'static str, &'static str)>, String> {
    gstreamer::init().map_err(|cause| cause.to_string())?;
    Ok(NEEDED.into_iter().filter(|(element, _)| ElementFactory::find(element).is_none()).collect())
}

/// Takes playlist readers and network sources out of GStreamer's choice, for the whole process: an HLS playlist named
/// .mp4 made it open the files and addresses inside (measured).
pub fn forbid() {
    let registry = gst::Registry::get();
    for name in FORBIDDEN {
        if let Some(feature) = registry.lookup_feature(name) {
            feature.set_rank(gst::Rank::NONE);
        }
    }
    for factory in gst::ElementFactory::factories_with_type(gst::ElementFactoryType::ANY, gst::Rank::MARGINAL) {
        let class = factory.metadata("klass").unwrap_or_default();
        if class.contains("Network") || class.contains("Adaptive") {
            factory.set_rank(gst::Rank::NONE);
        }
    }
}
