//! Converts one stream of an ffprobe report.

use std::collections::HashSet;

use super::{Raw, number, pair, rate, tag};
use crate::domain::codec::{self, CodecInfo};
use crate::domain::media::{Audio, Color, Hdr, Stream, StreamKind, Subtitle, TELETEXT, Video};

pub(super) fn stream(raw: &Raw, decodable: &HashSet<String>) -> Stream {
    let name = raw.codec_name.as_deref().unwrap_or("unknown");
    // VP8's profile is a number that means nothing to players.
    let profile = raw.profile.as_deref().filter(|_| name != "vp8").map(profile_name);
    let (chroma, depth) = raw.pix_fmt.as_deref().map_or(("", 8), pixels);
    let config = raw.extradata.as_deref().map(hexdump).unwrap_or_default();
    let facts = CodecInfo {
        codec: name,
        profile: profile.as_deref(),
        level: raw.level.and_then(|level| u32::try_from(level).ok()),
        bit_depth: depth,
        width: raw.width,
        height: raw.height,
        config: &config,
    };
    let flag = |name: &str| raw.disposition.get(name).is_some_and(|set| *set != 0);
    let kind = match raw.codec_type.as_deref() {
        Some("video") if !is_picture(raw) && raw.width > 0 => StreamKind::Video(video(raw, chroma, depth)),
        Some("audio") => StreamKind::Audio(audio(raw, flag("comment"))),
        Some("subtitle") => {
            StreamKind::Subtitle(Subtitle { is_text: is_text(name), is_hearing_impaired: flag("hearing_impaired") })
        }
        _ => StreamKind::Data,
    };
    // ffmpeg opens a decoder and tries the first frames: if it reports neither a pixel format nor channels, decoding
    // failed.
    let configured = match &kind {
        StreamKind::Audio(audio) => audio.channels > 0 && audio.sample_rate > 0,
        StreamKind::Video(_) => raw.pix_fmt.is_some(),
        // Teletext: pages in a character grid, of which a viewer would have to choose one. Not supported.
        StreamKind::Subtitle(_) => name != TELETEXT,
        StreamKind::Data => true,
    };
    Stream {
        index: raw.index,
        codec: name.to_owned(),
        codec_string: codec::codec_string(&facts),
        level: raw.level.and_then(|level| codec::format_level(name, level)),
        bitrate_kbps: number(&raw.bit_rate)
            .or_else(|| tag(&raw.tags, "BPS")?.parse().ok())
            .map(|bps| (bps / 1000.0).round() as u32),
        language: tag(&raw.tags, "language").filter(|language| *language != "und").map(str::to_owned),
        title: title(raw),
        is_default: flag("default"),
        is_forced: flag("forced"),
        is_decodable: configured && decodable.contains(name),
        profile,
        kind,
    }
}

fn video(raw: &Raw, chroma: &str, bit_depth: u8) -> Video {
    let interlaced = matches!(raw.field_order.as_deref(), Some("tt" | "bb" | "tb" | "bt"));
    let (average, base) = (rate(&raw.avg_frame_rate), rate(&raw.r_frame_rate));
    // The average often differs slightly from the nominal rate (a shorter last frame, a late first one).
    let near =
        |share: f64| matches!((average, base), (Some(a), Some(b)) if (a.as_f64() / b.as_f64() - 1.0).abs() < share);
    let field_rate = interlaced && matches!((average, base), (Some(a), Some(b)) if b.as_f64() > 1.5 * a.as_f64());
    let (rotation, mirrored) = raw
        .side_data_list
        .iter()
        .find_map(|data| orientation(&matrix(data.displaymatrix.as_deref()?)?))
        .unwrap_or((0, false));
    Video {
        width: raw.width,
        height: raw.height,
        sample_aspect: raw.sample_aspect_ratio.as_deref().and_then(|text| pair(text, ':')).unwrap_or((1, 1)),
        frame_rate: if near(0.005) { base } else { average.or(base) },
        has_variable_frame_rate: average.is_some() && base.is_some() && !near(0.02) && !field_rate,
        is_interlaced: interlaced,
        bit_depth,
        chroma: chroma.to_owned(),
        rotation,
        is_mirrored: mirrored,
        hdr: hdr(raw),
        color: color(raw),
    }
}

fn audio(raw: &Raw, commentary: bool) -> Audio {
    let bits = number(&raw.bits_per_raw_sample).map(|bits| bits as u8).filter(|bits| *bits > 0);
    let titled = title(raw).is_some_and(|title| title.to_ascii_lowercase().contains("commentary"));
    Audio {
        channels: raw.channels,
        channel_layout: raw.channel_layout.clone(),
        sample_rate: number(&raw.sample_rate).unwrap_or(0.0) as u32,
        bit_depth: bits.or((raw.bits_per_sample > 0).then_some(raw.bits_per_sample as u8)),
        is_commentary: commentary || titled,
    }
}

