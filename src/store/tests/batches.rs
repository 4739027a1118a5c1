//! Batches: all changes or none, wherever the journal ends and with damaged lines.

use super::*;

/// Writes two records, and a batch that changes one, removes the other and adds two.
async fn write_batch_state(dir: &Path) {
    let store = Store::open_waiting(dir).unwrap();
    store.put(Tree::Progress, "early", &1).await.unwrap();
    store.put(Tree::Progress, "gone", &1).await.unwrap();
    let mut batch = Batch::default();
    batch.put(Tree::Progress, "early", &2).unwrap();
    batch.put(Tree::Progress, "tab\t\"new\"", &3).unwrap();
    batch.delete(Tree::Progress, "gone").unwrap();
    batch.delete(Tree::Progress, "was never there").unwrap();
    batch.put(Tree::Books, "other", &4).unwrap();
    store.write(batch).await.unwrap();
    store.write(Batch::default()).await.unwrap();
}

fn to_records(records: &[(&str, u64)]) -> Vec<(String, u64)> {
    records.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect()
}

#[tokio::test]
async fn a_batch_is_whole_or_not_there_wherever_the_journal_ends() {
    let dir = temp_folder();
    write_batch_state(dir.path()).await;
    let before = to_records(&[("early", 1), ("gone", 1)]);
    let after = to_records(&[("early", 2), ("tab\t\"new\"", 3)]);
    assert_eq!(read_progress(dir.path()), after);
    let journal = fs::read(dir.path().join("journal")).unwrap();
    let lines: Vec<&[u8]> = journal.split_inclusive(|byte| *byte == b'\n').collect();
    assert_eq!(lines.len(), 4, "the layout, two records, one batch");
    let begin = journal.len() - lines[3].len();
    for end in [begin, begin + 1, begin + lines[3].len() / 2, journal.len() - 1, journal.len()] {
        let case = temp_folder();
        fs::write(case.path().join("journal"), &journal[..end]).unwrap();
        let whole = end == journal.len();
        let expected = if whole { &after } else { &before };
        assert_eq!(&read_progress(case.path()), expected, "{} bytes of the batch", end - begin);
        let books = Store::open_waiting(case.path()).unwrap().keys(Tree::Books, "").unwrap();
        assert_eq!(books.len(), usize::from(whole));
        assert_eq!(count_damaged(case.path()), 0);
    }
    // One flipped bit, and no other file: the batch is lost, the records before it are read.
    for at in (begin..journal.len() - 1).step_by(5) {
        let mut damaged = journal.clone();
        damaged[at] ^= 1;
        let path = dir.path().join("damaged-journal");
        fs::write(&path, damaged).unwrap();
        let read = journal::read(&path).unwrap().unwrap();
        assert_eq!((read.fault_offsets.len(), read.positions.len(), read.last_number), (1, 2, 2), "byte {at}");
    }
    // Export and import: an import writes one line per record.
    let (mut exported, fresh) = (Vec::new(), temp_folder());
    assert_eq!(export(dir.path(), &mut exported).unwrap(), 3);
    assert_eq!(import(fresh.path(), &*exported, false).unwrap(), 3);
    assert_eq!(read_progress(fresh.path()), after);
}

#[tokio::test]
async fn a_damaged_batch_of_removals_does_not_bring_the_records_back() {
    let (dir, store) = new_state();
    let mut batch = Batch::default();
    for n in 0..50_u64 {
        store.put(Tree::Progress, &format!("{n:02}"), &n).await.unwrap();
        batch.delete(Tree::Progress, &format!("{n:02}")).unwrap();
    }
    store.write(batch).await.unwrap();
    store.put(Tree::Progress, "kept", &1).await.unwrap();
    drop(store);
    // The index is on disk, so the tail no longer contains the batch.
    let journal = dir.path().join("journal");
    let text = fs::read(&journal).unwrap();
    let at = text.windows(7).position(|part| part == b"\tbatch\t").unwrap();
    flip_bit(&journal, at as u64 + 100);
    assert_eq!(read_progress(dir.path()), to_records(&[("kept", 1)]));
    assert_eq!(count_damaged(dir.path()), 1, "the journal");
    assert_eq!(read_progress(dir.path()), to_records(&[("kept", 1)]), "and at the next start");
}

#[tokio::test]
async fn a_batch_is_bounded_and_accepts_only_journaled_trees() {
    let mut batch = Batch::default();
    let half = "x".repeat(MAX_RECORD_BYTES / 2);
    batch.put(Tree::Users, "u_1", &half).unwrap();
    let refusal = batch.put(Tree::Users, "u_2", &half).unwrap_err();
    assert_eq!(refusal.code, Code::PayloadTooLarge);
    assert!(refusal.message.contains(&MAX_RECORD_BYTES.to_string()), "{}", refusal.message);
    assert_eq!(batch.put(Tree::Probes, "p", &1).unwrap_err().code, Code::Internal);
    let mut batch = Batch::default();
    (0..MAX_BATCH_CHANGES).for_each(|n| batch.put(Tree::Users, &n.to_string(), &n).unwrap());
    assert_eq!(batch.delete(Tree::Users, "u_1").unwrap_err().code, Code::PayloadTooLarge);
    let (dir, store) = new_state();
    store.write(batch).await.unwrap();
    drop(store);
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    assert_eq!(Store::open_waiting(dir.path()).unwrap().keys(Tree::Users, "").unwrap().len(), MAX_BATCH_CHANGES);
}
