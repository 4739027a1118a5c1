//! Finds a file's clock jumps, and the shifts that put its pieces on one clock.
//!
//! Reading a large file takes longer than a client waits for a probe. So the file is sampled. Where clock and byte count
//! disagree most, it is sampled again in the middle, until they agree or the time is up. About twenty samples find a jump
//! in a stream of constant bit rate, however long the file is.

use std::collections::{BTreeMap, BinaryHeap};
use std::io::Result;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{ClockStream, MAX_SAMPLE_BYTES, PesMark, READ_BYTES, TABLE_SEARCH_BYTES};
use crate::domain::media::Media;
use crate::domain::mpegts::clock_jumps::{ClockSection, source_time};
use crate::domain::mpegts::packet::Packet;
use crate::domain::mpegts::program::{Route, Router};
use crate::domain::mpegts::{pes, unwrap_timestamp};
use crate::domain::time::{Ticks, round_to_ms};
use crate::engine::source::SourceFile;

/// A clock that advances by more than this has jumped; a smaller step means lost data. The same limit as in ffmpeg.
const MAX_FORWARD: Ticks = Ticks::from_ms(10_000);
/// The limit if a packet has the discontinuity flag.
const MAX_FLAGGED_FORWARD: Ticks = Ticks::from_ms(500);
/// A clock that goes back by more than this has jumped.
const MAX_BACKWARD: Ticks = Ticks::from_ms(100);

/// Files up to this size are read completely.
pub(super) const MAX_FULL_SCAN_BYTES: u64 = 32 << 20;
/// Number of initial samples of a larger file.
const INITIAL_SAMPLES: u64 = 32;
/// Time limit for further samples.
const SEARCH_TIME: Duration = Duration::from_millis(500);
/// Clock and byte count agree if they differ by less than this.
const MAX_MISMATCH: Ticks = Ticks::from_ms(1500);

/// Maximum number of pieces; a file with more jumps is damaged throughout. Up to 8 MiB are read for each jump.
const MAX_PIECES: usize = 512;

/// Bytes on either side of a jump that are searched for the ends of the pieces.
const BOUNDARY_SEARCH_BYTES: u64 = 2 << 20;
/// Frames after a jump among which the first presented one may be: leading frames come after their keyframe.
const MAX_LEADING_FRAMES: usize = 8;

/// A file with clock jumps, put on one clock.
#[derive(Clone, Debug, PartialEq)]
pub struct ClockRepair {
    /// The pieces. The first one begins with source time 0 at its first decode time.
    pub pieces: Vec<ClockSection>,
    /// End of the last stream in source time.
    pub end: Ticks,
    /// Number of programs at the beginning of the file, and the program number of the one that is played.
    pub programs: (usize, u16),
    /// The video PID changes.
    pub has_changed_pids: bool,
    /// A later part has no video of the same codec and is not played.
    pub has_unplayed_part: bool,
}

impl ClockRepair {
    /// Moves source time 0 to `start` of the present source time.
    pub fn with_start(mut self, start: Ticks) -> Self {
        for piece in &mut self.pieces {
            piece.shift = (piece.shift - start).wrapped();
        }
        self.end = self.end - start;
        self
    }

    /// Writes the repair into a file's media info.
    pub fn apply_to(self, media: &mut Media, len: u64) {
        let duration = self.end.as_seconds();
        media.start_seconds = (-self.pieces[0].shift).wrapped().as_seconds();
        media.duration_seconds = Some(duration);
        media.bitrate_kbps = Some((len as f64 * 8.0 / duration / 1000.0).round() as u32);
        media.is_seekable = true;
        let jumps = self.pieces.len() - 1;
        if jumps > 0 {
            let cause = if self.has_changed_pids { "clock or its PIDs change" } else { "clock jumps" };
            media.warnings.push(format!("the {cause} ({jumps}x): the {} parts are played as one", jumps + 1));
        }
        if let (program_count @ 2.., number) = self.programs {
            media.warnings.push(format!("the file has {program_count} programs: program {number} is played"));
        }
        if self.has_unplayed_part {
            let text =
                format!("the part after {} s has video of another kind and is not played", round_to_ms(duration));
            media.warnings.push(text);
        }
        media.clock_pieces = self.pieces;
    }
}

/// Whether the clock of a file jumps, as far as this can be found out in a second. Blocks on file I/O.
pub fn has_clock_jump(source: &Arc<SourceFile>) -> Result<bool> {
    Ok(match ClockStream::find_in(source)? {
        Some(stream) => !find_jumps(&stream)?.is_empty(),
        None => false,
    })
}

