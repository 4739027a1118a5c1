//! Converts one stream of an ffprobe report.

use std::collections::HashSet;

use super::{Raw, find_tag, parse_frame_rate, parse_number, parse_pair};
use crate::domain::codec::{self, CodecInfo};
use crate::domain::media::{Audio, Color, DolbyVision, Hdr, Stream, StreamKind, Subtitle, TELETEXT, Video};
use crate::engine::probe::outline::nearest_usual_rate;

pub(super) fn to_stream(raw: &Raw, decodable: &HashSet<String>) -> Stream {
    let name = raw.codec_name.as_deref().unwrap_or("unknown");
    // VP8's profile is a number that means nothing to players.
    let profile = raw.profile.as_deref().filter(|_| name != "vp8").map(profile_name);
    let (chroma, depth) = raw.pix_fmt.as_deref().map_or(("", 8), parse_pixel_format);
    let config = raw.extradata.as_deref().map(parse_hexdump).unwrap_or_default();
    let codec_info = CodecInfo {
        codec: name,
        profile: profile.as_deref(),
        level: raw.level.and_then(|level| u32::try_from(level).ok()),
        bit_depth: depth,
        width: raw.width,
        height: raw.height,
        config: &config,
    };
    let has_disposition = |name: &str| raw.disposition.get(name).is_some_and(|set| *set != 0);
    let kind = match raw.codec_type.as_deref() {
        Some("video") if !is_image(raw) && raw.width > 0 => StreamKind::Video(to_video(raw, chroma, depth)),
        Some("audio") => StreamKind::Audio(to_audio(raw, has_disposition("comment"))),
        Some("subtitle") => StreamKind::Subtitle(Subtitle {
            is_text: is_text(name),
            is_hearing_impaired: has_disposition("hearing_impaired"),
        }),
        _ => StreamKind::Data,
    };
    // ffmpeg opens a decoder and tries the first frames: if it reports neither a pixel format nor channels, decoding
    // failed.
    let is_configured = match &kind {
        StreamKind::Audio(audio) => audio.channels > 0 && audio.sample_rate > 0,
        StreamKind::Video(_) => raw.pix_fmt.is_some(),
        // Teletext: pages in a character grid, of which a viewer would have to choose one. Not supported.
        StreamKind::Subtitle(_) => name != TELETEXT,
        StreamKind::Data => true,
    };
    Stream {
        index: raw.index,
        codec: name.to_owned(),
        codec_string: codec::codec_string(&codec_info),
        level: raw.level.and_then(|level| codec::format_level(name, level)),
        bitrate_kbps: parse_number(&raw.bit_rate)
            .or_else(|| find_tag(&raw.tags, "BPS")?.parse().ok())
            .map(|bps| (bps / 1000.0).round() as u32),
        language: find_tag(&raw.tags, "language").filter(|language| *language != "und").map(str::to_owned),
        title: stream_title(raw),
        is_default: has_disposition("default"),
        is_forced: has_disposition("forced"),
        is_decodable: is_configured && decodable.contains(name),
        profile,
        kind,
    }
}

fn to_video(raw: &Raw, chroma: &str, bit_depth: u8) -> Video {
    let interlaced = matches!(raw.field_order.as_deref(), Some("tt" | "bb" | "tb" | "bt"));
    let (average_rate, base_rate) = (parse_frame_rate(&raw.avg_frame_rate), parse_frame_rate(&raw.r_frame_rate));
    // The average often differs slightly from the nominal rate (a shorter last frame, a late first one).
    let is_near = |tolerance: f64| matches!((average_rate, base_rate), (Some(a), Some(b)) if (a.as_f64() / b.as_f64() - 1.0).abs() < tolerance);
    let is_field_rate =
        interlaced && matches!((average_rate, base_rate), (Some(a), Some(b)) if b.as_f64() > 1.5 * a.as_f64());
    let has_variable_frame_rate = average_rate.is_some() && base_rate.is_some() && !is_near(0.02) && !is_field_rate;
    let (rotation, mirrored) = raw
        .side_data_list
        .iter()
        .find_map(|data| orientation(&parse_display_matrix(data.displaymatrix.as_deref()?)?))
        .unwrap_or((0, false));
    Video {
        width: raw.width,
        height: raw.height,
        sample_aspect: raw.sample_aspect_ratio.as_deref().and_then(|text| parse_pair(text, ':')).unwrap_or((1, 1)),
        frame_rate: if is_near(0.005) { base_rate } else { average_rate.or(base_rate) },
        has_variable_frame_rate,
        base_frame_rate: base_rate
            .and_then(|rate| nearest_usual_rate(rate.as_f64()))
            .filter(|_| has_variable_frame_rate),
        is_interlaced: interlaced,
        bit_depth,
        chroma: chroma.to_owned(),
        rotation,
        is_mirrored: mirrored,
        hdr: detect_hdr(raw),
        color: to_color(raw),
        dolby_vision: to_dolby_vision(raw),
    }
}

