//! Launch texts of pipelines: topology, names and constant properties, kept under `pipelines/`.
//!
//! Values are set on named elements after parsing; a text never contains request data.

use gstreamer as gst;
use gstreamer::prelude::*;

use crate::domain::codec::TargetCodec;
use crate::engine::{Result, RunError};

/// The launch text of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchText {
    pub name: &'static str,
    /// Its purpose, one sentence for the gallery.
    pub purpose: &'static str,
    /// The text as in its file, with its placeholders.
    pub launch: &'static str,
}

/// A constant for each text, and the list of all.
macro_rules! texts {
    ($($text:ident = $name:literal, $purpose:literal;)*) => {
        $(pub const $text: LaunchText = LaunchText {
            name: $name,
            purpose: $purpose,
            launch: include_str!(concat!("../../../pipelines/", $name, ".launch")),
        };)*

        /// All of them, in the order of the gallery.
        pub const ALL: &[LaunchText] = &[$($text),*];
    };
}

texts! {
    DECODE_VIDEO_MATROSKA = "decode-video-matroska", "Decodes one video stream of a Matroska file to frames, in order.";
    DECODE_VIDEO_MP4 = "decode-video-mp4", "Decodes one video stream of an mp4 file.";
    DECODE_VIDEO_AVI = "decode-video-avi", "Decodes one video stream of an AVI file.";
    DECODE_VIDEO_PES = "decode-video-pes", "Decodes one video stream of a transport or program stream, whose PES payloads the run feeds.";
    DECODE_AUDIO = "decode-audio", "Decodes one stream of an audio-only file to samples at 48 kHz.";
    DECODE_AUDIO_MATROSKA = "decode-audio-matroska", "Decodes one audio stream of a Matroska file.";
    DECODE_AUDIO_MP4 = "decode-audio-mp4", "Decodes one audio stream of an mp4 file.";
    DECODE_AUDIO_AVI = "decode-audio-avi", "Decodes one audio stream of an AVI file.";
    DECODE_AUDIO_PES = "decode-audio-pes", "Decodes one audio stream of a transport or program stream.";
    COPY_AUDIO_MATROSKA = "copy-audio-matroska", "Reads the compressed frames of one audio stream of a Matroska file.";
    COPY_AUDIO_MP4 = "copy-audio-mp4", "Reads the compressed frames of one audio stream of an mp4 file.";
    COPY_AUDIO_AVI = "copy-audio-avi", "Reads the compressed frames of one audio stream of an AVI file.";
    COPY_AUDIO_PES = "copy-audio-pes", "Reads the compressed frames of one audio stream of a transport or program stream.";
    ENCODE_AUDIO = "encode-audio", "Encodes AAC frames for a whole run, on their grid of 1,024 samples.";
    SEGMENT = "segment", "Encodes one segment: its video, muxed with its AAC frames.";
    SEGMENT_WITHOUT_AUDIO = "segment-without-audio", "Encodes one segment without audio.";
    SEGMENT_WITH_TEXT = "segment-with-text", "Encodes one segment with text subtitles burned in.";
    SEGMENT_WITH_TEXT_WITHOUT_AUDIO = "segment-with-text-without-audio",
        "Encodes one segment without audio, with text subtitles burned in.";
    SEGMENT_WITH_BITMAPS = "segment-with-bitmaps", "Encodes one segment with bitmap subtitles or a watermark.";
    SEGMENT_WITH_BITMAPS_WITHOUT_AUDIO = "segment-with-bitmaps-without-audio",
        "Encodes one segment without audio, with bitmap subtitles or a watermark.";
    SEGMENT_WITH_TEXT_AND_BITMAPS = "segment-with-text-and-bitmaps",
        "Encodes one segment with text subtitles burned in and a watermark.";
    SEGMENT_WITH_TEXT_AND_BITMAPS_WITHOUT_AUDIO = "segment-with-text-and-bitmaps-without-audio",
        "Encodes one segment without audio, with text subtitles burned in and a watermark.";
    DECODE_PNG = "decode-png", "Decodes and scales an image that is a PNG: a watermark, or the image of a slate.";
    DECODE_JPEG = "decode-jpeg", "Decodes and scales an image that is a JPEG.";
    STILL = "still", "Encodes the frames of a slate.";
    STILL_WITH_TEXT = "still-with-text", "Encodes the frames of a slate with a line of text.";
    TRIAL = "trial", "Encodes two frames, to test whether a software encoder works on this machine.";
    HARDWARE_TRIAL = "hardware-trial",
        "Encodes two seconds with a hardware encoder and decodes them in software, to compare them with the source.";
}

impl LaunchText {
    /// Whether a video encoder of this codec fits in: the text parses its output as this codec, or not at all.
    pub fn takes_encoder_of(&self, codec: TargetCodec) -> bool {
        let Some((_, output)) = self.launch.split_once("{video_encoder}") else { return false };
        let parser = output.split_whitespace().find(|word| word.ends_with("parse"));
        parser.is_none_or(|parser| match codec {
            TargetCodec::H264 => parser == "h264parse",
            TargetCodec::Hevc => parser == "h265parse",
            TargetCodec::Av1 => parser == "av1parse",
        })
    }

    /// Builds the pipeline, with these encoders in place of its placeholders.
    ///
    /// # Errors
    /// `Internal` with the element, property or link that this machine's GStreamer refuses.
    pub fn parse(&self, video_encoder: &str, audio_encoder: &str) -> Result<gst::Pipeline> {
        let to_run_error =
            |cause: &dyn std::fmt::Display| RunError::Internal(format!("pipeline {}: {cause}", self.name));
        let text = self.launch.replace("{video_encoder}", video_encoder.trim());
        let text = text.replace("{audio_encoder}", audio_encoder.trim());
        let flags = gst::ParseFlags::FATAL_ERRORS;
        let parsed = gst::parse::launch_full(&text, None, flags).map_err(|cause| to_run_error(&cause))?;
        parsed.downcast::<gst::Pipeline>().map_err(|_| to_run_error(&"is a single element, not a pipeline"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_takes_only_encoders_of_the_codec_it_parses() {
        let takes_h264 = |text: LaunchText| text.takes_encoder_of(TargetCodec::H264);
        assert!(takes_h264(SEGMENT) && takes_h264(SEGMENT_WITHOUT_AUDIO));
        assert!(takes_h264(TRIAL), "its output is not parsed");
        assert!(!takes_h264(ENCODE_AUDIO) && !takes_h264(DECODE_VIDEO_MP4), "without a video encoder");
        let of_av1 = LaunchText { launch: "appsrc ! {video_encoder} ! av1parse ! mp4mux ! fakesink", ..SEGMENT };
        assert!(!takes_h264(of_av1) && of_av1.takes_encoder_of(TargetCodec::Av1));
        assert!(!SEGMENT.takes_encoder_of(TargetCodec::Hevc));
    }
}
