//! Group commit: one thread writes all changes, and makes every waiting change durable with one sync.
//!
//! A change is first appended to the journal and synced with `fdatasync`, then to the tail in the same way, then written to
//! the index, then acknowledged. The index is not synced: sled's `flush` ends in `sync_file_range`, which a power cut may
//! undo (200 flushes made 3 fsyncs, measured with 0.34.7).
//!
//! Once both files have a change, it is durable, whatever happens to the index. If the index fails, the change is
//! acknowledged all the same: readers get it from [`ReadView::unindexed`] until the state is reopened from its files. If one of the
//! files fails, both are truncated before the change is refused.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

use super::appender::Appender;
use super::batch::Edit;
use super::database::RemoteJournal;
use super::disk_space::free_bytes;
use super::draft::Draft;
use super::index::{Index, LAST_NUMBER_KEY};
use super::journal;
use super::recover::RecoveredState;
use super::tail::Tail;
use super::tree::Tree;
use crate::domain::histogram::Histogram;

mod copy;
#[cfg(feature = "cluster")]
pub mod follow;

/// Capacity of the queue of changes; further callers wait for room in it.
const MAX_WAITING: usize = 1024;

/// Most callers whose changes share one sync, and the bytes of JSON from which no further caller joins.
const MAX_GROUP_CALLERS: usize = 512;
const MAX_GROUP_BYTES: usize = 16 << 20;

/// A journal is compacted when it is this many times as long as its current records.
const COMPACT_FACTOR: u64 = 4;

/// First and longest pause between two attempts to reopen the state.
const MIN_REOPEN_PAUSE: Duration = Duration::from_millis(250);
const MAX_REOPEN_PAUSE: Duration = Duration::from_secs(30);

/// Interval at which the committer polls its queue while the state is not open.
const FAILED_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How long truncation is retried after a failed append, and the pause between two attempts. After that the outcome
/// is reported as unknown.
const TRUNCATE_TIMEOUT: Duration = Duration::from_secs(10);
const TRUNCATE_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Sizes that tests change.
#[derive(Clone, Copy)]
pub struct StoreSizes {
    /// Free disk space below which writes are refused, bytes.
    pub reserve_bytes: u64,
    /// Length below which the journal is not compacted, bytes.
    pub compact_from_bytes: u64,
}

/// Why a change is not acknowledged.
#[derive(Clone, Debug)]
pub enum CommitError {
    /// It is in no file, so it does not appear after a restart.
    Refused(String),
    /// The disk failed during the write and again during the truncation: the change may appear after a restart.
    OutcomeUnknown(String),
    /// The database cannot be reached; it does not have the change.
    #[cfg_attr(not(feature = "cluster"), allow(dead_code, reason = "there is no database"))]
    Unavailable(String),
}

/// Reply to a caller: the change is durable, and whether a record existed before.
pub type CommitResult = Result<bool, CommitError>;

/// The state that readers see.
pub struct ReadView {
    /// `None` while the state is being reopened.
    pub index: Option<Index>,
    /// Acknowledged changes that are missing from the index until it is reopened; `None` is a removal.
    pub unindexed: BTreeMap<(Tree, String), Option<Vec<u8>>>,
}

pub type SharedView = Arc<RwLock<ReadView>>;

/// Changes of one caller, made together or not at all.
pub struct PendingChange {
    /// Empty to learn whether the committer answers.
    pub edits: Vec<Edit>,
    pub reply: oneshot::Sender<CommitResult>,
}

impl PendingChange {
    fn bytes(&self) -> usize {
        self.edits.iter().filter_map(|edit| edit.json.as_ref()).map(Vec::len).sum()
    }
}

/// A change with the number of its first edit and the length of its line in bytes.
struct NumberedChange {
    change: PendingChange,
    first_number: u64,
    line_bytes: u64,
}

/// The two files that changes are appended to.
struct JournalFiles {
    journal: Appender,
    tail: Tail,
}

/// Writes the changes of an open state; the only one that does.
pub struct Committer {
    dir: PathBuf,
    view: SharedView,
    /// `None` from a failure until the state is reopened: the open files may no longer be those in the folder.
    files: Option<JournalFiles>,
    last_number: u64,
    live_records: u64,
    live_bytes: u64,
    sizes: StoreSizes,
    /// Length below which the journal is not compacted, bytes; raised after a failed compaction.
    compact_from_bytes: u64,
    reopen_at: Instant,
    reopen_pause: Duration,
    times: Arc<Histogram>,
    /// The database that has the state, if the folder is a copy of one.
    remote: Option<RemoteJournal>,
}

