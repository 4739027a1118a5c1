//! The plugins that a worker loads before it is confined: loading is most of a start, and later the address space is
//! limited.

use gstreamer as gst;

use crate::engine::process::sandbox::WorkerKind;

/// Plugins that probes and runs use. Others are loaded when a pipeline needs them.
const MEDIA: &[&str] = &[
    "coreelements",
    "typefindfunctions",
    "playback",
    "isomp4",
    "matroska",
    "avi",
    "videoparsersbad",
    "audioparsers",
    "libav",
    "jpegformat",
    "png",
    "app",
    "videoconvertscale",
    "videofilter",
    "deinterlace",
    "audioconvert",
    "audioresample",
    "x264",
    "mpegtsmux",
    "hls",
    "multifile",
    "assrender",
    "overlaycomposition",
    "pbtypes",
];

/// Plugins that receive a stream.
const NETWORK: &[&str] = &["coreelements", "app", "srt"];

/// Loads the plugins of this kind of worker. A plugin that this machine lacks is left out: the report of the machine says
/// which elements are missing.
pub(super) fn load_ahead(kind: WorkerKind) {
    let plugins = match kind {
        WorkerKind::Media => MEDIA,
        WorkerKind::Network => NETWORK,
    };
    for plugin in plugins {
        let _ = gst::Plugin::load_by_name(plugin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plugins_have_the_names_that_gstreamer_uses() {
        gst::init().unwrap();
        for required in MEDIA.iter().filter(|name| !["assrender", "overlaycomposition"].contains(name)) {
            assert!(gst::Plugin::load_by_name(required).is_ok(), "{required}");
        }
    }
}