/// The repair of a file with clock jumps; None for other files. Blocks on file I/O.
pub fn find_clock_repair(source: &Arc<SourceFile>) -> Result<Option<ClockRepair>> {
    let Some(stream) = ClockStream::find_in(source)? else { return Ok(None) };
    let jumps = find_jumps(&stream)?;
    let Some((before_first, _)) = jumps.first() else { return Ok(None) };
    if jumps.len() >= MAX_PIECES {
        return Ok(None);
    }
    let first_marks = stream.read_marks(0, BOUNDARY_SEARCH_BYTES.min(before_first.offset + 1))?;
    let start = first_marks.first().map_or(before_first.dts, |mark| mark.dts);
    let mut pieces = vec![ClockSection { start_byte: 0, shift: (-start).wrapped() }];
    let (mut end_offset, mut has_changed_pids, mut has_unplayed_part) = (source.len, false, false);
    for (n, (old, new)) in jumps.iter().enumerate() {
        let offset = find_boundary(&stream, old, new)?;
        let next = jumps.get(n + 1).map_or(source.len, |(_, next)| next.offset);
        if !continues_video(&stream, new, next)? {
            (end_offset, has_unplayed_part) = (offset, true);
            break;
        }
        let shift = joining_shift(&stream, offset, pieces[pieces.len() - 1].shift)?;
        pieces.push(ClockSection { start_byte: offset, shift });
        has_changed_pids |= old.pid != new.pid;
    }
    let end = find_end(&stream, &pieces, end_offset)?;
    let programs = (stream.program_count, stream.program.as_ref().map_or(0, |program| program.entry.number));
    Ok((end > Ticks::ZERO).then_some(ClockRepair { pieces, end, programs, has_changed_pids, has_unplayed_part }))
}

/// Whether the part that begins with the frame `new` and ends before `next` has video of the same kind. Its tables may come
/// after its first frames.
fn continues_video(stream: &ClockStream, new: &PesMark, next: u64) -> Result<bool> {
    let Some(mut router) = stream.router_at(&[], new.offset)? else { return Ok(true) };
    let is_same = |router: &Router| router.first_pid(new.pid) == Some(stream.pid);
    let mut is_continued = is_same(&router);
    if !is_continued {
        stream.for_each_packet(new.offset, next.min(new.offset + TABLE_SEARCH_BYTES), |_, bytes| {
            if !is_continued {
                router.route(&mut bytes.clone());
                is_continued = is_same(&router);
            }
        })?;
    }
    Ok(is_continued)
}

/// The range between two neighbouring marks that has not been scanned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct UnscannedGap {
    /// The mismatch of byte count and clock.
    mismatch: Ticks,
    from: u64,
    to: u64,
}

