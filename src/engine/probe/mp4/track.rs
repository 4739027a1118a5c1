//! One track (`trak`): flags, language, rotation, codec, edits.

use super::super::outline::{OutlineTrack, OutlineTrackKind, Result, parse_uint, refuse_if};
use super::super::report::orientation;
use super::{find_child, require_child, sample_tables};
use crate::domain::cmaf::entry::esds;
use crate::engine::container::mp4::boxes::{boxes, parse_full_box};

/// A track, and the fields that the file's start and duration are computed from.
pub(super) struct TimedMp4Track {
    pub track: OutlineTrack,
    pub sample_count: u64,
    /// Seconds.
    pub start_seconds: f64,
    pub duration_seconds: f64,
}

pub(super) fn parse_track(trak: &[u8], movie_timescale: u64, file_len: u64) -> Result<TimedMp4Track> {
    let references = find_child(trak, b"tref")?.unwrap_or_default();
    refuse_if(references.windows(4).any(|kind| kind == b"chap"), "chapters")?;
    let tkhd = require_child(trak, b"tkhd")?;
    let is_version_1 = tkhd.first() == Some(&1);
    let (id_at, matrix_at) = if is_version_1 { (20, 52) } else { (12, 40) };
    let mdia = require_child(trak, b"mdia")?;
    let (timescale, stated_units, language) = parse_media_header(require_child(mdia, b"mdhd")?)?;
    let hdlr = require_child(mdia, b"hdlr")?;
    let handler = hdlr.get(8..12).ok_or("a handler is truncated")?;
    let stbl = require_child(require_child(mdia, b"minf")?, b"stbl")?;
    let mut track = OutlineTrack {
        container_id: parse_uint(tkhd, id_at, 4)?,
        is_default: parse_uint(tkhd, 0, 4)? & 1 != 0,
        language,
        title: parse_track_name(trak)?,
        ..OutlineTrack::default()
    };
    let is_video = handler == b"vide";
    parse_sample_description(&mut track, handler, require_child(stbl, b"stsd")?)?;
    let timing = sample_tables::parse_stts(require_child(stbl, b"stts")?)?;
    let (samples, bytes) = sample_tables::total_size(stbl)?;
    refuse_if(sample_tables::last_chunk_offset(stbl)? >= file_len, "truncated")?;
    refuse_if(samples != timing.sample_count, "the sample tables disagree")?;
    let (delay, media_start, edit_units) = parse_edits(trak)?;
    let to_seconds = |units: f64| units / timescale as f64;
    let edit_seconds = match edit_units {
        Some(units) if movie_timescale > 0 => units as f64 / movie_timescale as f64,
        _ => to_seconds(stated_units as f64),
    };
    let measured_seconds = to_seconds(timing.total_units as f64);
    let difference = (edit_seconds - measured_seconds).abs();
    refuse_if(difference > 1.0 + measured_seconds * 0.01, "header and samples disagree about the length")?;
    let composition_offset = if is_video { sample_tables::first_composition_offset(stbl)? } else { 0 };
    let lead_seconds = to_seconds(composition_offset.saturating_sub(media_start) as f64);
    // Audio before the edit is priming, which is decoded and dropped.
    let lead_seconds = if is_video { lead_seconds } else { lead_seconds.max(0.0) };
    let delay_seconds = if movie_timescale > 0 { delay as f64 / movie_timescale as f64 } else { 0.0 };
    if is_video {
        let matrix: [f64; 4] = [0, 4, 12, 16]
            .map(|at| parse_uint(tkhd, matrix_at + at, 4).map_or(0.0, |cell| f64::from(cell as u32 as i32)));
        (track.rotation, track.is_mirrored) = orientation(&matrix).ok_or("a matrix without area")?;
        let rates = timing.frame_rates(timescale)?;
        (track.frame_rate, track.has_variable_frame_rate) = (rates.average, rates.is_variable);
        track.base_frame_rate = rates.base.filter(|_| rates.is_variable);
    }
    if measured_seconds > 0.0 {
        track.bitrate_kbps = Some((bytes as f64 * 8.0 / measured_seconds / 1000.0).round() as u32);
    }
    let start_seconds = delay_seconds + lead_seconds;
    Ok(TimedMp4Track { track, sample_count: samples, start_seconds, duration_seconds: edit_seconds })
}

/// Timescale, duration in its units, language.
fn parse_media_header(mdhd: &[u8]) -> Result<(u64, u64, Option<String>)> {
    let (version, _, mut cursor) = parse_full_box(mdhd)?;
    // Creation and modification time.
    cursor.take(if version == 1 { 16 } else { 8 })?;
    let (timescale, length, language) = (u64::from(cursor.u32()?), cursor.u32_or_u64(version == 1)?, cursor.u16()?);
    refuse_if(timescale == 0, "no timescale")?;
    // Three letters of five bits each, starting at 'a' - 1. Smaller values are Macintosh codes, of which 0 is English.
    let language = match language {
        0 => Some("eng".to_owned()),
        0x7fff => None,
        packed if packed >= 0x400 => {
            let letter = |shift: u32| char::from(0x60 + (packed >> shift & 31) as u8);
            Some([letter(10), letter(5), letter(0)].iter().collect()).filter(|code| code != "und")
        }
        _ => return Err("a Macintosh language code"),
    };
    Ok((timescale, length, language))
}

