//! Writes the records of sessions in the background, so that no request waits for the disk.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use super::{SessionRegistry, lock};
use crate::error::Result;
use crate::service::background_tasks::BackgroundTasks;
use crate::store::{Batch, Store, Tree};

/// Records written in one batch.
const BATCH_RECORDS: usize = 64;

/// When a change that the store refused is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// The latest change of a record that is not stored yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PendingChange {
    Save,
    /// Final: ids are not used again.
    Remove,
}

/// The changes that are not stored yet. One task writes them, one batch after the other, so that no removal is overtaken; it
/// ends when all are written.
#[derive(Default)]
struct PendingChanges {
    changes: BTreeMap<String, PendingChange>,
    is_writing: bool,
}

/// Writes the records of sessions. Clones share the pending changes.
#[derive(Clone)]
pub(super) struct RecordWriter {
    store: Store,
    tasks: BackgroundTasks,
    registry: Weak<Mutex<SessionRegistry>>,
    pending: Arc<Mutex<PendingChanges>>,
}

impl RecordWriter {
    /// A writer for the sessions of `registry`.
    pub(super) fn new(store: Store, tasks: BackgroundTasks, registry: &Arc<Mutex<SessionRegistry>>) -> Self {
        Self { store, tasks, registry: Arc::downgrade(registry), pending: Arc::default() }
    }

    /// Stores a live session as it is by the time of the write.
    pub(super) fn save(&self, session_id: &str) {
        self.add(session_id, PendingChange::Save);
    }

    /// Removes the record of a session that has ended.
    pub(super) fn remove(&self, session_id: &str) {
        self.add(session_id, PendingChange::Remove);
    }

    fn add(&self, session_id: &str, change: PendingChange) {
        let mut pending = lock(&self.pending);
        merge(&mut pending.changes, session_id.to_owned(), change);
        if !std::mem::replace(&mut pending.is_writing, true) {
            let writer = self.clone();
            self.tasks.spawn_graceful(async move { writer.run().await });
        }
    }

    /// Writes until nothing is pending. At shutdown each change is tried once more.
    async fn run(self) {
        let stop = self.tasks.stop_token();
        loop {
            let batch: BTreeMap<String, PendingChange> = {
                let mut pending = lock(&self.pending);
                if pending.changes.is_empty() {
                    pending.is_writing = false;
                    return;
                }
                let keys: Vec<String> = pending.changes.keys().take(BATCH_RECORDS).cloned().collect();
                keys.into_iter().filter_map(|key| pending.changes.remove_entry(&key)).collect()
            };
            let is_last_attempt = stop.is_cancelled();
            if let Err(error) = self.write(&batch).await
                && !is_last_attempt
            {
                tracing::warn!(%error, sessions = batch.len(), "sessions were not stored, and are tried again");
                {
                    let mut pending = lock(&self.pending);
                    let newer = std::mem::replace(&mut pending.changes, batch);
                    newer.into_iter().for_each(|(id, change)| merge(&mut pending.changes, id, change));
                }
                let _ = tokio::time::timeout(RETRY_INTERVAL, stop.cancelled()).await;
            }
        }
    }

    async fn write(&self, changes: &BTreeMap<String, PendingChange>) -> Result<()> {
        let mut batch = Batch::default();
        for (id, change) in changes {
            match change {
                PendingChange::Remove => batch.delete(Tree::Sessions, id)?,
                PendingChange::Save => {
                    // One that has ended meanwhile is removed next.
                    let session = self.registry.upgrade().and_then(|registry| lock(&registry).live.get(id).cloned());
                    if let Some(session) = session.filter(|session| session.is_live()) {
                        batch.put(Tree::Sessions, id, &session.to_record())?;
                    }
                }
            }
        }
        self.store.write(batch).await.map(drop)
    }
}

fn merge(changes: &mut BTreeMap<String, PendingChange>, id: String, change: PendingChange) {
    let latest = changes.entry(id).or_insert(change);
    if change == PendingChange::Remove {
        *latest = change;
    }
}
