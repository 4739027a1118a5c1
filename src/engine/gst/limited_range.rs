//! Converts the values of full-range frames to limited range, after scaling.
//!
//! videoconvertscale does not: it compares matrix and primaries, never the range (GStreamer 1.22 to 1.29.2). So it scales
//! full-range frames under the label of limited range (`frame_color`), and the values are converted here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_video::prelude::*;
use gstreamer_video::{VideoFrameRef, VideoInfo};

use super::panic_guard::ThreadWaker;
use super::running_pipeline::RunningPipeline;
use crate::engine::{Result, RunError};

/// Converts the frames that leave `raw_caps`, 8-bit 4:2:0 with this layout, while `is_full_range` is set.
pub(super) fn convert_frames(
    pipeline: &RunningPipeline,
    frame_info: VideoInfo,
    is_full_range: Arc<AtomicBool>,
    wake: &ThreadWaker,
) -> Result<()> {
    let missing = || RunError::Internal("the scaler has no output".into());
    let pad = pipeline.element("raw_caps")?.static_pad("src").ok_or_else(missing)?;
    let wake = wake.clone();
    pad.add_probe(gst::PadProbeType::BUFFER, move |pad, probe| {
        if !is_full_range.load(Ordering::SeqCst) {
            return gst::PadProbeReturn::Ok;
        }
        wake.run_callback("range", gst::PadProbeReturn::Ok, || {
            if let Some(gst::PadProbeData::Buffer(buffer)) = &mut probe.data
                && convert_frame(buffer.make_mut(), &frame_info).is_err()
                && let Some(element) = pad.parent_element()
            {
                gst::element_error!(element, gst::StreamError::Failed, ["a full-range frame cannot be converted"]);
            }
            gst::PadProbeReturn::Ok
        })
    });
    Ok(())
}

fn convert_frame(buffer: &mut gst::BufferRef, frame_info: &VideoInfo) -> Result<(), gst::glib::BoolError> {
    let mut frame = VideoFrameRef::from_buffer_ref_writable(buffer, frame_info)?;
    for plane in 0..frame.n_planes() {
        let values = frame.plane_data_mut(plane)?;
        // Two loops, so that each is vectorised.
        if plane == 0 {
            values.iter_mut().for_each(|value| *value = to_limited_luma(*value));
        } else {
            values.iter_mut().for_each(|value| *value = to_limited_chroma(*value));
        }
    }
    Ok(())
}

/// 0 to 255 becomes 16 to 235.
fn to_limited_luma(value: u8) -> u8 {
    ((u16::from(value) * 219 + 127) / 255) as u8 + 16
}

/// 0 to 255 becomes 16 to 240, 128 stays.
fn to_limited_chroma(value: u8) -> u8 {
    ((u16::from(value) * 224 + 128 * 31 + 127) / 255) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_scaled_and_rounded() {
        for value in 0..=255u8 {
            let exact = f64::from(value);
            assert_eq!(f64::from(to_limited_luma(value)), (16.0 + exact * 219.0 / 255.0).round(), "luma {value}");
            let chroma = (128.0 + (exact - 128.0) * 224.0 / 255.0).round();
            assert_eq!(f64::from(to_limited_chroma(value)), chroma, "chroma {value}");
        }
    }
}
