//! The playlist of a channel (live, start-over, catch-up: timeshift without storage): a window over the segments of its
//! programmes, as a pure function of schedule and clock (RFC 8216).
//!
//! Nothing is counted. A restart changes nothing, and two servers with the same state write the same bytes, including
//! `EXT-X-MEDIA-SEQUENCE` and `EXT-X-DISCONTINUITY`. All instants are channel time, which equals wall-clock time unless the
//! channel has a clock of its own ([`Pace`]); only the dates in the text are always wall-clock time.

use std::fmt::Write;

use jiff::Timestamp;

use super::channel::Channel;
use super::pace::{Jump, Leg, Pace};
use super::schedule::{Definition, Programme};
use super::time::{instant, seconds};

/// How far back catch-up reaches, days; and ms.
pub const CATCHUP_DAYS: u32 = 7;
pub const CATCHUP_MS: i64 = CATCHUP_DAYS as i64 * 24 * 3_600_000;

/// Minimum number of segments in the live window.
const LEAST_SEGMENTS: usize = 6;

/// No playlist is longer than this, whatever was requested, ms. A player that comes back in time continues with the next
/// one.
pub const LONGEST_MS: i64 = 6 * 3_600_000;

/// A segment on air. Its instants are ticks since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Start of its programme, ms since 1970, and its index in that programme: together they form its file name.
    pub programme_ms: i64,
    pub index: usize,
    /// Its index in the whole item.
    pub place: usize,
    pub start: i64,
    pub end: i64,
    pub sequence: u64,
    /// Discontinuities before it (`EXT-X-DISCONTINUITY`), its own included.
    pub changes: u64,
}

/// The kind of playlist requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The live window.
    Live,
    /// Everything since an instant (ms).
    From(i64),
    /// Between two instants (ms); complete once the second has passed.
    Between(i64, i64),
}

/// Segments in order, starting with the one on air at an instant (ms), without end. There are none before the channel's
/// first. Skipped segments are left out, and the others are numbered as if those had never existed.
pub fn slots<'a>(
    definition: &'a Definition,
    pace: Option<&Pace>,
    from_ms: i64,
) -> impl Iterator<Item = Slot> + use<'a> {
    let whole = Leg { from_ms: i64::MIN, to_ms: i64::MAX, passed: 0, changes: 0, ticks: 0 };
    let legs = pace.map_or_else(|| vec![whole], Pace::legs);
    legs.into_iter().filter(move |leg| leg.to_ms > from_ms).flat_map(move |leg| {
        let until = leg.to_ms.saturating_mul(90);
        let planned = planned(definition, from_ms.max(leg.from_ms)).take_while(move |slot| slot.end <= until);
        planned.map(move |slot| Slot {
            sequence: slot.sequence.saturating_sub(leg.passed),
            changes: slot.changes.saturating_sub(leg.changes),
            ..slot
        })
    })
}

/// Segments as scheduled, skips ignored.
fn planned(definition: &Definition, from_ms: i64) -> impl Iterator<Item = Slot> + use<'_> {
    let first = definition.revisions.first().map_or(i64::MAX, |revision| revision.start_ms);
    let from_ms = from_ms.max(first);
    let programmes = definition.programmes(from_ms, i64::MAX);
    programmes
        .flat_map(move |programme| segments(definition, programme))
        .skip_while(move |slot| slot.end <= from_ms * 90)
}

