//! Playlists and guides of channels that air on demand, over random viewing sessions.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::tests::{START, items};
use super::*;
use crate::domain::channel::OutputSettings;
use crate::domain::schedule::ScheduleMode;
use crate::domain::schedule::tests::{MODES, plain_request};

const TARGET: u64 = 3;

const WALL_START: WallMs = WallMs(START.0);

/// A viewer's visit: time away before it (ms), playlist polls, and the polls at which they skip.
#[derive(Clone, Debug)]
struct Visit {
    away_ms: i64,
    polls: Vec<i64>,
    skip_at: Vec<usize>,
    /// Whether the viewer reports leaving, or just stops polling.
    reports_leaving: bool,
}

fn visits() -> impl Strategy<Value = Vec<Visit>> {
    let away = prop_oneof![0..40_000_i64, 0..200_000_000_i64];
    let polls = prop::collection::vec(1..6_000_i64, 1..40);
    let visit = (away, polls, prop::collection::vec(0..40_usize, 0..5), any::<bool>());
    let visit =
        visit.prop_map(|(away_ms, polls, skip_at, leaves)| Visit { away_ms, polls, skip_at, reports_leaving: leaves });
    prop::collection::vec(visit, 1..8)
}

fn channel(mode: ScheduleMode, seed: u64, count: usize) -> Channel {
    let mut channel = crate::domain::channel::tests::channel(1);
    channel.definition = ScheduleDefinition::new(START, plain_request(seed, mode, items(count, seed)));
    channel.output = Arc::new(OutputSettings { target_seconds: TARGET, ..OutputSettings::default() });
    channel.settings.min_guide_seconds = 0;
    channel.clock = Some(Arc::new(ChannelClock::new(WALL_START)));
    channel
}

fn set_clock(channel: &mut Channel, clock: Option<ChannelClock>) {
    if let Some(clock) = clock {
        // Through the stored form, as after a restart.
        let stored = serde_json::to_string(clock.intervals()).unwrap();
        assert_eq!(ChannelClock::from_stored(serde_json::from_str(&stored).unwrap()).as_ref(), Some(&clock));
        channel.clock = Some(Arc::new(clock));
    }
}

fn window(channel: &Channel, now: WallMs) -> Vec<LiveSegment> {
    let (definition, clock, channel_now) = (&channel.definition, channel.clock.as_deref(), channel.channel_ms_at(now));
    listed_segments(definition, clock, PlaylistView::Live, TARGET, channel_now)
}

