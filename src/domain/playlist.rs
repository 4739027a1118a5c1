//! Playlists and asset names of a session, as pure functions (RFC 8216, draft-pantos-hls-rfc8216bis).
//!
//! Every child URI carries the viewer's grant, because players do not carry query strings over.

mod attributes;
mod media;
mod multivariant;
mod names;
mod rendition_tags;
#[cfg(test)]
mod tests;

pub use media::{IFrame, MediaPlaylist};
pub use multivariant::{
    AudioEncoding, AudioGroup, AudioRendition, CaptionService, MultivariantPlaylist, SubtitleRendition, Variant,
};
pub use names::{InitId, PlaylistTrack, SessionAsset, parse_asset};

use super::grid::Grid;
use super::segment_format::SegmentFormat;

/// Length of a subtitle segment, seconds. A subtitle rendition of a VOD playlist may have its own target duration (RFC 8216
/// section 6.2.4), and long segments mean few requests per film.
const SUBTITLE_SEGMENT_SECONDS: f64 = 30.0;

/// The grid of a subtitle rendition for an item with the same end as `grid`.
pub fn subtitle_grid(grid: &Grid) -> Grid {
    Grid::from_step(SUBTITLE_SEGMENT_SECONDS, grid.end().as_seconds())
}

/// `EXT-X-VERSION`: 7 is the version of RFC 8216, which defines fMP4 segments.
pub fn version(format: SegmentFormat) -> u8 {
    if format == SegmentFormat::Fmp4 { 7 } else { 6 }
}

/// `avc1.PPCCLL` from the first sequence parameter set in a segment (RFC 6381 section 3.3); None without one.
pub fn avc_codec_string(segment: &[u8]) -> Option<String> {
    let at = segment.windows(4).position(|four| four[..3] == [0, 0, 1] && four[3] & 0x1f == 7)?;
    let sps = segment.get(at + 4..at + 7)?;
    Some(format!("avc1.{:02x}{:02x}{:02x}", sps[0], sps[1], sps[2]))
}
