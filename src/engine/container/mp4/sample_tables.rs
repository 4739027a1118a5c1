//! The sample tables of a track (`stbl`).

use super::super::bytes::{ByteCursor, Truncated};
use super::super::{ContainerError, refuse_if};
use super::MAX_SAMPLES;
use super::boxes::{child, parse_full_box};
use super::samples::{Chunk, SampleSizes, SampleTable};

/// Parses `stbl`. The samples are not checked against the file yet.
pub(super) fn parse_stbl(stbl: &[u8]) -> Result<SampleTable, ContainerError> {
    let mut samples = SampleTable::default();
    if let Some(stts) = child(stbl, b"stts") {
        samples.durations = parse_entries(stts, 8, |cursor| Ok((cursor.u32()?, cursor.u32()?)))?;
    }
    if let Some(ctts) = child(stbl, b"ctts") {
        samples.composition_offsets = parse_entries(ctts, 8, |cursor| Ok((cursor.u32()?, cursor.u32()? as i32)))?;
    }
    if let Some(stss) = child(stbl, b"stss") {
        samples.sync_samples =
            Some(parse_entries(stss, 4, |cursor| cursor.u32().map(|number| number.wrapping_sub(1)))?);
    }
    if let Some(stsz) = child(stbl, b"stsz") {
        (samples.count, samples.sizes) = parse_stsz(stsz)?;
    } else if child(stbl, b"stz2").is_some() {
        return Err(ContainerError::Unsupported("sizes are in stz2"));
    }
    // A long run of samples takes few bytes in the file, so the count has its own limit.
    refuse_if(u64::from(samples.count) > MAX_SAMPLES, ContainerError::Uncuttable("the track has too many samples"))?;
    parse_chunks(stbl, &mut samples)?;
    Ok(samples)
}

/// Number of samples, and their sizes.
pub fn parse_stsz(stsz: &[u8]) -> Result<(u32, SampleSizes), Truncated> {
    let (_, _, mut cursor) = parse_full_box(stsz)?;
    let (size, count) = (cursor.u32()?, cursor.u32()?);
    if size > 0 {
        return Ok((count, SampleSizes::Uniform(size)));
    }
    let bytes = cursor.take((count as usize).checked_mul(4).ok_or(Truncated)?)?;
    let sizes = bytes.as_chunks::<4>().0.iter().map(|&size| u32::from_be_bytes(size));
    Ok((count, SampleSizes::PerSample(sizes.collect())))
}

/// The offsets of all chunks; empty without a table.
pub fn parse_chunk_offsets(stbl: &[u8]) -> Result<Vec<u64>, Truncated> {
    if let Some(stco) = child(stbl, b"stco") {
        parse_entries(stco, 4, |cursor| cursor.u32().map(u64::from))
    } else if let Some(co64) = child(stbl, b"co64") {
        parse_entries(co64, 8, |cursor| cursor.u64())
    } else {
        Ok(Vec::new())
    }
}

/// Reads the chunk offsets, and the first sample of each chunk.
fn parse_chunks(stbl: &[u8], samples: &mut SampleTable) -> Result<(), ContainerError> {
    let runs: Vec<(u32, u32)> = match child(stbl, b"stsc") {
        Some(stsc) => parse_entries(stsc, 12, |cursor| {
            let run = (cursor.u32()?, cursor.u32()?);
            cursor.take(4)?;
            Ok(run)
        })?,
        None => Vec::new(),
    };
    let (mut run, mut first_sample) = (0, 0u32);
    for (chunk, offset) in parse_chunk_offsets(stbl)?.into_iter().enumerate() {
        while runs.get(run + 1).is_some_and(|next| next.0 as usize <= chunk + 1) {
            run += 1;
        }
        let Some(&(_, per_chunk)) = runs.get(run) else { break };
        if first_sample >= samples.count {
            break;
        }
        if per_chunk > 0 {
            samples.chunks.push(Chunk { offset, first_sample });
            first_sample = first_sample.saturating_add(per_chunk);
        }
    }
    samples.count = samples.count.min(first_sample);
    Ok(())
}

/// A table: version and flags, a count, and entries of `entry_bytes` bytes.
pub fn parse_entries<T>(
    body: &[u8],
    entry_bytes: usize,
    parse_entry: impl Fn(&mut ByteCursor) -> Result<T, Truncated>,
) -> Result<Vec<T>, Truncated> {
    let (_, _, mut cursor) = parse_full_box(body)?;
    let count = cursor.u32()? as usize;
    let mut bytes = ByteCursor(cursor.take(count.checked_mul(entry_bytes).ok_or(Truncated)?)?);
    (0..count).map(|_| parse_entry(&mut bytes)).collect()
}