/// The target of a skip: the end of the programme the guide shows as current. None before the channel's first programme.
pub fn jump(channel: &Channel, now_ms: i64) -> Option<Jump> {
    let (definition, pace) = (&channel.definition, channel.pace.as_deref()?);
    let time_ms = pace.at(now_ms);
    let on = channel.airings(time_ms, time_ms + 1).next().filter(|on| on.programme.start_ms <= time_ms)?;
    let to_ms = on.programme.end_ms;
    let next = planned(definition, to_ms).next()?;
    let aired = listed(definition, Some(pace), View::Live, channel.output.target, time_ms);
    let last = pace.runs().last().copied()?;
    let unseen = aired.last().is_none_or(|aired| aired.end <= last.at_ms * 90);
    let Some(aired) = aired.last() else {
        return Some(Jump { to_ms, passed: last.passed, changes: last.changes, ticks: last.ticks, unseen });
    };
    let leg = pace.leg(aired.programme_ms);
    // A change of format is one discontinuity, however many were skipped.
    let told = aired.changes + u64::from(next.changes > aired.changes + leg.changes);
    Some(Jump {
        to_ms,
        passed: next.sequence.saturating_sub(aired.sequence + 1),
        changes: next.changes.saturating_sub(told),
        ticks: next.start - (aired.end - leg.ticks),
        unseen,
    })
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

/// The segments of a playlist at an instant (ms). `target` is the channel's target duration, seconds.
pub fn listed(definition: &Definition, pace: Option<&Pace>, view: View, target: u64, now_ms: i64) -> Vec<Slot> {
    let over = |until_ms: i64| move |slot: &Slot| slot.end <= until_ms * 90;
    match view {
        View::Live => {
            // A player starts three target durations before the end and must find that segment listed for a while longer.
            let room = (3 * target as i64 + 2) * 90_000;
            let back_ms = room / 90 + LEAST_SEGMENTS as i64 * target as i64 * 1000;
            let from_ms = back(pace, now_ms, back_ms, target as i64 * 1000);
            let mut slots: Vec<Slot> = slots(definition, pace, from_ms).take_while(over(now_ms)).collect();
            let mut length = 0;
            let enough = |at: &usize| {
                length += slots[*at].end - slots[*at].start;
                slots.len() - at >= LEAST_SEGMENTS && length >= room
            };
            let first = (0..slots.len()).rev().find(enough).unwrap_or(0);
            slots.drain(..first);
            slots
        }
        View::From(from) => slots(definition, pace, from).take_while(over(now_ms.min(from + LONGEST_MS))).collect(),
        View::Between(from, to) => {
            let until = to.min(from + LONGEST_MS);
            let slots = slots(definition, pace, from);
            slots.take_while(|slot| slot.start < until * 90 && slot.end <= now_ms * 90).collect()
        }
    }
}

/// The channel time `back_ms` of aired time ago. A skip may have cut a segment short by up to `lost_ms`.
pub fn back(pace: Option<&Pace>, now_ms: i64, mut back_ms: i64, lost_ms: i64) -> i64 {
    let mut end = now_ms;
    for leg in pace.map(Pace::legs).unwrap_or_default().iter().rev() {
        if leg.from_ms > now_ms {
            continue;
        }
        end = leg.to_ms.min(now_ms);
        let aired = end.saturating_sub(leg.from_ms);
        if aired >= back_ms {
            break;
        }
        back_ms -= (aired - lost_ms).max(0);
    }
    end.saturating_sub(back_ms)
}

/// Whether a playlist is complete. `stands` means that the channel's clock is paused; then the list does not wait for the
/// segment in progress.
pub fn is_over(
    definition: &Definition,
    pace: Option<&Pace>,
    view: View,
    slots: &[Slot],
    now_ms: i64,
    stands: bool,
) -> bool {
    let until = match view {
        View::Live => return false,
        View::From(from) => return now_ms >= from + LONGEST_MS,
        View::Between(from, to) => to.min(from + LONGEST_MS),
    };
    let Some(last) = slots.last().filter(|_| now_ms >= until) else { return false };
    last.end >= until * 90 || {
        let next = self::slots(definition, pace, last.end.div_euclid(90)).find(|slot| slot.start >= last.end);
        next.is_none_or(|next| stands || next.start >= until * 90)
    }
}

/// The text of a playlist; `ended` adds `EXT-X-ENDLIST`. `tail` is appended to every address: the viewer's grant.
pub fn playlist(slots: &[Slot], pace: Option<&Pace>, view: View, target: u64, ended: bool, tail: &str) -> String {
    let mut text = String::with_capacity(256 + slots.len() * (110 + tail.len()));
    let (sequence, mut changes) = slots.first().map_or((0, 0), |first| (first.sequence, first.changes));
    let _ = writeln!(text, "#EXTM3U\n#EXT-X-VERSION:6\n#EXT-X-TARGETDURATION:{target}");
    let _ = writeln!(text, "#EXT-X-MEDIA-SEQUENCE:{sequence}\n#EXT-X-DISCONTINUITY-SEQUENCE:{changes}");
    match view {
        View::Live => {}
        _ if ended => text.push_str("#EXT-X-PLAYLIST-TYPE:VOD\n"),
        _ => text.push_str("#EXT-X-PLAYLIST-TYPE:EVENT\n#EXT-X-START:TIME-OFFSET=0,PRECISE=YES\n"),
    }
    text.push_str("#EXT-X-INDEPENDENT-SEGMENTS\n");
    for slot in slots {
        // One tag per counted discontinuity (RFC 8216, section 6.2.1): a skip may have passed several.
        while changes < slot.changes {
            text.push_str("#EXT-X-DISCONTINUITY\n");
            changes += 1;
        }
        let start_ms = (slot.start + 45).div_euclid(90);
        let start_ms = pace.map_or(start_ms, |pace| pace.left(start_ms));
        let at = Timestamp::from_millisecond(start_ms).map(instant).unwrap_or_default();
        let _ = writeln!(text, "#EXT-X-PROGRAM-DATE-TIME:{at}\n#EXTINF:{:.5},", seconds(slot.end - slot.start));
        let _ = writeln!(text, "{}{tail}", name(slot.programme_ms, slot.index));
    }
    if ended {
        text.push_str("#EXT-X-ENDLIST\n");
    }
    text
}

/// The file name of a segment.
fn name(programme_ms: i64, index: usize) -> String {
    format!("{programme_ms}-{index:05}.ts")
}

/// The segment a file name refers to; None for every name this program does not write itself.
pub fn named(text: &str) -> Option<(i64, usize)> {
    let (programme, index) = text.strip_suffix(".ts")?.split_once('-')?;
    let found = (programme.parse().ok()?, index.parse().ok()?);
    (name(found.0, found.1) == text).then_some(found)
}

#[cfg(test)]
mod paced;
#[cfg(test)]
mod tests;
