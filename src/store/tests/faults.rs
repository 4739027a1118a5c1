//! A fault at the first system call of an operation, then at the second, and so on until the operation makes fewer calls.
//! Afterwards every acknowledged change exists and no refused one does: for readers, in the files as `kill -9` would leave
//! them, and after a restart.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::syscalls::{FaultMode, Faults};
use super::*;

const TREE: Tree = Tree::Progress;

/// Kinds of faults, and the number of successive calls that fail.
const FAULTS: [(FaultMode, usize); 5] = [
    (FaultMode::Io, 1),
    (FaultMode::Io, 4),
    (FaultMode::ResourceShortage, 1),
    (FaultMode::ShortWrite, 2),
    (FaultMode::AfterRename, 1),
];

/// Far more than any operation makes.
const MAX_CALLS: usize = 2000;

/// A test runs for every seventh call, with another offset for each kind of fault; `HEARTHCAST_FAULTS=all` takes all calls.
const STRIDE: usize = 7;

/// Calls after a rename that are always tested, because the folder is opened and synced there.
const AFTER_RENAME: usize = 4;

fn call_numbers(kind: usize) -> impl Iterator<Item = usize> {
    let all = std::env::var("HEARTHCAST_FAULTS").is_ok_and(|value| value == "all");
    let (first, end, step) = match FAULTS[kind].0 {
        FaultMode::AfterRename => (1, AFTER_RENAME + 1, 1),
        _ if all => (1, MAX_CALLS, 1),
        _ => (1 + kind * 2, MAX_CALLS, STRIDE),
    };
    (first..end).step_by(step)
}

/// A state folder in memory if the system has `/dev/shm`, because the tests make thousands of starts and syncs.
pub fn memory_state() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { temp_folder() }
}

/// Possible values of each record: more than one if the outcome of a change is unknown.
pub type ExpectedRecords = BTreeMap<String, Vec<Option<u64>>>;

pub fn sizes(compact_from_bytes: u64) -> commit::StoreSizes {
    commit::StoreSizes { reserve_bytes: 0, compact_from_bytes }
}

/// Compares stored records with the possible values.
pub fn check_records(expected: &ExpectedRecords, found: &[(String, u64)]) -> Result<(), String> {
    let found: BTreeMap<_, _> = found.iter().cloned().collect();
    if let Some(key) = found.keys().find(|key| !expected.contains_key(*key)) {
        return Err(format!("{key} was refused, but exists: {:?}", found[key]));
    }
    let [x, y, z] = BATCH_KEYS.map(|key| found.get(key).copied());
    if x != z || y != x.filter(|round| round % 2 == 1) {
        return Err(format!("only a part of a batch exists: {x:?} {y:?} {z:?}"));
    }
    for (key, values) in expected {
        let value = found.get(key).copied();
        if !values.contains(&value) {
            return Err(format!("{key} is {value:?}, expected {values:?}"));
        }
    }
    Ok(())
}

/// Number of changes by outcome: acknowledged, refused, unknown.
pub static OUTCOME_COUNTS: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

/// Records the outcome of a change.
fn note_outcome(expected: &mut ExpectedRecords, key: &str, value: Option<u64>, answer: &Result<()>) {
    let entry = expected.entry(key.to_owned()).or_insert_with(|| vec![None]);
    match answer {
        Ok(()) => {
            OUTCOME_COUNTS[0].fetch_add(1, Relaxed);
            *entry = vec![value];
        }
        Err(error) if error.code == Code::StorageFull => drop(OUTCOME_COUNTS[1].fetch_add(1, Relaxed)),
        Err(error) => {
            assert!(error.message.contains("is unknown"), "{error}");
            OUTCOME_COUNTS[2].fetch_add(1, Relaxed);
            entry.push(value);
        }
    }
}

