//! The sample tables of a track (`stbl`): durations, counts, sizes, offsets.

use super::super::outline::{Unsure, number, usual_rate};
use super::boxes::{child, needed};
use crate::domain::time::FrameRate;

/// `stts`: durations of samples.
pub(super) struct Timing {
    pub samples: u64,
    pub total: u64,
    /// (samples, units of each)
    runs: Vec<(u64, u64)>,
}

pub(super) fn timing(stts: &[u8]) -> Result<Timing, Unsure> {
    let count = number(stts, 4, 4)? as usize;
    let table = stts.get(8..).unwrap_or_default();
    if table.len() / 8 < count {
        return Err(Unsure("a table is truncated"));
    }
    let mut timing = Timing { samples: 0, total: 0, runs: Vec::new() };
    for row in table.chunks_exact(8).take(count) {
        let (samples, units) = (number(row, 0, 4)?, number(row, 4, 4)?);
        timing.samples += samples;
        timing.total = timing.total.checked_add(samples * units).ok_or(Unsure("a duration that overflows"))?;
        timing.runs.push((samples, units));
    }
    Ok(timing)
}

impl Timing {
    /// Average frame rate, and whether frame durations vary (by more than a clock's rounding).
    pub fn rate(&self, scale: u64) -> Result<(Option<FrameRate>, bool), Unsure> {
        if self.samples < 2 || self.total == 0 {
            return Err(Unsure("too few frames"));
        }
        let average = self.samples as f64 * scale as f64 / self.total as f64;
        let (_, common) = *self.runs.iter().max_by_key(|(samples, _)| *samples).ok_or(Unsure("no frames"))?;
        let nominal = scale as f64 / common.max(1) as f64;
        let mean = self.total as f64 / self.samples as f64;
        let off = |units: u64| (units as f64 - mean).abs() > (mean * 0.05).max(1.5);
        // The last frame may have any duration.
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

/// Number of samples and their total size, bytes.
pub(super) fn sizes(stbl: &[u8]) -> Result<(u64, u64), Unsure> {
    let stsz = needed(stbl, b"stsz")?;
    let (each, count) = (number(stsz, 4, 4)?, number(stsz, 8, 4)?);
    if each > 0 {
        return Ok((count, each * count));
    }
    let table = stsz.get(12..).unwrap_or_default();
    if ((table.len() / 4) as u64) < count {
        return Err(Unsure("a table is truncated"));
    }
    let sizes = table.chunks_exact(4).take(count as usize);
    Ok((count, sizes.map(|row| u64::from(u32::from_be_bytes([row[0], row[1], row[2], row[3]]))).sum()))
}

/// The largest chunk offset.
pub(super) fn last_chunk(stbl: &[u8]) -> Result<u64, Unsure> {
    let (table, width) = match child(stbl, b"stco")? {
        Some(table) => (table, 4),
        None => (needed(stbl, b"co64")?, 8),
    };
    let rows = table.get(8..).unwrap_or_default().chunks_exact(width);
    if (rows.len() as u64) < number(table, 4, 4)? {
        return Err(Unsure("a table is truncated"));
    }
    Ok(rows.map(|row| row.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))).max().unwrap_or(0))
}

/// Composition offset of the first frame, in units of the track.
pub(super) fn composition_offset(stbl: &[u8]) -> Result<i64, Unsure> {
    let Some(ctts) = child(stbl, b"ctts")? else { return Ok(0) };
    if number(ctts, 4, 4)? == 0 {
        return Ok(0);
    }
    let offset = i64::from(number(ctts, 12, 4)? as u32 as i32);
    if offset < 0 { Err(Unsure("a negative composition offset")) } else { Ok(offset) }
}