/// The marks on either side of every jump found.
fn find_jumps(stream: &ClockStream) -> Result<Vec<(PesMark, PesMark)>> {
    let len = stream.source.len;
    if len <= MAX_FULL_SCAN_BYTES {
        let marks = stream.read_marks(0, len)?;
        return Ok(jumps_between(&marks.into_iter().map(|mark| (mark, true)).collect::<Vec<_>>()));
    }
    // For each mark, whether the range between it and the previous mark was scanned.
    let mut scanned: BTreeMap<u64, (PesMark, bool)> = BTreeMap::new();
    let last_sample = len - READ_BYTES as u64;
    for sample in 0..INITIAL_SAMPLES {
        let offset = last_sample / (INITIAL_SAMPLES - 1) * sample;
        insert_sample(&mut scanned, stream.sample(offset, len)?);
    }
    let gaps: Vec<(PesMark, PesMark)> = unscanned_gaps(&scanned);
    let mut rates: Vec<i64> = gaps
        .iter()
        .map(|(from, to)| ((to.offset - from.offset) as i64, clock_advance(from, to).0))
        .filter(|(_, ticks)| *ticks > 0)
        .map(|(bytes, ticks)| bytes * Ticks::PER_SECOND / ticks)
        .collect();
    rates.sort_unstable();
    // Bytes per second.
    let rate = rates.get(rates.len() / 2).copied().unwrap_or(0).max(1);
    let mismatch = |from: &PesMark, to: &PesMark| match clock_advance(from, to) {
        _ if from.pid != to.pid => Ticks::MAX,
        advance if advance < -MAX_BACKWARD => Ticks::MAX,
        advance => (advance - Ticks((to.offset - from.offset) as i64 * Ticks::PER_SECOND / rate)).abs(),
    };
    let gap_between =
        |from: &PesMark, to: &PesMark| UnscannedGap { mismatch: mismatch(from, to), from: from.offset, to: to.offset };
    let mut queue: BinaryHeap<UnscannedGap> = gaps.iter().map(|(from, to)| gap_between(from, to)).collect();
    let started = Instant::now();
    while let Some(gap) = queue.pop().filter(|gap| gap.mismatch > MAX_MISMATCH && started.elapsed() < SEARCH_TIME) {
        let mut whole = gap.to - gap.from <= 3 * READ_BYTES as u64;
        let mut found = Vec::new();
        if !whole {
            let middle = gap.from + (gap.to - gap.from) / 2 - READ_BYTES as u64 / 2;
            found = stream.sample(middle, gap.to)?;
            // No frame begins in the second half.
            whole = found.is_empty() && gap.to - middle <= MAX_SAMPLE_BYTES;
        }
        if whole {
            // From the mark itself to the mark at the end, so that nothing in between stays unread. Beyond it if the PID
            // changes, because a takeover shows only in several frames.
            let extra_bytes = if scanned[&gap.from].0.pid == scanned[&gap.to].0.pid { 1 } else { 2 * MAX_SAMPLE_BYTES };
            found = stream.read_marks(gap.from, gap.to + extra_bytes)?;
        }
        let (Some(first), Some(last)) = (found.first().copied(), found.last().copied()) else { continue };
        if whole {
            let later = found.into_iter().filter(|mark| mark.offset > gap.from);
            scanned.extend(later.map(|mark| (mark.offset, (mark, true))));
        } else {
            let (from, to) = (scanned[&gap.from].0, scanned[&gap.to].0);
            insert_sample(&mut scanned, found);
            queue.extend([gap_between(&from, &first), gap_between(&last, &to)]);
        }
    }
    Ok(jumps_between(&scanned.into_values().collect::<Vec<_>>()))
}

/// Adds the marks of a separate sample.
fn insert_sample(scanned: &mut BTreeMap<u64, (PesMark, bool)>, marks: Vec<PesMark>) {
    for (n, mark) in marks.into_iter().enumerate() {
        scanned.entry(mark.offset).or_insert((mark, n > 0));
    }
}

fn unscanned_gaps(scanned: &BTreeMap<u64, (PesMark, bool)>) -> Vec<(PesMark, PesMark)> {
    let marks: Vec<&(PesMark, bool)> = scanned.values().collect();
    marks.windows(2).filter(|pair| !pair[1].1).map(|pair| (pair[0].0, pair[1].0)).collect()
}

/// How far the clock advances from one mark to the next.
fn clock_advance(from: &PesMark, to: &PesMark) -> Ticks {
    unwrap_timestamp(to.dts, from.dts) - from.dts
}

fn is_jump(from: &PesMark, to: &PesMark) -> bool {
    from.pid != to.pid || is_clock_jump(from, to)
}

fn is_clock_jump(from: &PesMark, to: &PesMark) -> bool {
    let max_forward = if to.has_new_clock { MAX_FLAGGED_FORWARD } else { MAX_FORWARD };
    !(-MAX_BACKWARD..=max_forward).contains(&clock_advance(from, to))
}

/// The jumps between consecutive marks. A single mark that is out of line is damage.
fn jumps_between(marks: &[(PesMark, bool)]) -> Vec<(PesMark, PesMark)> {
    let mut found = Vec::new();
    let Some((mut previous, _)) = marks.first().copied() else { return found };
    for (n, (mark, is_contiguous)) in marks.iter().enumerate().skip(1) {
        if *is_contiguous && is_jump(&previous, mark) {
            let is_outlier = marks.get(n + 1).is_some_and(|(next, joined)| *joined && is_jump(mark, next));
            if is_outlier {
                continue;
            }
            found.push((previous, *mark));
        }
        previous = *mark;
    }
    found
}

/// The byte where the new clock begins: the first timestamp that is closer to the new clock than to the old.
fn find_boundary(stream: &ClockStream, before: &PesMark, after: &PesMark) -> Result<u64> {
    let mut boundary_offset = after.offset;
    if !is_clock_jump(before, after) {
        return Ok(boundary_offset);
    }
    let mut router = stream.router_at(&[], before.offset)?;
    stream.for_each_packet(before.offset, after.offset, |offset, bytes| {
        let mut bytes = *bytes;
        let is_dropped = router.as_mut().is_some_and(|router| router.route(&mut bytes) != Route::Keep);
        if is_dropped || offset == before.offset {
            return;
        }
        let Some(packet) = Packet::new(&bytes).filter(|packet| packet.starts_unit()) else { return };
        let payload = packet.payload();
        if !matches!(payload.get(3), Some(0xbd | 0xc0..=0xef | 0xfd)) {
            return;
        }
        let Some(pts) = pes::parse(payload).and_then(|header| header.pts) else { return };
        let distance = |mark: &PesMark| (unwrap_timestamp(pts, mark.dts) - mark.dts).abs();
        if distance(after) < distance(before) {
            boundary_offset = boundary_offset.min(offset);
        }
    })?;
    Ok(boundary_offset)
}

