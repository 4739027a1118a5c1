use proptest::prelude::*;

use super::*;
use crate::domain::grid::Grid;
use crate::domain::schedule::tests::{any_mode, plain_request, schedule_item};
use crate::domain::schedule::{ScheduleMode, assign_ids};
use crate::domain::time::{FrameRate, Ticks};

/// 2026-01-01.
const START: ChannelMs = ChannelMs(1_767_225_600_000);

/// A third of them each in two classes of video, the rest without a copy.
fn items(count: usize, salt: u64) -> ScheduleItems {
    let classes: Vec<VideoClass> = VideoClass::all().collect();
    let item = |n: usize| {
        let duration_ms = 4000 + (salt.wrapping_mul(n as u64 + 3) % 90_000) as i64;
        let seconds = duration_ms as f64 / 1000.0;
        let encoded = Grid::from_frame_rate(FrameRate { num: 25, den: 1 }, 2.0, seconds);
        let keyframes: Vec<Ticks> = (1..40).map(|k| Ticks(k * (500_000 + n as i64 * 20_000))).collect();
        let copied = Segmentation::from_grid(&Grid::from_keyframes(&keyframes, 2.0, seconds));
        let Segmentation::Keyframes(bounds) = copied else { unreachable!() };
        let copy = ItemCopy {
            class: classes[n % 3],
            bounds,
            stream: 0,
            init: n as u64,
            codecs: format!("hvc1.1.6.L{n}.B0"),
            width: 1920,
            height: 1080,
            hdr: None,
            kbps: 4000,
        };
        let copy = (n % 3 < 2).then(|| Box::new(copy));
        let segmentation = Segmentation::from_grid(&encoded);
        ScheduleItem { copy, ..schedule_item(&format!("/lib/{n}.mkv"), duration_ms, segmentation) }
    };
    assign_ids((0..count).map(item).collect())
}

fn class(n: usize) -> VideoClass {
    VideoClass::all().nth(n).unwrap()
}

proptest! {
    /// Whatever is copied, the guide is the same, and segments and discontinuities are numbered without a gap, also across edits.
    #[test]
    fn a_variety_is_the_same_schedule_with_other_segments(
        mode in any_mode(), seed: u64, count in 1usize..9, copies in 0usize..4,
        edits in prop::collection::vec((1i64..900_000, 0usize..9), 0..4), at in 0i64..4_000_000,
    ) {
        let mut definition = ScheduleDefinition::new(START, plain_request(seed, mode, items(count, seed)));
        let mut edit_ms = START;
        for (after_ms, more) in edits {
            edit_ms = edit_ms + after_ms;
            let request = plain_request(seed, mode, items((count + more) % 9 + 1, seed ^ more as u64));
            definition = definition.with_revision(edit_ms, request);
        }
        let classes: VideoClasses = (0..2).filter(|n| copies >> n & 1 == 1).map(class).collect();
        let variety = definition.with_copies(classes);
        let mut before: Option<Programme> = None;
        let both = ProgrammeIter::starting_at(&definition, START + at).zip(ProgrammeIter::starting_at(&variety, START + at));
        for (own, varied) in both.take(60) {
            prop_assert_eq!((own.start_ms, own.end_ms, own.ordinal), (varied.start_ms, varied.end_ms, varied.ordinal));
            let item = variety.item_of(&varied);
            prop_assert_eq!(item.aired_copy().is_some(), item.copy.as_ref().is_some_and(|copy| classes.contains(copy.class)));
            if let Some(before) = before {
                prop_assert_eq!(varied.media_sequence, variety.sequence_after(&before, before.end_ms));
                prop_assert_eq!(varied.discontinuities, before.discontinuities + 1);
            }
            prop_assert_eq!(variety.programme_at(varied.end_ms - 1), Some(varied), "found by division");
            before = Some(varied);
        }
        if classes.is_empty() {
            let sequence = |definition: &ScheduleDefinition| definition.programme_at(START + at).map(|on| on.media_sequence);
            prop_assert_eq!(sequence(&variety), sequence(&definition));
        }
    }
}

#[test]
fn a_variety_survives_its_record() {
    let request = |count| plain_request(1, ScheduleMode::Shuffle, items(count, 77));
    let definition = ScheduleDefinition::new(START, request(5)).with_revision(START + 600_000, request(6));
    let start = definition.revisions[1].copied_start.as_deref().unwrap();
    assert_eq!(start.more_segments.len(), 2, "{start:?}");
    let text = serde_json::to_string(&definition.revisions[1]).unwrap();
    let read: ScheduleRevision = serde_json::from_str(&text).unwrap();
    assert_eq!(read.copied_start, definition.revisions[1].copied_start);
    assert_eq!(definition.copyable_classes(), [class(0), class(1)].into_iter().collect());
    // Without anything to copy, a record is as it was.
    let plain: ScheduleItems =
        items(5, 77).iter().map(|item| Arc::new(ScheduleItem { copy: None, ..(**item).clone() })).collect();
    let plain = || plain_request(1, ScheduleMode::Shuffle, plain.clone());
    let definition = ScheduleDefinition::new(START, plain()).with_revision(START + 600_000, plain());
    assert!(definition.revisions[1].copied_start.is_none());
}
