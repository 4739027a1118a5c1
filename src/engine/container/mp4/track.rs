//! A track as `moov` describes it.

use super::super::bytes::Truncated;
use super::super::{ContainerError, refuse_if};
use super::boxes::{child, children, parse_full_box};
use super::sample_groups::random_access_samples;
use super::samples::{Sample, SampleTable};
use super::timing::{TrackTiming, parse_edit_list};
use super::{SampleDescription, description, sample_tables};
use crate::domain::cmaf::init::IDENTITY_MATRIX;
use crate::domain::time::Ticks;

/// Maximum length of a language tag; RFC 5646 recommends 35.
const MAX_LANGUAGE_BYTES: usize = 64;

/// A track and its samples.
#[derive(Clone, Debug)]
pub struct Mp4Track {
    pub(super) id: u32,
    pub description: SampleDescription,
    /// The whole sample entry, the child of `stsd`.
    pub sample_entry: Vec<u8>,
    /// Rotation and reflection of video (`tkhd`, section 8.3.2).
    pub matrix: [i32; 9],
    /// ISO 639-2 or, from `elng`, BCP-47; None if it is undetermined.
    pub language: Option<String>,
    pub(super) is_video: bool,
    /// Width and height in which it is presented, pixels; zero if unknown.
    pub display_size: (u32, u32),
    /// The samples whose bytes are in the file, up to the first missing one.
    pub samples: SampleTable,
    pub timing: TrackTiming,
    pub sample_span: SampleSpan,
}

/// Facts gathered from all samples. Times in units of the track's timescale.
#[derive(Clone, Copy, Debug, Default)]
pub struct SampleSpan {
    /// Presentation time of the first sample that is not empty, and whether it is a sync sample.
    pub first_presented: Option<(i64, bool)>,
    /// Earliest and latest presentation time of those samples.
    pub earliest: i64,
    pub latest: i64,
    /// The latest end of a sample.
    pub end: i64,
    /// The shortest interval between two samples in decoding order.
    pub min_step: u32,
}

impl Mp4Track {
    pub(super) fn parse(trak: &[u8], moov: &[u8]) -> Result<Self, ContainerError> {
        let required = |body: Option<_>, reason: &'static str| body.ok_or(ContainerError::Unsupported(reason));
        let movie_scale = parse_timescale(required(child(moov, b"mvhd"), "there is no mvhd")?)?;
        let (version, _, mut tkhd) = parse_full_box(required(child(trak, b"tkhd"), "there is no tkhd")?)?;
        tkhd.take(if version == 1 { 16 } else { 8 })?;
        let id = tkhd.u32()?;
        // The last two numbers, in units of 1/65536.
        let display_size = match tkhd.0.last_chunk::<8>() {
            Some(&[a, b, _, _, c, d, _, _]) => (u16::from_be_bytes([a, b]).into(), u16::from_be_bytes([c, d]).into()),
            None => (0, 0),
        };
        let matrix = tkhd.0.last_chunk::<44>().map_or(IDENTITY_MATRIX, |end| parse_matrix(&end[..36]));
        let mdia = required(child(trak, b"mdia"), "there is no mdia")?;
        let timescale = parse_timescale(required(child(mdia, b"mdhd"), "there is no mdhd")?)?;
        refuse_if(timescale == 0 || movie_scale == 0, ContainerError::Unsupported("there is no timescale"))?;
        let minf = required(child(mdia, b"minf"), "there is no minf")?;
        if let Some(dref) = child(minf, b"dinf").and_then(|dinf| child(dinf, b"dref")) {
            check_self_contained(dref)?;
        }
        let stbl = required(child(minf, b"stbl"), "there is no stbl")?;
        let (description, sample_entry) = description::parse_stsd(required(child(stbl, b"stsd"), "there is no stsd")?)?;
        let is_video = child(mdia, b"hdlr").and_then(|hdlr| hdlr.get(8..12)) == Some(b"vide");
        let edit = match child(trak, b"edts").and_then(|edts| child(edts, b"elst")) {
            Some(elst) => parse_edit_list(elst, timescale, movie_scale)?,
            None => None,
        };
        let timing = TrackTiming::new(timescale, edit);
        let mut samples = sample_tables::parse_stbl(stbl)?;
        if is_video {
            samples.random_access_samples = random_access_samples(stbl, 0, samples.count);
        }
        let language = parse_language(mdia);
        let sample_span = SampleSpan::default();
        Ok(Self {
            id,
            description,
            sample_entry,
            matrix,
            language,
            is_video,
            display_size,
            samples,
            timing,
            sample_span,
        })
    }