/// The shift with which the piece from byte `offset` continues the previous one, whose shift is `shift`. Decode times are
/// continuous. If the piece begins with a keyframe, its first presented frame is also after the last one of the previous
/// piece.
fn joining_shift(stream: &ClockStream, offset: u64, shift: Ticks) -> Result<Ticks> {
    let before = stream.read_marks(offset.saturating_sub(BOUNDARY_SEARCH_BYTES), offset)?;
    let after = stream.read_marks(offset, offset + BOUNDARY_SEARCH_BYTES)?;
    let (Some(last), Some(first)) = (before.last(), after.first()) else { return Ok(shift) };
    // A previous jump may be within the searched range.
    let last_jump_end = before.windows(2).rposition(|pair| is_jump(&pair[0], &pair[1])).map_or(0, |n| n + 1);
    let before = &before[last_jump_end..];
    let mut steps: Vec<Ticks> =
        before.windows(2).rev().take(16).map(|pair| clock_advance(&pair[0], &pair[1])).collect();
    steps.sort_unstable();
    let step = steps.get(steps.len() / 2).copied().filter(|step| *step > Ticks::ZERO).unwrap_or(Ticks::from_ms(40));
    let dts_shift = last.dts + step - first.dts;
    let presented = |mark: &PesMark, near: &PesMark| unwrap_timestamp(mark.pts, near.dts);
    let latest = before.iter().rev().take(32).map(|mark| presented(mark, last)).max().unwrap_or(last.pts);
    let earliest = after.iter().take(MAX_LEADING_FRAMES).map(|mark| presented(mark, first)).min().unwrap_or(first.pts);
    let pts_delay = (latest + step - earliest) - dts_shift;
    let pts_delay =
        if first.is_keyframe && pts_delay < Ticks::from_ms(1000) { pts_delay.max(Ticks::ZERO) } else { Ticks::ZERO };
    Ok((shift + dts_shift + pts_delay).wrapped())
}

/// End of the last video or audio before byte `to`, in source time.
fn find_end(stream: &ClockStream, pieces: &[ClockSection], to: u64) -> Result<Ticks> {
    let from = pieces[pieces.len() - 1].start_byte.max(to.saturating_sub(BOUNDARY_SEARCH_BYTES));
    let mut times_by_pid: BTreeMap<u16, Vec<Ticks>> = BTreeMap::new();
    let mut router = stream.router_at(pieces, from)?;
    stream.for_each_packet(from, to, |offset, bytes| {
        let mut bytes = *bytes;
        if router.as_mut().is_some_and(|router| router.route(&mut bytes) != Route::Keep) {
            return;
        }
        let Some(packet) = Packet::new(&bytes).filter(|packet| packet.starts_unit()) else { return };
        let payload = packet.payload();
        let is_counted = packet.pid() == stream.pid || matches!(payload.get(3), Some(0xc0..=0xdf | 0xbd));
        let Some(pts) = pes::parse(payload).and_then(|header| header.pts).filter(|_| is_counted) else { return };
        times_by_pid.entry(packet.pid()).or_default().push(source_time(pieces, offset, pts));
    })?;
    let end_of = |times: &Vec<Ticks>| {
        let mut times = times.clone();
        times.sort_unstable();
        let last = *times.last()?;
        // The last frame lasts as long as the shortest step between the others; a single frame a fortieth of a second.
        let step = times.windows(2).map(|pair| pair[1] - pair[0]).filter(|step| *step > Ticks::ZERO).min();
        Some(last + step.unwrap_or(Ticks::from_ms(25)))
    };
    let stream_end = times_by_pid.get(&stream.pid).and_then(end_of).unwrap_or_default();
    // Subtitles may be sent long before they are shown.
    let latest = times_by_pid.values().filter_map(end_of).filter(|end| *end < stream_end + Ticks::from_ms(2000)).max();
    Ok(latest.unwrap_or_default().max(stream_end))
}
