//! What `moov` says of one video track.

use super::super::Refusal;
use super::super::boxes::{child, children, full};
use super::super::bytes::{Cursor, Short};
use super::{MOST_SAMPLES, Sample};
use crate::domain::time::TICKS_PER_SECOND;

/// A video track and its tables, bytes as in the file.
#[derive(Debug)]
pub(super) struct Track {
    pub(super) id: u32,
    /// Units a second of the track's clock.
    pub(super) timescale: u32,
    pub(super) nal_length: u8,
    edit: Edit,
    tables: Tables,
}

/// One stretch of the track, shown after a wait. More than one is refused.
#[derive(Clone, Copy, Debug, Default)]
struct Edit {
    /// Ticks of presentation before the first picture.
    wait: i64,
    /// Where in the track it begins, units of the track.
    from: i64,
    /// Its length in ticks, where one is given.
    length: Option<i64>,
}

#[derive(Debug, Default)]
struct Tables {
    /// `stts`: (samples, duration).
    durations: Vec<(u32, u32)>,
    /// `ctts`: (samples, composition offset).
    shifts: Vec<(u32, i32)>,
    /// `stss`, ascending sample numbers from 1; None: every sample.
    sync: Option<Vec<u32>>,
    /// `stsc`: (first chunk from 1, samples in each).
    runs: Vec<(u32, u32)>,
    /// `stsz`: one size for all, or a size each.
    size: u32,
    sizes: Vec<u32>,
    count: u32,
    chunks: Vec<u64>,
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
        let nal_length = description(need(child(stbl, b"stsd"), "there is no stsd")?)?;
        let edit = match child(trak, b"edts").and_then(|edts| child(edts, b"elst")) {
            Some(elst) => edit(elst, movie_scale)?,
            None => Edit::default(),
        };
        Ok(Self { id, timescale, nal_length, edit, tables: Tables::read(stbl)? })
    }

    /// A time of the track as ticks of the file's own clock, edit list applied.
    pub(super) fn ticks(&self, time: i64) -> i64 {
        let time = i128::from(time) - i128::from(self.edit.from);
        let (numerator, scale) = (time * i128::from(TICKS_PER_SECOND), i128::from(self.timescale));
        let ticks = (numerator * 2 + scale).div_euclid(scale * 2);
        let most = i128::from(i64::MAX / 4);
        self.edit.wait.saturating_add(ticks.clamp(-most, most) as i64)
    }

    /// Where the edit begins, ticks of the file's own clock.
    pub(super) fn ticks_of_edit_start(&self) -> i64 {
        self.edit.wait
    }

    /// Where the edit ends, if it says so.
    pub(super) fn edit_end(&self) -> Option<i64> {
        self.edit.length.map(|length| self.edit.wait.saturating_add(length))
    }

    /// Every sample of the tables, in decoding order.
    pub(super) fn samples(&self, mut each: impl FnMut(Sample) -> Result<(), Refusal>) -> Result<(), Refusal> {
        let tables = &self.tables;
        let mut durations = runs(&tables.durations);
        let mut shifts = runs(&tables.shifts);
        let mut sync = tables.sync.as_ref().map(|numbers| numbers.iter().copied().peekable());
        let mut run = 0;
        let (mut number, mut dts) = (0u32, 0i64);
        for (chunk, &chunk_offset) in tables.chunks.iter().enumerate() {
            while tables.runs.get(run + 1).is_some_and(|next| next.0 as usize <= chunk + 1) {
                run += 1;
            }
            let Some(&(_, per_chunk)) = tables.runs.get(run) else { break };
            let mut offset = chunk_offset;
            for _ in 0..per_chunk {
                if number >= tables.count {
                    return Ok(());
                }
                let size =
                    if tables.size > 0 { tables.size } else { tables.sizes.get(number as usize).copied().unwrap_or(0) };
                number += 1;
                let duration = durations.next().unwrap_or(0);
                let is_sync = match &mut sync {
                    None => true,
                    Some(numbers) => {
                        while numbers.peek().is_some_and(|&at| at < number) {
                            numbers.next();
                        }
                        numbers.peek() == Some(&number)
                    }
                };
                let shift = i64::from(shifts.next().unwrap_or(0));
                each(Sample { offset, size, dts, duration, shift, sync: is_sync })?;
                offset = offset.saturating_add(u64::from(size));
                dts = dts.saturating_add(i64::from(duration));
            }
        }
        Ok(())
    }
}

/// One value per sample out of (samples, value) runs.
fn runs<T: Copy>(table: &[(u32, T)]) -> impl Iterator<Item = T> {
    table.iter().flat_map(|&(count, value)| std::iter::repeat_n(value, count as usize))
}

/// Timescale of an `mvhd` or `mdhd`.
fn clock(body: &[u8]) -> Result<u32, Short> {
    let (version, _, mut cursor) = full(body)?;
    cursor.take(if version == 1 { 16 } else { 8 })?;
    cursor.u32()
}

