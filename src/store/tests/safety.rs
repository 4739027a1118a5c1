//! The size limit of records, states of newer versions, the mode of the folder, and backups.

use std::os::unix::fs::PermissionsExt;

use super::syscalls::{FaultMode, Faults};
use super::*;

#[tokio::test]
async fn a_record_has_one_upper_bound_and_what_is_acknowledged_is_read_again() {
    let (dir, store) = new_state();
    // A JSON string has two quotes.
    let longest = "x".repeat(MAX_RECORD_BYTES - "u_1".len() - 2);
    store.put(Tree::Users, "u_1", &longest).await.unwrap();
    store.put(Tree::Users, "u_2", &"before").await.unwrap();
    let refusal = store.put(Tree::Users, "u_2", &format!("{longest}x")).await.unwrap_err();
    assert_eq!((refusal.code, refusal.code.status()), (Code::PayloadTooLarge, 413));
    assert!(refusal.message.contains(&MAX_RECORD_BYTES.to_string()), "{}", refusal.message);
    assert_eq!(store.put(Tree::Probes, "p", &format!("{longest}xxx")).await.unwrap_err().code, Code::PayloadTooLarge);
    drop(store);
    let mut exported = Vec::new();
    assert_eq!(export(dir.path(), &mut exported).unwrap(), 2);
    let _ = fs::remove_dir_all(dir.path().join("db"));
    let other = temp_folder();
    assert_eq!(import(other.path(), &*exported, false).unwrap(), 2);
    for dir in [&dir, &other] {
        let store = Store::open_waiting(dir.path()).unwrap();
        assert_eq!(store.get::<String>(Tree::Users, "u_1").unwrap().as_ref(), Some(&longest));
        assert_eq!(store.get::<String>(Tree::Users, "u_2").unwrap().as_deref(), Some("before"));
    }
    assert_eq!(count_damaged(dir.path()), 0);
}

#[tokio::test]
async fn a_state_with_records_of_a_newer_version_is_refused_and_left_as_it_is() {
    let (dir, _) = filled_state().await;
    let journal = dir.path().join("journal");
    let mut text = fs::read_to_string(&journal).unwrap();
    let sum = record::checksum("parental-rules", "u_1", 999, b"{}");
    text += &format!("{}\t999\tparental-rules\t\"u_1\"\t{{}}\n", data_encoding::HEXLOWER.encode(&sum));
    // A repair of another damaged line must not drop that record.
    let damaged = text.replacen("\t2\tprogress", "\t2\tprogresz", 1);
    for text in [text, damaged] {
        fs::write(&journal, &text).unwrap();
        let refusal = |error: Error| error.cause.unwrap();
        let refused = refusal(Store::open(dir.path()).err().unwrap());
        assert!(refused.contains("written by a newer version") && refused.contains("parental-rules"), "{refused}");
        assert!(refusal(export(dir.path(), Vec::new()).unwrap_err()).contains("parental-rules"));
        assert!(backup(dir.path(), &dir.path().join("backup")).is_err() && !dir.path().join("backup").exists());
        assert_eq!(fs::read_to_string(&journal).unwrap(), text);
    }
    // Only the index has such records, and the journal is missing.
    fs::remove_file(&journal).unwrap();
    let database = index::open_database(&dir.path().join("db")).unwrap();
    database.open_tree("parental-rules").unwrap().insert("u_1", "{}").unwrap();
    drop(database);
    assert!(Store::open(dir.path()).err().unwrap().cause.unwrap().contains("parental-rules"));
}

#[tokio::test]
async fn an_empty_tree_of_an_earlier_version_does_not_refuse_the_start() {
    let (dir, expected) = filled_state().await;
    // Earlier versions created this tree and never wrote to it.
    drop(index::open_database(&dir.path().join("db")).unwrap().open_tree("indexes").unwrap());
    fs::remove_file(dir.path().join("journal")).unwrap();
    assert_eq!(read_progress(dir.path()), expected, "from the index, without a journal");
}

#[tokio::test]
async fn an_export_that_leaves_something_out_fails_and_names_it() {
    let dir = temp_folder();
    assert_eq!(export(&dir.path().join("none"), Vec::new()).unwrap_err().code, Code::NotFound);
    assert!(!dir.path().join("none").exists());
    let store = Store::open_waiting(dir.path()).unwrap();
    store.put(Tree::Users, "u_1", &"ada").await.unwrap();
    store.put(Tree::Users, "u_2", &"grace").await.unwrap();
    tree_in_index(&store.view(), Tree::Users).unwrap().insert("u_1", b"damaged").unwrap();
    drop(store);
    let journal = dir.path().join("journal");
    let text = fs::read_to_string(&journal).unwrap().replace("ada", "adx");
    fs::write(&journal, text).unwrap();
    let error = export(dir.path(), Vec::new()).unwrap_err();
    assert!(error.cause.as_deref().unwrap().contains("records are lost: users/u_1"), "{error}");
    assert_eq!(export(dir.path(), Vec::new()).unwrap(), 1, "the intact record");
}

