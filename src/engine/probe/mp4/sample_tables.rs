//! The sample tables of a track (`stbl`): durations, counts, sizes, offsets.

use super::super::outline::{Result, nearest_usual_rate, parse_uint, refuse_if};
use super::{find_child, require_child};
use crate::domain::time::FrameRate;
use crate::engine::container::mp4::SampleSizes;
use crate::engine::container::mp4::sample_tables::{parse_chunk_offsets, parse_entries, parse_stsz};

/// `stts`: durations of samples.
pub(super) struct SampleDurations {
    pub sample_count: u64,
    pub total_units: u64,
    /// (samples, units of each)
    runs: Vec<(u64, u64)>,
}

pub(super) fn parse_stts(stts: &[u8]) -> Result<SampleDurations> {
    let runs = parse_entries(stts, 8, |cursor| Ok((u64::from(cursor.u32()?), u64::from(cursor.u32()?))))?;
    let (mut sample_count, mut total_units) = (0, 0u64);
    for &(samples, units) in &runs {
        sample_count += samples;
        total_units = total_units.checked_add(samples * units).ok_or("a duration that overflows")?;
    }
    Ok(SampleDurations { sample_count, total_units, runs })
}

/// The frame rates of a track.
pub(super) struct FrameRates {
    pub average: Option<FrameRate>,
    /// That of the most common frame duration, if it is a usual one.
    pub base: Option<FrameRate>,
    /// Frame durations vary by more than a clock's rounding.
    pub is_variable: bool,
}

impl SampleDurations {
    pub fn frame_rates(&self, timescale: u64) -> Result<FrameRates> {
        refuse_if(self.sample_count < 2 || self.total_units == 0, "too few frames")?;
        let average = self.sample_count as f64 * timescale as f64 / self.total_units as f64;
        let (_, common_units) = *self.runs.iter().max_by_key(|(samples, _)| *samples).ok_or("no frames")?;
        let nominal = timescale as f64 / common_units.max(1) as f64;
        let mean = self.total_units as f64 / self.sample_count as f64;
        let is_off = |units: u64| (units as f64 - mean).abs() > (mean * 0.05).max(1.5);
        // The last frame may have any duration.
        let odd_count: u64 = self.runs.iter().filter(|(_, units)| is_off(*units)).map(|(samples, _)| *samples).sum();
        let is_variable = odd_count > 1 && odd_count * 50 > self.sample_count;
        let base = nearest_usual_rate(nominal);
        let rate = if (average / nominal - 1.0).abs() < 0.005 {
            base.or(reduced_rate(timescale, common_units))
        } else {
            nearest_usual_rate(average).or(reduced_rate(self.sample_count * timescale, self.total_units))
        };
        let average = rate.filter(|rate| (0.01..=500.0).contains(&rate.as_f64()));
        Ok(FrameRates { average, base, is_variable })
    }
}

fn reduced_rate(mut num: u64, mut den: u64) -> Option<FrameRate> {
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
pub(super) fn total_size(stbl: &[u8]) -> Result<(u64, u64)> {
    let (count, sizes) = parse_stsz(require_child(stbl, b"stsz")?)?;
    let count = u64::from(count);
    Ok(match sizes {
        SampleSizes::Uniform(size) => (count, u64::from(size) * count),
        SampleSizes::PerSample(sizes) => (count, sizes.into_iter().map(u64::from).sum()),
    })
}

/// The largest chunk offset.
pub(super) fn last_chunk_offset(stbl: &[u8]) -> Result<u64> {
    parse_chunk_offsets(stbl)?.into_iter().max().ok_or("a track without samples")
}

/// Composition offset of the first frame, in units of the track.
pub(super) fn first_composition_offset(stbl: &[u8]) -> Result<i64> {
    let Some(ctts) = find_child(stbl, b"ctts")? else { return Ok(0) };
    if parse_uint(ctts, 4, 4)? == 0 {
        return Ok(0);
    }
    let offset = i64::from(parse_uint(ctts, 12, 4)? as u32 as i32);
    if offset < 0 { Err("a negative composition offset") } else { Ok(offset) }
}
