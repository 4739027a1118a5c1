//! Pipelines as text: topology, names and constant properties, kept under `pipelines/`.
//!
//! Values are set on named elements after parsing; nothing from outside is ever part of a text.

use gstreamer as gst;
use gstreamer::prelude::*;

use crate::engine::RunError;

/// A pipeline's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    pub name: &'static str,
    /// What it is for, a sentence for the gallery.
    pub purpose: &'static str,
    launch: &'static str,
}

macro_rules! text {
    ($name:literal, $purpose:literal) => {
        Text { name: $name, purpose: $purpose, launch: include_str!(concat!("../../../pipelines/", $name, ".launch")) }
    };
}

pub const DECODE_SOUND: Text =
    text!("decode-sound", "The samples of one stream of a file of sound at 48 kHz, down-mixed.");
pub const DECODE_PICTURE_MATROSKA: Text =
    text!("decode-picture-matroska", "The pictures of one stream of a Matroska file, in order.");
pub const DECODE_SOUND_MATROSKA: Text = text!("decode-sound-matroska", "The same of a Matroska file.");
pub const DECODE_PICTURE_MP4: Text = text!("decode-picture-mp4", "The same of an mp4 file.");
pub const DECODE_SOUND_MP4: Text = text!("decode-sound-mp4", "The same of an mp4 file.");
pub const ENCODE_SOUND: Text = text!("encode-sound", "AAC frames for a whole run, on their grid of 1,024 samples.");
pub const SEGMENT: Text = text!("segment", "One segment: its pictures encoded, muxed with its AAC frames.");
pub const SEGMENT_MUTE: Text = text!("segment-mute", "One segment of an item without sound.");
pub const SEGMENT_DRAWN: Text = text!("segment-drawn", "One segment with subtitles drawn into its pictures.");
pub const SEGMENT_DRAWN_MUTE: Text =
    text!("segment-drawn-mute", "One segment without sound, with subtitles drawn into its pictures.");
pub const SEGMENT_LAID: Text = text!("segment-laid", "One segment with subtitles that are pictures laid over its own.");
pub const SEGMENT_LAID_MUTE: Text =
    text!("segment-laid-mute", "One segment without sound, with subtitles that are pictures laid over its own.");
pub const TRIAL: Text = text!("trial", "Two pictures through an encoder, to see whether it works on this machine.");

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
    /// The text as it stands in its file, slots unfilled.
    pub fn launch(&self) -> &'static str {
        self.launch
    }

    /// The text with its slots filled.
    pub fn filled(&self, video_encoder: &str, audio_encoder: &str) -> String {
        self.launch.replace("{video_encoder}", video_encoder.trim()).replace("{audio_encoder}", audio_encoder.trim())
    }

    /// Parses the text with these encoders.
    ///
    /// # Errors
    /// Which element, property or link this machine's GStreamer refuses.
    pub fn parse(&self, video_encoder: &str, audio_encoder: &str) -> Result<gst::Pipeline, RunError> {
        let fault = |cause: &dyn std::fmt::Display| RunError::Internal(format!("pipeline {}: {cause}", self.name));
        let text = self.filled(video_encoder, audio_encoder);
        let flags = gst::ParseFlags::FATAL_ERRORS;
        let parsed = gst::parse::launch_full(&text, None, flags).map_err(|cause| fault(&cause))?;
        parsed.downcast::<gst::Pipeline>().map_err(|_| fault(&"is a single element"))
    }
}