impl Committer {
    /// Takes files that are open.
    pub fn new(dir: PathBuf, opened: RecoveredState, sizes: StoreSizes, times: Arc<Histogram>) -> (Self, SharedView) {
        let RecoveredState { index, journal, tail, last_number, live_records, live_bytes, lost_records: _ } = opened;
        let view: SharedView = Arc::new(RwLock::new(ReadView { index: Some(index), unindexed: BTreeMap::new() }));
        let committer = Self {
            dir,
            view: view.clone(),
            files: Some(JournalFiles { journal, tail }),
            last_number,
            live_records,
            live_bytes,
            sizes,
            compact_from_bytes: sizes.compact_from_bytes,
            reopen_at: Instant::now(),
            reopen_pause: MIN_REOPEN_PAUSE,
            times,
            remote: None,
        };
        (committer, view)
    }

    /// Starts the thread, which ends when the sender is dropped.
    pub fn start(mut self) -> std::io::Result<(mpsc::Sender<PendingChange>, JoinHandle<()>)> {
        let (sender, mut receiver) = mpsc::channel::<PendingChange>(MAX_WAITING);
        let run = move || {
            while let Some(first) = self.next_change(&mut receiver) {
                let mut bytes = first.bytes();
                let mut group = vec![first];
                while group.len() < MAX_GROUP_CALLERS
                    && bytes < MAX_GROUP_BYTES
                    && let Ok(next) = receiver.try_recv()
                {
                    bytes += next.bytes();
                    group.push(next);
                }
                self.commit(group);
                self.shorten_files();
                self.reopen_if_due();
            }
            self.restart_tail(true);
        };
        Ok((sender, thread::Builder::new().name("store-commit".into()).spawn(run)?))
    }

    /// Keeps journal and tail short.
    fn shorten_files(&mut self) {
        self.compact_if_worthwhile();
        self.restart_tail(false);
    }

    /// Waits for a change; after a failure, tries to reopen the state meanwhile.
    fn next_change(&mut self, receiver: &mut mpsc::Receiver<PendingChange>) -> Option<PendingChange> {
        loop {
            match (self.files.is_some(), self.remote.as_mut()) {
                (true, None) => return receiver.blocking_recv(),
                (true, Some(remote)) => {
                    if let Ok(change) = remote.next(receiver) {
                        return change;
                    }
                    self.check_database();
                    continue;
                }
                (false, _) => {}
            }
            match receiver.try_recv() {
                Ok(change) => return Some(change),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => thread::sleep(FAILED_POLL_INTERVAL),
            }
            self.reopen_if_due();
        }
    }

    /// Makes a group of changes durable and replies to each caller: numbers the changes, appends them to journal and tail, and
    /// writes them to the index.
    fn commit(&mut self, group: Vec<PendingChange>) {
        self.commit_group(group, false);
    }

