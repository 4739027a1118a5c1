//! CMAF tracks, checked by an independent reader: `mp4-atom` fails on a byte too few or too many in any box that it knows.

use hearthcast::domain::mpegts::psi::TrackKind;
use mp4_atom::{Any, Codec, Decode, FourCC, Moof, Moov, Trun};

/// Sample entries that the reader does not know.
const UNKNOWN_ENTRIES: [FourCC; 2] = [FourCC::new(b"alac"), FourCC::new(b"dtsc")];

/// Time by which audio of Matroska may leave the grid of its frames, seconds: its times are rounded to milliseconds.
const MAX_AUDIO_GAP_SECONDS: f64 = 0.01;

/// A flag of a sample: `sample_is_non_sync_sample` (ISO/IEC 14496-12 section 8.8.3.1).
const NON_SYNC: u32 = 0x1_0000;

/// Checks an init segment and its segments in order, by the rules of CMAF (ISO/IEC 23000-19 section 7.5) and of this packager:
/// one track, one fragment per segment, decode times without holes, composition offsets that are not negative.
///
/// # Errors
/// The first rule that is broken, and where.
pub fn check_track(kind: TrackKind, init: &[u8], segments: &[&[u8]]) -> Result<(), String> {
    let moov = check_init(init).map_err(|problem| format!("init segment: {problem}"))?;
    let mut next_time = None;
    for (index, segment) in segments.iter().enumerate() {
        let end =
            check_segment(kind, &moov, segment, next_time).map_err(|problem| format!("segment {index}: {problem}"))?;
        next_time = Some(end);
    }
    Ok(())
}

/// Reads all boxes; fails if bytes are left.
fn read_boxes(mut bytes: &[u8]) -> Result<Vec<Any>, String> {
    let mut boxes = Vec::new();
    while !bytes.is_empty() {
        boxes.push(Any::decode(&mut bytes).map_err(|error| format!("box {}: {error}", boxes.len()))?);
    }
    Ok(boxes)
}

fn check_init(init: &[u8]) -> Result<Moov, String> {
    let Ok([Any::Ftyp(brands), Any::Moov(moov)]) = <[Any; 2]>::try_from(read_boxes(init)?) else {
        return Err("not ftyp and moov".to_owned());
    };
    if ![b"iso6", b"cmfc"].into_iter().all(|brand| brands.compatible_brands.contains(&FourCC::new(brand))) {
        return Err(format!("brands {:?}", brands.compatible_brands));
    }
    let [track] = &moov.trak[..] else { return Err(format!("{} tracks", moov.trak.len())) };
    let extends = moov.mvex.as_ref().map(|mvex| &mvex.trex[..]);
    if extends.map(|trex| trex.iter().map(|trex| trex.track_id).collect()) != Some(vec![track.tkhd.track_id]) {
        return Err("no trex of the track alone".to_owned());
    }
    let table = &track.mdia.minf.stbl;
    match &table.stsd.codecs[..] {
        [Codec::Unknown(name, _)] if !UNKNOWN_ENTRIES.contains(name) => return Err(format!("sample entry {name}")),
        [_] => {}
        entries => return Err(format!("{} sample entries", entries.len())),
    }
    if !table.stts.entries.is_empty() || !table.stsc.entries.is_empty() || track.mdia.mdhd.timescale == 0 {
        return Err("sample tables that are not empty, or no timescale".to_owned());
    }
    Ok(moov)
}

/// Checks one segment; returns its end on the decode timeline, in units of the timescale.
fn check_segment(kind: TrackKind, moov: &Moov, segment: &[u8], expected: Option<u64>) -> Result<u64, String> {
    let Ok([Any::Moof(moof), Any::Mdat(mdat)]) = <[Any; 2]>::try_from(read_boxes(segment)?) else {
        return Err("not moof and mdat".to_owned());
    };
    let Moof { traf, .. } = &moof;
    let [fragment] = &traf[..] else { return Err(format!("{} tracks", traf.len())) };
    let [run] = &fragment.trun[..] else { return Err(format!("{} runs", fragment.trun.len())) };
    if fragment.tfhd.track_id != moov.trak[0].tkhd.track_id {
        return Err("another track".to_owned());
    }
    let head = segment.len() - mdat.data.len();
    if usize::try_from(run.data_offset.unwrap_or(0)) != Ok(head) {
        return Err(format!("data offset {:?} instead of {head}", run.data_offset));
    }
    let start = fragment.tfdt.as_ref().ok_or("no tfdt")?.base_media_decode_time;
    let default = (fragment.tfhd.default_sample_duration, fragment.tfhd.default_sample_size);
    let (duration, size) = check_samples(kind, run, default)?;
    if size != mdat.data.len() as u64 {
        return Err(format!("samples of {size} bytes in {} bytes", mdat.data.len()));
    }
    let timescale = f64::from(moov.trak[0].mdia.mdhd.timescale);
    let gap = expected.map_or(0.0, |expected| (start.abs_diff(expected)) as f64 / timescale);
    let is_hole = match kind {
        TrackKind::Video => gap > 0.0,
        TrackKind::Audio => gap > MAX_AUDIO_GAP_SECONDS,
    };
    if is_hole {
        return Err(format!("begins at {start} instead of {expected:?}"));
    }
    Ok(start + duration)
}

/// Checks the samples of a run; returns the sums of their durations and sizes.
fn check_samples(kind: TrackKind, run: &Trun, default: (Option<u32>, Option<u32>)) -> Result<(u64, u64), String> {
    let (mut duration, mut size) = (0, 0);
    for (n, sample) in run.samples.iter().enumerate() {
        duration += u64::from(sample.duration.or(default.0).ok_or("no duration")?);
        size += u64::from(sample.size.or(default.1).ok_or("no size")?);
        if sample.cts.unwrap_or(0) < 0 {
            return Err(format!("sample {n} is shown before it is decoded"));
        }
        if kind == TrackKind::Video && n == 0 && sample.flags.is_none_or(|flags| flags & NON_SYNC != 0) {
            return Err("does not begin with a sync sample".to_owned());
        }
    }
    Ok((duration, size))
}
