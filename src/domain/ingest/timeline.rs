//! The timeline of an external channel: a sequence of segments, with slates in the gaps.
//!
//! It follows the wall clock: segments that arrive faster than real time wait, and slates fill gaps, so the playlist
//! advances whatever the source does. Media sequence numbers begin at the seconds since 1970 and grow by one per segment
//! of at least one second. They never go back, even after a restart.

use std::collections::VecDeque;

use crate::domain::live_window::LiveSegment;
use crate::domain::time::{ChannelMs, Ticks};

pub const SLATE_DURATION: Ticks = Ticks::from_ms(2000);

/// How long a connected source may send nothing before a slate is shown; a segment takes time to complete.
const MAX_SILENCE: Ticks = Ticks::from_ms(9000);

/// How long a source may take to deliver its first segment.
const MAX_STARTUP: Ticks = Ticks::from_ms(4000);

const MIN_SEGMENTS: usize = 6;

/// How long segments are kept after they leave the playlist, because players request them late.
const RETENTION: Ticks = Ticks::from_ms(60_000);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentOrigin {
    Slate,
    Source {
        /// Connection counter, starting at 1.
        connection: u64,
        /// Digest of the video format, 0 if unknown. A change needs a discontinuity, even within one connection.
        format: u64,
    },
}

impl SegmentOrigin {
    /// True if players accept `next` after `self` without a discontinuity.
    fn continues_as(self, next: Self) -> bool {
        match (self, next) {
            (Self::Source { connection, format }, Self::Source { connection: other, format: new }) => {
                connection == other && (format == new || format == 0 || new == 0)
            }
            _ => self == next,
        }
    }
}

#[derive(Debug, Default)]
pub struct ExternalTimeline {
    /// Since 1970.
    started: Ticks,
    /// End of the last segment, since 1970.
    end: Option<Ticks>,
    sequence: u64,
    discontinuities: u64,
    last_origin: Option<SegmentOrigin>,
    segments: VecDeque<LiveSegment>,
}

impl ExternalTimeline {
    /// Starts the timeline at `now`.
    pub fn new(now: Ticks) -> Self {
        let number = u64::try_from(now.div_euclid(Ticks::from_ms(1000))).unwrap_or(0);
        Self { started: now, sequence: number, discontinuities: number, ..Self::default() }
    }

    /// True if the next segment may be added: the previous one is over.
    pub fn is_due(&self, now: Ticks) -> bool {
        self.end.is_none_or(|cursor| cursor <= now)
    }

    /// True if a slate must be shown. `is_disconnected` means that the source is disconnected.
    pub fn needs_slate(&self, now: Ticks, is_disconnected: bool) -> bool {
        match self.end {
            None => now >= self.started + MAX_STARTUP,
            Some(cursor) => now >= cursor + if is_disconnected { SLATE_DURATION } else { MAX_SILENCE },
        }
    }

    /// True if the last segment came from the source.
    pub fn shows_source(&self) -> bool {
        matches!(self.last_origin, Some(SegmentOrigin::Source { .. }))
    }

    /// Adds a segment.
    pub fn append(&mut self, origin: SegmentOrigin, duration: Ticks, now: Ticks) -> LiveSegment {
        // After a gap of `RETENTION` or more, the timeline continues at the current time.
        let start = self.end.filter(|cursor| now - *cursor < RETENTION).unwrap_or(now - duration);
        if self.last_origin.is_some_and(|last| !last.continues_as(origin))
            || self.end.is_some_and(|cursor| cursor != start)
        {
            self.discontinuities += 1;
        }
        self.last_origin = Some(origin);
        self.end = Some(start + duration);
        let segment = LiveSegment {
            programme_start_ms: ChannelMs::from_ticks(start),
            index: 0,
            item_index: 0,
            start,
            end: start + duration,
            media_sequence: self.sequence,
            discontinuities: self.discontinuities,
        };
        self.sequence += 1;
        self.segments.push_back(segment);
        segment
    }

