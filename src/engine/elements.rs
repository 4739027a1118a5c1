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

/// What opens a file and takes a container apart. Nothing that reads playlists, reaches for the network or for devices.
const CONTAINERS: [&str; 15] = [
    "filesrc",
    "qtdemux",
    "matroskademux",
    "oggdemux",
    "avidemux",
    "flvdemux",
    "tsdemux",
    "mpegpsdemux",
    "asfdemux",
    "mxfdemux",
    "dvdemux",
    "wavparse",
    "aiffparse",
    "id3demux",
    "apedemux",
];

/// Plugins whose parsers and decoders may be chosen, in the order of what they are for: parsing, software, hardware.
const CODECS: [&str; 32] = [
    "audioparsers",
    "videoparsersbad",
    "opusparse",
    "libav",
    "openh264",
    "de265",
    "vpx",
    "dav1d",
    "rsdav1d",
    "aom",
    "theora",
    "opus",
    "vorbis",
    "flac",
    "mpg123",
    "faad",
    "a52dec",
    "dtsdec",
    "wavpack",
    "musepack",
    "speex",
    "alaw",
    "mulaw",
    "adpcmdec",
    "jpeg",
    "png",
    "va",
    "vaapi",
    "nvcodec",
    "qsv",
    "v4l2codecs",
    "video4linux2",
];

/// Missing elements with the package that brings each; empty when all is well.
///
/// # Errors
/// When GStreamer itself does not start.
pub fn missing() -> Result<Vec<(&'static str, &'static str)>, String> {
    gstreamer::init().map_err(|cause| cause.to_string())?;
    Ok(NEEDED.into_iter().filter(|(element, _)| ElementFactory::find(element).is_none()).collect())
}

/// Leaves GStreamer no choice but among `CONTAINERS` and `CODECS`, for the whole process: an HLS playlist named .mp4
/// made it open the files and addresses inside (measured), and every reader more is one more that hostile files reach.
pub fn restrict() {
    for factory in chosen() {
        if !is_allowed(&factory) {
            factory.set_rank(gst::Rank::NONE);
        }
    }
}

/// Everything that is chosen by what a file holds or an address says.
fn chosen() -> Vec<ElementFactory> {
    let kinds = gst::ElementFactoryType::DECODABLE | gst::ElementFactoryType::SRC;
    ElementFactory::factories_with_type(kinds, gst::Rank::MARGINAL).into_iter().collect()
}

fn is_allowed(factory: &ElementFactory) -> bool {
    let class = factory.metadata("klass").unwrap_or_default();
    let codec = (class.contains("Decoder") || class.contains("Parser")) && !class.contains("Demux");
    let plugin = factory.plugin().map(|plugin| plugin.plugin_name());
    CONTAINERS.contains(&factory.name().as_str()) || codec && plugin.is_some_and(|name| CODECS.contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_else_is_ever_chosen() {
        gst::init().unwrap();
        restrict();
        let left: Vec<String> = chosen().iter().map(|factory| factory.name().to_string()).collect();
        for needed in ["filesrc", "qtdemux", "matroskademux", "tsdemux", "h264parse", "avdec_h264", "aacparse"] {
            assert!(left.iter().any(|name| name == needed), "{needed} is missing in {left:?}");
        }
        for foreign in ["hlsdemux", "dashdemux", "souphttpsrc", "giosrc", "rtpsrc", "avdemux_nsv", "gmedec", "rsvgdec"]
        {
            assert!(!left.iter().any(|name| name == foreign), "{foreign} may be chosen");
        }
    }
}