pub async fn make_changes(store: &Store, expected: &mut ExpectedRecords, round: u64) {
    let (a, b) = (format!("a{}", round % 3), format!("b{}", round % 2));
    let put = store.put(TREE, &a, &round).await;
    note_outcome(expected, &a, Some(round), &put);
    let (one, two) = (round * 2, round * 2 + 1);
    let (first, second) = tokio::join!(store.put(TREE, &b, &one), store.put(TREE, "c", &two));
    note_outcome(expected, &b, Some(one), &first);
    note_outcome(expected, "c", Some(two), &second);
    match store.delete(TREE, &a).await {
        Err(error) if was_not_begun(&error) => {}
        deleted => note_outcome(expected, &a, None, &deleted.map(drop)),
    }
    let mut batch = Batch::default();
    let odd = (round % 2 == 1).then_some(round);
    let edits = BATCH_KEYS.into_iter().zip([Some(round), odd, Some(round)]);
    for (key, value) in edits.clone() {
        match value {
            Some(value) => batch.put(TREE, key, &value).unwrap(),
            None => batch.delete(TREE, key).unwrap(),
        }
    }
    match store.write(batch).await.map(drop) {
        Err(error) if was_not_begun(&error) => {}
        written => edits.for_each(|(key, value)| note_outcome(expected, key, value, &written)),
    }
}

/// Keys of one batch. Every second batch removes the middle one.
const BATCH_KEYS: [&str; 3] = ["x", "y", "z"];

/// Whether a change failed before it began: the record to remove could not be read.
fn was_not_begun(error: &Error) -> bool {
    error.code == Code::ServerBusy || error.code == Code::Internal && !error.message.contains("is unknown")
}

/// Changes records under faults, with a journal that is compacted from a given length.
async fn check_changes(compact_from_bytes: u64, prepare: impl AsyncFn(&Path)) {
    let dir = memory_state();
    let (mut expected, mut round) = (ExpectedRecords::new(), 1);
    for (kind, (mode, burst)) in FAULTS.into_iter().enumerate() {
        for at in call_numbers(kind) {
            prepare(dir.path()).await;
            let store = Store::open_with_sizes(dir.path(), sizes(compact_from_bytes)).unwrap();
            let before: Vec<(String, u64)> = store.scan(TREE).unwrap();
            if round == 1 {
                expected.extend(before.iter().map(|(key, value)| (key.clone(), vec![Some(*value)])));
            }
            let what = format!("{mode:?} at call {at}");
            check_records(&expected, &before).unwrap_or_else(|fault| panic!("{what}, before: {fault}"));
            let faults = Faults::arm(dir.path(), mode, at, burst);
            make_changes(&store, &mut expected, round).await;
            round += 1;
            let injected = faults.disarm();
            let image = memory_state();
            copy_folder(dir.path(), image.path());
            if round % 2 == 0 {
                // The journal alone is complete: the store never appends to a replaced file.
                let _ = fs::remove_dir_all(image.path().join("db"));
                let _ = fs::remove_file(image.path().join(tail::FILE_NAME));
            }
            let read = scan_when_open(&store).await;
            check_records(&expected, &read).unwrap_or_else(|fault| panic!("{what}, for readers: {fault}"));
            drop(store);
            let after_kill = read_progress(image.path());
            check_records(&expected, &after_kill).unwrap_or_else(|fault| panic!("{what}, after kill -9: {fault}"));
            for (key, values) in &mut expected {
                *values = vec![read.iter().find(|(found, _)| found == key).map(|(_, value)| *value)];
            }
            if injected == 0 {
                break;
            }
        }
    }
}

