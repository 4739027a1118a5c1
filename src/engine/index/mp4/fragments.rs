//! The samples that movie fragments add (ISO/IEC 14496-12 section 8.8).

use super::super::Refusal;
use super::super::boxes::{Placed, child, children, full};
use super::super::bytes::{ReadAt, Short};
use super::Sample;
use super::track::Track;

/// Most bytes of one `moof`.
const MOST_MOOF: u64 = 16 << 20;

/// `sample_is_non_sync_sample`, and `sample_depends_on` = 1 (depends on others): neither may be set, as ffmpeg has it.
const NOT_SYNC: u32 = 0x0101_0000;

/// What holds for a sample that says nothing itself.
#[derive(Clone, Copy, Debug, Default)]
struct Defaults {
    duration: u32,
    size: u32,
    flags: u32,
}

/// Every sample of the track's fragments, in file order; `dts` where the sample tables end.
pub(super) fn samples(
    file: &(impl ReadAt + ?Sized),
    boxes: &[Placed],
    mvex: &[u8],
    track: &Track,
    mut dts: i64,
    mut each: impl FnMut(Sample) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let defaults = defaults(mvex, track.id)?;
    for moof in boxes.iter().filter(|found| &found.kind == b"moof") {
        let size = moof.end.saturating_sub(moof.body);
        if moof.end > file.len() {
            // The file was cut short here.
            break;
        }
        if size > MOST_MOOF {
            return Err(Refusal::Unread("a moof is too large"));
        }
        let body = file.exact(moof.body, size as usize)?;
        for (_, traf) in children(&body).filter(|(kind, _)| kind == b"traf") {
            fragment(traf, moof.start, track.id, defaults, &mut dts, &mut each)?;
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
    dts: &mut i64,
    each: &mut impl FnMut(Sample) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let (_, flags, mut tfhd) = full(child(traf, b"tfhd").ok_or(Short)?)?;
    if tfhd.u32()? != id {
        return Ok(());
    }
    // Without a base of its own the data counts from the moof (default-base-is-moof, and the first track in any case).
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
    if let Some(tfdt) = child(traf, b"tfdt") {
        let (version, _, mut cursor) = full(tfdt)?;
        *dts = i64::try_from(cursor.wide(version == 1)?).map_err(|_| Short)?;
    }
    let mut offset = base;
    for (_, trun) in children(traf).filter(|(kind, _)| kind == b"trun") {
        let (version, flags, mut cursor) = full(trun)?;
        let count = cursor.u32()?;
        if flags & 0x01 != 0 {
            offset = base.saturating_add_signed(i64::from(cursor.u32()? as i32));
        }
        let mut first_flags = if flags & 0x04 != 0 { Some(cursor.u32()?) } else { None };
        // Without a field of its own a sample costs no bytes: the count alone could go on for ever.
        if flags & 0xf00 == 0 && count > 100_000 {
            return Err(Short.into());
        }
        for _ in 0..count {
            let duration = if flags & 0x100 != 0 { cursor.u32()? } else { defaults.duration };
            let size = if flags & 0x200 != 0 { cursor.u32()? } else { defaults.size };
            let own = if flags & 0x400 != 0 { Some(cursor.u32()?) } else { None };
            let sample_flags = first_flags.take().or(own).unwrap_or(defaults.flags);
            let shift = if flags & 0x800 != 0 { cursor.u32()? } else { 0 };
            let shift = if version == 0 { i64::from(shift) } else { i64::from(shift as i32) };
            if shift < 0 {
                // ffmpeg, which makes the segments, shows such pictures later than the file says: ask it.
                return Err(Refusal::Unread("fragments have negative composition offsets"));
            }
            each(Sample { offset, size, dts: *dts, duration, shift, sync: sample_flags & NOT_SYNC == 0 })?;
            offset = offset.saturating_add(u64::from(size));
            *dts = dts.saturating_add(i64::from(duration));
        }
    }
    Ok(())
}