    /// Segments of the playlist: enough for players that start three target durations (of `target_seconds`) before its end.
    pub fn window(&self, target_seconds: u64) -> Vec<LiveSegment> {
        let Some(end) = self.end else { return Vec::new() };
        let min_duration = Ticks::from_ms((3 * target_seconds as i64 + 2) * 1000);
        let is_enough =
            |at: usize| self.segments.len() - at >= MIN_SEGMENTS && end - self.segments[at].start >= min_duration;
        let first = (0..self.segments.len()).rev().find(|&at| is_enough(at)).unwrap_or(0);
        self.segments.iter().skip(first).copied().collect()
    }

    pub fn find_segment(&self, matches: impl Fn(&LiveSegment) -> bool) -> Option<LiveSegment> {
        self.segments.iter().find(|segment| matches(segment)).copied()
    }

    /// Removes segments that players no longer request, and returns them so that their bytes can be deleted.
    pub fn prune(&mut self, target_seconds: u64) -> Vec<LiveSegment> {
        let playlist_start = self.window(target_seconds).first().map_or(Ticks::ZERO, |first| first.start);
        let expired = self.segments.iter().take_while(|segment| segment.end < playlist_start - RETENTION).count();
        self.segments.drain(..expired).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Ticks = Ticks::from_ms(1_767_225_600_000);

    fn source(connection: u64, format: u64) -> SegmentOrigin {
        SegmentOrigin::Source { connection, format }
    }

    #[test]
    fn slates_fill_gaps_with_discontinuities() {
        let mut timeline = ExternalTimeline::new(NOW);
        assert!(!timeline.needs_slate(NOW + MAX_STARTUP - Ticks(1), true));
        assert!(timeline.needs_slate(NOW + MAX_STARTUP, false));
        let first = timeline.append(source(1, 7), SLATE_DURATION, NOW + SLATE_DURATION);
        assert_eq!((first.start, first.media_sequence), (NOW, 1_767_225_600));
        assert!(timeline.is_due(NOW + SLATE_DURATION) && !timeline.is_due(NOW + Ticks(179_999)));
        let second = timeline.append(source(1, 7), SLATE_DURATION, NOW + SLATE_DURATION);
        assert_eq!((second.start, second.discontinuities), (first.end, first.discontinuities));
        let late = second.end + SLATE_DURATION;
        assert!(!timeline.needs_slate(late, false) && timeline.needs_slate(late, true));
        let slate = timeline.append(SegmentOrigin::Slate, SLATE_DURATION, late);
        let again = timeline.append(source(2, 7), SLATE_DURATION, slate.end);
        let before = first.discontinuities;
        assert_eq!((slate.discontinuities, again.discontinuities), (before + 1, before + 2));
        assert_eq!((again.start, again.media_sequence), (slate.end, first.media_sequence + 3));
    }

    #[test]
    fn a_format_change_is_a_discontinuity() {
        let mut timeline = ExternalTimeline::new(NOW);
        let changes: Vec<u64> = [7, 7, 8, 8, 7, 0]
            .map(|format| timeline.append(source(1, format), SLATE_DURATION, NOW + SLATE_DURATION).discontinuities)
            .into();
        let first = changes[0];
        assert_eq!(changes, [first, first, first + 1, first + 1, first + 2, first + 2]);
    }

    proptest! {
        /// For any input: numbers grow by one, there are no gaps or overlaps, and segments are kept for at most a minute
        /// after they leave the playlist.
        #[test]
        fn the_playlist_only_advances(pieces in proptest::collection::vec((90_000i64..540_000, 0u64..3), 1..200)) {
            let (mut timeline, mut now) = (ExternalTimeline::new(NOW), NOW);
            let mut last: Option<LiveSegment> = None;
            for (length, tag) in pieces {
                let length = Ticks(length);
                now += length;
                let from = if tag == 0 { SegmentOrigin::Slate } else { source(tag, 7) };
                let segment = timeline.append(from, length, now);
                if let Some(last) = last {
                    prop_assert_eq!((segment.media_sequence, segment.start), (last.media_sequence + 1, last.end));
                    prop_assert!(segment.discontinuities == last.discontinuities || segment.discontinuities == last.discontinuities + 1);
                    prop_assert!(segment.programme_start_ms > last.programme_start_ms);
                }
                last = Some(segment);
                timeline.prune(6);
                let window = timeline.window(6);
                prop_assert_eq!(window.last().copied(), last);
                prop_assert!(timeline.segments.len() <= 100);
            }
        }
    }
}
