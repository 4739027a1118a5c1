//! Reads the movie box of an mp4 file (ISO/IEC 14496-12): tracks, flags, turning, edits, timing.
//!
//! Every length is checked against its box, nothing is indexed unchecked, and the movie box is bounded; the samples
//! themselves are never touched.

use std::os::unix::fs::FileExt;

use super::outline::{Kind, Outline, Track, Unsure, number, usual_rate};
use super::report::orientation;
use crate::domain::media::{Container, Tags};
use crate::domain::time::FrameRate;
use crate::engine::source::Source;

/// Largest movie box read; a film of two hours has about 6 MiB.
const MOOV_BYTES: u64 = 48 << 20;
const TOP_LEVEL_BOXES: usize = 256;

/// Reads the file's outline.
pub(super) fn read(source: &Source) -> Result<Outline, Unsure> {
    let moov = movie_box(source)?;
    let mut timescale = 0;
    let mut tracks: Vec<Traced> = Vec::new();
    let mut tags = Tags::default();
    for entry in Boxes(&moov) {
        let (kind, body) = entry?;
        match &kind {
            b"mvhd" => {
                let at = if body.first() == Some(&1) { 20 } else { 12 };
                timescale = number(body, at, 4)?;
            }
            b"trak" => tracks.push(track(body, timescale, source.len)?),
            b"udta" => tags = user_data(body)?,
            b"mvex" => return Err(Unsure("fragmented")),
            b"cmov" => return Err(Unsure("a compressed movie box")),
            _ => {}
        }
    }
    let empty = |traced: &Traced| traced.samples == 0;
    if tracks.is_empty() || tracks.iter().any(empty) {
        return Err(Unsure("a track without samples"));
    }
    let played = || tracks.iter().filter(|traced| matches!(traced.track.kind, Kind::Video | Kind::Audio));
    let start = played().map(|traced| traced.start).fold(f64::INFINITY, f64::min);
    let end = played().map(|traced| traced.start.max(0.0) + traced.length).fold(0.0, f64::max);
    if !start.is_finite() || end <= start {
        return Err(Unsure("no picture and no sound"));
    }
    let tracks = tracks.into_iter().enumerate().map(|(index, traced)| Track { index: index as u32, ..traced.track });
    Ok(Outline {
        container: Container::Mp4,
        duration_seconds: end - start,
        start_seconds: start,
        tracks: tracks.collect(),
        chapters: Vec::new(),
        attachments: Vec::new(),
        tags,
    })
}

/// A track with what the whole file's length and start are computed from.
struct Traced {
    track: Track,
    samples: u64,
    /// Seconds.
    start: f64,
    length: f64,
}

/// Finds the movie box; gives up on anything unusual at the top level.
fn movie_box(source: &Source) -> Result<Vec<u8>, Unsure> {
    let mut at = 0;
    let mut moov = None;
    for _ in 0..TOP_LEVEL_BOXES {
        if at == source.len {
            return moov.ok_or(Unsure("no movie box"));
        }
        let mut head = [0; 16];
        let filled = source.file.read_at(&mut head, at).map_err(|_| Unsure("unreadable"))?;
        let mut size = number(&head[..filled], 0, 4)?;
        let mut header = 8;
        let kind = head.get(4..8).ok_or(Unsure("a box header is cut short"))?;
        if size == 1 {
            (size, header) = (number(&head[..filled], 8, 8)?, 16);
        } else if size == 0 {
            size = source.len - at;
        }
        let end = at.checked_add(size).filter(|end| *end <= source.len && size >= header);
        let end = end.ok_or(Unsure("a box runs past the end"))?;
        match kind {
            b"ftyp" => {
                let mut brand = [0; 4];
                source.file.read_exact_at(&mut brand, at + header).map_err(|_| Unsure("unreadable"))?;
                if &brand == b"qt  " {
                    return Err(Unsure("QuickTime"));
                }
            }
            b"moov" => {
                if moov.is_some() || size > MOOV_BYTES {
                    return Err(Unsure("an unusual movie box"));
                }
                let mut body = vec![0; (size - header) as usize];
                source.file.read_exact_at(&mut body, at + header).map_err(|_| Unsure("unreadable"))?;
                moov = Some(body);
            }
            b"mdat" | b"free" | b"skip" | b"wide" | b"uuid" | b"udta" => {}
            _ => return Err(Unsure("an unusual box")),
        }
        at = end;
    }
    Err(Unsure("too many boxes"))
}

/// The boxes inside a box.
struct Boxes<'a>(&'a [u8]);

