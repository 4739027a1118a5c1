//! The playlist of a channel: a window over the segments of its programmes, as a pure function of schedule and clock
//! (RFC 8216).
//!
//! Nothing is counted. A restart changes nothing, and two servers with the same state write the same bytes.

use std::fmt::Write;

use jiff::Timestamp;

use super::schedule::{Definition, Programme};
use super::time::{instant, seconds};

/// How far back one may go, days; and ms.
pub const CATCHUP_DAYS: u32 = 7;
pub const CATCHUP_MS: i64 = CATCHUP_DAYS as i64 * 24 * 3_600_000;

/// Segments of the live window at least.
const LEAST_SEGMENTS: usize = 6;

/// Whatever is asked for, no list is longer, ms: a player that comes back in time gets on with the next.
pub const LONGEST_MS: i64 = 6 * 3_600_000;

/// One segment on air. Its instants are ticks since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// When its programme starts, ms since 1970, and its place in it: what it is called by.
    pub programme_ms: i64,
    pub index: usize,
    /// Its place in the whole item.
    pub place: usize,
    pub start: i64,
    pub end: i64,
    pub sequence: u64,
    /// Changes that players are told of before it.
    pub changes: u64,
}

/// What kind of list is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// What was on just now.
    Live,
    /// From an instant on, and everything since (ms).
    From(i64),
    /// Between two instants (ms); whole once the second is past.
    Between(i64, i64),
}

/// Segments from the one on air at an instant (ms) on, without end; none before the channel's first.
pub fn slots(definition: &Definition, from_ms: i64) -> impl Iterator<Item = Slot> {
    let first = definition.revisions.first().map_or(i64::MAX, |revision| revision.start_ms);
    let from_ms = from_ms.max(first);
    let programmes = definition.programmes(from_ms, i64::MAX);
    programmes
        .flat_map(move |programme| segments(definition, programme))
        .skip_while(move |slot| slot.end <= from_ms * 90)
}

/// The segments of one programme.
pub fn segments(definition: &Definition, programme: Programme) -> impl Iterator<Item = Slot> {
    let spans = definition.spans(&programme);
    let (origin, first) = (programme.start_ms * 90, definition.item(&programme).part(programme.part).first);
    (0..spans.len()).map(move |index| Slot {
        programme_ms: programme.start_ms,
        index,
        place: first + index,
        start: origin + spans.start(index),
        end: origin + spans.end(index),
        sequence: programme.sequence + index as u64,
        changes: programme.changes,
    })
}

/// The segments a list holds at an instant (ms). `target` is the channel's target duration, seconds.
pub fn listed(definition: &Definition, view: View, target: u64, now_ms: i64) -> Vec<Slot> {
    let over = |until_ms: i64| move |slot: &Slot| slot.end <= until_ms * 90;
    match view {
        View::Live => {
            // A player that starts three target durations from the end must find that place listed for a while yet.
            let room = (3 * target as i64 + 2) * 90_000;
            let back_ms = room / 90 + LEAST_SEGMENTS as i64 * target as i64 * 1000;
            let mut slots: Vec<Slot> = slots(definition, now_ms - back_ms).take_while(over(now_ms)).collect();
            let Some(end) = slots.last().map(|slot| slot.end) else { return slots };
            let enough = |at: usize| slots.len() - at >= LEAST_SEGMENTS && end - slots[at].start >= room;
            let first = (0..slots.len()).rev().find(|&at| enough(at)).unwrap_or(0);
            slots.drain(..first);
            slots
        }
        View::From(from) => slots(definition, from).take_while(over(now_ms.min(from + LONGEST_MS))).collect(),
        View::Between(from, to) => {
            let until = to.min(from + LONGEST_MS);
            slots(definition, from).take_while(|slot| slot.start < until * 90 && slot.end <= now_ms * 90).collect()
        }
    }
}

/// The text of a list. `tail` is put behind every address: the grant of whoever asked.
pub fn playlist(slots: &[Slot], view: View, target: u64, now_ms: i64, tail: &str) -> String {
    let mut text = String::with_capacity(256 + slots.len() * (110 + tail.len()));
    let (sequence, mut changes) = slots.first().map_or((0, 0), |first| (first.sequence, first.changes));
    let _ = writeln!(text, "#EXTM3U\n#EXT-X-VERSION:6\n#EXT-X-TARGETDURATION:{target}");
    let _ = writeln!(text, "#EXT-X-MEDIA-SEQUENCE:{sequence}\n#EXT-X-DISCONTINUITY-SEQUENCE:{changes}");
    let ended = match view {
        View::Live => false,
        View::From(from) => now_ms >= from + LONGEST_MS,
        View::Between(from, to) => now_ms >= to.min(from + LONGEST_MS) && whole(slots, from, to),
    };
    match view {
        View::Live => {}
        _ if ended => text.push_str("#EXT-X-PLAYLIST-TYPE:VOD\n"),
        _ => text.push_str("#EXT-X-PLAYLIST-TYPE:EVENT\n#EXT-X-START:TIME-OFFSET=0,PRECISE=YES\n"),
    }
    text.push_str("#EXT-X-INDEPENDENT-SEGMENTS\n");
    for slot in slots {
        if slot.changes != changes {
            text.push_str("#EXT-X-DISCONTINUITY\n");
            changes = slot.changes;
        }
        let at = Timestamp::from_millisecond((slot.start + 45).div_euclid(90)).map(instant).unwrap_or_default();
        let _ = writeln!(text, "#EXT-X-PROGRAM-DATE-TIME:{at}\n#EXTINF:{:.5},", seconds(slot.end - slot.start));
        let _ = writeln!(text, "{}{tail}", name(slot.programme_ms, slot.index));
    }
    if ended {
        text.push_str("#EXT-X-ENDLIST\n");
    }
    text
}

/// Whether a list of the past has all it will ever have.
fn whole(slots: &[Slot], from: i64, to: i64) -> bool {
    slots.last().is_some_and(|last| last.end >= to.min(from + LONGEST_MS) * 90)
}

/// What a segment is called.
fn name(programme_ms: i64, index: usize) -> String {
    format!("{programme_ms}-{index:05}.ts")
}

/// The segment a name stands for; None for every name this program does not write itself.
pub fn named(text: &str) -> Option<(i64, usize)> {
    let (programme, index) = text.strip_suffix(".ts")?.split_once('-')?;
    let found = (programme.parse().ok()?, index.parse().ok()?);
    (name(found.0, found.1) == text).then_some(found)
}

#[cfg(test)]
mod tests;
