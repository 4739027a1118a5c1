//! One stream as a decoder reports it, in ffmpeg's terms.

use super::outline::Result;
use crate::domain::media::Color;

#[derive(Clone, Debug, Default)]
pub(super) struct DecoderInfo {
    /// The container's track number.
    pub container_id: u64,
    pub codec: Option<&'static str>,
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

/// The name of a colour's number by a table of the usual ones; None for the number that means "unspecified".
pub(super) fn color_name(number: u8, unspecified: u8, table: &[(u8, &str)]) -> Result<Option<String>> {
    if number == unspecified {
        return Ok(None);
    }
    let entry = table.iter().find(|(known, _)| *known == number);
    entry.map(|(_, name)| Some((*name).to_owned())).ok_or("unusual colours")
}