impl<'a> Iterator for Boxes<'a> {
    type Item = Result<([u8; 4], &'a [u8]), Unsure>;

    fn next(&mut self) -> Option<Self::Item> {
        // A terminator of four zero bytes ends QuickTime user data.
        if self.0.len() < 8 {
            return None;
        }
        let split = || {
            let mut size = number(self.0, 0, 4)?;
            let mut header = 8;
            if size == 1 {
                (size, header) = (number(self.0, 8, 8)?, 16);
            } else if size == 0 {
                size = self.0.len() as u64;
            }
            let size = usize::try_from(size).map_err(|_| Unsure("a box is too large"))?;
            let body = self.0.get(header..size).ok_or(Unsure("a box runs past its parent"))?;
            let kind = [self.0[4], self.0[5], self.0[6], self.0[7]];
            Ok((size, (kind, body)))
        };
        match split() {
            Ok((size, found)) => {
                self.0 = &self.0[size..];
                Some(Ok(found))
            }
            Err(unsure) => {
                self.0 = &[];
                Some(Err(unsure))
            }
        }
    }
}

fn child<'a>(body: &'a [u8], wanted: &[u8; 4]) -> Result<Option<&'a [u8]>, Unsure> {
    for entry in Boxes(body) {
        let (kind, body) = entry?;
        if &kind == wanted {
            return Ok(Some(body));
        }
    }
    Ok(None)
}

fn needed<'a>(body: &'a [u8], wanted: &[u8; 4]) -> Result<&'a [u8], Unsure> {
    child(body, wanted)?.ok_or(Unsure("a box is missing"))
}

fn track(trak: &[u8], movie_scale: u64, file_len: u64) -> Result<Traced, Unsure> {
    if child(trak, b"tref")?.is_some_and(|references| references.windows(4).any(|kind| kind == b"chap")) {
        return Err(Unsure("chapters"));
    }
    let tkhd = needed(trak, b"tkhd")?;
    let wide = tkhd.first() == Some(&1);
    let (id_at, matrix_at) = if wide { (20, 52) } else { (12, 40) };
    let mdia = needed(trak, b"mdia")?;
    let (scale, stated, language) = media_header(needed(mdia, b"mdhd")?)?;
    let hdlr = needed(mdia, b"hdlr")?;
    let handler = hdlr.get(8..12).ok_or(Unsure("a handler is cut short"))?;
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
    let timing = timing(needed(stbl, b"stts")?)?;
    let (samples, bytes) = sizes(stbl)?;
    if last_chunk(stbl)? >= file_len {
        return Err(Unsure("cut short"));
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
    let shown = if is_video { composition_offset(stbl)? } else { 0 };
    let lead = seconds(shown.saturating_sub(first) as f64);
    // Sound before the edit is priming: it is decoded and thrown away.
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

/// Units a second, length in them, language.
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
    // Three letters of five bits each, from 'a' - 1; smaller values are Macintosh codes, of which 0 is English.
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

/// Reads the first sample description. Codecs that need a closer look are left to ffprobe.
fn describe(track: &mut Track, handler: &[u8], stsd: &[u8]) -> Result<(), Unsure> {
    if number(stsd, 4, 4)? != 1 {
        return Err(Unsure("several sample descriptions"));
    }
    let (fourcc, entry) = Boxes(stsd.get(8..).unwrap_or_default()).next().ok_or(Unsure("no sample description"))??;
    let inside = |fixed: usize| entry.get(fixed..).ok_or(Unsure("a sample description is cut short"));
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
                _ => return Err(Unsure("an unusual picture codec")),
            };
            (track.kind, track.codec, track.config) = (Kind::Video, codec, needed(boxes, record)?.to_vec());
        }
        b"soun" => {
            track.kind = Kind::Audio;
            track.codec = match &fourcc {
                b"mp4a" => {
                    if number(entry, 8, 2)? != 0 {
                        return Err(Unsure("a QuickTime sound description"));
                    }
                    let (codec, config) = elementary_stream(needed(inside(28)?, b"esds")?)?;
                    track.config = config;
                    codec
                }
                b"ac-3" => "ac3",
                b"ec-3" => "eac3",
                b"Opus" => "opus",
                b"fLaC" => "flac",
                _ => return Err(Unsure("an unusual sound codec")),
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
                return Ok(("aac", body.get(..size).ok_or(Unsure("a descriptor is cut short"))?.to_vec()));
            }
            _ => break,
        }
    }
    Err(Unsure("an unusual elementary stream"))
}

/// `stts`: how long samples last.
struct Timing {
    samples: u64,
    total: u64,
    /// (how many, units each)
    runs: Vec<(u64, u64)>,
}

fn timing(stts: &[u8]) -> Result<Timing, Unsure> {
    let count = number(stts, 4, 4)? as usize;
    let table = stts.get(8..).unwrap_or_default();
    if table.len() / 8 < count {
        return Err(Unsure("a table is cut short"));
    }
    let mut timing = Timing { samples: 0, total: 0, runs: Vec::new() };
    for row in table.chunks_exact(8).take(count) {
        let (samples, units) = (number(row, 0, 4)?, number(row, 4, 4)?);
        timing.samples += samples;
        timing.total = timing.total.checked_add(samples * units).ok_or(Unsure("an endless track"))?;
        timing.runs.push((samples, units));
    }
    Ok(timing)
}

