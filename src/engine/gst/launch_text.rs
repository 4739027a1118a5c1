//! Launch texts of pipelines: topology, names and constant properties, kept under `pipelines/`.
//!
//! Values are set on named elements after parsing; a text never contains request data.

use gstreamer as gst;
use gstreamer::prelude::*;

use crate::engine::{Result, RunError};

/// The launch text of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchText {
    pub name: &'static str,
    /// Its purpose, one sentence for the gallery.
    pub purpose: &'static str,
    launch: &'static str,
}

macro_rules! text {
    ($name:literal, $purpose:literal) => {
        LaunchText {
            name: $name,
            purpose: $purpose,
            launch: include_str!(concat!("../../../pipelines/", $name, ".launch")),
        }
    };
}

pub const DECODE_AUDIO: LaunchText =
    text!("decode-audio", "Decodes one stream of an audio-only file to samples at 48 kHz, down-mixed.");
pub const DECODE_VIDEO_MATROSKA: LaunchText =
    text!("decode-video-matroska", "Decodes one video stream of a Matroska file to frames, in order.");
pub const DECODE_AUDIO_MATROSKA: LaunchText =
    text!("decode-audio-matroska", "Decodes one audio stream of a Matroska file.");
pub const DECODE_VIDEO_MP4: LaunchText = text!("decode-video-mp4", "Decodes one video stream of an mp4 file.");
pub const DECODE_AUDIO_MP4: LaunchText = text!("decode-audio-mp4", "Decodes one audio stream of an mp4 file.");
pub const ENCODE_AUDIO: LaunchText =
    text!("encode-audio", "Encodes AAC frames for a whole run, on their grid of 1,024 samples.");
pub const SEGMENT: LaunchText = text!("segment", "Encodes one segment: its video, muxed with its AAC frames.");
pub const SEGMENT_WITHOUT_AUDIO: LaunchText = text!("segment-without-audio", "Encodes one segment without audio.");
pub const SEGMENT_WITH_TEXT: LaunchText =
    text!("segment-with-text", "Encodes one segment with text subtitles burned in.");
pub const SEGMENT_WITH_TEXT_WITHOUT_AUDIO: LaunchText =
    text!("segment-with-text-without-audio", "Encodes one segment without audio, with text subtitles burned in.");
pub const SEGMENT_WITH_BITMAPS: LaunchText =
    text!("segment-with-bitmaps", "Encodes one segment with bitmap subtitles burned in.");
pub const SEGMENT_WITH_BITMAPS_WITHOUT_AUDIO: LaunchText =
    text!("segment-with-bitmaps-without-audio", "Encodes one segment without audio, with bitmap subtitles burned in.");
pub const TRIAL: LaunchText = text!("trial", "Encodes two frames, to test whether an encoder works on this machine.");

/// All of them, in the order of the gallery.
pub const ALL: [LaunchText; 13] = [
    DECODE_VIDEO_MATROSKA,
    DECODE_VIDEO_MP4,
    DECODE_AUDIO,
    DECODE_AUDIO_MATROSKA,
    DECODE_AUDIO_MP4,
    ENCODE_AUDIO,
    SEGMENT,
    SEGMENT_WITHOUT_AUDIO,
    SEGMENT_WITH_TEXT,
    SEGMENT_WITH_TEXT_WITHOUT_AUDIO,
    SEGMENT_WITH_BITMAPS,
    SEGMENT_WITH_BITMAPS_WITHOUT_AUDIO,
    TRIAL,
];

impl LaunchText {
    /// The text as in its file, with its placeholders.
    pub fn launch(&self) -> &'static str {
        self.launch
    }

    /// The text with its placeholders filled.
    fn fill_placeholders(&self, video_encoder: &str, audio_encoder: &str) -> String {
        self.launch.replace("{video_encoder}", video_encoder.trim()).replace("{audio_encoder}", audio_encoder.trim())
    }

    /// Builds the pipeline with these encoders.
    ///
    /// # Errors
    /// `Internal` with the element, property or link that this machine's GStreamer refuses.
    pub fn parse(&self, video_encoder: &str, audio_encoder: &str) -> Result<gst::Pipeline> {
        let to_run_error =
            |cause: &dyn std::fmt::Display| RunError::Internal(format!("pipeline {}: {cause}", self.name));
        let text = self.fill_placeholders(video_encoder, audio_encoder);
        let flags = gst::ParseFlags::FATAL_ERRORS;
        let parsed = gst::parse::launch_full(&text, None, flags).map_err(|cause| to_run_error(&cause))?;
        parsed.downcast::<gst::Pipeline>().map_err(|_| to_run_error(&"is a single element, not a pipeline"))
    }
}
