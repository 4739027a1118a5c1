//! Samples in movie fragments (ISO/IEC 14496-12 section 8.8).

use super::super::Refusal;
use super::super::bytes::{ReadAt, Short};
use super::boxes::{Placed, child, children, full};
use super::samples::Samples;
use super::track::Track;

/// Maximum size of a `moof`, bytes.
const MOST_MOOF: u64 = 16 << 20;

/// `sample_is_non_sync_sample`, and `sample_depends_on` = 1 (depends on others): neither may be set for a sync sample, as
/// in ffmpeg.
const NOT_SYNC: u32 = 0x0101_0000;

/// Values for samples without their own.
#[derive(Clone, Copy, Debug, Default)]
struct Defaults {
    duration: u32,
    size: u32,
    flags: u32,
}

/// Appends the samples of the track's fragments, in file order.
pub(super) fn append(
    file: &(impl ReadAt + ?Sized),
    boxes: &[Placed],
    mvex: &[u8],
    track: &mut Track,
) -> Result<(), Refusal> {
    let defaults = defaults(mvex, track.id)?;
    let id = track.id;
    let samples = &mut track.samples;
    samples.prepare();
    let last = samples.walk(samples.len().saturating_sub(1)).last();
    let mut next = last.map_or(0, |last| last.dts.saturating_add(i64::from(last.duration)));
    for moof in boxes.iter().filter(|found| &found.kind == b"moof") {
        let size = moof.end.saturating_sub(moof.body);
        if moof.end > file.len() {
            // The file is truncated here.
            break;
        }
        if size > MOST_MOOF {
            return Err(Refusal::Unread("a moof is too large"));
        }
        let body = file.exact(moof.body, size as usize)?;
        for (_, traf) in children(&body).filter(|(kind, _)| kind == b"traf") {
            fragment(traf, moof.start, id, defaults, &mut next, samples)?;
        }
    }
    Ok(())
}

fn defaults(mvex: &[u8], id: u32) -> Result<Defaults, Short> {
    for (_, trex) in children(mvex).filter(|(kind, _)| kind == b"trex") {
        let (_, _, mut cursor) = full(trex)?;
        if cursor.u32()? == id {
            cursor.take(4)?;
            return Ok(Defaults { duration: cursor.u32()?, size: cursor.u32()?, flags: cursor.u32()? });
        }
    }
    Ok(Defaults::default())
}

fn fragment(
    traf: &[u8],
    moof_start: u64,
    id: u32,
    mut defaults: Defaults,
    next: &mut i64,
    samples: &mut Samples,
) -> Result<(), Refusal> {
    let (_, flags, mut tfhd) = full(child(traf, b"tfhd").ok_or(Short)?)?;
    if tfhd.u32()? != id {
        return Ok(());
    }
    // Without an explicit base, data offsets count from the moof (default-base-is-moof, and the first track in any case).
    let base = if flags & 0x01 != 0 { tfhd.u64()? } else { moof_start };
    if flags & 0x02 != 0 {
        tfhd.u32()?;
    }
    if flags & 0x08 != 0 {
        defaults.duration = tfhd.u32()?;
    }
    if flags & 0x10 != 0 {
        defaults.size = tfhd.u32()?;
    }
    if flags & 0x20 != 0 {
        defaults.flags = tfhd.u32()?;
    }
    let begin = match child(traf, b"tfdt") {
        None => None,
        Some(tfdt) => {
            let (version, _, mut cursor) = full(tfdt)?;
            Some(i64::try_from(cursor.wide(version == 1)?).ok().filter(|&dts| dts < i64::MAX / 4).ok_or(Short)?)
        }
    };
    samples.begin(begin, next)?;
    let mut offset = base;
    for (_, trun) in children(traf).filter(|(kind, _)| kind == b"trun") {
        let (_, flags, mut cursor) = full(trun)?;
        let count = cursor.u32()?;
        if flags & 0x01 != 0 {
            offset = base.saturating_add_signed(i64::from(cursor.u32()? as i32));
        }
        let mut first_flags = if flags & 0x04 != 0 { Some(cursor.u32()?) } else { None };
        // Samples without fields take no bytes in the file, so the count alone could be enormous.
        if flags & 0xf00 == 0 && count > 100_000 {
            return Err(Short.into());
        }
        samples.chunk(offset);
        for _ in 0..count {
            let duration = if flags & 0x100 != 0 { cursor.u32()? } else { defaults.duration };
            let size = if flags & 0x200 != 0 { cursor.u32()? } else { defaults.size };
            let own = if flags & 0x400 != 0 { Some(cursor.u32()?) } else { None };
            let sample_flags = first_flags.take().or(own).unwrap_or(defaults.flags);
            // Signed in both versions, as in ffmpeg; no sensible offset is large enough to matter.
            let shift = if flags & 0x800 != 0 { cursor.u32()? as i32 } else { 0 };
            if shift < 0 {
                // ffmpeg shows such frames later than the file states, by an amount that depends on what it has read:
                // leave it to ffmpeg.
                return Err(Refusal::Unread("fragments have negative composition offsets"));
            }
            samples.push(size, duration, shift, sample_flags & NOT_SYNC == 0)?;
            offset = offset.saturating_add(u64::from(size));
            *next = next.saturating_add(i64::from(duration));
        }
    }
    Ok(())
}