fn parse_track_name(trak: &[u8]) -> Result<Option<String>> {
    let Some(udta) = find_child(trak, b"udta")? else { return Ok(None) };
    let name =
        find_child(udta, b"name")?.map(|text| String::from_utf8_lossy(text).trim_matches('\0').trim().to_owned());
    Ok(name.filter(|name| !name.is_empty()).map(|name| name.chars().take(512).collect()))
}

/// Parses the first sample description. Codecs that need a closer check are left to ffprobe.
fn parse_sample_description(track: &mut OutlineTrack, handler: &[u8], stsd: &[u8]) -> Result<()> {
    refuse_if(parse_uint(stsd, 4, 4)? != 1, "several sample descriptions")?;
    let (fourcc, entry) = boxes(stsd.get(8..).unwrap_or_default()).next().ok_or("no sample description")??;
    let boxes_after = |entry_bytes: usize| entry.get(entry_bytes..).ok_or("a sample description is truncated");
    match handler {
        b"vide" => {
            let boxes = boxes_after(78)?;
            refuse_if(find_child(boxes, b"dvcC")?.is_some() || find_child(boxes, b"dvvC")?.is_some(), "Dolby Vision")?;
            let (codec, record) = match &fourcc {
                b"avc1" | b"avc3" => ("h264", b"avcC"),
                b"hvc1" | b"hev1" => ("hevc", b"hvcC"),
                b"av01" => ("av1", b"av1C"),
                b"vp09" => ("vp9", b"vpcC"),
                _ => return Err("an unusual video codec"),
            };
            (track.kind, track.codec, track.config) =
                (OutlineTrackKind::Video, codec, require_child(boxes, record)?.to_vec());
            (track.width, track.height) = (parse_uint(entry, 24, 2)? as u32, parse_uint(entry, 26, 2)? as u32);
            track.full_range = match find_child(boxes, b"colr")? {
                // ISO/IEC 14496-12 section 12.1.5.
                Some([b'n', b'c', b'l', b'x', _, _, _, _, _, _, flags, ..]) => Some(flags & 0x80 != 0),
                _ => None,
            };
        }
        b"soun" => {
            track.kind = OutlineTrackKind::Audio;
            track.codec = match &fourcc {
                b"mp4a" => {
                    refuse_if(parse_uint(entry, 8, 2)? != 0, "a QuickTime audio description")?;
                    let (codec, config) = parse_esds(require_child(boxes_after(28)?, b"esds")?)?;
                    track.config = config;
                    codec
                }
                b"ac-3" => "ac3",
                b"ec-3" => "eac3",
                b"Opus" => "opus",
                b"fLaC" => "flac",
                _ => return Err("an unusual audio codec"),
            };
        }
        b"text" | b"sbtl" if &fourcc == b"tx3g" => {
            (track.kind, track.codec) = (OutlineTrackKind::TextSubtitle, "mov_text")
        }
        _ => return Err("an unusual track"),
    }
    Ok(())
}

/// Codec and configuration of an `esds` box (ISO/IEC 14496-1 section 7.2.6).
fn parse_esds(esds: &[u8]) -> Result<(&'static str, Vec<u8>)> {
    match esds::parse(esds)? {
        (0x69 | 0x6b, _) => Ok(("mp3", Vec::new())),
        (0x40, Some(config)) => Ok(("aac", config.to_vec())),
        _ => Err("an unusual elementary stream"),
    }
}

/// Delay before the track (movie units), first media time shown (track units), duration shown (movie units; None: all).
fn parse_edits(trak: &[u8]) -> Result<(u64, i64, Option<u64>)> {
    let edts = find_child(trak, b"edts")?.unwrap_or_default();
    let Some(elst) = find_child(edts, b"elst")? else { return Ok((0, 0, None)) };
    let is_version_1 = elst.first() == Some(&1);
    let (width, entry_len) = if is_version_1 { (8, 20) } else { (4, 12) };
    let count = parse_uint(elst, 4, 4)? as usize;
    let (mut delay, mut edit) = (0, None);
    for entry in 0..count.min(3) {
        let position = 8 + entry * entry_len;
        let (length, media_start) = (parse_uint(elst, position, width)?, parse_uint(elst, position + width, width)?);
        let media_start = if is_version_1 { media_start as i64 } else { i64::from(media_start as u32 as i32) };
        if media_start < 0 && edit.is_none() {
            delay = length.saturating_add(delay);
        } else if edit.is_none() {
            edit = Some((media_start, length));
        } else {
            return Err("several edits");
        }
    }
    let (first, length) = edit.ok_or("an edit list without media")?;
    Ok((delay, first, Some(length).filter(|length| *length > 0)))
}