fn to_dolby_vision(raw: &Raw) -> Option<DolbyVision> {
    let data = raw.side_data_list.iter().find(|data| data.side_data_type.starts_with("DOVI"))?;
    Some(DolbyVision {
        profile: data.dv_profile?,
        level: data.dv_level?,
        has_metadata: data.rpu_present_flag != 0,
        has_enhancement_layer: data.el_present_flag != 0,
        has_base_layer: data.bl_present_flag != 0,
        compatibility: data.dv_bl_signal_compatibility_id?,
    })
}

fn to_audio(raw: &Raw, commentary: bool) -> Audio {
    let bits = parse_number(&raw.bits_per_raw_sample).map(|bits| bits as u8).filter(|bits| *bits > 0);
    let has_commentary_title = stream_title(raw).is_some_and(|title| title.to_ascii_lowercase().contains("commentary"));
    Audio {
        channels: raw.channels,
        channel_layout: raw.channel_layout.clone(),
        sample_rate: parse_number(&raw.sample_rate).unwrap_or(0.0) as u32,
        bit_depth: bits.or((raw.bits_per_sample > 0).then_some(raw.bits_per_sample as u8)),
        is_commentary: commentary || has_commentary_title,
    }
}

/// Dolby Vision counts as such only if its base layer cannot be shown without it (compatibility id 0).
fn detect_hdr(raw: &Raw) -> Option<Hdr> {
    let dolby = raw.side_data_list.iter().find(|data| data.side_data_type.starts_with("DOVI"));
    if dolby.is_some_and(|data| data.dv_bl_signal_compatibility_id == Some(0)) {
        return Some(Hdr::DolbyVision);
    }
    match raw.color_transfer.as_deref() {
        Some("smpte2084") => Some(Hdr::Hdr10),
        Some("arib-std-b67") => Some(Hdr::Hlg),
        _ => None,
    }
}

fn to_color(raw: &Raw) -> Color {
    let known_value = |text: &Option<String>| text.clone().filter(|text| text != "unknown" && text != "reserved");
    let range = match raw.color_range.as_deref() {
        Some("tv") => Some("limited".to_owned()),
        Some("pc") => Some("full".to_owned()),
        _ => raw.pix_fmt.as_deref().filter(|format| format.starts_with("yuvj")).map(|_| "full".to_owned()),
    };
    // ffmpeg states the matrix of RGB for H.264 and HEVC only.
    let rgb_matrix = || raw.pix_fmt.as_deref().filter(|format| is_rgb(format)).map(|_| "gbr".to_owned());
    Color {
        primaries: known_value(&raw.color_primaries),
        transfer: known_value(&raw.color_transfer),
        matrix: known_value(&raw.color_space).or_else(rgb_matrix),
        range,
    }
}

/// Whether an ffmpeg pixel format is RGB.
fn is_rgb(format: &str) -> bool {
    ["gbr", "rgb", "bgr", "argb", "abgr", "0rgb", "0bgr", "pal8"].iter().any(|start| format.starts_with(start))
}

/// Chroma sampling and bit depth of an ffmpeg pixel format name.
fn parse_pixel_format(format: &str) -> (&'static str, u8) {
    let chroma = if format.contains("444") || format.starts_with("gbr") || format.starts_with("rgb") {
        "4:4:4"
    } else if format.contains("422") || format.starts_with("yuyv") || format.starts_with("uyvy") {
        "4:2:2"
    } else if format.starts_with("gray") || format.starts_with("mono") {
        "4:0:0"
    } else {
        "4:2:0"
    };
    let bare = format.trim_end_matches("le").trim_end_matches("be");
    let digits = &bare[bare.trim_end_matches(|c: char| c.is_ascii_digit()).len()..];
    let depth_digits = (format.ends_with("le") || format.ends_with("be")).then(|| digits.parse().ok()).flatten();
    (chroma, depth_digits.filter(|depth| (9..=16).contains(depth)).unwrap_or(8))
}

/// The 2 x 2 part of a display matrix as ffprobe dumps it, 16.16 fixed point.
fn parse_display_matrix(dump: &str) -> Option<[f64; 4]> {
    let mut rows = dump
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(_, row)| row.split_whitespace().map(|cell| cell.parse::<f64>().unwrap_or(0.0)).collect::<Vec<_>>());
    let (first, second) = (rows.next()?, rows.next()?);
    Some([*first.first()?, *first.get(1)?, *second.first()?, *second.get(1)?])
}

/// Rotation in degrees clockwise, and whether the frame is mirrored horizontally first; None for a singular matrix.
pub(in crate::engine::probe) fn orientation(&[a, b, c, d]: &[f64; 4]) -> Option<(u16, bool)> {
    let determinant = a * d - b * c;
    if determinant == 0.0 || !determinant.is_finite() {
        return None;
    }
    let mirrored = determinant < 0.0;
    let (a, b) = if mirrored { (-a, -b) } else { (a, b) };
    let quarter_turns = (b.atan2(a).to_degrees() / 90.0).round() as i32;
    Some((quarter_turns.rem_euclid(4) as u16 * 90, mirrored))
}

