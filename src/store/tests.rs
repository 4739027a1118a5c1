use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use super::*;

mod batches;
mod faults;
pub mod records;
mod reopening;
mod safety;
pub mod syscalls;
mod traced;

fn temp_folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn new_state() -> (tempfile::TempDir, Store) {
    let dir = temp_folder();
    let store = Store::open_waiting(dir.path()).unwrap();
    (dir, store)
}

fn list_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { list_files(&path) } else { vec![path] }).collect()
}

fn flip_bit(path: &Path, at: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

fn count_damaged(dir: &Path) -> usize {
    fs::read_dir(dir.join("damaged")).map_or(0, Iterator::count)
}

fn read_progress(dir: &Path) -> Vec<(String, u64)> {
    let sizes = commit::StoreSizes { reserve_bytes: RESERVE_BYTES, compact_from_bytes: COMPACT_FROM_BYTES };
    Store::open_with_sizes(dir, sizes).unwrap().scan(Tree::Progress).unwrap()
}

/// Writes a state of 300 records, changes and removes some, and closes it cleanly.
async fn fill_state(dir: &Path) -> Vec<(String, u64)> {
    let store = Store::open_waiting(dir).unwrap();
    let put = |n: u64, value: u64| {
        let store = store.clone();
        async move { store.put(Tree::Progress, &format!("u_1/{n:03}"), &value).await }
    };
    let writes = (0..300).map(|n| put(n, n)).collect::<Vec<_>>();
    futures_util::future::try_join_all(writes).await.unwrap();
    for n in (0..300).step_by(7) {
        put(n, 1000 + n).await.unwrap();
    }
    for n in (5..300).step_by(11) {
        assert!(store.delete(Tree::Progress, &format!("u_1/{n:03}")).await.unwrap());
    }
    store.scan(Tree::Progress).unwrap()
}

async fn filled_state() -> (tempfile::TempDir, Vec<(String, u64)>) {
    let dir = temp_folder();
    let records = fill_state(dir.path()).await;
    (dir, records)
}

#[tokio::test]
async fn records_survive_closing_and_come_back_by_key() {
    let (dir, store) = new_state();
    store.put(Tree::Users, "u_2", &"second").await.unwrap();
    store.put(Tree::Users, "u_1", &"first").await.unwrap();
    store.put(Tree::Users, "u_1", &"first, changed").await.unwrap();
    assert!(store.delete(Tree::Users, "u_2").await.unwrap());
    assert!(!store.delete(Tree::Users, "u_2").await.unwrap());
    store.put(Tree::Probes, "p", &1).await.unwrap();
    drop(store);

    let store = Store::open_waiting(dir.path()).unwrap();
    assert_eq!(store.get::<String>(Tree::Users, "u_1").unwrap().as_deref(), Some("first, changed"));
    assert_eq!(store.get::<String>(Tree::Users, "u_2").unwrap(), None);
    assert_eq!(store.get::<String>(Tree::Logins, "u_1").unwrap(), None);
    assert_eq!(store.get::<u32>(Tree::Probes, "p").unwrap(), Some(1));
    assert_eq!(store.scan::<String>(Tree::Users).unwrap(), [("u_1".to_owned(), "first, changed".to_owned())]);
    assert_eq!(count_damaged(dir.path()), 0);
}

#[tokio::test]
async fn concurrent_writes_are_all_durable() {
    let (dir, store) = new_state();
    let writers = (0..2000).map(|n| {
        let store = store.clone();
        async move { store.put(Tree::Books, &format!("{n:04}"), &n).await }
    });
    assert!(futures_util::future::join_all(writers).await.into_iter().all(|outcome| outcome.is_ok()));
    drop(store);
    let values = Store::open_waiting(dir.path()).unwrap().scan::<u32>(Tree::Books).unwrap();
    assert_eq!(values.into_iter().map(|(_, n)| n).collect::<Vec<_>>(), (0..2000).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_damaged_record_is_an_error_never_missing() {
    let (dir, store) = new_state();
    store.put(Tree::Users, "u_1", &"first").await.unwrap();
    let tree = tree_in_index(&store.view(), Tree::Users).unwrap();
    let mut sealed = tree.get("u_1").unwrap().unwrap().to_vec();

    tree.insert("u_9", sealed.clone()).unwrap();
    assert!(store.get::<String>(Tree::Users, "u_9").is_err(), "a value under another key");
    *sealed.last_mut().unwrap() ^= 1;
    tree.insert("u_1", sealed).unwrap();
    let error = store.get::<String>(Tree::Users, "u_1").unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (Code::Internal, "internal error"));
    assert!(error.cause.unwrap().starts_with("record users/u_1 cannot be read"));
    tree.insert("u_1", b"short").unwrap();
    assert!(store.get::<String>(Tree::Users, "u_1").is_err());
    assert!(store.scan::<String>(Tree::Users).is_err());
    drop((tree, store));

    let store = Store::open_waiting(dir.path()).unwrap();
    assert_eq!(store.scan::<String>(Tree::Users).unwrap(), [("u_1".to_owned(), "first".to_owned())], "repaired");
    assert_eq!(count_damaged(dir.path()), 1);
}

#[test]
fn a_second_process_learns_which_process_has_the_state() {
    let (dir, store) = new_state();
    let error = Store::open(dir.path()).err().unwrap();
    assert_eq!(error.code, Code::Conflict);
    assert!(error.message.contains("is in use by a running hearthcast (process "), "{}", error.message);
    drop(store);
    Store::open_waiting(dir.path()).unwrap();
}

#[tokio::test]
async fn a_newer_layout_is_refused() {
    let (dir, _) = filled_state().await;
    let text = fs::read_to_string(dir.path().join("journal")).unwrap();
    let (_, lines) = text.split_once('\n').unwrap();
    fs::write(dir.path().join("journal"), journal::header(journal::LAYOUT + 1) + lines).unwrap();
    let error = Store::open(dir.path()).err().unwrap();
    assert!(error.cause.unwrap().contains("written by a newer version (layout 3"));
}

#[tokio::test]
async fn a_state_of_layout_1_is_migrated() {
    let dir = temp_folder();
    {
        let db = sled::open(dir.path().join("db")).unwrap();
        let put = |tree: Tree, key: &str, json: &str| {
            db.open_tree(tree.name()).unwrap().insert(key, migrate::encode_v1(tree, key, json.as_bytes())).unwrap();
        };
        put(Tree::Meta, "format", "1");
        put(Tree::Users, "u_1", "\"ada\"");
        put(Tree::Logins, "l_1", "7");
        put(Tree::Probes, "p", "1");
        db.flush().unwrap();
    }
    let store = Store::open_waiting(dir.path()).unwrap();
    assert_eq!(store.get::<String>(Tree::Users, "u_1").unwrap().as_deref(), Some("ada"));
    assert_eq!(store.get::<u32>(Tree::Logins, "l_1").unwrap(), Some(7));
    store.put(Tree::Users, "u_2", &"bob").await.unwrap();
    drop(store);
    assert_eq!(Store::open_waiting(dir.path()).unwrap().scan::<String>(Tree::Users).unwrap().len(), 2);
    assert_eq!(count_damaged(dir.path()), 0);
}

#[tokio::test]
async fn an_index_that_is_lost_or_old_is_rebuilt() {
    let dir = temp_folder();
    let early = temp_folder();
    let store = Store::open_waiting(dir.path()).unwrap();
    store.put(Tree::Progress, "u_1/000", &5).await.unwrap();
    drop(store);
    copy_folder(&dir.path().join("db"), &early.path().join("db"));
    let expected = fill_state(dir.path()).await;

    fs::remove_dir_all(dir.path().join("db")).unwrap();
    assert_eq!(read_progress(dir.path()), expected, "lost");
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    copy_folder(&early.path().join("db"), &dir.path().join("db"));
    assert_eq!(read_progress(dir.path()), expected, "as after a crash: without the last changes");
    assert_eq!(count_damaged(dir.path()), 0);
}

fn copy_folder(from: &Path, to: &Path) {
    for file in list_files(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        // sled removes files meanwhile.
        if_exists(fs::copy(&file, &target)).unwrap();
    }
}

#[tokio::test]
async fn a_record_that_sled_lost_is_noticed() {
    let (dir, expected) = filled_state().await;
    let store = Store::open_waiting(dir.path()).unwrap();
    tree_in_index(&store.view(), Tree::Progress).unwrap().remove("u_1/001").unwrap();
    drop(store);
    assert_eq!(read_progress(dir.path()), expected);
    assert_eq!(count_damaged(dir.path()), 1, "a gap is damage");
}

#[tokio::test]
async fn flipped_bits_in_the_index_are_repaired() {
    let (dir, expected) = filled_state().await;
    let pristine = temp_folder();
    copy_folder(dir.path(), pristine.path());
    let mut noticed = 0;
    for round in 0..12_u64 {
        fs::remove_dir_all(dir.path().join("db")).unwrap();
        let _ = fs::remove_dir_all(dir.path().join("damaged"));
        copy_folder(pristine.path(), dir.path());
        let files = list_files(&dir.path().join("db"));
        for (n, file) in files.iter().enumerate() {
            let size = fs::metadata(file).unwrap().len();
            for k in 0..8 {
                // Only in the written part, which is at the beginning.
                let written_bytes = size.min(96 * 1024);
                if written_bytes > 0 {
                    flip_bit(file, (round * 7919 + k * 104_729 + n as u64 * 31) % written_bytes);
                }
            }
        }
        assert_eq!(read_progress(dir.path()), expected, "round {round}");
        noticed += count_damaged(dir.path());
    }
    assert!(noticed > 0, "some of the flipped bits were noticed");
}

#[tokio::test]
async fn flipped_bits_in_the_journal_are_repaired() {
    let (dir, expected) = filled_state().await;
    let journal = dir.path().join("journal");
    let pristine = fs::read(&journal).unwrap();
    for round in 0..40_u64 {
        let mut text = pristine.clone();
        for k in 0..3 {
            let at = (round * 7919 + k * 104_729) as usize % text.len();
            text[at] ^= 1 << (round % 8);
        }
        if round == 0 {
            text.truncate(text.len() / 2);
        }
        fs::write(&journal, text).unwrap();
        assert_eq!(read_progress(dir.path()), expected, "round {round}");
    }
    assert!((1..=4).contains(&count_damaged(dir.path())), "bounded");
    fs::remove_file(&journal).unwrap();
    assert_eq!(read_progress(dir.path()), expected, "gone");
}

#[tokio::test]
async fn the_last_moment_before_a_crash_survives_damage_wherever_it_is() {
    let dir = temp_folder();
    drop(Store::open_waiting(dir.path()).unwrap());
    let early = temp_folder();
    copy_folder(&dir.path().join("db"), early.path());
    let store = Store::open_waiting(dir.path()).unwrap();
    let mut changed = Vec::new();
    for n in 0..40_u64 {
        store.put(Tree::Progress, &format!("u_1/{:02}", n % 16), &n).await.unwrap();
        if n % 5 == 3 {
            store.delete(Tree::Progress, &format!("u_1/{:02}", n % 16)).await.unwrap();
        }
    }
    let expected: Vec<(String, u64)> = store.scan(Tree::Progress).unwrap();
    for name in ["journal", tail::FILE_NAME] {
        changed.push((name, fs::read(dir.path().join(name)).unwrap()));
    }
    drop(store);
    // An index without any of the changes, as a crash within sled's half second leaves it.
    for round in 0..60_u64 {
        let (hit, crashed) = (round as usize % 2, temp_folder());
        copy_folder(early.path(), &crashed.path().join("db"));
        for (n, (name, text)) in changed.iter().enumerate() {
            let mut text = text.clone();
            for k in 0..3 {
                let at = (round * 7919 + k * 104_729) as usize % text.len();
                text[at] ^= u8::from(n == hit) << (round % 8);
            }
            if round < 4 && n == hit {
                text.truncate(text.len() / (2 + round as usize));
            }
            if round >= 58 && n == hit {
                continue;
            }
            fs::write(crashed.path().join(name), text).unwrap();
        }
        assert_eq!(read_progress(crashed.path()), expected, "round {round}");
        assert_eq!(read_progress(crashed.path()), expected, "round {round}, second start");
    }
}

#[tokio::test]
async fn a_full_disk_refuses_and_loses_nothing() {
    let (dir, expected) = filled_state().await;
    let store = Store::open_with(dir.path(), u64::MAX).unwrap();
    let refusal = store.put(Tree::Progress, "u_1/000", &9).await.unwrap_err();
    assert_eq!((refusal.code, refusal.code.status()), (Code::StorageFull, 507));
    assert_eq!(store.put(Tree::Probes, "p", &9).await.unwrap_err().code, Code::StorageFull);
    assert_eq!(store.scan::<u64>(Tree::Progress).unwrap(), expected, "reads still work");
    drop(store);
    assert_eq!(read_progress(dir.path()), expected);
}

#[tokio::test]
async fn a_journal_that_has_grown_is_compacted() {
    let (dir, store) = new_state();
    let big = "x".repeat(40_000);
    store.put(Tree::Progress, "u_1/kept", &7).await.unwrap();
    for n in 0..600_u64 {
        store.put(Tree::Progress, &format!("u_1/{}", n % 4), &(n, &big)).await.unwrap();
    }
    store.delete(Tree::Progress, "u_1/3").await.unwrap();
    let len = fs::metadata(dir.path().join("journal")).unwrap().len();
    assert!(len < 17 << 20, "{len}");
    drop(store);
    for _ in 0..2 {
        let store = Store::open_waiting(dir.path()).unwrap();
        assert_eq!(store.get::<u64>(Tree::Progress, "u_1/kept").unwrap(), Some(7));
        let last = |n: u64| store.get::<(u64, String)>(Tree::Progress, &format!("u_1/{n}")).unwrap().map(|(n, _)| n);
        assert_eq!((last(0), last(1), last(2), last(3)), (Some(596), Some(597), Some(598), None));
        drop(store);
        let _ = fs::remove_dir_all(dir.path().join("db"));
    }
}

#[tokio::test]
async fn an_export_can_be_imported_again() {
    let (dir, expected) = filled_state().await;
    secret::write(&dir.path().join("signing-keys"), "secret\n").unwrap();
    let store = Store::open_waiting(dir.path()).unwrap();
    store.put(Tree::Users, "u_1", &"ada").await.unwrap();
    let mut text = Vec::new();
    let records = export(dir.path(), &mut text).unwrap();
    assert_eq!(records, expected.len() as u64 + 1);
    assert_eq!(import(dir.path(), &*text, true).err().unwrap().code, Code::Conflict, "a running server");
    drop(store);

    let other = temp_folder();
    let lines: Vec<&str> = std::str::from_utf8(&text).unwrap().lines().collect();
    for wrong in [
        "",
        &lines[..lines.len() - 1].join("\n"),
        &lines[1..].join("\n"),
        &[&lines[..3], &lines[4..]].concat().join("\n"),
        &[&lines[..], &lines[..1]].concat().join("\n"),
        "{\"hearthcast\":\"9\",\"layout\":9}\n",
        "no json",
    ] {
        assert_eq!(import(other.path(), wrong.as_bytes(), false).unwrap_err().code, Code::BadRequest, "{wrong:.60}");
    }
    assert_eq!(read_progress(other.path()), [], "a refused import leaves nothing");
    assert_eq!(import(other.path(), &*text, false).unwrap(), records);
    assert_eq!(secret::read(&other.path().join("signing-keys")).unwrap().as_deref(), Some("secret\n"));
    assert_eq!(read_progress(other.path()), expected);
    assert_eq!(import(other.path(), &*text, false).unwrap_err().code, Code::Conflict, "a state exists");
    assert_eq!(import(other.path(), &*text, true).unwrap(), records);
    assert_eq!(read_progress(other.path()), expected);
}