/// Checks a list against earlier lists: sequence numbers and discontinuities, by segment name.
fn check_against_earlier(
    channel: &Channel,
    segments: &[LiveSegment],
    earlier: &mut HashMap<(ChannelMs, usize), LiveSegment>,
) -> Result<(), TestCaseError> {
    let clock = channel.clock.as_deref().unwrap();
    for pair in segments.windows(2) {
        prop_assert_eq!(pair[1].media_sequence, pair[0].media_sequence + 1, "{:?}", pair);
        prop_assert!(pair[1].discontinuities - pair[0].discontinuities <= 1, "{:?}", pair);
        let line = |segment: &LiveSegment, at: Ticks| at - clock.interval_of(segment.programme_start_ms).skipped_time;
        let (begin, end) = (line(&pair[1], pair[1].start), line(&pair[0], pair[0].end));
        prop_assert_eq!(begin, end, "timestamps are continuous: {:?}", pair);
        let dates = [0, 1].map(|n| clock.last_wall_ms(ChannelMs::from_ticks(pair[n].start)));
        prop_assert!(dates[0] < dates[1], "dates increase: {:?}", pair);
    }
    for segment in segments {
        let first_seen = *earlier.entry((segment.programme_start_ms, segment.index)).or_insert(*segment);
        prop_assert_eq!(first_seen, *segment, "differs from an earlier list");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 170, ..ProptestConfig::default() })]

    /// However viewers come, leave and skip: lists only slide, are numbered without a gap and describe a segment the same
    /// way each time, and their timestamps have no step. At any instant the guide names what the segment shows.
    #[test]
    fn skipped_segments_leave_no_gap(
        mode in prop::sample::select(MODES.to_vec()), seed: u64, count in 1usize..9, visits in visits(),
        instants in prop::collection::vec(0.0..1.0_f64, 60),
    ) {
        let mut channel = channel(mode, seed, count);
        let (mut now, mut seen, mut last) = (WALL_START + 5_000, HashMap::new(), None::<LiveSegment>);
        let mut aired = 0;
        for visit in visits {
            now = now + visit.away_ms;
            for (n, poll) in visit.polls.iter().enumerate() {
                now = now + *poll;
                let clock = channel.clock.clone().unwrap();
                set_clock(&mut channel, clock.extended(now, now + 30_000));
                if visit.skip_at.contains(&n) {
                    let clock = channel.clock.clone().unwrap();
                    let jump = skip_target(&channel, now).unwrap();
                    prop_assert_eq!(Some(jump.to_ms), channel.definition.programme_at(channel.channel_ms_at(now)).map(|on| on.end_ms));
                    let before = window(&channel, now);
                    set_clock(&mut channel, Some(clock.with_skip(now, jump)));
                    prop_assert_eq!(window(&channel, now), before, "listed segments stay");
                }
                let list = window(&channel, now);
                check_against_earlier(&channel, &list, &mut seen)?;
                if let (Some(before), Some(after)) = (last, list.last()) {
                    prop_assert!(after.media_sequence >= before.media_sequence, "{before:?} {after:?}");
                    aired += after.media_sequence - before.media_sequence;
                    if aired > 40 {
                        let length = list.iter().fold(Ticks::ZERO, |sum, segment| sum + (segment.end - segment.start));
                        prop_assert!(list.len() >= MIN_LIVE_SEGMENTS && length >= Ticks::from_ms(11_000));
                    }
                }
                last = list.last().copied().or(last);
            }
            if visit.reports_leaving {
                let clock = channel.clock.clone().unwrap();
                set_clock(&mut channel, clock.paused(now));
            }
        }
        let (definition, clock) = (&channel.definition, channel.clock.as_deref().unwrap());
        for at in instants {
            let at = WALL_START + ((now - WALL_START) as f64 * at) as i64;
            let entry = channel.guide_entries(at, at + 1, now).next().unwrap();
            let time = channel.channel_ms_at(at);
            prop_assert!((entry.start_ms..entry.end_ms).contains(&at));
            let segment = segments_from(definition, Some(clock), time).next().unwrap();
            let is_cut_short = segment.start > time.to_ticks();
            let on = definition.programme_at(if is_cut_short { time } else { segment.programme_start_ms }).unwrap();
            prop_assert_eq!((entry.programme.ordinal, channel.entry_of(entry.programme).path), (on.ordinal, &*definition.item_of(&on).path));
        }
        let from_start = listed_segments(definition, Some(clock), PlaylistView::From(START), TARGET, channel.channel_ms_at(now));
        check_against_earlier(&channel, &from_start, &mut seen)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// A guide requested in parts equals the whole guide: no gap, no overlap, and no programme twice.
    #[test]
    fn guide_parts_add_up_to_the_whole_guide(
        seed: u64, visits in visits(), parts in prop::collection::vec(1..90_000_000_i64, 1..6), back in 0..90_000_000_i64,
    ) {
        let mut channel = channel(ScheduleMode::Shuffle, seed, 6);
        let mut now = WALL_START;
        for visit in visits {
            now = now + visit.away_ms;
            for n in 0..visit.polls.len() {
                now = now + visit.polls[n];
                let clock = channel.clock.clone().unwrap();
                set_clock(&mut channel, clock.extended(now, now + 30_000));
                if visit.skip_at.contains(&n) {
                    let clock = channel.clock.clone().unwrap();
                    let jump = skip_target(&channel, now).unwrap();
                    set_clock(&mut channel, Some(clock.with_skip(now, jump)));
                }
            }
        }
        let guide = |from: WallMs, to: WallMs| -> Vec<(u64, WallMs, WallMs)> {
            let entries = channel.guide_entries(from, to, now);
            entries.map(|entry| (entry.programme.ordinal, entry.start_ms, entry.end_ms)).collect()
        };
        let from = (now - back).max(WALL_START);
        let mut at = from;
        let mut together = Vec::new();
        for part in &parts {
            together.extend(guide(at, at + *part));
            at = at + *part;
        }
        together.dedup();
        let whole = guide(from, at);
        prop_assert_eq!(&together, &whole);
        prop_assert!(whole.windows(2).all(|pair| pair[0].2 == pair[1].1 && pair[0].0 < pair[1].0), "{:?}", whole);
        prop_assert!(whole.first().is_some_and(|first| first.1 <= from) && whole.last().is_some_and(|last| last.2 >= at));
    }
}

#[test]
fn a_past_playlist_ends_where_the_clock_paused() {
    let mut channel = channel(ScheduleMode::Sequential, 3, 4);
    let clock = channel.clock.clone().unwrap();
    set_clock(&mut channel, clock.extended(WALL_START, WALL_START + 30_000));
    let clock = channel.clock.clone().unwrap();
    let jump = skip_target(&channel, WALL_START + 13_500).unwrap();
    set_clock(&mut channel, Some(clock.with_skip(WALL_START + 13_500, jump)));
    let (definition, clock) = (&channel.definition, channel.clock.as_deref());
    let list = |to: WallMs, now: WallMs| {
        let (view, time) = (PlaylistView::Between(START, channel.channel_ms_at(to)), channel.channel_ms_at(now));
        let segments: Arc<[LiveSegment]> = listed_segments(definition, clock, view, TARGET, time).into();
        let (count, is_paused) = (segments.len(), clock.unwrap().is_paused_at(now));
        let channel = Arc::new(channel.clone());
        let playlist = LivePlaylist { channel, view, segments, channel_now_ms: time, is_paused };
        (count, playlist.render(&LiveTrack::Muxed, SegmentAddresses::Private("")).contains("ENDLIST"))
    };
    let (first, ended) = list(WALL_START + 13_500, WALL_START + 14_000);
    assert!(ended && first >= 4, "does not wait for a segment cut short");
    let (more, ended) = list(WALL_START + 19_000, WALL_START + 19_000);
    assert!(more > first && !ended, "waits for the segment in progress");
    let (all, ended) = list(WALL_START + 90_000, WALL_START + 90_000);
    assert!(all > more && ended, "unless the clock is paused");
}
