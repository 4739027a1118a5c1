//! The `streams` part of media info.

use super::subtitle::subtitle_kind;
use crate::domain::media::{self, StreamKind};
use crate::domain::time::round_to_ms;
use crate::http::api::prelude::*;

/// One stream. Its fields depend on `type`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stream {
    /// Value for `audioStreamIndex` or `subtitleStreamIndex`.
    index: u32,
    /// `video`, `audio`, `subtitle` or `data`.
    #[serde(rename = "type")]
    kind: &'static str,
    codec: String,
    codec_string: Option<String>,
    profile: Option<String>,
    level: Option<String>,
    #[serde(flatten)]
    detail: Detail,
    bitrate_kbps: Option<u32>,
    language: Option<String>,
    /// BCP 47 tag, if the language tag in the file is known.
    language_tag: Option<String>,
    title: Option<String>,
    default: bool,
    forced: bool,
    /// False if this server has no decoder for it.
    decodable: bool,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum Detail {
    Video(Box<Picture>),
    #[serde(rename_all = "camelCase")]
    Audio {
        channels: u32,
        channel_layout: Option<String>,
        sample_rate: u32,
        bit_depth: Option<u8>,
        commentary: bool,
    },
    #[serde(rename_all = "camelCase")]
    Subtitle {
        /// `text`, `bitmap` or `teletext`.
        #[serde(rename = "kind")]
        kind: &'static str,
        hearing_impaired: bool,
    },
    Data {},
}

/// The fields of a video stream.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Picture {
    width: u32,
    height: u32,
    display_aspect_ratio: String,
    sample_aspect_ratio: String,
    frame_rate: Option<f64>,
    frame_rate_fraction: Option<String>,
    variable_frame_rate: bool,
    interlaced: bool,
    bit_depth: u8,
    /// Null if no frame could be decoded.
    chroma: Option<String>,
    rotation: u16,
    mirrored: bool,
    hdr: Option<&'static str>,
    color: Color,
}

#[derive(Debug, Serialize, ToSchema)]
struct Color {
    primaries: Option<String>,
    transfer: Option<String>,
    matrix: Option<String>,
    range: Option<String>,
}

impl Stream {
    pub fn new(stream: &media::Stream) -> Self {
        let (kind, detail) = match &stream.kind {
            StreamKind::Video(video) => ("video", video_detail(video)),
            StreamKind::Audio(audio) => {
                let media::Audio { channels, channel_layout, sample_rate, bit_depth, is_commentary } = audio.clone();
                ("audio", Detail::Audio { channels, channel_layout, sample_rate, bit_depth, commentary: is_commentary })
            }
            StreamKind::Subtitle(subtitle) => {
                let kind = subtitle_kind(&stream.codec, subtitle.is_text);
                ("subtitle", Detail::Subtitle { kind, hearing_impaired: subtitle.is_hearing_impaired })
            }
            StreamKind::Data => ("data", Detail::Data {}),
        };
        Self {
            index: stream.index,
            kind,
            codec: stream.codec.clone(),
            codec_string: stream.codec_string.clone(),
            profile: stream.profile.clone(),
            level: stream.level.clone(),
            detail,
            bitrate_kbps: stream.bitrate_kbps,
            language: stream.language.clone(),
            language_tag: stream.language.as_deref().and_then(media::language_tag),
            title: stream.title.clone(),
            default: stream.is_default,
            forced: stream.is_forced,
            decodable: stream.is_decodable,
        }
    }
}

fn video_detail(video: &media::Video) -> Detail {
    let (num, den) = video.sample_aspect;
    let aspect = f64::from(video.width) * f64::from(num) / (f64::from(video.height) * f64::from(den)).max(1.0);
    let media::Color { primaries, transfer, matrix, range } = video.color.clone();
    Detail::Video(Box::new(Picture {
        width: video.width,
        height: video.height,
        display_aspect_ratio: ratio(aspect),
        sample_aspect_ratio: format!("{num}:{den}"),
        frame_rate: video.frame_rate.map(|rate| round_to_ms(rate.as_f64())),
        frame_rate_fraction: video.frame_rate.map(|rate| format!("{}/{}", rate.num, rate.den)),
        variable_frame_rate: video.has_variable_frame_rate,
        interlaced: video.is_interlaced,
        bit_depth: video.bit_depth,
        chroma: Some(video.chroma.clone()).filter(|chroma| !chroma.is_empty()),
        rotation: video.rotation,
        mirrored: video.is_mirrored,
        hdr: video.hdr.map(media::Hdr::as_str),
        color: Color { primaries, transfer, matrix, range },
    }))
}

/// `16:9`, `4:3` or `9:16`; any other ratio as a decimal (`2.4:1`).
fn ratio(aspect: f64) -> String {
    let names = [(16.0 / 9.0, "16:9"), (4.0 / 3.0, "4:3"), (9.0 / 16.0, "9:16")];
    let named = names.iter().find(|(target, _)| (aspect - target).abs() < 0.01);
    named.map_or_else(|| format!("{}:1", (aspect * 100.0).round() / 100.0), |(_, name)| (*name).to_owned())
}
