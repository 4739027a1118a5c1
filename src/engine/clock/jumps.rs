//! Finds a file's clock jumps, and the shifts that put its pieces on one clock.
//!
//! Reading a large file takes longer than a client waits for a probe. So the file is sampled. Where clock and byte count
//! disagree most, it is sampled again in the middle, until they agree or the time is up. About twenty samples find a jump
//! in a stream of constant bit rate, however long the file is.

use std::collections::{BTreeMap, BinaryHeap};
use std::io::Result;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{LONGEST_SAMPLE, Lane, Mark, PIECE, TABLES};
use crate::domain::media::Media;
use crate::domain::mpegts::clock_jumps::{ClockSection, source_time};
use crate::domain::mpegts::packet::Packet;
use crate::domain::mpegts::program::{Route, Router};
use crate::domain::mpegts::{TIMESTAMP_WRAP, pes, unwrap_timestamp};
use crate::domain::time::{TICKS_PER_SECOND, round_to_ms, to_seconds};
use crate::engine::source::Source;

/// A clock that advances by more than this has jumped, ticks; a smaller step means lost data. The same limit as in ffmpeg.
const FORWARD: i64 = 10 * TICKS_PER_SECOND;
/// The limit if a packet has the discontinuity flag.
const FORWARD_TOLD: i64 = TICKS_PER_SECOND / 2;
/// A clock that goes back by more than this has jumped, ticks.
const BACK: i64 = TICKS_PER_SECOND / 10;

/// Files up to this size are read completely.
pub(super) const WHOLE: u64 = 32 << 20;
/// Number of initial samples of a larger file.
const LOOKS: u64 = 32;
/// Time limit for further samples.
const PATIENCE: Duration = Duration::from_millis(500);
/// Clock and byte count agree if they differ by less than this, ticks.
const AGREED: i64 = 3 * TICKS_PER_SECOND / 2;

/// Maximum number of pieces; a file with more jumps is damaged throughout. Up to 8 MiB are read for each jump.
const MOST_PIECES: usize = 512;

/// Bytes on either side of a jump that are searched for the ends of the pieces.
const AROUND: u64 = 2 << 20;
/// Frames after a jump among which the first presented one may be: leading frames come after their keyframe.
const REORDERED: usize = 8;

/// A file with clock jumps, put on one clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Repaired {
    /// The pieces. The first one begins with source time 0 at its first decode time.
    pub pieces: Vec<ClockSection>,
    /// End of the last stream, ticks of source time.
    pub end: i64,
    /// Number of programs at the beginning of the file, and the program number of the one that is played.
    pub programs: (usize, u16),
    /// The video PID changes.
    pub renumbered: bool,
    /// A later part has no video of the same codec and is not played.
    pub has_more: bool,
}

impl Repaired {
    /// Moves source time 0 to `start`, in ticks of the present source time.
    pub fn starting_at(mut self, start: i64) -> Self {
        for piece in &mut self.pieces {
            piece.shift_ticks = (piece.shift_ticks - start).rem_euclid(TIMESTAMP_WRAP);
        }
        self.end -= start;
        self
    }

    /// Writes the repair into a file's media info.
    pub fn describe(self, media: &mut Media, len: u64) {
        let duration = to_seconds(self.end);
        media.start_seconds = to_seconds((-self.pieces[0].shift_ticks).rem_euclid(TIMESTAMP_WRAP));
        media.duration_seconds = Some(duration);
        media.bitrate_kbps = Some((len as f64 * 8.0 / duration / 1000.0).round() as u32);
        media.is_seekable = true;
        let jumps = self.pieces.len() - 1;
        if jumps > 0 {
            let what = if self.renumbered { "clock or its PIDs change" } else { "clock jumps" };
            media.warnings.push(format!("the {what} ({jumps}x): the {} parts are played as one", jumps + 1));
        }
        if let (several @ 2.., number) = self.programs {
            media.warnings.push(format!("the file has {several} programs: program {number} is played"));
        }
        if self.has_more {
            let text = format!("the part after {} s has video of another kind and is not played", round_to_ms(duration));
            media.warnings.push(text);
        }
        media.clock_pieces = self.pieces;
    }
}

