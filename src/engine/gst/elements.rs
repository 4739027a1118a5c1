//! The GStreamer elements that probing and playback need, and the only ones GStreamer may choose.

use gstreamer as gst;
use gstreamer::ElementFactory;
use gstreamer::prelude::*;

use crate::engine::{Result, RunError};

/// The required elements, with Debian's name of their package.
const REQUIRED: [(&str, &str); 15] = [
    ("typefind", "libgstreamer1.0-0"),
    ("decodebin", "gstreamer1.0-plugins-base"),
    ("uridecodebin3", "gstreamer1.0-plugins-base"),
    ("oggdemux", "gstreamer1.0-plugins-base"),
    ("videoconvertscale", "gstreamer1.0-plugins-base"),
    ("qtdemux", "gstreamer1.0-plugins-good"),
    ("matroskademux", "gstreamer1.0-plugins-good"),
    ("deinterlace", "gstreamer1.0-plugins-good"),
    ("aacparse", "gstreamer1.0-plugins-good"),
    ("tsdemux", "gstreamer1.0-plugins-bad"),
    ("h264parse", "gstreamer1.0-plugins-bad"),
    ("hlssink2", "gstreamer1.0-plugins-bad"),
    ("x264enc", "gstreamer1.0-plugins-ugly"),
    ("avdec_h264", "gstreamer1.0-libav"),
    ("avenc_aac", "gstreamer1.0-libav"),
];

/// Elements that read files and demux containers. None opens a path, the network or a device, or reads playlists.
const CONTAINER_ELEMENTS: &str = "descriptorsrc qtdemux matroskademux oggdemux avidemux flvdemux tsdemux mpegpsdemux asfdemux \
    mxfdemux dvdemux wavparse aiffparse id3demux apedemux";

/// Plugins whose parsers and decoders may be chosen: parsers and software decoders. Those of hardware are chosen for a run only
/// ([`prefer_decoder`]), after a trial.
const CODEC_PLUGINS: &str = "audioparsers videoparsersbad opusparse libav openh264 de265 vpx dav1d rsdav1d aom theora opus \
    vorbis flac mpg123 faad a52dec dtsdec wavpack musepack speex alaw mulaw adpcmdec jpegformat png";

/// Decoders that are chosen before others of their format. Against ffmpeg, dtsdec of GStreamer 1.22 mixes five channels to four
/// (measured), and a52dec applies no dynamic range compression.
const PREFERRED_DECODERS: [&str; 2] = ["avdec_ac3", "avdec_dca"];

/// Missing elements, each with the package that provides it.
///
/// # Errors
/// When GStreamer itself does not start.
pub fn missing_elements() -> Result<Vec<(&'static str, &'static str)>, String> {
    super::initialize()?;
    Ok(REQUIRED.into_iter().filter(|(element, _)| ElementFactory::find(element).is_none()).collect())
}

/// Restricts GStreamer to `CONTAINER_ELEMENTS` and `CODEC_PLUGINS` for the whole process, and prefers `PREFERRED_DECODERS`.
/// An HLS playlist named .mp4 made it open the files and addresses in it (measured), and hostile files can reach every
/// reader that is enabled.
pub(super) fn restrict() {
    for factory in selectable_factories() {
        if !is_allowed(&factory) {
            factory.set_rank(gst::Rank::NONE);
        }
    }
    for decoder in PREFERRED_DECODERS.into_iter().filter_map(ElementFactory::find) {
        decoder.set_rank(gst::Rank::PRIMARY + 1);
    }
    // jpegdec shifts the colours of 4:4:4 and 4:2:2 (by up to 12 code values, GStreamer 1.22) and is not in the list;
    // avdec_mjpeg takes frames from this parser only, which has no rank in 1.22.
    if let Some(parser) = ElementFactory::find("jpegparse") {
        parser.set_rank(gst::Rank::PRIMARY);
    }
}

/// Makes GStreamer choose this decoder of hardware before the others of its codec, in the whole process. What it does not decode,
/// software does.
///
/// # Errors
/// When there is no such element.
pub(super) fn prefer_decoder(element: &str) -> Result<()> {
    let factory = ElementFactory::find(element);
    let factory = factory.ok_or_else(|| RunError::Decode(format!("{element} is not part of this GStreamer")))?;
    factory.set_rank(gst::Rank::PRIMARY + 100);
    Ok(())
}

/// Every element GStreamer may choose by a file's contents or an address.
fn selectable_factories() -> Vec<ElementFactory> {
    let kinds = gst::ElementFactoryType::DECODABLE | gst::ElementFactoryType::SRC;
    ElementFactory::factories_with_type(kinds, gst::Rank::MARGINAL).into_iter().collect()
}

fn is_allowed(factory: &ElementFactory) -> bool {
    let class = factory.metadata("klass").unwrap_or_default();
    let is_codec = (class.contains("Decoder") || class.contains("Parser")) && !class.contains("Demux");
    let plugin = factory.plugin().map(|plugin| plugin.plugin_name());
    let is_in = |list: &str, name: &str| list.split(' ').any(|listed| listed == name);
    is_in(CONTAINER_ELEMENTS, factory.name().as_str())
        || is_codec && plugin.is_some_and(|name| is_in(CODEC_PLUGINS, name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_allowed_elements_are_selectable() {
        crate::engine::gst::initialize().unwrap();
        let remaining: Vec<String> = selectable_factories().iter().map(|factory| factory.name().to_string()).collect();
        for required in "descriptorsrc qtdemux matroskademux tsdemux h264parse avdec_h264 aacparse".split(' ') {
            assert!(remaining.iter().any(|name| name == required), "{required} is missing in {remaining:?}");
        }
        for (preferred, other) in [("avdec_ac3", "a52dec"), ("avdec_dca", "dtsdec")] {
            let rank_of = |name: &str| ElementFactory::find(name).map(|factory| factory.rank());
            assert!(rank_of(preferred) > rank_of(other), "{other} may be chosen before {preferred}");
        }
        for forbidden in
            "filesrc fdsrc hlsdemux dashdemux souphttpsrc giosrc rtpsrc avdemux_nsv gmedec rsvgdec".split(' ')
        {
            assert!(!remaining.iter().any(|name| name == forbidden), "{forbidden} may be chosen");
        }
    }
}
