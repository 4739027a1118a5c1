use super::*;
use crate::domain::worker::Stage;
use crate::store::tests::records::assert_golden;

#[test]
fn records_keep_their_bytes() {
    assert_golden::<ProvenFault>("quarantine");
}

fn open_store(folder: &tempfile::TempDir) -> Store {
    Store::open_waiting(&folder.path().join("state")).unwrap()
}

fn key(fingerprint: &str, version: &str) -> QuarantineKey {
    QuarantineKey {
        fingerprint: fingerprint.to_owned(),
        stage: Stage::Run,
        pipeline: "segment".to_owned(),
        version: version.to_owned(),
    }
}

fn fault(fingerprint: &str, version: &str, at: Timestamp) -> ProvenFault {
    let cause = "SIGSEGV in queue0:src".to_owned();
    ProvenFault { key: key(fingerprint, version), path: format!("/library/{fingerprint}.mkv"), cause, at }
}

/// Waits until the store has as many entries as the tasks of `record` leave.
async fn wait_for_stored(store: &Store, count: usize) {
    for _ in 0..500 {
        if store.keys(Tree::Quarantine, "").unwrap().len() == count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{:?} instead of {count}", store.keys(Tree::Quarantine, "").unwrap());
}

fn days(count: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * count)
}

#[tokio::test]
async fn an_entry_counts_for_its_pipeline_and_version_and_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (store, now) = (open_store(&folder), Timestamp::now());
    let quarantine = Quarantine::open_as(store.clone(), "1", now);
    quarantine.record(fault("f_bad", "1", now));
    assert!(quarantine.is_quarantined(&key("f_bad", "1")), "at once");
    assert!(!quarantine.is_quarantined(&key("f_good", "1")));
    assert!(!quarantine.is_quarantined(&key("f_bad", "2")), "another version tries again");
    let probe = QuarantineKey { stage: Stage::Probe, ..key("f_bad", "1") };
    let with_text = QuarantineKey { pipeline: "segment-with-text".into(), ..key("f_bad", "1") };
    assert!(!quarantine.is_quarantined(&probe) && !quarantine.is_quarantined(&with_text));
    wait_for_stored(&store, 1).await;
    assert!(Quarantine::open_as(store.clone(), "1", now + days(29)).is_quarantined(&key("f_bad", "1")));
    assert!(Quarantine::open_as(store.clone(), "1", now + days(31)).is_empty(), "another try after a month");
    let updated = Quarantine::open_as(store.clone(), "2", now);
    assert!(updated.is_empty());
    updated.cleanup_at(now).await.unwrap();
    wait_for_stored(&store, 0).await;
}

#[tokio::test]
async fn a_lifted_entry_is_gone_from_memory_and_store() {
    let folder = tempfile::tempdir().unwrap();
    let (store, now) = (open_store(&folder), Timestamp::now());
    let quarantine = Quarantine::open_as(store.clone(), "1", now);
    quarantine.record(fault("f_old", "1", now - days(1)));
    quarantine.record(fault("f_bad", "1", now));
    let listed = quarantine.list();
    let paths: Vec<&str> = listed.iter().map(|entry| entry.fault.path.as_str()).collect();
    assert_eq!(paths, ["/library/f_bad.mkv", "/library/f_old.mkv"], "the newest first");
    assert_eq!(listed[0].expires_at, now + days(30));
    // Its task may not have stored it yet.
    quarantine.lift(&listed[0].id).await.unwrap();
    assert!(!quarantine.is_quarantined(&key("f_bad", "1")));
    wait_for_stored(&store, 1).await;
    assert_eq!(Quarantine::open_as(store.clone(), "1", now).list().len(), 1);
    assert_eq!(quarantine.lift(&listed[0].id).await.unwrap_err().code, Code::NotFound);
    quarantine.cleanup_at(now + days(30)).await.unwrap();
    assert!(quarantine.is_empty());
    wait_for_stored(&store, 0).await;
}

#[tokio::test]
async fn entries_and_causes_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let (store, now) = (open_store(&folder), Timestamp::now());
    let quarantine = Quarantine::open_as(store.clone(), "1", now);
    {
        let mut entries = quarantine.entries();
        for number in 0..MAX_ENTRIES {
            let fault = fault(&format!("f_{number}"), "1", now - SignedDuration::from_secs(number as i64));
            entries.faults.insert(entry_id(&fault.key), fault);
        }
    }
    quarantine.record(ProvenFault { cause: "é".repeat(MAX_CAUSE_BYTES), ..fault("f_new", "1", now) });
    assert_eq!(quarantine.len(), MAX_ENTRIES);
    assert!(quarantine.is_quarantined(&key("f_new", "1")));
    assert!(!quarantine.is_quarantined(&key(&format!("f_{}", MAX_ENTRIES - 1), "1")), "the oldest is removed");
    let newest = quarantine.list().into_iter().find(|entry| entry.fault.key.fingerprint == "f_new").unwrap();
    assert_eq!(newest.fault.cause.len(), MAX_CAUSE_BYTES);
}