/// Dolby Vision counts as such only if its base layer cannot be shown without it (compatibility id 0).
fn hdr(raw: &Raw) -> Option<Hdr> {
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

fn color(raw: &Raw) -> Color {
    let known = |text: &Option<String>| text.clone().filter(|text| text != "unknown" && text != "reserved");
    let range = match raw.color_range.as_deref() {
        Some("tv") => Some("limited".to_owned()),
        Some("pc") => Some("full".to_owned()),
        _ => raw.pix_fmt.as_deref().filter(|format| format.starts_with("yuvj")).map(|_| "full".to_owned()),
    };
    Color {
        primaries: known(&raw.color_primaries),
        transfer: known(&raw.color_transfer),
        matrix: known(&raw.color_space),
        range,
    }
}

/// Chroma sampling and bit depth of an ffmpeg pixel format name.
fn pixels(format: &str) -> (&'static str, u8) {
    let chroma = if format.contains("444") || format.starts_with("gbr") || format.starts_with("rgb") {
        "4:4:4"
    } else if format.contains("422") || format.starts_with("yuyv") || format.starts_with("uyvy") {
        "4:2:2"
    } else if format.starts_with("gray") || format.starts_with("mono") {
        "4:0:0"
    } else {
        "4:2:0"
    };
    let digits: String = format
        .trim_end_matches("le")
        .trim_end_matches("be")
        .chars()
        .rev()
        .take_while(char::is_ascii_digit)
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .collect();
    let deep = (format.ends_with("le") || format.ends_with("be")).then(|| digits.parse().ok()).flatten();
    (chroma, deep.filter(|depth| (9..=16).contains(depth)).unwrap_or(8))
}

/// The 2 x 2 part of a display matrix as ffprobe dumps it, 16.16 fixed point.
fn matrix(dump: &str) -> Option<[f64; 4]> {
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
    let quarter = (b.atan2(a).to_degrees() / 90.0).round() as i32;
    Some((quarter.rem_euclid(4) as u16 * 90, mirrored))
}

fn title(raw: &Raw) -> Option<String> {
    let named = tag(&raw.tags, "title").or_else(|| {
        // QuickTime stores the track's name in its handler, where muxers write their own names.
        tag(&raw.tags, "handler_name").filter(|name| {
            let machine = ["handle", "core media", "isomedia", "gpac", "apple", "mainconcept", "google", "l-smash"];
            let lower = name.to_ascii_lowercase();
            !machine.iter().any(|word| lower.contains(word)) && lower.chars().any(char::is_alphabetic)
        })
    })?;
    Some(named.chars().take(512).collect())
}

pub(super) fn is_picture(raw: &Raw) -> bool {
    let flag = |name: &str| raw.disposition.get(name).is_some_and(|set| *set != 0);
    flag("attached_pic") || flag("timed_thumbnails")
}

fn is_text(codec: &str) -> bool {
    !matches!(codec, TELETEXT | "hdmv_pgs_subtitle" | "dvd_subtitle" | "dvb_subtitle" | "xsub" | "unknown")
}

/// `Constrained Baseline` becomes `constrained-baseline`.
fn profile_name(text: &str) -> String {
    text.trim().to_ascii_lowercase().replace([' ', '_'], "-")
}

/// Bytes of an `xxd`-like dump: `00000000: 0164 001f  .d..`.
fn hexdump(dump: &str) -> Vec<u8> {
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
        let of = |codec: &str| {
            let (codec_name, codec_type) = (Some(codec.to_owned()), Some("subtitle".to_owned()));
            stream(&Raw { codec_name, codec_type, ..Raw::default() }, &[codec.to_owned()].into())
        };
        let teletext = of("dvb_teletext");
        assert_eq!((teletext.codec.as_str(), teletext.is_decodable), ("dvb_teletext", false));
        assert!(matches!(teletext.kind, StreamKind::Subtitle(Subtitle { is_text: false, .. })));
        assert!(of("dvb_subtitle").is_decodable);
    }

    #[test]
    fn a_hexdump_gives_its_bytes_back() {
        let dump = "\n00000000: 0164 001f ffe1 0019 6764 001f acd9 4044  .d......gd....@D\n00000010: 05be 5f01  .._.\n";
        assert_eq!(hexdump(dump)[..4], [1, 0x64, 0, 0x1f]);
        assert_eq!(hexdump(dump)[16..], [0x05, 0xbe, 0x5f, 0x01]);
    }

    #[test]
    fn orientation_tells_turning_from_mirroring() {
        let one = 65536.0;
        assert_eq!(orientation(&[one, 0.0, 0.0, one]), Some((0, false)));
        assert_eq!(orientation(&[0.0, one, -one, 0.0]), Some((90, false)));
        assert_eq!(orientation(&[-one, 0.0, 0.0, -one]), Some((180, false)));
        assert_eq!(orientation(&[0.0, -one, one, 0.0]), Some((270, false)));
        assert_eq!(orientation(&[-one, 0.0, 0.0, one]), Some((0, true)));
        assert_eq!(orientation(&[0.0, 0.0, 0.0, 0.0]), None);
    }

    #[test]
    fn pixel_formats_give_chroma_and_depth() {
        assert_eq!(pixels("yuv420p"), ("4:2:0", 8));
        assert_eq!(pixels("yuvj420p"), ("4:2:0", 8));
        assert_eq!(pixels("yuv420p10le"), ("4:2:0", 10));
        assert_eq!(pixels("yuv422p12be"), ("4:2:2", 12));
        assert_eq!(pixels("yuv444p"), ("4:4:4", 8));
        assert_eq!(pixels("gray"), ("4:0:0", 8));
        assert_eq!(pixels("p010le"), ("4:2:0", 10));
        assert_eq!(pixels("nv12"), ("4:2:0", 8));
    }
}
