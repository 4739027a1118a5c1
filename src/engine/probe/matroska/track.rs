//! One track entry (RFC 9559 section 5.1.4).

use super::super::outline::{OutlineTrack, OutlineTrackKind, Result, nearest_usual_rate, refuse_if};
use super::{find_child, parse_float, parse_unsigned};
use crate::engine::container::matroska::ebml::{elements, parse_text};

pub(super) fn parse_track(body: &[u8], index: u32) -> Result<OutlineTrack> {
    let mut track = OutlineTrack { index, is_default: true, ..OutlineTrack::default() };
    let (mut track_type, mut codec, mut frame_ns, mut bcp47) = (0, String::new(), 0, None);
    let mut sample_rate = 0.0;
    for field in elements(body) {
        let (id, value) = field?;
        match id {
            0xd7 => track.container_id = parse_unsigned(value)?,
            0x83 => track_type = parse_unsigned(value)?,
            0x86 => codec = parse_text(value).unwrap_or_default(),
            0x63a2 => track.config = value.to_vec(),
            0x88 => track.is_default = parse_unsigned(value)? != 0,
            0x55aa => track.is_forced = parse_unsigned(value)? != 0,
            0x55ab => track.is_hearing_impaired = parse_unsigned(value)? != 0,
            0x55af => track.is_commentary = parse_unsigned(value)? != 0,
            0x22_b59c => track.language = parse_text(value),
            0x22_b59d => bcp47 = parse_text(value),
            0x536e => track.title = parse_text(value),
            0x23_e383 => frame_ns = parse_unsigned(value)?,
            0x56aa => track.delay_ms = parse_unsigned(value)? as f64 / 1e6,
            0xe0 => parse_video(value, &mut track)?,
            0xe1 => sample_rate = find_child(value, 0xb5)?.map_or(Ok(8000.0), parse_float)?,
            0x6d80 if value.windows(2).any(|id| id == [0x50, 0x35]) => return Err("encrypted"),
            _ => {}
        }
    }
    // English if neither is present (RFC 9559 section 5.1.4.1.19). ffmpeg reads only the older field.
    track.language = track.language.or(bcp47).or(Some("eng".into())).filter(|language| language != "und");
    (track.kind, track.codec) = match (track_type, codec.as_str()) {
        (1, "V_MPEG4/ISO/AVC") => (OutlineTrackKind::Video, "h264"),
        (1, "V_MPEGH/ISO/HEVC") => (OutlineTrackKind::Video, "hevc"),
        (1, "V_VP8") => (OutlineTrackKind::Video, "vp8"),
        (1, "V_VP9") => (OutlineTrackKind::Video, "vp9"),
        (1, "V_AV1") => (OutlineTrackKind::Video, "av1"),
        (2, "A_AAC") => (OutlineTrackKind::Audio, "aac"),
        (2, "A_AC3") => (OutlineTrackKind::Audio, "ac3"),
        (2, "A_EAC3") => (OutlineTrackKind::Audio, "eac3"),
        (2, "A_MPEG/L3") => (OutlineTrackKind::Audio, "mp3"),
        (2, "A_OPUS") => (OutlineTrackKind::Audio, "opus"),
        (2, "A_VORBIS") => (OutlineTrackKind::Audio, "vorbis"),
        (2, "A_FLAC") => (OutlineTrackKind::Audio, "flac"),
        (17, "S_TEXT/UTF8") => (OutlineTrackKind::TextSubtitle, "subrip"),
        (17, "S_TEXT/ASS" | "S_ASS" | "S_TEXT/SSA" | "S_SSA") => (OutlineTrackKind::TextSubtitle, "ass"),
        (17, "S_HDMV/PGS") => (OutlineTrackKind::BitmapSubtitle, "hdmv_pgs_subtitle"),
        (17, "S_VOBSUB") => (OutlineTrackKind::BitmapSubtitle, "dvd_subtitle"),
        _ => return Err("an unusual codec"),
    };
    refuse_if(track.codec == "aac" && sample_rate <= 24_000.0, "AAC that may be HE-AAC")?;
    if track.kind == OutlineTrackKind::Video {
        refuse_if(frame_ns == 0, "no frame rate")?;
        let usual_rate = nearest_usual_rate(1e9 / frame_ns as f64);
        // ffmpeg writes the average of a variable rate.
        track.frame_rate = Some(usual_rate.ok_or("an unusual frame rate")?);
    }
    Ok(track)
}

/// Parses the video settings. Features of unusual video are left to ffprobe.
fn parse_video(body: &[u8], track: &mut OutlineTrack) -> Result<()> {
    for field in elements(body) {
        let (id, value) = field?;
        match id {
            0x9a if parse_unsigned(value)? == 1 => return Err("interlaced"),
            0xb0 => track.width = parse_unsigned(value)?.try_into().unwrap_or(u32::MAX),
            0xba => track.height = parse_unsigned(value)?.try_into().unwrap_or(u32::MAX),
            0x55b0 => track.full_range = parse_color_range(value)?,
            0x7670 => return Err("a projection"),
            0x53b8 if parse_unsigned(value)? != 0 => return Err("stereoscopic"),
            0x53c0 if parse_unsigned(value)? != 0 => return Err("an alpha channel"),
            _ => {}
        }
    }
    Ok(())
}

/// The `Range` of a `Colour` element (RFC 9559 section 5.1.4.1.28.23): 1 is broadcast, 2 full.
fn parse_color_range(colour: &[u8]) -> Result<Option<bool>> {
    Ok(match find_child(colour, 0x55b9)?.map(parse_unsigned).transpose()? {
        Some(1) => Some(false),
        Some(2) => Some(true),
        _ => None,
    })
}
