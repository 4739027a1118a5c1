//! Golden records: what the trees have on disk, byte by byte. Renaming a field must not change them.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::domain::account::{Login, StreamToken, User};
use crate::domain::channel_clock::RunningInterval;
use crate::domain::household::Member;
use crate::domain::media_folder::MediaFolderRecord;
use crate::domain::preferences::Preferences;
use crate::domain::progress::ProgressRecord;
use crate::domain::recording::{Recording, SeriesRule};
use crate::domain::schedule::ScheduleItem;
use crate::domain::schedule::blocks::Checkpoint;
use crate::store::Tree;

/// A record in each line: the tree, with `/kind` if its records have several types, and the JSON.
const GOLDEN: &str = include_str!("../../../tests/golden/records.txt");

fn golden_records() -> impl Iterator<Item = (&'static str, &'static str)> {
    GOLDEN.lines().map(|line| line.split_once(' ').expect("a tree and JSON"))
}

/// Reads the golden records with a label as `T`, and writes them again: no byte may change.
pub fn assert_golden<T: Serialize + DeserializeOwned>(label: &str) {
    let records: Vec<&str> = golden_records().filter(|(name, _)| *name == label).map(|(_, json)| json).collect();
    assert!(!records.is_empty(), "{label} has golden records");
    for json in records {
        let value: T = serde_json::from_str(json).unwrap_or_else(|fault| panic!("{label}: {fault}: {json}"));
        assert_eq!(String::from_utf8(serde_json::to_vec(&value).unwrap()).unwrap(), json, "{label}");
    }
}

#[test]
fn each_tree_has_golden_records() {
    // `Meta` has values of this room alone.
    for tree in Tree::ALL.iter().filter(|tree| **tree != Tree::Meta) {
        let mut trees = golden_records().map(|(label, _)| label.split('/').next().unwrap_or(label));
        assert!(trees.any(|name| name == tree.name()), "{tree:?}");
    }
}

#[test]
fn records_of_domain_types_keep_their_bytes() {
    assert_golden::<User>("users");
    assert_golden::<Login>("logins");
    assert_golden::<StreamToken>("stream-tokens");
    assert_golden::<Preferences>("preferences");
    assert_golden::<Member>("household");
    assert_golden::<ProgressRecord>("progress");
    assert_golden::<ProgressRecord>("books");
    assert_golden::<Vec<Checkpoint>>("marks");
    assert_golden::<RunningInterval>("paces");
    assert_golden::<Vec<String>>("lists");
    assert_golden::<ScheduleItem>("items");
    assert_golden::<Vec<i64>>("cuts");
    assert_golden::<Recording>("recordings");
    assert_golden::<SeriesRule>("recording-rules");
    assert_golden::<MediaFolderRecord>("media-folders");
}