/// Whether the clock of a file jumps, as far as this can be found out in a second. Blocks on file I/O.
///
/// # Errors
/// Those of reading the file.
pub fn has_jump(source: &Arc<Source>) -> Result<bool> {
    Ok(match Lane::of(source)? {
        Some(lane) => !found(&lane)?.is_empty(),
        None => false,
    })
}

/// The repair of a file with clock jumps; None for other files. Blocks on file I/O.
///
/// # Errors
/// Those of reading the file.
pub fn repaired(source: &Arc<Source>) -> Result<Option<Repaired>> {
    let Some(lane) = Lane::of(source)? else { return Ok(None) };
    let jumps = found(&lane)?;
    let Some((first, _)) = jumps.first() else { return Ok(None) };
    if jumps.len() >= MOST_PIECES {
        return Ok(None);
    }
    let beginning = lane.marks(0, AROUND.min(first.at + 1))?;
    let start = beginning.first().map_or(first.dts, |mark| mark.dts);
    let mut pieces = vec![ClockSection { start_byte: 0, shift_ticks: (-start).rem_euclid(TIMESTAMP_WRAP) }];
    let (mut to, mut renumbered, mut has_more) = (source.len, false, false);
    for (n, (old, new)) in jumps.iter().enumerate() {
        let at = boundary(&lane, old, new)?;
        let next = jumps.get(n + 1).map_or(source.len, |(_, next)| next.at);
        if !continues_video(&lane, new, next)? {
            (to, has_more) = (at, true);
            break;
        }
        let shift = joined(&lane, at, pieces[pieces.len() - 1].shift_ticks)?;
        pieces.push(ClockSection { start_byte: offset, shift_ticks: shift });
        renumbered |= old.pid != new.pid;
    }
    let end = ending(&lane, &pieces, to)?;
    let programs = (lane.program_count, lane.program.as_ref().map_or(0, |program| program.entry.number));
    Ok((end > 0).then_some(Repaired { pieces, end, programs, renumbered, has_more }))
}

/// Whether the part that begins with the frame `new` and ends before `next` has video of the same kind. Its tables may come
/// after its first frames.
fn continues_video(lane: &Lane, new: &Mark, next: u64) -> Result<bool> {
    let Some(mut router) = lane.router(&[], new.at)? else { return Ok(true) };
    let is_same = |router: &Router| router.first_pid(new.pid) == Some(lane.pid);
    let mut found = is_same(&router);
    if !found {
        lane.walk(new.at, next.min(new.at + TABLES), |_, bytes| {
            if !found {
                router.route(&mut bytes.clone());
                found = is_same(&router);
            }
        })?;
    }
    Ok(found)
}

/// The range between two neighbouring marks that has not been scanned.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Unseen {
    /// The mismatch of byte count and clock, ticks.
    doubt: i64,
    from: u64,
    to: u64,
}

impl PartialOrd for Unseen {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Unseen {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.doubt, self.from, self.to).cmp(&(other.doubt, other.from, other.to))
    }
}