/// Refuses data that lies in another file.
fn self_contained(dref: &[u8]) -> Result<(), Refusal> {
    let (_, _, mut cursor) = full(dref)?;
    let _count = cursor.u32()?;
    for (_, entry) in children(cursor.0) {
        let (_, flags, _) = full(entry)?;
        if flags & 1 == 0 {
            return Err(Refusal::Final("its pictures lie in another file".into()));
        }
    }
    Ok(())
}

/// Bytes of a NAL unit's length, from the only sample description.
fn description(stsd: &[u8]) -> Result<u8, Refusal> {
    let (_, _, mut cursor) = full(stsd)?;
    if cursor.u32()? != 1 {
        return Err(Refusal::Final("its description changes inside".into()));
    }
    let Some((kind, entry)) = children(cursor.0).next() else { return Err(Short.into()) };
    if ![*b"avc1", *b"avc2", *b"avc3", *b"avc4"].contains(&kind) {
        return Err(Refusal::Unread("the description is not avc1 or avc3"));
    }
    // A visual sample entry has 78 bytes before its boxes.
    let avcc = entry.get(78..).and_then(|boxes| child(boxes, b"avcC")).ok_or(Refusal::Unread("there is no avcC"))?;
    let length = avcc.get(4).ok_or(Short)? & 3;
    Ok(length + 1)
}

fn edit(elst: &[u8], movie_scale: u32) -> Result<Edit, Refusal> {
    let (version, _, mut cursor) = full(elst)?;
    let count = cursor.u32()?;
    let ticks = |length: u64| {
        let ticks = u128::from(length) * TICKS_PER_SECOND as u128 / u128::from(movie_scale);
        ticks.min(i64::MAX as u128 / 4) as i64
    };
    let mut edit = Edit::default();
    let mut shown = false;
    for _ in 0..count.min(16) {
        let length = cursor.wide(version == 1)?;
        let from = cursor.wide(version == 1)?;
        let from = if version == 1 { from as i64 } else { i64::from(from as u32 as i32) };
        let rate = cursor.u32()?;
        if shown {
            return Err(Refusal::Final("its edit list has several parts".into()));
        }
        if from < 0 {
            edit.wait = edit.wait.saturating_add(ticks(length));
        } else if rate != 0x1_0000 {
            return Err(Refusal::Final("its edit list changes the speed".into()));
        } else {
            (edit.from, edit.length, shown) = (from, Some(ticks(length)).filter(|&length| length > 0), true);
        }
    }
    if count > 16 { Err(Refusal::Final("its edit list has several parts".into())) } else { Ok(edit) }
}

impl Tables {
    fn read(stbl: &[u8]) -> Result<Self, Refusal> {
        let mut tables = Self::default();
        if let Some(stts) = child(stbl, b"stts") {
            tables.durations = entries(stts, 8, |cursor| Ok((cursor.u32()?, cursor.u32()?)))?;
        }
        if let Some(ctts) = child(stbl, b"ctts") {
            tables.shifts = entries(ctts, 8, |cursor| Ok((cursor.u32()?, cursor.u32()? as i32)))?;
        }
        if let Some(stss) = child(stbl, b"stss") {
            tables.sync = Some(entries(stss, 4, |cursor| cursor.u32())?);
        }
        if let Some(stsc) = child(stbl, b"stsc") {
            tables.runs = entries(stsc, 12, |cursor| {
                let run = (cursor.u32()?, cursor.u32()?);
                cursor.take(4)?;
                Ok(run)
            })?;
        }
        if let Some(stco) = child(stbl, b"stco") {
            tables.chunks = entries(stco, 4, |cursor| cursor.u32().map(u64::from))?;
        } else if let Some(co64) = child(stbl, b"co64") {
            tables.chunks = entries(co64, 8, |cursor| cursor.u64())?;
        }
        if let Some(stsz) = child(stbl, b"stsz") {
            let (_, _, mut cursor) = full(stsz)?;
            (tables.size, tables.count) = (cursor.u32()?, cursor.u32()?);
            if tables.size == 0 {
                let bytes = cursor.take((tables.count as usize).checked_mul(4).ok_or(Short)?)?;
                tables.sizes = bytes.as_chunks::<4>().0.iter().map(|&size| u32::from_be_bytes(size)).collect();
            }
        } else if child(stbl, b"stz2").is_some() {
            return Err(Refusal::Unread("sizes are in stz2"));
        }
        // A run of samples for ever costs nothing to write down: hold the tables to what they may mean.
        if u64::from(tables.count) > MOST_SAMPLES {
            return Err(Refusal::Final("it has too many pictures".into()));
        }
        Ok(tables)
    }
}

/// A table: version and flags, a count, entries of `each` bytes.
fn entries<T>(body: &[u8], each: usize, read: impl Fn(&mut Cursor) -> Result<T, Short>) -> Result<Vec<T>, Short> {
    let (_, _, mut cursor) = full(body)?;
    let count = cursor.u32()? as usize;
    let mut bytes = Cursor(cursor.take(count.checked_mul(each).ok_or(Short)?)?);
    (0..count).map(|_| read(&mut bytes)).collect()
}
