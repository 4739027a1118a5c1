//! The sample tables of a track (`stbl`).

use super::super::Refusal;
use super::super::bytes::{Cursor, Short};
use super::MOST_SAMPLES;
use super::boxes::{child, full};
use super::samples::{Chunk, Samples, Sizes};

/// Parses `stbl`. The samples are not checked against the file yet.
pub(super) fn read(stbl: &[u8]) -> Result<Samples, Refusal> {
    let mut samples = Samples::default();
    if let Some(stts) = child(stbl, b"stts") {
        samples.durations = entries(stts, 8, |cursor| Ok((cursor.u32()?, cursor.u32()?)))?;
    }
    if let Some(ctts) = child(stbl, b"ctts") {
        samples.shifts = entries(ctts, 8, |cursor| Ok((cursor.u32()?, cursor.u32()? as i32)))?;
    }
    if let Some(stss) = child(stbl, b"stss") {
        samples.sync = Some(entries(stss, 4, |cursor| cursor.u32().map(|number| number.wrapping_sub(1)))?);
    }
    if let Some(stsz) = child(stbl, b"stsz") {
        let (_, _, mut cursor) = full(stsz)?;
        let (size, count) = (cursor.u32()?, cursor.u32()?);
        samples.count = count;
        samples.sizes = if size > 0 {
            Sizes::All(size)
        } else {
            let bytes = cursor.take((count as usize).checked_mul(4).ok_or(Short)?)?;
            Sizes::Each(bytes.as_chunks::<4>().0.iter().map(|&size| u32::from_be_bytes(size)).collect())
        };
    } else if child(stbl, b"stz2").is_some() {
        return Err(Refusal::Unread("sizes are in stz2"));
    }
    // A long run of samples takes few bytes in the file, so the count has its own limit.
    if u64::from(samples.count) > MOST_SAMPLES {
        return Err(Refusal::Final("the track has too many samples".into()));
    }
    chunks(stbl, &mut samples)?;
    Ok(samples)
}

/// Reads the chunk offsets, and the first sample of each chunk.
fn chunks(stbl: &[u8], samples: &mut Samples) -> Result<(), Refusal> {
    let offsets = if let Some(stco) = child(stbl, b"stco") {
        entries(stco, 4, |cursor| cursor.u32().map(u64::from))?
    } else if let Some(co64) = child(stbl, b"co64") {
        entries(co64, 8, |cursor| cursor.u64())?
    } else {
        Vec::new()
    };
    let runs: Vec<(u32, u32)> = match child(stbl, b"stsc") {
        Some(stsc) => entries(stsc, 12, |cursor| {
            let run = (cursor.u32()?, cursor.u32()?);
            cursor.take(4)?;
            Ok(run)
        })?,
        None => Vec::new(),
    };
    let (mut run, mut first) = (0, 0u32);
    for (chunk, offset) in offsets.into_iter().enumerate() {
        while runs.get(run + 1).is_some_and(|next| next.0 as usize <= chunk + 1) {
            run += 1;
        }
        let Some(&(_, per_chunk)) = runs.get(run) else { break };
        if first >= samples.count {
            break;
        }
        if per_chunk > 0 {
            samples.chunks.push(Chunk { offset, first });
            first = first.saturating_add(per_chunk);
        }
    }
    samples.count = samples.count.min(first);
    Ok(())
}

/// A table: version and flags, a count, and entries of `each` bytes.
fn entries<T>(body: &[u8], each: usize, read: impl Fn(&mut Cursor) -> Result<T, Short>) -> Result<Vec<T>, Short> {
    let (_, _, mut cursor) = full(body)?;
    let count = cursor.u32()? as usize;
    let mut bytes = Cursor(cursor.take(count.checked_mul(each).ok_or(Short)?)?);
    (0..count).map(|_| read(&mut bytes)).collect()
}
