use super::rights::AuditRecord;
use super::*;
use crate::domain::address::Address;
use crate::domain::external::{ExternalChannel, ExternalOrigin, ExternalStream, ImportedEntry};
use crate::domain::listing::{Listing, Listings};
use crate::domain::m3u::parse::{M3uEntry, SkippedEntries};
use crate::domain::schedule::segmentation::{KeyframeBounds, Segmentation};
use crate::domain::time::ChannelMs;
use crate::store::tests::records::assert_golden;

/// A record as versions before 21 November 2026 wrote it, with the items inside the revision.
const CHANNEL: &str = r#"{"tvg_id": "ch-7.home", "channel": {
    "face": {"name": "Old", "number": 3, "enabled": true, "always_on": false, "category": "", "description": "",
        "logo_url": null, "timezone": "Europe/Berlin", "show_filler": false, "least_seconds": 120},
    "asks": [{"path": "/lib", "weight": 1}],
    "output": {"maxHeight": 720, "maxKbps": null, "copy": true, "target": 4, "audioLanguages": []},
    "filler": {"pre": [], "post": [], "tail": [], "fallback": [], "cooldown_ms": 0},
    "seed": 42, "mode": "shuffle", "version": 1, "revisions": [1]}}"#;

const REVISION: &str = r#"{"number": 1, "start_ms": 1767225600000, "first_ordinal": 0, "first_sequence": 0,
    "first_change": 0, "seed": 42, "mode": "shuffle", "head": [], "cycle": 0, "items": [
    {"id": 11, "path": "/lib/a.mp4", "title": "a", "duration_ms": 4000, "weight": 1,
        "cut": {"by": "keyframes", "name": "c", "segments": 2, "end": 360000},
        "look": {"width": 640, "height": 360, "kind": "main"}},
    {"id": 12, "path": "/lib/b.mkv", "title": "b", "duration_ms": 4000, "weight": 1,
        "cut": {"by": "frames", "rate": {"num": 25, "den": 1}, "per_segment": 50, "total": 100},
        "look": {"width": 640, "height": 360}}]}"#;

fn bounds(item: &crate::domain::schedule::ScheduleItem) -> Vec<i64> {
    match &item.segmentation {
        Segmentation::Keyframes(KeyframeBounds { bounds: Some(bounds), .. }) => bounds.iter().map(|at| at.0).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn records_keep_their_bytes() {
    assert_golden::<ChannelRecord>("channels");
    assert_golden::<RevisionRecord>("revisions");
    assert_golden::<AuditRecord>("audit");
}

#[tokio::test]
async fn an_old_record_keeps_its_schedule_and_can_be_changed() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open_waiting(folder.path()).unwrap();
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    store.put(Tree::Segmentations, "c", &[100_000, 260_000]).await.unwrap();
    store.put(Tree::Revisions, "0000000007/0000000001", &json(REVISION)).await.unwrap();
    store.put(Tree::Channels, "0000000007", &json(CHANNEL)).await.unwrap();

    let channels = Channels::open(store.clone(), Clock::default()).unwrap();
    let old = channels.get(7).unwrap();
    assert_eq!((&*old.settings.name, old.settings.number, old.output.target_seconds), ("Old", 3, 4));
    let items = &old.definition.revisions[0].items;
    assert_eq!((items.len(), bounds(&items[0])), (2, vec![0, 100_000, 360_000]));
    let start = ChannelMs(1_767_225_600_000);
    let titles = |channel: &Channel| -> String {
        let programmes = channel.definition.programmes_between(start, start + 32_000);
        programmes.map(|programme| channel.definition.item_of(&programme).title.clone()).collect()
    };
    let aired_titles = titles(&old);
    assert_eq!(aired_titles.len(), 8);

    // A change keeps the old revision's record and stores the new items by name.
    let request = crate::domain::schedule::RevisionRequest {
        seed: 43,
        mode: ScheduleMode::Sequential,
        items: items.clone(),
        mid_roll_count: 0,
        blocks: None,
    };
    let definition = old.definition.with_revision(start + 32_000, request);
    let changed = Channel { definition, version: 2, ..(*old).clone() };
    channels.store_channel(changed, Some(&old)).await.unwrap();
    drop((old, channels));
    let channels = Channels::open(store.clone(), Clock::default()).unwrap();
    let reloaded = channels.get(7).unwrap();
    assert_eq!((reloaded.version, reloaded.definition.revisions.len(), titles(&reloaded)), (2, 2, aired_titles));
    for revision in &reloaded.definition.revisions {
        assert_eq!(bounds(&revision.items[0]), [0, 100_000, 360_000]);
    }
    let record: RevisionRecord = store.get(Tree::Revisions, "0000000007/0000000002").unwrap().unwrap();
    assert!(record.list.is_some() && record.revision.items.is_empty());

    // After removal only its id is left.
    drop(reloaded);
    channels.remove(7).await.unwrap();
    for tree in [Tree::Revisions, Tree::ItemLists, Tree::ChannelItems, Tree::Segmentations] {
        assert_eq!(store.scan::<serde::de::IgnoredAny>(tree).unwrap().len(), 0, "{tree:?}");
    }
}

#[tokio::test]
async fn an_import_with_one_failing_write_keeps_what_it_stored() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open_waiting(folder.path()).unwrap();
    let channels = Channels::open(store, Clock::default()).unwrap();
    let entry = |number: usize| M3uEntry {
        line: number,
        name: format!("channel {number}"),
        url: Address::parse("http://tv.example/live.m3u8").unwrap(),
        tvg_id: format!("c{number}"),
        channel_number: None,
        logo_url: None,
        groups: Vec::new(),
        user_agent: None,
        guide_shift_ms: 0,
    };
    let mut entries: Vec<_> = (1..=20).map(entry).collect();
    // Larger than a record may be: it is refused while the others are being written.
    entries[19].user_agent = Some("x".repeat(crate::store::MAX_RECORD_BYTES));
    let error = channels.import(1, None, &entries, &mut SkippedEntries::default()).await.unwrap_err();
    assert_eq!(error.code, Code::PayloadTooLarge);
    assert_eq!(channels.imported_from(1).len(), 19);
    drop(channels);
    let store = Store::open_waiting(folder.path()).unwrap();
    assert_eq!(Channels::open(store, Clock::default()).unwrap().imported_from(1).len(), 19, "as after a restart");
}

