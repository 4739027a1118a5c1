//! The init segment of one track: `ftyp` and `moov` (ISO/IEC 23000-19 section 7.3, ISO/IEC 14496-12 section 8).
//!
//! The bytes depend on the arguments alone: no times of creation, no names of programs. A player keeps an init segment under
//! its address, which must never be used for other bytes.

use super::boxes::{push_box, push_full_box, push_u16, push_u32};
use super::{SampleEntry, VideoFormat};
use crate::domain::media::{language_tag, terminology_code};
use crate::domain::time::rescale;

/// The id of the only track, in the init segment and in every fragment.
pub const TRACK_ID: u32 = 1;

/// A `tkhd` matrix that leaves the video as it is.
pub const IDENTITY_MATRIX: [i32; 9] = [0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000];

/// Brands that every segment conforms to (ISO/IEC 14496-12 annex E, ISO/IEC 23000-19, ISO/IEC 14496-14).
const BRANDS: [&[u8; 4]; 4] = [b"iso6", b"cmfc", b"cmf2", b"mp41"];

/// `track_enabled`, `track_in_movie` and `track_in_preview`.
const TRACK_FLAGS: u32 = 7;

/// The track of an init segment.
#[derive(Clone, Copy, Debug)]
pub struct InitTrack<'a> {
    pub header: TrackHeader<'a>,
    /// Units per second of the track's times.
    pub timescale: u32,
    /// As the file states it: ISO 639 or BCP-47. Anything that is not a language becomes `und`.
    pub language: Option<&'a str>,
    pub entry: &'a SampleEntry,
}

/// The header of a track, which differs between video and audio.
#[derive(Clone, Copy, Debug)]
pub enum TrackHeader<'a> {
    Video {
        format: &'a VideoFormat,
        /// Rotation and reflection, as in the source's `tkhd` (section 8.3.2).
        matrix: [i32; 9],
    },
    Audio,
}

/// Writes an init segment, 0.6 to 0.8 kB.
pub fn write_init(track: &InitTrack) -> Vec<u8> {
    let mut out = Vec::with_capacity(640 + track.entry.bytes.len());
    push_box(&mut out, b"ftyp", |out| {
        out.extend_from_slice(BRANDS[0]);
        push_u32(out, 0);
        BRANDS.into_iter().for_each(|brand| out.extend_from_slice(brand));
        if let Some(brand) = supplemental_brand(track.entry) {
            out.extend_from_slice(brand);
        }
    });
    push_box(&mut out, b"moov", |out| {
        push_mvhd(out, track.timescale);
        push_box(out, b"trak", |out| {
            push_tkhd(out, &track.header);
            push_box(out, b"mdia", |out| push_mdia(out, track));
        });
        push_box(out, b"mvex", |out| {
            push_full_box(out, b"trex", 0, 0, |out| {
                // Every fragment states its durations, sizes and flags.
                [TRACK_ID, 1, 0, 0, 0].into_iter().for_each(|field| push_u32(out, field));
            });
        });
    });
    out
}

/// The brand of `SUPPLEMENTAL-CODECS`, e.g. `db1p` of `dvh1.08.07/db1p`.
fn supplemental_brand(entry: &SampleEntry) -> Option<&[u8]> {
    let (_, brand) = entry.supplemental_codecs.as_ref()?.split_once('/')?;
    Some(brand.as_bytes()).filter(|brand| brand.len() == 4)
}

/// The movie header (section 8.2.2), without a duration.
fn push_mvhd(out: &mut Vec<u8>, timescale: u32) {
    push_full_box(out, b"mvhd", 0, 0, |out| {
        [0, 0, timescale, 0].into_iter().for_each(|field| push_u32(out, field));
        // Rate 1.0, volume 1.0.
        push_u32(out, 0x1_0000);
        push_u16(out, 0x100);
        out.extend_from_slice(&[0; 10]);
        push_matrix(out, &IDENTITY_MATRIX);
        out.extend_from_slice(&[0; 24]);
        push_u32(out, TRACK_ID + 1);
    });
}

/// The track header (section 8.3.2).
fn push_tkhd(out: &mut Vec<u8>, header: &TrackHeader) {
    push_full_box(out, b"tkhd", 0, TRACK_FLAGS, |out| {
        [0, 0, TRACK_ID, 0, 0].into_iter().for_each(|field| push_u32(out, field));
        out.extend_from_slice(&[0; 12]);
        let (volume, matrix, size) = match header {
            TrackHeader::Video { format, matrix } => (0, matrix, display_size(format)),
            TrackHeader::Audio => (0x100, &IDENTITY_MATRIX, [0, 0]),
        };
        push_u16(out, volume);
        push_u16(out, 0);
        push_matrix(out, matrix);
        size.into_iter().for_each(|field| push_u32(out, field));
    });
}

