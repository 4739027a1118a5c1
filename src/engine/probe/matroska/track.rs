//! One track entry (RFC 9559 section 5.1.4).

use super::super::outline::{Kind, Track, Unsure, usual_rate};
use super::ebml::{Inside, float, text, unsigned};
use crate::domain::time::FrameRate;

/// A track, and the field that the file's start is computed from.
pub(super) struct Listed {
    pub track: Track,
    /// Codec delay: audio that is decoded and dropped at the start, milliseconds.
    pub delay_ms: f64,
}

pub(super) fn track(body: &[u8], index: u32) -> Result<Listed, Unsure> {
    let mut track = Track { index, default: true, ..Track::default() };
    let (mut kind, mut codec, mut frame_ns, mut delay_ns, mut bcp47) = (0, String::new(), 0, 0, None);
    let mut sampling = 0.0;
    for field in Inside(body) {
        let (id, value) = field?;
        match id {
            0xd7 => track.key = unsigned(value)?,
            0x83 => kind = unsigned(value)?,
            0x86 => codec = text(value).unwrap_or_default(),
            0x63a2 => track.config = value.to_vec(),
            0x88 => track.default = unsigned(value)? != 0,
            0x55aa => track.forced = unsigned(value)? != 0,
            0x55ab => track.hearing_impaired = unsigned(value)? != 0,
            0x55af => track.commentary = unsigned(value)? != 0,
            0x22_b59c => track.language = text(value),
            0x22_b59d => bcp47 = text(value),
            0x536e => track.title = text(value),
            0x23_e383 => frame_ns = unsigned(value)?,
            0x56aa => delay_ns = unsigned(value)?,
            0xe0 => picture(value, &mut track)?,
            0xe1 => sampling = sample_rate(value)?,
            0x6d80 if value.windows(2).any(|id| id == [0x50, 0x35]) => return Err(Unsure("encrypted")),
            _ => {}
        }
    }
    // English if neither is present (RFC 9559 section 5.1.4.1.19). ffmpeg reads only the older field.
    track.language = track.language.or(bcp47).or(Some("eng".into())).filter(|language| language != "und");
    (track.kind, track.codec) = match (kind, codec.as_str()) {
        (1, "V_MPEG4/ISO/AVC") => (Kind::Video, "h264"),
        (1, "V_MPEGH/ISO/HEVC") => (Kind::Video, "hevc"),
        (1, "V_VP8") => (Kind::Video, "vp8"),
        (1, "V_VP9") => (Kind::Video, "vp9"),
        (1, "V_AV1") => (Kind::Video, "av1"),
        (2, "A_AAC") => (Kind::Audio, "aac"),
        (2, "A_AC3") => (Kind::Audio, "ac3"),
        (2, "A_EAC3") => (Kind::Audio, "eac3"),
        (2, "A_MPEG/L3") => (Kind::Audio, "mp3"),
        (2, "A_OPUS") => (Kind::Audio, "opus"),
        (2, "A_VORBIS") => (Kind::Audio, "vorbis"),
        (2, "A_FLAC") => (Kind::Audio, "flac"),
        (17, "S_TEXT/UTF8") => (Kind::TextSubtitle, "subrip"),
        (17, "S_TEXT/ASS" | "S_ASS" | "S_TEXT/SSA" | "S_SSA") => (Kind::TextSubtitle, "ass"),
        (17, "S_HDMV/PGS") => (Kind::BitmapSubtitle, "hdmv_pgs_subtitle"),
        (17, "S_VOBSUB") => (Kind::BitmapSubtitle, "dvd_subtitle"),
        _ => return Err(Unsure("an unusual codec")),
    };
    if track.codec == "aac" && sampling <= 24_000.0 {
        return Err(Unsure("AAC that may be HE-AAC"));
    }
    if track.kind == Kind::Video {
        if frame_ns == 0 {
            return Err(Unsure("no frame rate"));
        }
        let measured = 1e9 / frame_ns as f64;
        let exact = FrameRate::new((measured * 1000.0).round() as u32, 1000);
        track.frame_rate = usual_rate(measured).or(exact).filter(|rate| (0.01..=500.0).contains(&rate.as_f64()));
    }
    Ok(Listed { track, delay_ms: delay_ns as f64 / 1e6 })
}

/// Parses the video settings. Features of unusual video are left to ffprobe.
fn picture(body: &[u8], track: &mut Track) -> Result<(), Unsure> {
    for field in Inside(body) {
        let (id, value) = field?;
        match id {
            0x9a if unsigned(value)? == 1 => return Err(Unsure("interlaced")),
            0xb0 => track.width = unsigned(value)?.try_into().unwrap_or(u32::MAX),
            0xba => track.height = unsigned(value)?.try_into().unwrap_or(u32::MAX),
            0x55b0 => track.full_range = range(value)?,
            0x7670 => return Err(Unsure("a projection")),
            0x53b8 if unsigned(value)? != 0 => return Err(Unsure("stereoscopic")),
            0x53c0 if unsigned(value)? != 0 => return Err(Unsure("an alpha channel")),
            _ => {}
        }
    }
    Ok(())
}

/// The `Range` of a `Colour` element (RFC 9559 section 5.1.4.1.28.23): 1 is broadcast, 2 full.
fn range(colour: &[u8]) -> Result<Option<bool>, Unsure> {
    for field in Inside(colour) {
        let (id, value) = field?;
        if id == 0x55b9 {
            return Ok(match unsigned(value)? {
                1 => Some(false),
                2 => Some(true),
                _ => None,
            });
        }
    }
    Ok(None)
}

fn sample_rate(body: &[u8]) -> Result<f64, Unsure> {
    for field in Inside(body) {
        let (id, value) = field?;
        if id == 0xb5 {
            return float(value);
        }
    }
    Ok(8000.0)
}