#[test]
fn a_state_folder_that_was_open_to_others_is_closed() {
    let dir = temp_folder();
    let folder = dir.path().join("state");
    drop(Store::open_waiting(&folder).unwrap());
    fs::create_dir(folder.join("cache")).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let all_paths = || [list_files(&folder), vec![folder.clone(), folder.join("db"), folder.join("cache")]].concat();
    for path in all_paths() {
        set(&path, if path.is_dir() { 0o755 } else { 0o644 });
    }
    let paths = all_paths();
    // Files that sled creates later get their mode from the umask of the process.
    let _open = Store::open_waiting(&folder).unwrap();
    for path in paths.iter().filter(|path| path.exists()) {
        assert_eq!(mode(path), if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
    }
}

#[test]
fn a_state_folder_that_cannot_be_closed_is_refused_and_says_what_to_run() {
    let dir = temp_folder();
    let folder = dir.path().join("state");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    for mode in [FaultMode::ModeDenied, FaultMode::ModeIgnored] {
        let faults = Faults::arm(&folder, mode, 1, 1000);
        let refused = Store::open(&folder).err().unwrap();
        assert_eq!(faults.disarm(), 1, "{mode:?}");
        assert_eq!(refused.code, Code::Forbidden, "{mode:?}");
        let command = format!("chmod 700 {}", folder.display());
        assert!(refused.message.contains(&command) && refused.message.contains("mode 0755"), "{}", refused.message);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "nothing was written there");
    }
    // Once the folder is closed, the mode of a file in it gives access to no other user.
    drop(Store::open_waiting(&folder).unwrap());
    let journal = folder.join("journal");
    fs::set_permissions(&journal, fs::Permissions::from_mode(0o644)).unwrap();
    let faults = Faults::arm(&folder, FaultMode::ModeDenied, 1, 1000);
    drop(Store::open_waiting(&folder).unwrap());
    assert!(faults.disarm() >= 1);
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(&journal).unwrap().permissions().mode() & 0o777, 0o644);
}

#[test]
fn a_folder_that_cannot_be_read_does_not_refuse_the_start() {
    let dir = temp_folder();
    let place = dir.path().join("state");
    // A path longer than 4096 bytes cannot be opened, not even by root.
    let deep = (0..14).fold(place.clone(), |path, _| path.join("d".repeat(250)));
    let other = dir.path().join("other");
    fs::create_dir_all(&deep).unwrap();
    fs::create_dir_all((0..3).fold(other.clone(), |path, _| path.join("o".repeat(250)))).unwrap();
    fs::rename(&other, deep.join("other")).unwrap();
    for name in ["a-file", "z-file"] {
        fs::write(place.join(name), "").unwrap();
        fs::set_permissions(place.join(name), fs::Permissions::from_mode(0o644)).unwrap();
    }
    drop(Store::open_waiting(&place).unwrap());
    for name in ["a-file", "z-file"] {
        assert_eq!(fs::metadata(place.join(name)).unwrap().permissions().mode() & 0o777, 0o600, "{name}");
    }
}

#[tokio::test]
async fn a_backup_under_writers_has_everything_acknowledged_before() {
    let dir = temp_folder();
    let sizes = commit::StoreSizes { reserve_bytes: 0, compact_from_bytes: 64 << 10 };
    let store = Store::open_with_sizes(dir.path(), sizes).unwrap();
    let done = std::sync::Arc::new(std::sync::Mutex::new(std::collections::BTreeMap::<String, u64>::new()));
    let writers: Vec<_> = (0..8_u64)
        .map(|writer| {
            let (store, done) = (store.clone(), done.clone());
            tokio::spawn(async move {
                for n in 0.. {
                    // Records are also removed and written again, often enough for compactions.
                    let key = format!("u_1/{writer}");
                    store.put(Tree::Progress, &key, &(n, "x".repeat(200))).await.unwrap();
                    done.lock().unwrap().insert(key.clone(), n);
                    store.put(Tree::Books, &key, &n).await.unwrap();
                    store.delete(Tree::Books, &key).await.unwrap();
                }
            })
        })
        .collect();
    let file = dir.path().join("backup.jsonl");
    for round in 0..6 {
        while done.lock().unwrap().values().sum::<u64>() < 200 * round {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let before = done.lock().unwrap().clone();
        let (from, to) = (dir.path().to_owned(), file.clone());
        tokio::task::spawn_blocking(move || backup(&from, &to)).await.unwrap().unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let fresh = temp_folder();
        import(fresh.path(), &*fs::read(&file).unwrap(), false).unwrap();
        let found = Store::open_waiting(fresh.path()).unwrap().scan::<(u64, String)>(Tree::Progress).unwrap();
        let found: std::collections::BTreeMap<_, _> = found.into_iter().map(|(key, (n, _))| (key, n)).collect();
        for (key, n) in before {
            assert!(found[&key] >= n, "round {round}: {key} was {n}, the backup has {}", found[&key]);
        }
    }
    writers.iter().for_each(|writer| writer.abort());
    assert!(fs::metadata(dir.path().join("journal")).unwrap().len() < 1 << 20, "the journal was compacted meanwhile");
}

#[tokio::test]
async fn a_snapshot_that_sled_did_not_complete_is_no_damage() {
    let (dir, expected) = filled_state().await;
    fs::write(dir.path().join("db/snap.7FFFFFFFFFFFFFFF.generating"), "half of it").unwrap();
    assert_eq!(read_progress(dir.path()), expected);
    assert_eq!(count_damaged(dir.path()), 0);
    fs::write(dir.path().join("db/snap.7FFFFFFFFFFFFFFF.generating"), "half of it").unwrap();
    fs::remove_file(dir.path().join("journal")).unwrap();
    assert_eq!(read_progress(dir.path()), expected, "from the index, without a journal");
}
