//! Slots for encoders: texts in `pipelines/encoders/`, ranked, each proven by encoding a frame.

use gstreamer as gst;
use gstreamer::prelude::*;

/// An H.264 encoder that can fill `{video_encoder}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The element, and the name of its text.
    pub element: &'static str,
    /// As ffmpeg and the plan name the same encoder.
    pub plan: &'static str,
    pub hardware: bool,
    launch: &'static str,
    format: &'static str,
    /// Property of the bit rate, and how many of its units are a kbit/s.
    rate: (&'static str, u32),
    /// Property of the distance of keyframes, where it has one.
    distance: Option<&'static str>,
}

macro_rules! slot {
    ($element:literal, $plan:literal, $hardware:literal, $format:literal, $rate:expr, $distance:expr) => {
        Slot {
            element: $element,
            plan: $plan,
            hardware: $hardware,
            launch: include_str!(concat!("../../../pipelines/encoders/", $element, ".launch")),
            format: $format,
            rate: $rate,
            distance: $distance,
        }
    };
}

/// Ranked: hardware before software, which leaves the processor to the other viewers.
pub const SLOTS: [Slot; 7] = [
    slot!("nvh264enc", "h264_nvenc", true, "NV12", ("max-bitrate", 1), Some("gop-size")),
    slot!("qsvh264enc", "h264_qsv", true, "NV12", ("bitrate", 1), Some("gop-size")),
    slot!("vah264enc", "h264_vaapi", true, "NV12", ("bitrate", 1), Some("key-int-max")),
    slot!("vaapih264enc", "h264_vaapi", true, "NV12", ("bitrate", 1), Some("keyframe-period")),
    slot!("v4l2h264enc", "h264_v4l2m2m", true, "NV12", ("", 0), None),
    slot!("x264enc", "libx264", false, "I420", ("bitrate", 1), Some("key-int-max")),
    slot!("openh264enc", "libopenh264", false, "I420", ("bitrate", 1000), Some("gop-size")),
];

impl Slot {
    pub fn launch(&self) -> &'static str {
        self.launch
    }

    /// The pixel format it takes.
    pub fn format(&self) -> &'static str {
        self.format
    }

    /// Sets rate and distance of keyframes, as far as the element has such properties.
    pub(super) fn set(&self, encoder: &gst::Element, max_kbps: u32, frames: u64) {
        let set = |name: &str, value: u64| {
            if encoder.find_property(name).is_some() {
                encoder.set_property_from_str(name, &value.to_string());
            }
        };
        set(self.rate.0, u64::from(max_kbps.max(100)) * u64::from(self.rate.1));
        if let Some(distance) = self.distance {
            set(distance, frames.clamp(1, 1000));
        }
        // Constant quality still obeys the rate as a ceiling: over two seconds, as ffmpeg is told.
        set("vbv-buf-capacity", 2000);
    }
}