/// The marks on either side of every jump found.
fn found(lane: &Lane) -> Result<Vec<(Mark, Mark)>> {
    let len = lane.source.len;
    if len <= WHOLE {
        let marks = lane.marks(0, len)?;
        return Ok(between(&marks.into_iter().map(|mark| (mark, true)).collect::<Vec<_>>()));
    }
    // For each mark, whether the range between it and the previous mark was scanned.
    let mut known: BTreeMap<u64, (Mark, bool)> = BTreeMap::new();
    let last = len - PIECE as u64;
    for look in 0..LOOKS {
        let at = last / (LOOKS - 1) * look;
        keep(&mut known, lane.sample(at, len)?);
    }
    let gaps: Vec<(Mark, Mark)> = unjoined(&known);
    let mut rates: Vec<i64> = gaps
        .iter()
        .map(|(from, to)| ((to.at - from.at) as i64, forward(from, to)))
        .filter(|(_, ticks)| *ticks > 0)
        .map(|(bytes, ticks)| bytes * TICKS_PER_SECOND / ticks)
        .collect();
    rates.sort_unstable();
    // Bytes per second.
    let rate = rates.get(rates.len() / 2).copied().unwrap_or(0).max(1);
    let doubt = |from: &Mark, to: &Mark| match forward(from, to) {
        _ if from.pid != to.pid => i64::MAX,
        back if back < -BACK => i64::MAX,
        ticks => (ticks - (to.at - from.at) as i64 * TICKS_PER_SECOND / rate).abs(),
    };
    let unseen = |from: &Mark, to: &Mark| Unseen { doubt: doubt(from, to), from: from.at, to: to.at };
    let mut queue: BinaryHeap<Unseen> = gaps.iter().map(|(from, to)| unseen(from, to)).collect();
    let begun = Instant::now();
    while let Some(gap) = queue.pop().filter(|gap| gap.doubt > AGREED && begun.elapsed() < PATIENCE) {
        let mut whole = gap.to - gap.from <= 3 * PIECE as u64;
        let mut found = Vec::new();
        if !whole {
            let middle = gap.from + (gap.to - gap.from) / 2 - PIECE as u64 / 2;
            found = lane.sample(middle, gap.to)?;
            // No frame begins in the second half.
            whole = found.is_empty() && gap.to - middle <= LONGEST_SAMPLE;
        }
        if whole {
            // From the mark itself to the mark at the end, so that nothing in between stays unread. Beyond it if the PID
            // changes, because a takeover shows only in several frames.
            let more = if known[&gap.from].0.pid == known[&gap.to].0.pid { 1 } else { 2 * LONGEST_SAMPLE };
            found = lane.marks(gap.from, gap.to + more)?;
        }
        let (Some(first), Some(last)) = (found.first().copied(), found.last().copied()) else { continue };
        if whole {
            known.extend(found.into_iter().filter(|mark| mark.at > gap.from).map(|mark| (mark.at, (mark, true))));
        } else {
            let (from, to) = (known[&gap.from].0, known[&gap.to].0);
            keep(&mut known, found);
            queue.extend([unseen(&from, &first), unseen(&last, &to)]);
        }
    }
    Ok(between(&known.into_values().collect::<Vec<_>>()))
}

/// Adds the marks of a separate sample.
fn keep(known: &mut BTreeMap<u64, (Mark, bool)>, marks: Vec<Mark>) {
    for (n, mark) in marks.into_iter().enumerate() {
        known.entry(mark.at).or_insert((mark, n > 0));
    }
}

fn unjoined(known: &BTreeMap<u64, (Mark, bool)>) -> Vec<(Mark, Mark)> {
    let marks: Vec<&(Mark, bool)> = known.values().collect();
    marks.windows(2).filter(|pair| !pair[1].1).map(|pair| (pair[0].0, pair[1].0)).collect()
}

/// How far the clock advances from one mark to the next, ticks.
fn forward(from: &Mark, to: &Mark) -> i64 {
    unwrap_timestamp(to.dts, from.dts) - from.dts
}

fn jumps(from: &Mark, to: &Mark) -> bool {
    from.pid != to.pid || clock_jumps(from, to)
}

fn clock_jumps(from: &Mark, to: &Mark) -> bool {
    let most = if to.new_clock { FORWARD_TOLD } else { FORWARD };
    !(-BACK..=most).contains(&forward(from, to))
}

/// The jumps between consecutive marks. A single mark that is out of line is damage.
fn between(marks: &[(Mark, bool)]) -> Vec<(Mark, Mark)> {
    let mut found = Vec::new();
    let Some((mut last, _)) = marks.first().copied() else { return found };
    for (n, (mark, joined)) in marks.iter().enumerate().skip(1) {
        if *joined && jumps(&last, mark) {
            let lone = marks.get(n + 1).is_some_and(|(next, joined)| *joined && jumps(mark, next));
            if lone {
                continue;
            }
            found.push((last, *mark));
        }
        last = *mark;
    }
    found
}

