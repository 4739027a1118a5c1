//! The encoder elements of a run: which one, by the trials of this machine, and its settings.

use gstreamer as gst;
use gstreamer::prelude::*;

use super::frame_color::{COLOR_OPTIONS_START, ColorDescription};
use crate::domain::codec::TargetCodec;
use crate::engine::video_encoders::{EncoderElement, VIDEO_ENCODERS, encoder_elements};
use crate::engine::worker::message::EngineReport;
use crate::engine::{Result, RunError};

/// The encoder to use where a plan names `planned` (ffmpeg's name): the same one if it passed its trial, otherwise the best
/// one of the codec that did. Touches no element.
pub fn select_encoder(codec: TargetCodec, planned: &str, report: &EngineReport) -> Option<&'static EncoderElement> {
    let trials = VIDEO_ENCODERS.iter().zip(&report.encoder_faults);
    let working =
        trials.filter(|(encoder, fault)| encoder.codec == codec && fault.is_none()).map(|(encoder, _)| encoder);
    working.clone().find(|encoder| encoder.name == planned).or_else(|| working.clone().next())?.gstreamer.as_ref()
}

/// The element with this name, e.g. `x264enc`.
pub(super) fn find_encoder(element: &str) -> Result<&'static EncoderElement> {
    let found = encoder_elements().find(|(_, found)| found.element == element);
    found.map(|(_, found)| found).ok_or_else(|| RunError::Internal(format!("there is no encoder {element}")))
}

impl EncoderElement {
    /// Sets the bit rate and the keyframe interval, frames, if the element has such properties.
    pub(super) fn configure(&self, encoder: &gst::Element, max_kbps: u32, keyframe_interval: u64) {
        let set_property = |name: &str, value: u64| {
            if encoder.find_property(name).is_some() {
                encoder.set_property_from_str(name, &value.to_string());
            }
        };
        if let Some((property, units_per_kbit)) = self.rate {
            set_property(property, u64::from(max_kbps.max(100)) * u64::from(units_per_kbit));
        }
        if let Some(property) = self.keyframe_interval {
            set_property(property, keyframe_interval.clamp(1, 1000));
        }
        // With constant quality the bit rate is still a ceiling: over 2 s, as for ffmpeg.
        set_property("vbv-buf-capacity", 2000);
    }

    /// Makes x264enc write this colour description, also where nothing is specified: by itself it then states what GStreamer
    /// assumes for the size. Other elements write the colorimetry of their caps.
    pub(super) fn describe_color(&self, encoder: &gst::Element, description: &ColorDescription) {
        if self.element == "x264enc" {
            let options = encoder.property::<Option<String>>("option-string").unwrap_or_default();
            let constant_options = options.split(COLOR_OPTIONS_START).next().unwrap_or_default();
            encoder.set_property("insert-vui", false);
            encoder.set_property("option-string", format!("{constant_options}{}", description.x264_options()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoder_that_failed_its_trial_is_replaced_by_the_best_that_works() {
        let report_with = |works: fn(&str) -> bool| EngineReport {
            encoder_faults: VIDEO_ENCODERS.iter().map(|encoder| (!works(encoder.name)).then(String::new)).collect(),
            ..EngineReport::default()
        };
        let select = |planned, report: &EngineReport| {
            select_encoder(TargetCodec::H264, planned, report).map(|encoder| encoder.element)
        };
        let software = report_with(|name| name.starts_with("lib"));
        assert_eq!(select("libopenh264", &software), Some("openh264enc"));
        assert_eq!(select("h264_nvenc", &software), Some("x264enc"));
        assert_eq!(select("libx264", &report_with(|_| true)), Some("x264enc"), "the planned one first");
        assert_eq!(select("libx264", &EngineReport::default()), None, "nothing was tested");
        assert_eq!(select_encoder(TargetCodec::Hevc, "libx265", &software), None, "GStreamer encodes H.264 only");
    }
}
