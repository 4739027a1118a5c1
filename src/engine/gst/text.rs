//! Launch texts of pipelines: topology, names and constant properties, kept under `pipelines/`.
//!
//! Values are set on named elements after parsing; a text never contains request data.

use gstreamer as gst;
use gstreamer::prelude::*;

use crate::engine::RunError;

/// The launch text of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    pub name: &'static str,
    /// Its purpose, one sentence for the gallery.
    pub purpose: &'static str,
    launch: &'static str,
}

macro_rules! text {
    ($name:literal, $purpose:literal) => {
        Text { name: $name, purpose: $purpose, launch: include_str!(concat!("../../../pipelines/", $name, ".launch")) }
    };
}

pub const DECODE_SOUND: Text =
    text!("decode-sound", "Decodes one stream of an audio-only file to samples at 48 kHz, down-mixed.");
pub const DECODE_PICTURE_MATROSKA: Text =
    text!("decode-picture-matroska", "Decodes one video stream of a Matroska file to frames, in order.");
pub const DECODE_SOUND_MATROSKA: Text = text!("decode-sound-matroska", "Decodes one audio stream of a Matroska file.");
pub const DECODE_PICTURE_MP4: Text = text!("decode-picture-mp4", "Decodes one video stream of an mp4 file.");
pub const DECODE_SOUND_MP4: Text = text!("decode-sound-mp4", "Decodes one audio stream of an mp4 file.");
pub const ENCODE_SOUND: Text =
    text!("encode-sound", "Encodes AAC frames for a whole run, on their grid of 1,024 samples.");
pub const SEGMENT: Text = text!("segment", "Encodes one segment: its video, muxed with its AAC frames.");
pub const SEGMENT_MUTE: Text = text!("segment-mute", "Encodes one segment without audio.");
pub const SEGMENT_DRAWN: Text = text!("segment-drawn", "Encodes one segment with text subtitles burned in.");
pub const SEGMENT_DRAWN_MUTE: Text =
    text!("segment-drawn-mute", "Encodes one segment without audio, with text subtitles burned in.");
pub const SEGMENT_LAID: Text = text!("segment-laid", "Encodes one segment with bitmap subtitles burned in.");
pub const SEGMENT_LAID_MUTE: Text =
    text!("segment-laid-mute", "Encodes one segment without audio, with bitmap subtitles burned in.");
pub const TRIAL: Text = text!("trial", "Encodes two frames, to test whether an encoder works on this machine.");

/// All of them, in the order of the gallery.
pub const ALL: [Text; 13] = [
    DECODE_PICTURE_MATROSKA,
    DECODE_PICTURE_MP4,
    DECODE_SOUND,
    DECODE_SOUND_MATROSKA,
    DECODE_SOUND_MP4,
    ENCODE_SOUND,
    SEGMENT,
    SEGMENT_MUTE,
    SEGMENT_DRAWN,
    SEGMENT_DRAWN_MUTE,
    SEGMENT_LAID,
    SEGMENT_LAID_MUTE,
    TRIAL,
];

impl Text {
    /// The text as in its file, slots unfilled.
    pub fn launch(&self) -> &'static str {
        self.launch
    }

    /// The text with its slots filled.
    pub fn filled(&self, video_encoder: &str, audio_encoder: &str) -> String {
        self.launch.replace("{video_encoder}", video_encoder.trim()).replace("{audio_encoder}", audio_encoder.trim())
    }

    /// Builds the pipeline with these encoders.
    ///
    /// # Errors
    /// `Internal` with the element, property or link that this machine's GStreamer refuses.
    pub fn parse(&self, video_encoder: &str, audio_encoder: &str) -> Result<gst::Pipeline, RunError> {
        let fault = |cause: &dyn std::fmt::Display| RunError::Internal(format!("pipeline {}: {cause}", self.name));
        let text = self.filled(video_encoder, audio_encoder);
        let flags = gst::ParseFlags::FATAL_ERRORS;
        let parsed = gst::parse::launch_full(&text, None, flags).map_err(|cause| fault(&cause))?;
        parsed.downcast::<gst::Pipeline>().map_err(|_| fault(&"is a single element, not a pipeline"))
    }
}