    /// Commits a group; the files alone get one that is already in the database.
    fn commit_group(&mut self, group: Vec<PendingChange>, is_in_database: bool) {
        let available = free_bytes(&self.dir);
        let (mut lines, mut accepted, mut last_number) = (Vec::new(), Vec::new(), self.last_number);
        for change in group {
            if change.edits.is_empty() {
                let _ = change.reply.send(Ok(false));
                continue;
            }
            // A removal will free space, so it may use part of the reserve.
            let has_writes = change.edits.iter().any(|edit| edit.json.is_some());
            let required = if has_writes { self.sizes.reserve_bytes } else { self.sizes.reserve_bytes / 4 };
            // A copy must not lack a change that the database has.
            let required = if is_in_database { 0 } else { required };
            if self.files.is_none() || available < required {
                self.refuse(change, available, required);
                continue;
            }
            let (first_number, begin) = (last_number + 1, lines.len());
            last_number += change.edits.len() as u64;
            journal::write_change(&mut lines, first_number, &change.edits);
            accepted.push(NumberedChange { change, first_number, line_bytes: (lines.len() - begin) as u64 });
        }
        let Some(files) = self.files.as_mut().filter(|_| !accepted.is_empty()) else { return };
        let (journal_len, tail_len, began) = (files.journal.len, files.tail.file.len, Instant::now());
        let mut has_failed_copy = false;
        if let Some(remote) = self.remote.as_mut().filter(|_| !is_in_database) {
            let edits: Vec<&Edit> = accepted.iter().flat_map(|accepted| &accepted.change.edits).collect();
            if let Err(refusal) = remote.commit(self.last_number, &edits) {
                for NumberedChange { change, .. } in accepted {
                    let _ = change.reply.send(Err(refusal.clone()));
                }
                return;
            }
        }
        if let Err(cause) = files.journal.append(&lines).and_then(|()| files.tail.file.append(&lines)) {
            if self.remote.is_none() {
                return self.undo_append(&cause, journal_len, tail_len, accepted);
            }
            // The database has the changes: the copy gets them when it is reopened.
            tracing::error!(%cause, "the copy of the database could not be written");
            has_failed_copy = true;
        }
        if !is_in_database {
            self.times.record(began.elapsed());
        }
        self.last_number = last_number;
        let view = self.view.clone();
        let view = read_lock(&view);
        let is_usable = view.index.is_some() && !has_failed_copy;
        let mut fault = (!is_usable).then(|| "it is not open".to_owned());
        let (mut replies, mut missed_edits) = (Vec::with_capacity(accepted.len()), Vec::new());
        for NumberedChange { change: PendingChange { edits, reply }, first_number, line_bytes } in accepted {
            let (mut existed, bytes_per_edit) = (false, line_bytes / edits.len() as u64);
            for (Edit { tree, key, json }, number) in edits.into_iter().zip(first_number..) {
                let index = view.index.as_ref().filter(|_| fault.is_none());
                match index.map(|index| index.set(tree, &key, number, json.as_deref())) {
                    Some(Ok(former)) => {
                        // An estimate: a line is a few bytes longer than its record in the index.
                        let (records, bytes) = if json.is_some() { (1, bytes_per_edit) } else { (0, 0) };
                        self.live_records = (self.live_records + records).saturating_sub(u64::from(former.is_some()));
                        self.live_bytes = self.live_bytes.saturating_sub(former.unwrap_or(0) as u64) + bytes;
                        existed |= former.is_some();
                    }
                    outcome => {
                        fault = fault.or_else(|| Some(outcome?.err()?.to_string()));
                        missed_edits.push(((tree, key), json));
                        // Only removals use this, and their record was found before they were queued.
                        existed = true;
                    }
                }
            }
            replies.push((reply, existed));
        }
        if let Some(index) = view.index.as_ref().filter(|_| fault.is_none()) {
            let stored = index.set(Tree::Meta, LAST_NUMBER_KEY, last_number, Some(b"0"));
            fault = stored.err().map(|cause| cause.to_string());
        }
        drop(view);
        if let Some(fault) = fault {
            tracing::error!(fault, "the index failed; the change is durable");
            self.view.write().unwrap_or_else(PoisonError::into_inner).unindexed.extend(missed_edits);
            self.enter_failed_state();
        }
        for (reply, existed) in replies {
            let _ = reply.send(Ok(existed));
        }
    }

    /// Refuses a change before it is written anywhere.
    fn refuse(&self, change: PendingChange, available: u64, required: u64) {
        let cause = match self.files {
            None => "the state is being reopened after a failure".to_owned(),
            Some(_) => format!("{available} bytes of disk are free, {required} are required"),
        };
        // The caller may have gone: then nothing needs the reply.
        let _ = change.reply.send(Err(CommitError::Refused(cause)));
    }

    /// Truncates both files after a failed append, and refuses its changes. While a file still has the lines, a restart would
    /// apply the changes, so no caller gets a reply before.
    fn undo_append(&mut self, cause: &std::io::Error, journal_len: u64, tail_len: u64, changes: Vec<NumberedChange>) {
        tracing::error!(%cause, "the journal could not be written");
        let files = self.files.as_mut().expect("changes are accepted only while the files are open");
        let deadline = Instant::now() + TRUNCATE_TIMEOUT;
        let answer = loop {
            let (tail, journal) = (files.tail.file.truncate(tail_len), files.journal.truncate(journal_len));
            match tail.and(journal) {
                Ok(()) => break CommitError::Refused(format!("journal: {cause}")),
                Err(fault) if Instant::now() > deadline => {
                    tracing::error!(%fault, "a partial write could not be truncated");
                    self.enter_failed_state();
                    break CommitError::OutcomeUnknown(format!("journal: {cause}; truncating it: {fault}"));
                }
                Err(_) => thread::sleep(TRUNCATE_RETRY_INTERVAL),
            }
        };
        for NumberedChange { change, .. } in changes {
            let _ = change.reply.send(Err(answer.clone()));
        }
    }

    /// Refuses all changes until the state is reopened.
    fn enter_failed_state(&mut self) {
        self.files = None;
        (self.reopen_at, self.reopen_pause) = (Instant::now(), MIN_REOPEN_PAUSE);
    }