#[tokio::test]
async fn equal_requests_are_shared_between_channels() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open_waiting(folder.path()).unwrap();
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    store.put(Tree::Segmentations, "c", &[100_000, 260_000]).await.unwrap();
    for (id, path) in [(7, "/lib"), (8, "/lib"), (9, "/other")] {
        let channel = CHANNEL.replace("/lib", path);
        store.put(Tree::Revisions, &revision_key(id, 1), &json(REVISION)).await.unwrap();
        store.put(Tree::Channels, &channel_key(id), &json(&channel)).await.unwrap();
    }
    let channels = Channels::open(store, Clock::default()).unwrap();
    let [one, two, other] = [7, 8, 9].map(|id| channels.get(id).unwrap());
    assert!(Arc::ptr_eq(&one.requested_items, &two.requested_items) && one.requested_items != other.requested_items);
    assert!(Arc::ptr_eq(&one.requested_filler, &other.requested_filler), "no filler");

    // Later channels share as well, and a change affects one channel only.
    let requested_items: Arc<[RequestedItem]> = one.requested_items.to_vec().into();
    let changed = Channel { requested_items, version: 2, ..(*other).clone() };
    let stored = channels.store_channel(changed, Some(&other)).await.unwrap();
    assert!(Arc::ptr_eq(&stored.requested_items, &one.requested_items));
    let changed = Channel { requested_items: other.requested_items.clone(), version: 2, ..(*two).clone() };
    channels.store_channel(changed, Some(&two)).await.unwrap();
    assert_eq!(
        [7, 8, 9].map(|id| channels.get(id).unwrap().requested_items[0].path() == Some("/lib")),
        [true, false, true]
    );
}

#[tokio::test]
async fn programmes_found_for_former_settings_of_a_channel_are_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let channels = Channels::open(Store::open_waiting(folder.path()).unwrap(), Clock::default()).unwrap();
    let external = |url: &str| {
        let stream = ExternalStream { url: Address::parse(url).unwrap(), failover: Vec::new(), user_agent: None };
        let origin = ExternalOrigin::Source { id: 1, entry: ImportedEntry::default() };
        Some(Box::new(ExternalChannel { stream, origin, guide_channel: None }))
    };
    let draft = Channel {
        external: external("http://tv.example/1.ts"),
        definition: crate::domain::schedule::ScheduleDefinition::default(),
        ..crate::domain::channel::tests::channel(7)
    };
    let former = channels.store_channel(draft, None).await.unwrap();
    let changed = Channel { external: external("http://tv.example/2.ts"), version: 2, ..(*former).clone() };
    let present = channels.store_channel(changed, Some(&former)).await.unwrap();
    let listings = Some(Arc::new(Listings::from_unsorted(vec![Listing::default()], 0)));
    channels.set_listings(vec![(former, listings.clone())]);
    assert!(channels.get(7).unwrap().listings.is_none());
    channels.set_listings(vec![(present, listings.clone())]);
    assert_eq!(channels.get(7).unwrap().listings, listings);
}
