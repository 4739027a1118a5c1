//! The state opened again, after a failure while it runs and after a kill.

use super::*;

#[tokio::test]
async fn readers_do_not_wait_while_the_state_is_reopened() {
    let (dir, store) = new_state();
    store.put(Tree::Progress, "early", &1).await.unwrap();
    let [journal, kept, fifo, draft] = ["journal", "kept", "fifo", draft::FILE_NAME].map(|name| dir.path().join(name));
    // Opening the journal now waits until the other end of the pipe is opened.
    fs::rename(&journal, &kept).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    fs::hard_link(&fifo, &journal).unwrap();
    fs::write(&draft, "").unwrap();
    // The index fails: the change is durable, and the state is reopened.
    let index = store.inner.view.write().unwrap().index.take();
    drop(index);
    store.put(Tree::Progress, "late", &2).await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while draft.exists() {
        assert!(Instant::now() < deadline, "the state is not reopened");
        std::thread::sleep(Duration::from_millis(2));
    }
    // A drafted journal is removed first, so the committer is opening the files now.
    let is_free = store.inner.view.try_read().is_ok();
    let read = |key: &str| is_free.then(|| store.get::<u64>(Tree::Progress, key));
    let (early, late) = (read("early"), read("late"));
    fs::rename(&kept, &journal).unwrap();
    let _other_end = OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
    assert!(is_free, "readers wait for the disk");
    assert_eq!(early.unwrap().unwrap_err().code, Code::ServerBusy);
    assert_eq!(late.unwrap().unwrap(), Some(2), "a change that the index lacks");

    let found = loop {
        match store.scan::<u64>(Tree::Progress) {
            Ok(found) => break found,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    };
    assert_eq!(found, [("early".to_owned(), 1), ("late".to_owned(), 2)]);
    store.put(Tree::Progress, "last", &3).await.unwrap();
    drop(store);
    assert_eq!(read_progress(dir.path()).len(), 3);
}

#[tokio::test]
async fn a_kill_between_a_compaction_and_the_restart_of_the_tail_is_no_damage() {
    let (dir, store) = new_state();
    for n in 0..40_u64 {
        store.put(Tree::Progress, "kept", &n).await.unwrap();
    }
    store.put(Tree::Progress, "gone", &1).await.unwrap();
    assert!(store.delete(Tree::Progress, "gone").await.unwrap());
    let tail = fs::read(dir.path().join(tail::FILE_NAME)).unwrap();
    drop(store);
    let store =
        Store::open_with_sizes(dir.path(), commit::StoreSizes { reserve_bytes: 0, compact_from_bytes: 1 }).unwrap();
    store.put(Tree::Progress, "kept", &40).await.unwrap();
    drop(store);
    let journal = fs::read_to_string(dir.path().join("journal")).unwrap();
    assert_eq!((journal.lines().count(), journal.contains("gone")), (2, false), "compacted");
    fs::write(dir.path().join(tail::FILE_NAME), &tail).unwrap();
    assert_eq!(read_progress(dir.path()), [("kept".to_owned(), 40)]);
    assert_eq!(count_damaged(dir.path()), 0);
}

#[tokio::test]
async fn an_index_whose_lock_a_child_still_shares_is_opened_as_it_is() {
    let (dir, records) = filled_state().await;
    let locked = fs::File::open(dir.path().join("db/db")).unwrap();
    rustix::fs::flock(&locked, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let release = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        drop(locked);
    });
    assert_eq!(read_progress(dir.path()), records);
    assert_eq!(count_damaged(dir.path()), 0);
    release.join().unwrap();
}

#[tokio::test]
async fn computed_records_of_an_earlier_version_are_moved_out_of_the_index() {
    let dir = temp_folder();
    let folder = dir.path().join("db");
    let put = |key: &str, json: &str| {
        let database = index::open_database(&folder).unwrap();
        let stored = record::encode("catalogue", key, 0, json.as_bytes());
        database.open_tree("catalogue").unwrap().insert(key, stored).unwrap();
    };
    drop(Store::open(dir.path()).unwrap());
    put("/b", "2");
    put("/a", "1");
    for _ in 0..2 {
        let store = Store::open_waiting(dir.path()).unwrap();
        let expected = [("/a".to_owned(), 1), ("/b".to_owned(), 2)];
        assert_eq!(store.scan::<u64>(Tree::Catalogue).unwrap(), expected);
        drop(store);
        assert!(index::open_database(&folder).unwrap().open_tree("catalogue").unwrap().is_empty());
    }
    // An earlier version was in use meanwhile: what this version has is newer or computed again.
    put("/a", "3");
    let store = Store::open_waiting(dir.path()).unwrap();
    assert_eq!(store.get::<u64>(Tree::Catalogue, "/a").unwrap(), Some(1));
    store.put(Tree::Catalogue, "/a", &4).await.unwrap();
    assert!(store.delete(Tree::Catalogue, "/b").await.unwrap());
    drop(store);
    assert_eq!(Store::open_waiting(dir.path()).unwrap().scan::<u64>(Tree::Catalogue).unwrap(), [("/a".to_owned(), 4)]);
}

#[tokio::test]
async fn damage_of_computed_records_in_the_index_refuses_no_start() {
    let (dir, expected) = filled_state().await;
    let database = index::open_database(&dir.path().join("db")).unwrap();
    let (tree, json) = (database.open_tree("catalogue").unwrap(), format!("\"{}\"", "x".repeat(500)));
    for n in 0..200 {
        let key = format!("/{n:03}");
        tree.insert(&key, record::encode("catalogue", &key, 0, json.as_bytes())).unwrap();
    }
    database.flush().unwrap();
    drop((tree, database));
    let whole = fs::read(dir.path().join("db/db")).unwrap();
    for round in 0..20 {
        let damaged = temp_folder();
        copy_folder(dir.path(), damaged.path());
        let mut bytes = whole.clone();
        let at = whole.len() * (2 * round + 1) / 40;
        bytes[at..whole.len().min(at + 64)].fill(0xa5);
        fs::write(damaged.path().join("db/db"), bytes).unwrap();
        assert_eq!(read_progress(damaged.path()), expected, "round {round}");
    }
}