    /// Empties the tail once it is long, or at once with `force`.
    fn restart_tail(&mut self, force: bool) {
        let (view, Some(files)) = (self.view.clone(), self.files.as_mut()) else { return };
        let view = read_lock(&view);
        if let Some(Err(cause)) = view.index.as_ref().map(|index| files.tail.restart(index, force)) {
            tracing::error!(%cause, "the journal's tail could not be restarted");
            self.enter_failed_state();
        }
    }

    /// After a failure, reopens the state from its files, as at a start.
    fn reopen_if_due(&mut self) {
        if self.files.is_some() || Instant::now() < self.reopen_at || free_bytes(&self.dir) < self.sizes.reserve_bytes {
            return;
        }
        // Readers are not kept waiting: closing and opening take seconds on a failing disk. Only this thread writes to the
        // files and to `unindexed`, so nothing changes meanwhile.
        let old = self.view.write().unwrap_or_else(PoisonError::into_inner).index.take();
        // The old index is closed first, because sled locks its files.
        drop(old);
        match self.reopen() {
            Ok(opened) => {
                let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
                view.index = Some(opened.index);
                view.unindexed.clear();
                drop(view);
                self.files = Some(JournalFiles { journal: opened.journal, tail: opened.tail });
                (self.last_number, self.live_records, self.live_bytes) =
                    (opened.last_number, opened.live_records, opened.live_bytes);
                tracing::info!("the state was reopened");
            }
            Err(cause) => {
                tracing::error!(%cause, "the state could not be reopened");
                self.reopen_at = Instant::now() + self.reopen_pause;
                self.reopen_pause = (self.reopen_pause * 2).min(MAX_REOPEN_PAUSE);
            }
        }
    }

    fn compact_if_worthwhile(&mut self) {
        let Some(len) = self.files.as_ref().map(|files| files.journal.len) else { return };
        if len < self.compact_from_bytes || len < COMPACT_FACTOR * self.live_bytes {
            return;
        }
        match self.compact() {
            Ok(after) => {
                tracing::info!(before = len, after, "the journal was compacted");
                self.compact_from_bytes = self.sizes.compact_from_bytes;
                // The journal no longer contains removals, so the tail must not either; the index is synced.
                self.restart_tail(true);
            }
            Err(cause) => {
                tracing::warn!(cause, "the journal could not be compacted");
                self.compact_from_bytes = len * 2;
            }
        }
    }

    /// Replaces the journal with one of the current records only; returns its length. If the index lacks a record or cannot
    /// read it, nothing is replaced.
    fn compact(&mut self) -> Result<u64, String> {
        if free_bytes(&self.dir) < self.sizes.reserve_bytes.saturating_add(2 * self.live_bytes) {
            return Err("there is not enough disk space".to_owned());
        }
        let to_text = |cause: std::io::Error| cause.to_string();
        let view = self.view.clone();
        let view = read_lock(&view);
        let index = view.index.as_ref().ok_or("the index is not open")?;
        let contents = index.verify().map_err(|fault| fault.to_string())?;
        if let Some(fault) = contents.faults.first() {
            return Err(fault.clone());
        }
        if contents.numbers.len() as u64 != self.live_records {
            return Err(format!("the index has {} records instead of {}", contents.numbers.len(), self.live_records));
        }
        // The new journal has no removals, so the index that knows them must be on disk first.
        index.sync()?;
        // Ordered by number, so that an index rebuilt from the journal is written in order.
        let mut ids: Vec<_> = contents.numbers.into_iter().collect();
        ids.sort_unstable_by_key(|(_, number)| *number);
        let mut draft = Draft::begin(&self.dir).map_err(to_text)?;
        for ((tree, key), number) in &ids {
            let record = index.get(*tree, key).map_err(|fault| fault.to_string())?;
            let (_, json) = record.ok_or("a record is missing from the index")?;
            draft.add_record(*tree, key, *number, Some(&json)).map_err(to_text)?;
        }
        let bytes = draft.bytes;
        let complete = draft.complete().map_err(to_text)?;
        match (complete.replace_journal(&self.dir), self.files.as_mut()) {
            (Ok(journal), Some(files)) => {
                files.journal = journal;
                self.live_bytes = bytes;
                Ok(bytes)
            }
            (replaced, _) => {
                // Which journal is in place is unknown until the state is reopened.
                self.enter_failed_state();
                Err(replaced.err().map_or_else(|| "the journal is not open".to_owned(), to_text))
            }
        }
    }
}

fn read_lock(view: &SharedView) -> RwLockReadGuard<'_, ReadView> {
    view.read().unwrap_or_else(PoisonError::into_inner)
}