    /// Gathers [`SampleSpan`] from all samples, and drops those from the first one that is not in the file.
    pub(super) fn index_samples(&mut self, is_in_file: impl Fn(&Sample) -> bool) -> Result<(), ContainerError> {
        let mut sample_span = SampleSpan {
            earliest: i64::MAX,
            latest: i64::MIN,
            end: i64::MIN,
            min_step: u32::MAX,
            ..SampleSpan::default()
        };
        let mut last_duration = None;
        self.samples.truncate_and_index(|sample| {
            if sample.size > 0 && !is_in_file(sample) {
                return Ok(false);
            }
            sample_span.min_step = last_duration.replace(sample.duration).unwrap_or(u32::MAX).min(sample_span.min_step);
            if sample.size > 0 {
                let presentation_time = sample.presentation_time();
                sample_span.first_presented.get_or_insert((presentation_time, sample.is_sync));
                sample_span.earliest = sample_span.earliest.min(presentation_time);
                sample_span.latest = sample_span.latest.max(presentation_time);
                sample_span.end = sample_span.end.max(presentation_time.saturating_add(i64::from(sample.duration)));
            }
            Ok(true)
        })?;
        if self.is_video && sample_span.first_presented.is_some() {
            self.timing.set_reordering(self.samples.min_composition_offset(), sample_span.earliest);
        }
        self.sample_span = sample_span;
        Ok(())
    }

    /// By its handler.
    pub fn is_video(&self) -> bool {
        self.is_video
    }

    /// End of the last sample, or of the edit if that is earlier; on the file's clock.
    pub fn end(&self) -> Ticks {
        let end = self.timing.presentation_ticks(self.sample_span.end);
        self.timing.edit_end().map_or(end, |edit_end| end.min(edit_end))
    }
}

/// The timescale in an `mvhd` or `mdhd`.
fn parse_timescale(body: &[u8]) -> Result<u32, Truncated> {
    let (version, _, mut cursor) = parse_full_box(body)?;
    cursor.take(if version == 1 { 16 } else { 8 })?;
    cursor.u32()
}

/// Nine numbers of 32 bits.
fn parse_matrix(bytes: &[u8]) -> [i32; 9] {
    let mut numbers = bytes.as_chunks::<4>().0.iter();
    std::array::from_fn(|_| numbers.next().map_or(0, |&number| i32::from_be_bytes(number)))
}

/// The language in `elng`, else in `mdhd` (sections 8.4.6 and 8.4.2). QuickTime's own numbers are not letters.
fn parse_language(mdia: &[u8]) -> Option<String> {
    if let Some(elng) = child(mdia, b"elng") {
        let (_, _, text) = parse_full_box(elng).ok()?;
        let end = text.0.iter().position(|&byte| byte == 0).unwrap_or(text.0.len());
        return String::from_utf8(text.0[..end.min(MAX_LANGUAGE_BYTES)].to_vec()).ok().filter(|tag| !tag.is_empty());
    }
    let (version, _, mut mdhd) = parse_full_box(child(mdia, b"mdhd")?).ok()?;
    mdhd.take(if version == 1 { 28 } else { 16 }).ok()?;
    let packed = mdhd.u16().ok()?;
    // Three letters of five bits each.
    let letter = |shift: u16| char::from((packed >> shift & 0x1f) as u8 + 0x60);
    let code: String = [10, 5, 0].map(letter).into_iter().collect();
    Some(code).filter(|code| code != "und" && code.bytes().all(|byte| byte.is_ascii_lowercase()))
}

/// Refuses samples that are stored in another file.
fn check_self_contained(dref: &[u8]) -> Result<(), ContainerError> {
    let (_, _, mut cursor) = parse_full_box(dref)?;
    let _count = cursor.u32()?;
    for (_, entry) in children(cursor.0) {
        let (_, flags, _) = parse_full_box(entry)?;
        refuse_if(flags & 1 == 0, ContainerError::Uncuttable("its samples are stored in another file"))?;
    }
    Ok(())
}
