//! Finds out what GStreamer can do on this machine: its elements, and which encoders work.

use gstreamer::ElementFactory;

use super::encoder_trial::run_trials;
use super::{elements, gstreamer_version, initialize};
use crate::engine::worker::message::{EngineReport, TrialScope};

/// Elements that some renditions need, and external streams (`srtsrc`). Without them ffmpeg makes these renditions.
const OPTIONAL: &[&str] = &["assrender", "overlaycomposition", "pngdec", "avdec_mjpeg", "srtsrc"];

/// Looks for the elements and tests these encoders. A missing encoder costs nothing, and each one is tested once in a
/// process. Blocks for up to 16 s for each encoder of a graphics card that does not answer.
///
/// # Errors
/// Why GStreamer does not start.
pub fn examine(encoders: TrialScope) -> Result<EngineReport, String> {
    initialize()?;
    let missing = elements::missing_elements()?;
    let optional = OPTIONAL.iter().filter(|element| ElementFactory::find(element).is_some());
    Ok(EngineReport {
        gstreamer: gstreamer_version(),
        missing: missing.into_iter().map(|(element, package)| (element.to_owned(), package.to_owned())).collect(),
        optional: optional.map(|element| (*element).to_owned()).collect(),
        encoder_faults: run_trials(encoders).map(|(_, trial)| trial.err()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::codec::TargetCodec;
    use crate::engine::gst::{check_report, select_encoder};
    use crate::engine::video_encoders::VIDEO_ENCODERS;

    #[test]
    fn the_report_has_each_encoder_and_lets_the_backend_start() {
        let report = examine(TrialScope::All).unwrap();
        assert_eq!(report.encoder_faults.len(), VIDEO_ENCODERS.len());
        assert_eq!(check_report(&report), Ok(()));
        let planned = select_encoder(TargetCodec::H264, "libx264", &report).map(|encoder| encoder.element);
        assert_eq!(planned, Some("x264enc"));
        assert!(report.has("overlaycomposition") && !report.has("souphttpsrc"));
    }
}
