use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;
use crate::domain::catalogue::ItemId;
use crate::domain::channel::tests::channel;
use crate::domain::guide::Airing;
use crate::domain::schedule::segmentation::audio_segmentation;
use crate::domain::schedule::tests::{plain_request, schedule_item};
use crate::domain::schedule::{ScheduleItem, ScheduleItems, ScheduleMode, assign_ids_after};
use crate::domain::time::WallMs;

/// Changes of a library in one case, and edits at once in each: with [`CASES`], 10,000 edits.
const CHANGES: usize = 100;
const EDITS: usize = 4;
const CASES: u32 = 25;

/// File 0 to 39 of a library is added, removed or renamed.
#[derive(Clone, Debug)]
struct LibraryEdit {
    file: u32,
    is_rename: bool,
}

fn any_edit() -> impl Strategy<Value = LibraryEdit> {
    (0u32..40, any::<bool>()).prop_map(|(file, is_rename)| LibraryEdit { file, is_rename })
}

/// Edits at once, and the minutes before them.
fn any_change() -> impl Strategy<Value = (i64, Vec<LibraryEdit>)> {
    (0i64..200, prop::collection::vec(any_edit(), EDITS))
}

fn edit(files: &mut Files, edits: Vec<LibraryEdit>, new_name: u32) {
    for LibraryEdit { file, is_rename } in edits {
        match files.remove(&file) {
            Some(_) if !is_rename && !files.is_empty() => {}
            Some(_) => drop(files.insert(file, new_name)),
            None => drop(files.insert(file, file)),
        }
    }
}

/// The files of a library: for each its name.
type Files = HashMap<u32, u32>;

/// Items in the order of their names, as a rule for a folder finds them. Some are shorter than an entry of the guide.
fn items(files: &Files, earlier: &[ScheduleItems]) -> ScheduleItems {
    let item = |(file, name): (&u32, &u32)| {
        let duration_ms = if file % 7 == 0 { 60_000 } else { 900_000 + i64::from(*file) * 97_000 };
        let content = ItemId::parse(&format!("f_{file:032x}"));
        let path = format!("/lib/{}/{name:04}-{file}.mkv", file % 3);
        ScheduleItem { content, ..schedule_item(&path, duration_ms, audio_segmentation(duration_ms as f64 / 1000.0)) }
    };
    let mut all: Vec<_> = files.iter().map(item).collect();
    all.sort_by(|a, b| a.path.cmp(&b.path));
    assign_ids_after(earlier, all)
}

/// The guide between two instants: each entry with its item.
fn guide(channel: &Channel, from_ms: ChannelMs, to_ms: ChannelMs) -> Vec<(Airing, u64)> {
    let wall_ms = WallMs::without_clock;
    let entries = channel.guide_entries(wall_ms(from_ms), wall_ms(to_ms), wall_ms(from_ms));
    entries.map(|airing| (airing, channel.definition.item_of(&airing.programme).id)).collect()
}

/// Checks that no item is aired twice in a cycle. A cycle is continued by the next revision.
fn expect_no_repeat(channel: &Channel, from_ms: ChannelMs, to_ms: ChannelMs) -> Result<(), TestCaseError> {
    let mut aired: HashSet<(u64, u64)> = HashSet::new();
    for programme in channel.definition.programmes_between(from_ms, to_ms) {
        let revision = &channel.definition.revisions[programme.revision_index];
        let place = programme.ordinal - revision.first_ordinal;
        let cycle = match place.checked_sub(revision.cycle_rest.len() as u64) {
            None => revision.first_cycle.wrapping_sub(1),
            Some(place) => revision.first_cycle + place / revision.programmes_per_cycle(),
        };
        let item = channel.definition.item_of(&programme);
        prop_assert!(aired.insert((cycle, item.id)), "{} twice in cycle {cycle}", item.path);
    }
    Ok(())
}

fn follow(channel: &mut Channel, now_ms: ChannelMs, files: &Files) {
    let last = channel.definition.revisions.last().unwrap();
    let request = plain_request(last.seed, last.mode, items(files, &channel.definition.item_lists()));
    if !channel.definition.has_content(&request) {
        channel.definition = channel.follow_library(now_ms, request);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, ..ProptestConfig::default() })]

    /// Whatever happens to the library: what the guide published stays, the past stays, and no item repeats in a cycle.
    #[test]
    fn edits_of_the_library_change_nothing_published(
        mode in prop::sample::select(vec![ScheduleMode::Sequential, ScheduleMode::Shuffle, ScheduleMode::ShuffleInOrder]),
        changes in prop::collection::vec(any_change(), CHANGES),
    ) {
        let mut files: Files = (0..20).map(|file| (file, file)).collect();
        let mut channel = channel(1);
        let start_ms = channel.definition.revisions[0].start_ms;
        channel.definition = ScheduleDefinition::new(start_ms, plain_request(7, mode, items(&files, &[])));
        let mut now_ms = start_ms;
        for (number, (minutes, edits)) in (100u32..).zip(changes) {
            now_ms = now_ms + minutes * 60_000;
            edit(&mut files, edits, number);
            let shown_from = start_ms.max(now_ms - 2 * HOUR_MS);
            let published = guide(&channel, shown_from, now_ms + PUBLISHED_MS);
            follow(&mut channel, now_ms, &files);
            prop_assert_eq!(guide(&channel, shown_from, now_ms + PUBLISHED_MS), published);
            let newest: HashSet<_> = channel.definition.revisions.last().unwrap().items.iter().map(|item| item.path.clone()).collect();
            prop_assert_eq!(newest.len(), files.len());
        }
        expect_no_repeat(&channel, start_ms, now_ms + 5 * 24 * HOUR_MS)?;
        prop_assert!(channel.definition.revisions.windows(2).all(|pair| pair[1].start_ms - pair[0].start_ms >= MIN_REVISION_MS));
    }
}

#[test]
fn a_change_begins_where_an_entry_of_the_guide_begins() {
    let files: Files = (1..7).map(|file| (file, file)).collect();
    let mut channel = channel(1);
    let start_ms = channel.definition.revisions[0].start_ms;
    channel.definition =
        ScheduleDefinition::new(start_ms, plain_request(7, ScheduleMode::Sequential, items(&files, &[])));
    let more: Files = (1..9).map(|file| (file, file)).collect();
    follow(&mut channel, start_ms, &more);
    let revisions = &channel.definition.revisions;
    assert_eq!(revisions.len(), 2);
    let begin = revisions[1].start_ms;
    assert!((PUBLISHED_MS..PUBLISHED_MS + 2 * HOUR_MS).contains(&(begin - start_ms)), "{}", begin - start_ms);
    // Changes until then replace it, and so does one that takes the new files back.
    let fewer: Files = (1..8).map(|file| (file, file)).collect();
    follow(&mut channel, start_ms, &fewer);
    assert_eq!((channel.definition.revisions.len(), channel.definition.revisions[1].start_ms), (2, begin));
    assert_eq!(channel.definition.revisions[1].items.len(), 7);
    // Once it is published, the next one begins later.
    follow(&mut channel, start_ms + 60_000 + (begin - start_ms - PUBLISHED_MS), &more);
    let starts: Vec<_> = channel.definition.revisions.iter().map(|revision| revision.start_ms).collect();
    assert!(starts.len() == 3 && starts[1] == begin && starts[2] - begin >= MIN_REVISION_MS, "{starts:?}");
}
