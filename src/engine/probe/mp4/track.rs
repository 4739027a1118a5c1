//! One track (`trak`): flags, language, rotation, codec, edits.

use super::super::outline::{Kind, Track, Unsure, number};
use super::super::report::orientation;
use super::boxes::{Boxes, child, needed};
use super::tables;

/// A track, and the fields that the file's start and duration are computed from.
pub(super) struct Traced {
    pub track: Track,
    pub samples: u64,
    /// Seconds.
    pub start: f64,
    pub length: f64,
}

pub(super) fn track(trak: &[u8], movie_scale: u64, file_len: u64) -> Result<Traced, Unsure> {
    if child(trak, b"tref")?.is_some_and(|references| references.windows(4).any(|kind| kind == b"chap")) {
        return Err(Unsure("chapters"));
    }
    let tkhd = needed(trak, b"tkhd")?;
    let wide = tkhd.first() == Some(&1);
    let (id_at, matrix_at) = if wide { (20, 52) } else { (12, 40) };
    let mdia = needed(trak, b"mdia")?;
    let (scale, stated, language) = media_header(needed(mdia, b"mdhd")?)?;
    let hdlr = needed(mdia, b"hdlr")?;
    let handler = hdlr.get(8..12).ok_or(Unsure("a handler is truncated"))?;
    let stbl = needed(needed(mdia, b"minf")?, b"stbl")?;
    let mut track = Track {
        key: number(tkhd, id_at, 4)?,
        default: number(tkhd, 0, 4)? & 1 != 0,
        language,
        title: track_name(trak)?,
        ..Track::default()
    };
    let is_video = handler == b"vide";
    describe(&mut track, handler, needed(stbl, b"stsd")?)?;
    let timing = tables::timing(needed(stbl, b"stts")?)?;
    let (samples, bytes) = tables::sizes(stbl)?;
    if tables::last_chunk(stbl)? >= file_len {
        return Err(Unsure("truncated"));
    }
    if samples != timing.samples {
        return Err(Unsure("the sample tables disagree"));
    }
    let (delay, first, edited) = edits(trak)?;
    let seconds = |units: f64| units / scale as f64;
    let length = match edited {
        Some(units) if movie_scale > 0 => units as f64 / movie_scale as f64,
        _ => seconds(stated as f64),
    };
    let measured = seconds(timing.total as f64);
    if (length - measured).abs() > 1.0 + measured * 0.01 {
        return Err(Unsure("header and samples disagree about the length"));
    }
    let shown = if is_video { tables::composition_offset(stbl)? } else { 0 };
    let lead = seconds(shown.saturating_sub(first) as f64);
    // Audio before the edit is priming, which is decoded and dropped.
    let lead = if is_video { lead } else { lead.max(0.0) };
    let delay = if movie_scale > 0 { delay as f64 / movie_scale as f64 } else { 0.0 };
    if is_video {
        let matrix: [f64; 4] =
            [0, 4, 12, 16].map(|at| number(tkhd, matrix_at + at, 4).map_or(0.0, |cell| f64::from(cell as u32 as i32)));
        (track.rotation, track.mirrored) = orientation(&matrix).ok_or(Unsure("a matrix without area"))?;
        (track.frame_rate, track.variable_frame_rate) = timing.rate(scale)?;
    }
    if measured > 0.0 {
        track.bitrate_kbps = Some((bytes as f64 * 8.0 / measured / 1000.0).round() as u32);
    }
    Ok(Traced { track, samples, start: delay + lead, length })
}

/// Timescale, duration in its units, language.
fn media_header(mdhd: &[u8]) -> Result<(u64, u64, Option<String>), Unsure> {
    let wide = mdhd.first() == Some(&1);
    let (scale, length, language) = if wide {
        (number(mdhd, 20, 4)?, number(mdhd, 24, 8)?, number(mdhd, 32, 2)?)
    } else {
        (number(mdhd, 12, 4)?, number(mdhd, 16, 4)?, number(mdhd, 20, 2)?)
    };
    if scale == 0 {
        return Err(Unsure("no timescale"));
    }
    // Three letters of five bits each, starting at 'a' - 1. Smaller values are Macintosh codes, of which 0 is English.
    let language = match language {
        0 => Some("eng".to_owned()),
        0x7fff => None,
        packed if packed >= 0x400 => {
            let letter = |shift: u64| char::from(0x60 + (packed >> shift & 31) as u8);
            Some([letter(10), letter(5), letter(0)].iter().collect()).filter(|code| code != "und")
        }
        _ => return Err(Unsure("a Macintosh language code")),
    };
    Ok((scale, length, language))
}

fn track_name(trak: &[u8]) -> Result<Option<String>, Unsure> {
    let Some(udta) = child(trak, b"udta")? else { return Ok(None) };
    let name = child(udta, b"name")?.map(|text| String::from_utf8_lossy(text).trim_matches('\0').trim().to_owned());
    Ok(name.filter(|name| !name.is_empty()).map(|name| name.chars().take(512).collect()))
}

