//! A rendition: everything that changes a segment's bytes, as plain data.
//!
//! Sessions that need the same rendition of the same item share its segments; [`Rendition::content_hash`] is the key. The
//! types are serialised for that hash, and for the worker that makes the segments; another name in an attribute would make
//! all cached segments useless.

use serde::{Deserialize, Serialize};

use super::codec::TargetCodec;
use super::media::Hdr;
use super::segment_format::SegmentFormat;
use super::time::FrameRate;

/// The output of a run: at most one video and one audio stream, muxed as MPEG-TS, or one of them as CMAF.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rendition {
    pub video: Option<VideoPlan>,
    pub audio: Option<AudioPlan>,
    /// Not in the content hash of MPEG-TS, so that segments cached before there were others stay valid.
    #[serde(default, skip_serializing_if = "SegmentFormat::is_mpeg_ts")]
    pub format: SegmentFormat,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "action")]
pub enum VideoPlan {
    Copy { stream: u32 },
    Encode(EncodeVideo),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EncodeVideo {
    pub stream: u32,
    /// Display size after rotation and pixel aspect, square pixels, both even.
    pub width: u32,
    pub height: u32,
    #[serde(rename = "rate")]
    pub frame_rate: FrameRate,
    pub deinterlace: bool,
    /// Each field becomes a frame, which keeps all movement; otherwise two fields become one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_frame_per_field: bool,
    /// Set when the video must be mapped to SDR BT.709.
    pub tone_map: Option<Hdr>,
    pub burn: Option<BurnedSubtitle>,
    /// The watermark overlaid on it. Hashed under its first name, so that cached segments stay valid.
    #[serde(rename = "emblem", default, skip_serializing_if = "Option::is_none")]
    pub watermark: Option<WatermarkOverlay>,
    /// Ceiling of the rate control, kbit/s.
    pub max_kbps: u32,
    /// Not in the content hash: the encoder implies it.
    #[serde(skip)]
    pub codec: TargetCodec,
    /// ffmpeg's name of the encoder, e.g. `libx264`.
    pub encoder: String,
}

#[cfg(test)]
impl EncodeVideo {
    /// H.264 at 25 frames a second, with nothing burned in or overlaid.
    pub fn sample(width: u32, height: u32, max_kbps: u32) -> Self {
        Self {
            stream: 0,
            width,
            height,
            frame_rate: FrameRate { num: 25, den: 1 },
            deinterlace: false,
            has_frame_per_field: false,
            tone_map: None,
            burn: None,
            watermark: None,
            max_kbps,
            codec: TargetCodec::H264,
            encoder: "libx264".into(),
        }
    }
}

/// A watermark: an image overlaid in a corner.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WatermarkOverlay {
    /// Hash of the image, hex.
    pub digest: String,
    pub corner: Corner,
    #[serde(rename = "opacity")]
    pub opacity_percent: u8,
    /// Percent of the video's width.
    #[serde(rename = "width")]
    pub width_percent: u8,
}

impl WatermarkOverlay {
    /// Distance from the edges of the video, as a part of its width and of its height.
    pub const MARGIN: f64 = 0.03;

    /// Its width on video of this width, pixels.
    pub fn width_pixels(&self, video_width: u32) -> u32 {
        (video_width * u32::from(self.width_percent) / 100).max(2)
    }
}

named_values! {
    pub enum Corner {
        TopLeft = "top-left",
        TopRight = "top-right",
        BottomLeft = "bottom-left",
        BottomRight = "bottom-right",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "from")]
pub enum BurnedSubtitle {
    /// A stream of the item; `bitmap` streams are overlaid, text is rendered.
    Embedded { stream: u32, bitmap: bool },
    /// A sidecar, opened through the library like every other file.
    Sidecar { path: String, bitmap: bool },
}

impl BurnedSubtitle {
    pub fn is_bitmap(&self) -> bool {
        match self {
            Self::Embedded { bitmap, .. } | Self::Sidecar { bitmap, .. } => *bitmap,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "action")]
pub enum AudioPlan {
    Copy {
        stream: u32,
    },
    /// AAC-LC at 48 kHz.
    Encode {
        stream: u32,
        channels: u32,
        kbps: u32,
        /// Gain, tenths of a decibel.
        #[serde(rename = "gain", default, skip_serializing_if = "Option::is_none")]
        gain_tenths_db: Option<i16>,
    },
}

impl AudioPlan {
    /// Index of the stream in the file.
    pub fn stream(&self) -> u32 {
        match self {
            Self::Copy { stream } | Self::Encode { stream, .. } => *stream,
        }
    }
}

impl Rendition {
    /// 128 bits of BLAKE3 over the serialised rendition and the backend's version, hex.
    pub fn content_hash(&self, backend_version: &str) -> String {
        let text = serde_json::to_vec(self).expect("a rendition is plain data");
        let mut hasher = blake3::Hasher::new();
        hasher.update(backend_version.as_bytes()).update(b"\0").update(&text);
        hasher.finalize().to_hex()[..32].to_owned()
    }

    pub fn encodes_video(&self) -> bool {
        matches!(self.video, Some(VideoPlan::Encode(_)))
    }

    pub fn encodes_audio(&self) -> bool {
        matches!(self.audio, Some(AudioPlan::Encode { .. }))
    }

    pub fn copies_video(&self) -> bool {
        matches!(self.video, Some(VideoPlan::Copy { .. }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_part_of_a_renditions_key_unless_it_is_mpeg_ts() {
        let copy = Rendition { audio: Some(AudioPlan::Copy { stream: 1 }), ..Rendition::default() };
        let text = r#"{"video":null,"audio":{"action":"copy","stream":1}}"#;
        assert_eq!(serde_json::to_string(&copy).unwrap(), text);
        assert_eq!(serde_json::from_str::<Rendition>(text).unwrap(), copy);
        let cmaf = Rendition { format: SegmentFormat::Fmp4, ..copy.clone() };
        let text = serde_json::to_string(&cmaf).unwrap();
        assert!(text.ends_with(r#","format":"fmp4"}"#), "{text}");
        assert_eq!(serde_json::from_str::<Rendition>(&text).unwrap(), cmaf);
        assert_ne!(cmaf.content_hash("2"), copy.content_hash("2"));
    }
}