/// The byte where the new clock begins: the first timestamp that is closer to the new clock than to the old.
fn boundary(lane: &Lane, old: &Mark, new: &Mark) -> Result<u64> {
    let mut at = new.at;
    if !clock_jumps(old, new) {
        return Ok(at);
    }
    let mut router = lane.router(&[], old.at)?;
    lane.walk(old.at, new.at, |offset, bytes| {
        let mut bytes = *bytes;
        let is_other = router.as_mut().is_some_and(|router| router.route(&mut bytes) != Route::Keep);
        if is_other || offset == old.at {
            return;
        }
        let Some(packet) = Packet::new(&bytes).filter(|packet| packet.starts_unit()) else { return };
        let payload = packet.payload();
        if !matches!(payload.get(3), Some(0xbd | 0xc0..=0xef | 0xfd)) {
            return;
        }
        let Some(pts) = pes::parse(payload).and_then(|header| header.pts) else { return };
        let away = |mark: &Mark| (unwrap_timestamp(pts, mark.dts) - mark.dts).abs();
        if away(new) < away(old) {
            at = at.min(offset);
        }
    })?;
    Ok(at)
}

/// The shift with which the piece from byte `at` continues the previous one, whose shift is `shift`. Decode times are
/// continuous. If the piece begins with a keyframe, its first presented frame is also after the last one of the previous
/// piece.
fn joined(lane: &Lane, at: u64, shift: i64) -> Result<i64> {
    let old = lane.marks(at.saturating_sub(AROUND), at)?;
    let new = lane.marks(at, at + AROUND)?;
    let (Some(last), Some(first)) = (old.last(), new.first()) else { return Ok(shift) };
    // A previous jump may be within the searched range.
    let from = old.windows(2).rposition(|pair| jumps(&pair[0], &pair[1])).map_or(0, |n| n + 1);
    let old = &old[from..];
    let mut steps: Vec<i64> = old.windows(2).rev().take(16).map(|pair| forward(&pair[0], &pair[1])).collect();
    steps.sort_unstable();
    let step = steps.get(steps.len() / 2).copied().filter(|step| *step > 0).unwrap_or(TICKS_PER_SECOND / 25);
    let decoded = last.dts + step - first.dts;
    let shown = |mark: &Mark, near: &Mark| unwrap_timestamp(mark.pts, near.dts);
    let latest = old.iter().rev().take(32).map(|mark| shown(mark, last)).max().unwrap_or(last.pts);
    let earliest = new.iter().take(REORDERED).map(|mark| shown(mark, first)).min().unwrap_or(first.pts);
    let late = (latest + step - earliest) - decoded;
    let late = if first.key && late < TICKS_PER_SECOND { late.max(0) } else { 0 };
    Ok((shift + decoded + late).rem_euclid(TIMESTAMP_WRAP))
}

/// End of the last video or audio before byte `to`, ticks of source time.
fn ending(lane: &Lane, pieces: &[ClockSection], to: u64) -> Result<i64> {
    let from = pieces[pieces.len() - 1].start_byte.max(to.saturating_sub(AROUND));
    let mut lanes: BTreeMap<u16, Vec<i64>> = BTreeMap::new();
    let mut router = lane.router(pieces, from)?;
    lane.walk(from, to, |at, bytes| {
        let mut bytes = *bytes;
        if router.as_mut().is_some_and(|router| router.route(&mut bytes) != Route::Keep) {
            return;
        }
        let Some(packet) = Packet::new(&bytes).filter(|packet| packet.starts_unit()) else { return };
        let payload = packet.payload();
        let counts = packet.pid() == lane.pid || matches!(payload.get(3), Some(0xc0..=0xdf | 0xbd));
        let Some(pts) = pes::parse(payload).and_then(|header| header.pts).filter(|_| counts) else { return };
        lanes.entry(packet.pid()).or_default().push(source_time(pieces, at, pts));
    })?;
    let end = |times: &Vec<i64>| {
        let mut times = times.clone();
        times.sort_unstable();
        let last = *times.last()?;
        // The last frame lasts as long as the shortest step between the others; a single frame a fortieth of a second.
        let step = times.windows(2).map(|pair| pair[1] - pair[0]).filter(|step| *step > 0).min();
        Some(last + step.unwrap_or(TICKS_PER_SECOND / 40))
    };
    let own = lanes.get(&lane.pid).and_then(end).unwrap_or(0);
    // Subtitles may be sent long before they are shown.
    let others = lanes.values().filter_map(end).filter(|end| *end < own + 2 * TICKS_PER_SECOND).max();
    Ok(others.unwrap_or(0).max(own))
}