impl Timing {
    /// Average rate, and whether the frames' lengths really differ (by more than a clock's rounding).
    fn rate(&self, scale: u64) -> Result<(Option<FrameRate>, bool), Unsure> {
        if self.samples < 2 || self.total == 0 {
            return Err(Unsure("too few frames"));
        }
        let average = self.samples as f64 * scale as f64 / self.total as f64;
        let (_, common) = *self.runs.iter().max_by_key(|(samples, _)| *samples).ok_or(Unsure("no frames"))?;
        let nominal = scale as f64 / common.max(1) as f64;
        let mean = self.total as f64 / self.samples as f64;
        let off = |units: u64| (units as f64 - mean).abs() > (mean * 0.05).max(1.5);
        // The last frame may last as long as it likes.
        let odd: u64 = self.runs.iter().filter(|(_, units)| off(*units)).map(|(samples, _)| *samples).sum();
        let variable = odd > 1 && odd * 50 > self.samples;
        let rate = if (average / nominal - 1.0).abs() < 0.005 {
            usual_rate(nominal).or(fraction(scale, common))
        } else {
            usual_rate(average).or(fraction(self.samples * scale, self.total))
        };
        Ok((rate.filter(|rate| (0.01..=500.0).contains(&rate.as_f64())), variable))
    }
}

fn fraction(mut num: u64, mut den: u64) -> Option<FrameRate> {
    let (mut a, mut b) = (num, den);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    (num, den) = (num / a.max(1), den / a.max(1));
    while num > u64::from(u32::MAX) || den > u64::from(u32::MAX) {
        (num, den) = (num >> 1, den >> 1);
    }
    FrameRate::new(num as u32, den as u32)
}

/// Samples and their bytes.
fn sizes(stbl: &[u8]) -> Result<(u64, u64), Unsure> {
    let stsz = needed(stbl, b"stsz")?;
    let (each, count) = (number(stsz, 4, 4)?, number(stsz, 8, 4)?);
    if each > 0 {
        return Ok((count, each * count));
    }
    let table = stsz.get(12..).unwrap_or_default();
    if ((table.len() / 4) as u64) < count {
        return Err(Unsure("a table is cut short"));
    }
    let sizes = table.chunks_exact(4).take(count as usize);
    Ok((count, sizes.map(|row| u64::from(u32::from_be_bytes([row[0], row[1], row[2], row[3]]))).sum()))
}

/// Where the last chunk begins.
fn last_chunk(stbl: &[u8]) -> Result<u64, Unsure> {
    let (table, width) = match child(stbl, b"stco")? {
        Some(table) => (table, 4),
        None => (needed(stbl, b"co64")?, 8),
    };
    let rows = table.get(8..).unwrap_or_default().chunks_exact(width);
    if (rows.len() as u64) < number(table, 4, 4)? {
        return Err(Unsure("a table is cut short"));
    }
    Ok(rows.map(|row| row.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))).max().unwrap_or(0))
}

/// How much later than it is decoded the first frame is shown.
fn composition_offset(stbl: &[u8]) -> Result<i64, Unsure> {
    let Some(ctts) = child(stbl, b"ctts")? else { return Ok(0) };
    if number(ctts, 4, 4)? == 0 {
        return Ok(0);
    }
    let offset = i64::from(number(ctts, 12, 4)? as u32 as i32);
    if offset < 0 { Err(Unsure("a negative composition offset")) } else { Ok(offset) }
}

/// Pause before the track (movie units), first unit shown (track units), shown length (movie units; None = all).
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
        None => Err(Unsure("an edit list that shows nothing")),
    }
}

/// Tags of an iTunes item list. Chapters and covers add tracks or need samples: ffprobe reads those.
fn user_data(udta: &[u8]) -> Result<Tags, Unsure> {
    let mut tags = Tags::default();
    if child(udta, b"chpl")?.is_some() {
        return Err(Unsure("chapters"));
    }
    let Some(meta) = child(udta, b"meta")? else { return Ok(tags) };
    let Some(list) = child(meta.get(4..).unwrap_or_default(), b"ilst")? else { return Ok(tags) };
    for entry in Boxes(list) {
        let (kind, item) = entry?;
        let slot = match &kind {
            b"covr" => return Err(Unsure("a cover")),
            b"\xa9nam" => &mut tags.title,
            b"\xa9ART" => &mut tags.artist,
            b"\xa9alb" => &mut tags.album,
            b"\xa9day" => &mut tags.date,
            _ => continue,
        };
        if let Some(data) = child(item, b"data")? {
            let text = String::from_utf8_lossy(data.get(8..).unwrap_or_default()).trim().to_owned();
            *slot = Some(text.chars().take(512).collect()).filter(|text: &String| !text.is_empty());
        }
    }
    Ok(tags)
}
