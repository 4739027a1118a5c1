//! The trial of a decoder element of hardware: the pipeline of a run decodes a short film with it and in software.

use std::fs::File;
use std::os::fd::AsRawFd;

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as app;

use super::elements::prefer_decoder;
use super::launch_text;
use super::running_pipeline::RunningPipeline;
use super::trial::{POLL_INTERVAL, frame_psnr, trial_waker, wait_for};
use crate::engine::{Result, RunError};

/// Time to convert a frame.
const CONVERSION_TIMEOUT: Option<gst::ClockTime> = Some(gst::ClockTime::from_seconds(4));

/// Decodes a film (Matroska, video only) in software and with this element: the PSNR of each frame, dB, 0 for one that only one of
/// them has. From then on the process decodes with the element.
///
/// # Errors
/// When it cannot be decoded, or when the element took no part.
pub fn compare_decoder(film: &File, element: &str) -> Result<Vec<f64>> {
    let software = decode(film, None)?;
    prefer_decoder(element)?;
    let hardware = decode(film, Some(element))?;
    let frames = 0..software.len().max(hardware.len());
    let psnr = |frame: usize| frame_psnr(hardware.get(frame)?, software.get(frame)?);
    Ok(frames.map(|frame| psnr(frame).unwrap_or_default()).collect())
}

/// The frames in the memory of the processor, as I420.
fn decode(film: &File, element: Option<&str>) -> Result<Vec<gst::Sample>> {
    let waker = trial_waker();
    let pipeline = RunningPipeline::new(launch_text::DECODE_VIDEO_MATROSKA, ("", ""), "trial", &waker)?;
    pipeline.element("file")?.set_property("descriptor", film.as_raw_fd());
    let input = pipeline.element("decode")?.static_pad("sink");
    pipeline.element("demux")?.connect_pad_added(move |_, pad| {
        waker.run_callback("pad-added", (), || {
            let _ = input.as_ref().map(|input| pad.link(input));
        });
    });
    let output: app::AppSink = pipeline.element_of_type("out")?;
    pipeline.set_state(gst::State::Playing)?;
    let caps = gst::Caps::builder("video/x-raw").field("format", "I420").build();
    let mut frames = Vec::new();
    wait_for(&pipeline, || {
        if let Some(sample) = output.try_pull_sample(POLL_INTERVAL) {
            // Frames of hardware are few: none may be kept.
            match gstreamer_video::convert_sample(&sample, &caps, CONVERSION_TIMEOUT) {
                Ok(frame) => frames.push(frame),
                Err(cause) => return Some(Err(RunError::Decode(cause.to_string()))),
            }
        }
        output.is_eos().then_some(Ok(()))
    })??;
    match element.filter(|element| !pipeline.has_element_of(element)) {
        Some(element) => Err(RunError::Decode(format!("software decoded instead of {element}"))),
        None => Ok(frames),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::engine::damaged_films::run_ffmpeg;

    #[test]
    fn an_element_that_takes_no_part_has_not_passed() {
        crate::engine::gst::initialize().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("film.mkv");
        run_ffmpeg("-f lavfi -i testsrc2=s=320x180:r=25:d=0.4 -c:v mpeg2video -q:v 4".split(' '), &path);
        let film = File::open(&path).unwrap();
        let fault = compare_decoder(&film, "avdec_vc1").unwrap_err().to_string();
        assert!(fault.contains("software decoded instead of avdec_vc1"), "{fault}");
        let fault = compare_decoder(&film, "nvmpeg2videodec").unwrap_err().to_string();
        assert!(fault.contains("nvmpeg2videodec is not part of this GStreamer"), "{fault}");
        let psnrs = compare_decoder(&film, "avdec_mpeg2video").unwrap();
        assert_eq!(psnrs, [100.0; 10]);
        let mut broken = tempfile::tempfile().unwrap();
        broken.write_all(b"no film").unwrap();
        assert!(compare_decoder(&broken, "avdec_mpeg2video").is_err());
    }
}
