//! A track as `moov` describes it.

use super::super::Refusal;
use super::super::bytes::Short;
use super::boxes::{child, children, full};
use super::samples::{Sample, Samples};
use super::timing::{Timing, edit};
use super::{Description, description, tables};

/// A track and its samples.
#[derive(Clone, Debug)]
pub struct Track {
    pub(super) id: u32,
    pub description: Description,
    /// The samples whose bytes are in the file, up to the first missing one.
    pub samples: Samples,
    pub timing: Timing,
    pub span: Span,
}

/// Facts gathered from all samples. Times in units of the track's timescale.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    /// Presentation time of the first sample that is not empty, and whether it is a sync sample.
    pub first: Option<(i64, bool)>,
    /// Earliest and latest presentation time of those samples.
    pub earliest: i64,
    pub latest: i64,
    /// The latest end of a sample.
    pub end: i64,
    /// The shortest interval between two samples in decoding order.
    pub step: u32,
}

impl Track {
    pub(super) fn read(trak: &[u8], moov: &[u8]) -> Result<Self, Refusal> {
        let need = |body: Option<_>, what: &'static str| body.ok_or(Refusal::Unread(what));
        let movie_scale = need(child(moov, b"mvhd"), "there is no mvhd").and_then(|body| Ok(clock(body)?))?;
        let (version, _, mut tkhd) = full(need(child(trak, b"tkhd"), "there is no tkhd")?)?;
        tkhd.take(if version == 1 { 16 } else { 8 })?;
        let id = tkhd.u32()?;
        let mdia = need(child(trak, b"mdia"), "there is no mdia")?;
        let timescale = clock(need(child(mdia, b"mdhd"), "there is no mdhd")?)?;
        if timescale == 0 || movie_scale == 0 {
            return Err(Refusal::Unread("there is no timescale"));
        }
        let minf = need(child(mdia, b"minf"), "there is no minf")?;
        if let Some(dref) = child(minf, b"dinf").and_then(|dinf| child(dinf, b"dref")) {
            self_contained(dref)?;
        }
        let stbl = need(child(minf, b"stbl"), "there is no stbl")?;
        let description = description::read(need(child(stbl, b"stsd"), "there is no stsd")?)?;
        let edit = match child(trak, b"edts").and_then(|edts| child(edts, b"elst")) {
            Some(elst) => edit(elst, timescale, movie_scale)?,
            None => None,
        };
        let timing = Timing::new(timescale, edit);
        Ok(Self { id, description, samples: tables::read(stbl)?, timing, span: Span::default() })
    }

    /// Gathers [`Span`] from all samples, and drops those from the first that is not `inside` the file.
    pub(super) fn survey(&mut self, inside: impl Fn(&Sample) -> bool) -> Result<(), Refusal> {
        let mut span = Span { earliest: i64::MAX, latest: i64::MIN, end: i64::MIN, step: u32::MAX, ..Span::default() };
        let mut last = None;
        self.samples.survey(|sample| {
            if sample.size > 0 && !inside(sample) {
                return Ok(false);
            }
            span.step = last.replace(sample.duration).unwrap_or(u32::MAX).min(span.step);
            if sample.size > 0 {
                let time = sample.time();
                span.first.get_or_insert((time, sample.sync));
                span.earliest = span.earliest.min(time);
                span.latest = span.latest.max(time);
                span.end = span.end.max(time.saturating_add(i64::from(sample.duration)));
            }
            Ok(true)
        })?;
        if matches!(self.description, Description::Avc(_)) && span.first.is_some() {
            self.timing.reorder(self.samples.least_shift(), span.earliest);
        }
        self.span = span;
        Ok(())
    }

    /// End of the last sample, or of the edit if that is earlier; ticks of the file's clock.
    pub fn end(&self) -> i64 {
        let end = self.timing.shown(self.span.end);
        self.timing.end().map_or(end, |edit| end.min(edit))
    }
}

/// The timescale in an `mvhd` or `mdhd`.
fn clock(body: &[u8]) -> Result<u32, Short> {
    let (version, _, mut cursor) = full(body)?;
    cursor.take(if version == 1 { 16 } else { 8 })?;
    cursor.u32()
}

/// Refuses samples that are stored in another file.
fn self_contained(dref: &[u8]) -> Result<(), Refusal> {
    let (_, _, mut cursor) = full(dref)?;
    let _count = cursor.u32()?;
    for (_, entry) in children(cursor.0) {
        let (_, flags, _) = full(entry)?;
        if flags & 1 == 0 {
            return Err(Refusal::Final("its samples are stored in another file".into()));
        }
    }
    Ok(())
}