/// Reads all records, as soon as the store can read again.
async fn scan_when_open(store: &Store) -> Vec<(String, u64)> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match store.scan(TREE) {
            Ok(found) => return found,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_change_is_there_after_a_restart_exactly_when_it_was_acknowledged() {
    check_changes(u64::MAX, async |_| {}).await;
}

#[tokio::test]
async fn a_compaction_that_fails_anywhere_loses_nothing() {
    // Enough lines that a compaction follows the first change.
    let grow = async |dir: &Path| {
        let store = Store::open_with_sizes(dir, sizes(u64::MAX)).unwrap();
        for n in 0..40_u64 {
            store.put(TREE, "grown", &(n % 2)).await.unwrap();
        }
        store.put(TREE, "grown", &7).await.unwrap();
    };
    check_changes(1, grow).await;
}

#[tokio::test]
async fn a_start_that_fails_anywhere_leaves_everything_for_the_next_one() {
    let dir = memory_state();
    let store = Store::open_waiting(dir.path()).unwrap();
    store.put(TREE, "early", &1).await.unwrap();
    drop(store);
    let early = memory_state();
    copy_folder(&dir.path().join("db"), early.path());
    let store = Store::open_waiting(dir.path()).unwrap();
    for n in 0..6_u64 {
        store.put(TREE, &format!("{}", n % 4), &n).await.unwrap();
    }
    store.delete(TREE, "3").await.unwrap();
    let expected: Vec<(String, u64)> = store.scan(TREE).unwrap();
    let killed = memory_state();
    copy_folder(dir.path(), killed.path());
    drop(store);
    // An index without the changes, as after a crash: with an intact, a damaged, and no journal.
    let _ = fs::remove_dir_all(killed.path().join("db"));
    copy_folder(early.path(), &killed.path().join("db"));
    let journal = fs::read(killed.path().join("journal")).unwrap();
    let mut damaged = journal.clone();
    let at = damaged.len() - 20;
    damaged[at] ^= 1;
    for (text, name) in [(Some(&journal), "stale index"), (Some(&damaged), "damaged journal"), (None, "no journal")] {
        for (kind, (mode, burst)) in [FAULTS[0], FAULTS[2], FAULTS[3]].into_iter().enumerate() {
            // sled takes an unreadable page for the end of its log. With a journal that is noticed. Without one it is the
            // second failure, and a record that only the index has is lost.
            if text.is_none() && mode == FaultMode::Io {
                continue;
            }
            for at in call_numbers(kind) {
                let case = memory_state();
                copy_folder(killed.path(), case.path());
                fs::remove_file(case.path().join("journal")).unwrap();
                if let Some(text) = text {
                    fs::write(case.path().join("journal"), text).unwrap();
                }
                let faults = Faults::arm(case.path(), mode, at, burst);
                let opened = Store::open_with_sizes(case.path(), sizes(u64::MAX));
                let injected = faults.disarm();
                let what = format!("{name}, {mode:?} at call {at}");
                if let Ok(store) = opened {
                    assert_eq!(scan_when_open(&store).await, expected, "{what}");
                }
                assert_eq!(read_progress(case.path()), expected, "{what}, the next start");
                if injected == 0 {
                    break;
                }
            }
        }
    }
}

#[tokio::test]
async fn an_export_or_import_that_fails_anywhere_is_whole_or_an_error() {
    let dir = memory_state();
    let (folder, file) = (dir.path().join("state"), dir.path().join("backup"));
    let store = Store::open_waiting(&folder).unwrap();
    for n in 0..5_u64 {
        store.put(TREE, &format!("{n}"), &n).await.unwrap();
    }
    secret::write(&folder.join("signing-keys"), "secret\n").unwrap();
    let mut expected = Vec::new();
    assert_eq!(export(&folder, &mut expected).unwrap(), 5, "while the state is open");
    for running in [true, false] {
        let store = running.then(|| store.clone());
        for (kind, (mode, burst)) in FAULTS.into_iter().enumerate() {
            for at in call_numbers(kind) {
                fs::write(&file, "the one before").unwrap();
                let faults = Faults::arm(dir.path(), mode, at, burst);
                let outcome = backup(&folder, &file);
                let injected = faults.disarm();
                let found = fs::read(&file).unwrap();
                match outcome {
                    Ok(records) => assert_eq!((records, &found), (5, &expected), "{mode:?} at call {at}"),
                    Err(_) => assert!(found == b"the one before" || found == expected, "{mode:?} at call {at}"),
                }
                assert!(!dir.path().join("backup.partial").exists() || injected > 1, "{mode:?} at call {at}");
                if injected == 0 {
                    break;
                }
            }
        }
        drop(store);
    }
    drop(store);
    for (kind, (mode, burst)) in FAULTS.into_iter().enumerate() {
        for at in call_numbers(kind) {
            let fresh = memory_state();
            let faults = Faults::arm(fresh.path(), mode, at, burst);
            let outcome = import(fresh.path(), &*expected, false);
            let injected = faults.disarm();
            let found = read_progress(fresh.path());
            match outcome {
                Ok(_) => assert_eq!(found.len(), 5, "{mode:?} at call {at}"),
                Err(_) => assert!([0, 5].contains(&found.len()), "{mode:?} at call {at}: {found:?}"),
            }
            if injected == 0 {
                break;
            }
        }
    }
}
