//! Samples in movie fragments (ISO/IEC 14496-12 section 8.8).

use super::super::bytes::{ReadAt, Truncated};
use super::super::{ContainerError, refuse_if};
use super::boxes::{FileBox, child, children, parse_full_box};
use super::sample_groups::random_access_samples;
use super::samples::SampleTable;
use super::track::Mp4Track;

/// Maximum size of a `moof`, bytes.
const MAX_MOOF_BYTES: u64 = 16 << 20;

/// `sample_is_non_sync_sample`, and `sample_depends_on` = 1 (depends on others): neither may be set for a sync sample, as
/// in ffmpeg.
const NON_SYNC_FLAGS: u32 = 0x0101_0000;

/// Values for samples without their own.
#[derive(Clone, Copy, Debug, Default)]
struct SampleDefaults {
    duration: u32,
    size: u32,
    flags: u32,
}

/// Appends the samples of the track's fragments, in file order.
pub(super) fn append_fragments(
    file: &(impl ReadAt + ?Sized),
    boxes: &[FileBox],
    mvex: &[u8],
    track: &mut Mp4Track,
) -> Result<(), ContainerError> {
    let defaults = parse_defaults(mvex, track.id)?;
    let id = track.id;
    let samples = &mut track.samples;
    samples.prepare_append();
    let last_sample = samples.iter_from(samples.len().saturating_sub(1)).last();
    let mut next_dts = last_sample.map_or(0, |last| last.dts.saturating_add(i64::from(last.duration)));
    for moof in boxes.iter().filter(|top_level_box| &top_level_box.box_type == b"moof") {
        let size = moof.end.saturating_sub(moof.body);
        if moof.end > file.len() {
            // The file is truncated here.
            break;
        }
        refuse_if(size > MAX_MOOF_BYTES, ContainerError::Unsupported("a moof is too large"))?;
        let body = file.read_exact(moof.body, size as usize)?;
        for (_, traf) in children(&body).filter(|(kind, _)| kind == b"traf") {
            let first = samples.len();
            append_fragment(traf, moof.start, id, defaults, &mut next_dts, samples)?;
            if track.is_video && samples.len() > first {
                let grouped = random_access_samples(traf, first, samples.len() - first);
                samples.random_access_samples.extend(grouped);
            }
        }
    }
    Ok(())
}

fn parse_defaults(mvex: &[u8], id: u32) -> Result<SampleDefaults, Truncated> {
    for (_, trex) in children(mvex).filter(|(kind, _)| kind == b"trex") {
        let (_, _, mut cursor) = parse_full_box(trex)?;
        if cursor.u32()? == id {
            cursor.take(4)?;
            return Ok(SampleDefaults { duration: cursor.u32()?, size: cursor.u32()?, flags: cursor.u32()? });
        }
    }
    Ok(SampleDefaults::default())
}

fn append_fragment(
    traf: &[u8],
    moof_start: u64,
    id: u32,
    mut defaults: SampleDefaults,
    next_dts: &mut i64,
    samples: &mut SampleTable,
) -> Result<(), ContainerError> {
    let (_, flags, mut tfhd) = parse_full_box(child(traf, b"tfhd").ok_or(Truncated)?)?;
    if tfhd.u32()? != id {
        return Ok(());
    }
    // Without an explicit base, data offsets count from the moof (default-base-is-moof, and the first track in any case).
    let base = if flags & 0x01 != 0 { tfhd.u64()? } else { moof_start };
    let mut optional = |flag: u32, absent: u32| if flags & flag != 0 { tfhd.u32() } else { Ok(absent) };
    let _description_index = optional(0x02, 0)?;
    defaults.duration = optional(0x08, defaults.duration)?;
    defaults.size = optional(0x10, defaults.size)?;
    defaults.flags = optional(0x20, defaults.flags)?;
    let start_dts = match child(traf, b"tfdt") {
        None => None,
        Some(tfdt) => {
            let (version, _, mut cursor) = parse_full_box(tfdt)?;
            let dts = i64::try_from(cursor.u32_or_u64(version == 1)?).ok().filter(|&dts| dts < i64::MAX / 4);
            Some(dts.ok_or(Truncated)?)
        }
    };
    samples.begin_run(start_dts, next_dts)?;
    let mut offset = base;
    for (_, trun) in children(traf).filter(|(kind, _)| kind == b"trun") {
        let (_, flags, mut cursor) = parse_full_box(trun)?;
        let count = cursor.u32()?;
        if flags & 0x01 != 0 {
            offset = base.saturating_add_signed(i64::from(cursor.u32()? as i32));
        }
        let mut first_flags = if flags & 0x04 != 0 { Some(cursor.u32()?) } else { None };
        // Samples without fields take no bytes in the file, so the count alone could be enormous.
        refuse_if(flags & 0xf00 == 0 && count > 100_000, Truncated)?;
        samples.push_chunk(offset);
        for _ in 0..count {
            let duration = if flags & 0x100 != 0 { cursor.u32()? } else { defaults.duration };
            let size = if flags & 0x200 != 0 { cursor.u32()? } else { defaults.size };
            let own_flags = if flags & 0x400 != 0 { Some(cursor.u32()?) } else { None };
            let sample_flags = first_flags.take().or(own_flags).unwrap_or(defaults.flags);
            // Signed in both versions, as in ffmpeg; no sensible offset is large enough to matter.
            let composition_offset = if flags & 0x800 != 0 { cursor.u32()? as i32 } else { 0 };
            samples.push_sample(size, duration, composition_offset, sample_flags & NON_SYNC_FLAGS == 0)?;
            offset = offset.saturating_add(u64::from(size));
            *next_dts = next_dts.saturating_add(i64::from(duration));
        }
    }
    Ok(())
}