fn stream_title(raw: &Raw) -> Option<String> {
    let name = find_tag(&raw.tags, "title").or_else(|| {
        // QuickTime stores the track's name in its handler, where muxers write their own names.
        find_tag(&raw.tags, "handler_name").filter(|name| {
            let muxer_names = ["handle", "core media", "isomedia", "gpac", "apple", "mainconcept", "google", "l-smash"];
            let lower = name.to_ascii_lowercase();
            !muxer_names.iter().any(|word| lower.contains(word)) && lower.chars().any(char::is_alphabetic)
        })
    })?;
    Some(name.chars().take(512).collect())
}

pub(super) fn is_image(raw: &Raw) -> bool {
    let has_disposition = |name: &str| raw.disposition.get(name).is_some_and(|set| *set != 0);
    has_disposition("attached_pic") || has_disposition("timed_thumbnails")
}

fn is_text(codec: &str) -> bool {
    !matches!(codec, TELETEXT | "hdmv_pgs_subtitle" | "dvd_subtitle" | "dvb_subtitle" | "xsub" | "unknown")
}

/// `Constrained Baseline` becomes `constrained-baseline`.
fn profile_name(text: &str) -> String {
    text.trim().to_ascii_lowercase().replace([' ', '_'], "-")
}

/// Bytes of an `xxd`-like dump: `00000000: 0164 001f  .d..`.
fn parse_hexdump(dump: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in dump.lines() {
        let Some((_, row)) = line.split_once(": ") else { continue };
        let hex = row.split("  ").next().unwrap_or("");
        let digits: Vec<u8> = hex.chars().filter_map(|c| Some(c.to_digit(16)? as u8)).collect();
        bytes.extend(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]));
        if bytes.len() > 64 * 1024 {
            break;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn teletext_is_a_subtitle_that_cannot_be_shown() {
        let stream_of = |codec: &str| {
            let (codec_name, codec_type) = (Some(codec.to_owned()), Some("subtitle".to_owned()));
            to_stream(&Raw { codec_name, codec_type, ..Raw::default() }, &[codec.to_owned()].into())
        };
        let teletext = stream_of("dvb_teletext");
        assert_eq!((teletext.codec.as_str(), teletext.is_decodable), ("dvb_teletext", false));
        assert!(matches!(teletext.kind, StreamKind::Subtitle(Subtitle { is_text: false, .. })));
        assert!(stream_of("dvb_subtitle").is_decodable);
    }

    #[test]
    fn a_hexdump_gives_its_bytes_back() {
        let dump = "\n00000000: 0164 001f ffe1 0019 6764 001f acd9 4044  .d......gd....@D\n00000010: 05be 5f01  .._.\n";
        assert_eq!(parse_hexdump(dump)[..4], [1, 0x64, 0, 0x1f]);
        assert_eq!(parse_hexdump(dump)[16..], [0x05, 0xbe, 0x5f, 0x01]);
    }

    #[test]
    fn orientation_distinguishes_rotation_from_mirroring() {
        let fixed_one = 65536.0;
        assert_eq!(orientation(&[fixed_one, 0.0, 0.0, fixed_one]), Some((0, false)));
        assert_eq!(orientation(&[0.0, fixed_one, -fixed_one, 0.0]), Some((90, false)));
        assert_eq!(orientation(&[-fixed_one, 0.0, 0.0, -fixed_one]), Some((180, false)));
        assert_eq!(orientation(&[0.0, -fixed_one, fixed_one, 0.0]), Some((270, false)));
        assert_eq!(orientation(&[-fixed_one, 0.0, 0.0, fixed_one]), Some((0, true)));
        assert_eq!(orientation(&[0.0, 0.0, 0.0, 0.0]), None);
    }

    #[test]
    fn pixel_formats_give_chroma_and_depth() {
        assert_eq!(parse_pixel_format("yuv420p"), ("4:2:0", 8));
        assert_eq!(parse_pixel_format("yuvj420p"), ("4:2:0", 8));
        assert_eq!(parse_pixel_format("yuv420p10le"), ("4:2:0", 10));
        assert_eq!(parse_pixel_format("yuv422p12be"), ("4:2:2", 12));
        assert_eq!(parse_pixel_format("yuv444p"), ("4:4:4", 8));
        assert_eq!(parse_pixel_format("gray"), ("4:0:0", 8));
        assert_eq!(parse_pixel_format("p010le"), ("4:2:0", 10));
        assert_eq!(parse_pixel_format("nv12"), ("4:2:0", 8));
    }

    #[test]
    fn rgb_is_recognised_by_its_pixel_format() {
        assert!(["gbrp", "gbrp10le", "rgb24", "bgr0", "argb", "pal8"].into_iter().all(is_rgb));
        assert!(!["yuv444p", "yuvj420p", "gray", "nv12"].into_iter().any(is_rgb));
    }
}