/// Parses the first sample description. Codecs that need a closer check are left to ffprobe.
fn describe(track: &mut Track, handler: &[u8], stsd: &[u8]) -> Result<(), Unsure> {
    if number(stsd, 4, 4)? != 1 {
        return Err(Unsure("several sample descriptions"));
    }
    let (fourcc, entry) = Boxes(stsd.get(8..).unwrap_or_default()).next().ok_or(Unsure("no sample description"))??;
    let inside = |fixed: usize| entry.get(fixed..).ok_or(Unsure("a sample description is truncated"));
    match handler {
        b"vide" => {
            let boxes = inside(78)?;
            if child(boxes, b"dvcC")?.is_some() || child(boxes, b"dvvC")?.is_some() {
                return Err(Unsure("Dolby Vision"));
            }
            let (codec, record) = match &fourcc {
                b"avc1" | b"avc3" => ("h264", b"avcC"),
                b"hvc1" | b"hev1" => ("hevc", b"hvcC"),
                b"av01" => ("av1", b"av1C"),
                b"vp09" => ("vp9", b"vpcC"),
                _ => return Err(Unsure("an unusual video codec")),
            };
            (track.kind, track.codec, track.config) = (Kind::Video, codec, needed(boxes, record)?.to_vec());
            (track.width, track.height) = (number(entry, 24, 2)? as u32, number(entry, 26, 2)? as u32);
            track.full_range = match child(boxes, b"colr")? {
                // ISO/IEC 14496-12 section 12.1.5.
                Some([b'n', b'c', b'l', b'x', _, _, _, _, _, _, flags, ..]) => Some(flags & 0x80 != 0),
                _ => None,
            };
        }
        b"soun" => {
            track.kind = Kind::Audio;
            track.codec = match &fourcc {
                b"mp4a" => {
                    if number(entry, 8, 2)? != 0 {
                        return Err(Unsure("a QuickTime audio description"));
                    }
                    let (codec, config) = elementary_stream(needed(inside(28)?, b"esds")?)?;
                    track.config = config;
                    codec
                }
                b"ac-3" => "ac3",
                b"ec-3" => "eac3",
                b"Opus" => "opus",
                b"fLaC" => "flac",
                _ => return Err(Unsure("an unusual audio codec")),
            };
        }
        b"text" | b"sbtl" if &fourcc == b"tx3g" => (track.kind, track.codec) = (Kind::TextSubtitle, "mov_text"),
        _ => return Err(Unsure("an unusual track")),
    }
    Ok(())
}

/// Codec and configuration of an `esds` box (ISO/IEC 14496-1 section 7.2.6).
fn elementary_stream(esds: &[u8]) -> Result<(&'static str, Vec<u8>), Unsure> {
    let mut rest = esds.get(4..).unwrap_or_default();
    let mut kind = 0;
    while let [tag, tail @ ..] = rest {
        let mut size = 0usize;
        let mut used = 0;
        for byte in tail.iter().take(4) {
            (size, used) = (size << 7 | usize::from(byte & 0x7f), used + 1);
            if byte & 0x80 == 0 {
                break;
            }
        }
        let body = tail.get(used..).unwrap_or_default();
        match tag {
            // ES descriptor: id, flags; the streams of files carry no optional fields.
            3 if body.get(2) == Some(&0) => rest = &body[3..],
            4 => {
                kind = number(body, 0, 1)?;
                rest = body.get(13..).unwrap_or_default();
                if matches!(kind, 0x69 | 0x6b) {
                    return Ok(("mp3", Vec::new()));
                }
            }
            5 if kind == 0x40 => {
                return Ok(("aac", body.get(..size).ok_or(Unsure("a descriptor is truncated"))?.to_vec()));
            }
            _ => break,
        }
    }
    Err(Unsure("an unusual elementary stream"))
}

/// Delay before the track (movie units), first media time shown (track units), duration shown (movie units; None: all).
fn edits(trak: &[u8]) -> Result<(u64, i64, Option<u64>), Unsure> {
    let elst = match child(trak, b"edts")? {
        Some(edts) => child(edts, b"elst")?,
        None => None,
    };
    let Some(elst) = elst else { return Ok((0, 0, None)) };
    let wide = elst.first() == Some(&1);
    let (width, row) = if wide { (8, 20) } else { (4, 12) };
    let count = number(elst, 4, 4)? as usize;
    let (mut delay, mut shown) = (0, None);
    for entry in 0..count.min(3) {
        let at = 8 + entry * row;
        let (length, first) = (number(elst, at, width)?, number(elst, at + width, width)?);
        let first = if wide { first as i64 } else { i64::from(first as u32 as i32) };
        if first < 0 && shown.is_none() {
            delay = length.saturating_add(delay);
        } else if shown.is_none() {
            shown = Some((first, length));
        } else {
            return Err(Unsure("several edits"));
        }
    }
    match shown {
        Some((first, 0)) => Ok((delay, first, None)),
        Some((first, length)) => Ok((delay, first, Some(length))),
        None => Err(Unsure("an edit list without media")),
    }
}