/// Width and height in which the video is presented before its rotation, pixels in units of 1/65536.
fn display_size(format: &VideoFormat) -> [u32; 2] {
    let (horizontal, vertical) = format.pixel_aspect.filter(|&(num, den)| num > 0 && den > 0).unwrap_or((1, 1));
    let width = rescale(i64::from(format.width) << 16, horizontal, vertical);
    [u32::try_from(width).unwrap_or(u32::MAX), u32::from(format.height) << 16]
}

fn push_matrix(out: &mut Vec<u8>, matrix: &[i32; 9]) {
    matrix.iter().for_each(|value| out.extend_from_slice(&value.to_be_bytes()));
}

/// The content of the media box (section 8.4.1).
fn push_mdia(out: &mut Vec<u8>, track: &InitTrack) {
    let language = TrackLanguage::parse(track.language);
    push_full_box(out, b"mdhd", 0, 0, |out| {
        [0, 0, track.timescale, 0].into_iter().for_each(|field| push_u32(out, field));
        push_u16(out, language.packed());
        push_u16(out, 0);
    });
    if let Some(tag) = &language.extended_tag {
        push_full_box(out, b"elng", 0, 0, |out| {
            out.extend_from_slice(tag.as_bytes());
            out.push(0);
        });
    }
    let (handler, name) = match track.header {
        TrackHeader::Video { .. } => (b"vide", b"video\0"),
        TrackHeader::Audio => (b"soun", b"audio\0"),
    };
    push_full_box(out, b"hdlr", 0, 0, |out| {
        push_u32(out, 0);
        out.extend_from_slice(handler);
        out.extend_from_slice(&[0; 12]);
        out.extend_from_slice(name);
    });
    push_box(out, b"minf", |out| {
        match track.header {
            TrackHeader::Video { .. } => push_full_box(out, b"vmhd", 0, 1, |out| out.extend_from_slice(&[0; 8])),
            TrackHeader::Audio => push_full_box(out, b"smhd", 0, 0, |out| push_u32(out, 0)),
        }
        push_box(out, b"dinf", |out| {
            push_full_box(out, b"dref", 0, 0, |out| {
                push_u32(out, 1);
                // The samples are in this file.
                push_full_box(out, b"url ", 0, 1, |_| {});
            });
        });
        push_box(out, b"stbl", |out| push_stbl(out, &track.entry.bytes));
    });
}

/// The sample table (section 8.5.1): a sample entry and no samples, which are in fragments.
fn push_stbl(out: &mut Vec<u8>, entry: &[u8]) {
    push_full_box(out, b"stsd", 0, 0, |out| {
        push_u32(out, 1);
        out.extend_from_slice(entry);
    });
    push_full_box(out, b"stts", 0, 0, |out| push_u32(out, 0));
    push_full_box(out, b"stsc", 0, 0, |out| push_u32(out, 0));
    push_full_box(out, b"stsz", 0, 0, |out| out.extend_from_slice(&[0; 8]));
    push_full_box(out, b"stco", 0, 0, |out| push_u32(out, 0));
}

/// The language of a track, as `mdhd` and `elng` state it (sections 8.4.2 and 8.4.6).
struct TrackLanguage {
    /// ISO 639-2/T.
    code: [u8; 3],
    /// BCP-47, if that states more than `code`.
    extended_tag: Option<String>,
}

impl TrackLanguage {
    fn parse(text: Option<&str>) -> Self {
        let is_subtag = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let Some(tag) = text.and_then(language_tag).filter(|tag| tag.bytes().all(is_subtag)) else {
            return Self { code: *b"und", extended_tag: None };
        };
        match terminology_code(&tag) {
            Some(code) if !tag.contains('-') => Self { code, extended_tag: None },
            code => Self { code: code.unwrap_or(*b"und"), extended_tag: Some(tag) },
        }
    }

    /// Three letters of five bits each.
    fn packed(&self) -> u16 {
        self.code.iter().fold(0, |packed, letter| packed << 5 | u16::from(letter & 0x1f))
    }
}

#[cfg(test)]
mod tests;
