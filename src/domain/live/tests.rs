use proptest::prelude::*;

use super::*;
use crate::domain::grid::Grid;
use crate::domain::schedule::cut::{Cut, Look, duration_ms};
use crate::domain::schedule::{Item, Items, Mode, Wanted, itemize};
use crate::domain::time::FrameRate;

pub(super) const START: i64 = 1_767_225_600_000;
pub(super) const MODES: [Mode; 5] =
    [Mode::Sequential, Mode::Shuffle, Mode::ShuffleInOrder, Mode::Random, Mode::Weighted];

/// Items with every kind of segmentation.
pub(super) fn items(count: usize, salt: u64) -> Items {
    let item = |n: usize| {
        let length = 3.0 + (salt.wrapping_mul(n as u64 + 7) % 600) as f64 / 7.0;
        let grid = match n % 3 {
            0 => Grid::frames(FrameRate { num: 24_000, den: 1001 }, 2.0, length),
            1 => Grid::keyframes(&(1..240).map(|k| k * 45_000 + k % 3 * 10_000).collect::<Vec<_>>(), 2.0, length),
            _ => Grid::steps(2.0, length),
        };
        let look = Look { height: if salt.is_multiple_of(2) { 720 } else { 360 + n as u32 }, ..Look::default() };
        Item {
            id: 0,
            path: format!("/lib/{n}.mkv"),
            title: n.to_string(),
            duration_ms: duration_ms(&grid),
            weight: 1 + n as u32 % 4,
            cut: Cut::of(&grid),
            look,
            breaks: Box::default(),
        }
    };
    let items: Vec<Item> = (0..count).map(item).collect();
    itemize(items)
}

fn channel(mode: Mode, seed: u64, count: usize) -> Definition {
    Definition::new(START, Wanted { seed, mode, items: items(count, seed), mid: 0, blocks: None })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// At any instant the guide names what the segment shows; segments tile time and are numbered without gaps.
    #[test]
    fn the_guide_is_what_plays(
        mode in prop::sample::select(MODES.to_vec()), seed: u64, count in 1usize..12, edit in 0i64..5_000_000,
        instants in prop::collection::vec(0i64..315_576_000_000, 20),
    ) {
        let first = channel(mode, seed, count);
        let definition = first.revised(START + edit.max(1), Wanted { seed, mode, items: items(count + 2, seed), mid: 0, blocks: None });
        for at in instants.into_iter().chain([edit]).map(|at| START + at) {
            let guide = definition.programme(at).unwrap();
            let mut on = slots(&definition, None, at);
            let slot = on.next().unwrap();
            prop_assert!(slot.start <= at * 90 && at * 90 < slot.end, "{slot:?} at {at}");
            prop_assert_eq!(slot.programme_ms, guide.start_ms);
            prop_assert_eq!(named(&name(slot.programme_ms, slot.index)), Some((slot.programme_ms, slot.index)));
            let mut before = slot;
            for slot in on.take(30) {
                prop_assert_eq!((slot.start, slot.sequence), (before.end, before.sequence + 1));
                prop_assert!(slot.changes - before.changes <= 1);
                before = slot;
            }
        }
    }

    /// A window grows at its end, shrinks at its beginning, and describes every segment it still lists the same way.
    #[test]
    fn a_window_only_slides(mode in prop::sample::select(MODES.to_vec()), seed: u64, at in 0i64..9_000_000, steps in prop::collection::vec(1i64..9_000, 1..12)) {
        let definition = channel(mode, seed, 5);
        let mut now = START + at;
        let mut before = listed(&definition, None, View::Live, 3, now);
        for step in steps {
            now += step;
            let after = listed(&definition, None, View::Live, 3, now);
            for slot in &after {
                prop_assert!(slot.end <= now * 90);
                if let Some(known) = before.iter().find(|known| known.sequence == slot.sequence) {
                    prop_assert_eq!(known, slot);
                }
            }
            let firsts = before.first().zip(after.first());
            prop_assert!(firsts.is_none_or(|(before, after)| before.sequence <= after.sequence));
            before = after;
        }
        if now - START > 60_000 {
            prop_assert!(before.len() >= LEAST_SEGMENTS);
            let length = before.last().unwrap().end - before[0].start;
            prop_assert!(length >= 11 * 90_000);
            let text = playlist(&before, None, View::Live, 3, false, "?st=g");
            let parsed = m3u8_rs::parse_media_playlist_res(text.as_bytes()).unwrap();
            prop_assert_eq!(parsed.media_sequence, before[0].sequence);
            prop_assert_eq!(parsed.segments.len(), before.len());
            prop_assert!(parsed.segments.iter().all(|segment| segment.program_date_time.is_some()));
            prop_assert!(parsed.segments.iter().all(|segment| segment.duration.round() as u64 <= 3), "{}", text);
            let told = parsed.segments.iter().filter(|segment| segment.discontinuity).count() as u64;
            prop_assert_eq!(told, before.last().unwrap().changes - before[0].changes);
        }
    }
}

#[test]
fn a_list_reads_as_players_expect_it() {
    let all = items(4, 3).iter().filter(|item| item.title == "0" || item.title == "1").cloned().collect();
    let definition =
        Definition::new(START, Wanted { seed: 1, mode: Mode::Sequential, items: all, mid: 0, blocks: None });
    let now = START + 40_000;
    let text = playlist(&listed(&definition, None, View::Live, 2, now), None, View::Live, 2, false, "?st=g");
    insta::assert_snapshot!(text);
}

#[test]
fn the_past_is_whole_and_what_goes_on_is_an_event() {
    let definition = channel(Mode::Shuffle, 4, 3);
    let now = START + 600_000;
    let list = |view| {
        let slots = listed(&definition, None, view, 3, now);
        playlist(&slots, None, view, 3, is_over(&definition, None, view, &slots, now, false), "")
    };
    let past = list(View::Between(now - 120_000, now - 60_000));
    assert!(past.contains("PLAYLIST-TYPE:VOD") && past.ends_with("#EXT-X-ENDLIST\n"), "{past}");
    let going = list(View::From(now - 120_000));
    assert!(going.contains("PLAYLIST-TYPE:EVENT") && going.contains("EXT-X-START:") && !going.contains("ENDLIST"));
    let to_come = list(View::Between(now - 60_000, now + 60_000));
    assert!(to_come.contains("PLAYLIST-TYPE:EVENT") && !to_come.contains("ENDLIST"));
    assert_eq!(listed(&definition, None, View::Live, 3, START - 1), []);
}
