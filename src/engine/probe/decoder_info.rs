//! One stream as a decoder reports it, in ffmpeg's terms.

use serde::{Deserialize, Deserializer, Serialize};

use super::outline::Result as OutlineResult;
use crate::domain::media::Color;

/// A name of [`CODECS`]. An alias, because serde takes a field of a reference type as borrowed from its input.
type CodecName = &'static str;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DecoderInfo {
    /// The container's track number.
    pub container_id: u64,
    #[serde(deserialize_with = "known_codec")]
    pub codec: Option<CodecName>,
    pub profile: Option<String>,
    pub level: Option<String>,
    pub width: u32,
    pub height: u32,
    pub sample_aspect: Option<(u32, u32)>,
    pub bit_depth: Option<u32>,
    pub chroma: Option<String>,
    pub is_interlaced: bool,
    pub color: Color,
    pub channels: u32,
    pub sample_rate: u32,
}

/// The codecs that decoders report.
const CODECS: [&str; 12] = ["h264", "hevc", "vp8", "vp9", "av1", "mp3", "aac", "ac3", "eac3", "opus", "vorbis", "flac"];

/// A codec's name as one of [`CODECS`]; None for any other.
fn known_codec<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'static str>, D::Error> {
    let name = Option::<String>::deserialize(deserializer)?;
    Ok(name.and_then(|name| CODECS.into_iter().find(|known| *known == name)))
}

/// The name of a colour's number by a table of the usual ones; None for the number that means "unspecified".
pub(in crate::engine) fn color_name(
    number: u8,
    unspecified: u8,
    table: &[(u8, &str)],
) -> OutlineResult<Option<String>> {
    if number == unspecified {
        return Ok(None);
    }
    let entry = table.iter().find(|(known, _)| *known == number);
    entry.map(|(_, name)| Some((*name).to_owned())).ok_or("unusual colours")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_survives_the_wire_and_unknown_codecs_are_dropped() {
        let info = DecoderInfo { codec: Some("hevc"), width: 640, ..DecoderInfo::default() };
        // From a buffer that does not live long.
        let parse = |text: String| serde_json::from_str::<DecoderInfo>(&text).unwrap();
        let text = serde_json::to_string(&info).unwrap();
        assert_eq!(parse(text.clone()), info);
        assert_eq!(parse(text.replace("hevc", "anything")).codec, None);
    }
}
