//! Group commit: one thread writes all changes, and makes every waiting change durable with one sync.
//!
//! A change is first appended to the journal and synced with `fdatasync`, then to the tail in the same way, then written to
//! the index, then acknowledged. The index is not synced: sled's `flush` ends in `sync_file_range`, which a power cut may
//! undo (200 flushes made 3 fsyncs, measured with 0.34.7).
//!
//! Once both files have a change, it is durable, whatever happens to the index. If the index fails, the change is
//! acknowledged all the same: readers get it from [`View::ahead`] until the state is reopened from its files. If one of the
//! files fails, both are truncated before the change is refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

use super::appender::Appender;
use super::batch::Edit;
use super::draft::Draft;
use super::index::Index;
use super::journal;
use super::recover::{self, Opened};
use super::tail::Tail;
use super::tree::Tree;

/// Capacity of the queue of changes; further callers wait for room in it.
const WAITING: usize = 1024;

/// Most callers whose changes share one sync, and the bytes of JSON from which no further caller joins.
const GROUP: usize = 512;
const GROUP_BYTES: usize = 16 << 20;

/// A journal is compacted when it is this many times as long as its current records.
const COMPACT_FACTOR: u64 = 4;

/// First and longest pause between two attempts to reopen the state.
const HEAL_FIRST: Duration = Duration::from_millis(250);
const HEAL_LAST: Duration = Duration::from_secs(30);

/// Interval at which the committer polls its queue while the state is not open.
const FAILED_POLL: Duration = Duration::from_millis(20);

/// How long truncation is retried after a failed append, and the pause between two attempts. After that the outcome
/// is reported as unknown.
const TAKE_BACK: Duration = Duration::from_secs(10);
const TAKE_BACK_EVERY: Duration = Duration::from_millis(20);

/// Sizes that tests change.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// Free disk space below which writes are refused, bytes.
    pub reserve: u64,
    /// Length below which the journal is not compacted, bytes.
    pub compact_from: u64,
}

/// Why a change is not acknowledged.
#[derive(Debug)]
pub enum NotStored {
    /// It is in no file, so it does not appear after a restart.
    Refused(String),
    /// The disk failed during the write and again during the truncation: the change may appear after a restart.
    Unknown(String),
}

/// Reply to a caller: the change is durable, and whether a record existed before.
pub type Outcome = Result<bool, NotStored>;

/// The state that readers see.
pub struct View {
    /// `None` while the state is being reopened.
    pub index: Option<Index>,
    /// Acknowledged changes that are missing from the index until it is reopened; `None` is a removal.
    pub ahead: BTreeMap<(Tree, String), Option<Vec<u8>>>,
}

pub type Shared = Arc<RwLock<View>>;

/// Changes of one caller, made together or not at all.
pub struct Change {
    /// Never empty.
    pub edits: Vec<Edit>,
    pub done: oneshot::Sender<Outcome>,
}

impl Change {
    fn bytes(&self) -> usize {
        self.edits.iter().filter_map(|edit| edit.json.as_ref()).map(Vec::len).sum()
    }
}

/// A change with the number of its first edit and the length of its line in bytes.
struct Numbered {
    change: Change,
    number: u64,
    len: u64,
}

/// The two files that changes are appended to.
struct Files {
    journal: Appender,
    tail: Tail,
}

struct Committer {
    dir: PathBuf,
    view: Shared,
    /// `None` from a failure until the state is reopened: the open files may no longer be those in the folder.
    files: Option<Files>,
    last: u64,
    live: u64,
    live_bytes: u64,
    sizes: Sizes,
    /// Length below which the journal is not compacted, bytes; raised after a failed compaction.
    compact_from: u64,
    heal_at: Instant,
    heal_pause: Duration,
}

/// Starts the committer thread. It ends when the sender is dropped.
pub fn start(
    dir: PathBuf,
    opened: Opened,
    sizes: Sizes,
) -> std::io::Result<(Shared, mpsc::Sender<Change>, JoinHandle<()>)> {
    let (waiting, mut queue) = mpsc::channel::<Change>(WAITING);
    let Opened { index, journal, tail, last, live, live_bytes, lost: _ } = opened;
    let view: Shared = Arc::new(RwLock::new(View { index: Some(index), ahead: BTreeMap::new() }));
    let shared = view.clone();
    let mut committer = Committer {
        dir,
        view,
        files: Some(Files { journal, tail }),
        last,
        live,
        live_bytes,
        sizes,
        compact_from: sizes.compact_from,
        heal_at: Instant::now(),
        heal_pause: HEAL_FIRST,
    };
    let run = move || {
        while let Some(first) = committer.next(&mut queue) {
            let mut bytes = first.bytes();
            let mut group = vec![first];
            while group.len() < GROUP
                && bytes < GROUP_BYTES
                && let Ok(next) = queue.try_recv()
            {
                bytes += next.bytes();
                group.push(next);
            }
            committer.commit(group);
            committer.compact_if_worth();
            committer.restart_tail(false);
            committer.heal_if_due();
        }
        committer.restart_tail(true);
    };
    let thread = thread::Builder::new().name("store-commit".into()).spawn(run)?;
    Ok((shared, waiting, thread))
}

impl Committer {
    /// Waits for a change; after a failure, tries to reopen the state meanwhile.
    fn next(&mut self, queue: &mut mpsc::Receiver<Change>) -> Option<Change> {
        loop {
            if self.files.is_some() {
                return queue.blocking_recv();
            }
            match queue.try_recv() {
                Ok(change) => return Some(change),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => thread::sleep(FAILED_POLL),
            }
            self.heal_if_due();
        }
    }

    /// Makes a group of changes durable and replies to each caller.
    fn commit(&mut self, group: Vec<Change>) {
        let failed = self.files.is_none().then(|| "the state is being reopened after a failure".to_owned());
        let free = free_bytes(&self.dir);
        let mut lines = Vec::new();
        let (mut accepted, mut last) = (Vec::with_capacity(group.len()), self.last);
        for change in group {
            // A removal will free space, so it may use part of the reserve.
            let grows = change.edits.iter().any(|edit| edit.json.is_some());
            let floor = if grows { self.sizes.reserve } else { self.sizes.reserve / 4 };
            let full = (free < floor).then(|| format!("{free} bytes of disk are free, {floor} are required"));
            if let Some(cause) = failed.clone().or(full) {
                // The caller may have gone: then nothing needs the reply.
                let _ = change.done.send(Err(NotStored::Refused(cause)));
                continue;
            }
            let (number, begin) = (last + 1, lines.len());
            last += change.edits.len() as u64;
            match &*change.edits {
                [Edit { tree, key, json }] => journal::write(&mut lines, *tree, key, number, json.as_deref()),
                edits => journal::write_batch(&mut lines, number, edits),
            }
            accepted.push(Numbered { change, number, len: (lines.len() - begin) as u64 });
        }
        if accepted.is_empty() {
            return;
        }
        if let Err(fault) = self.append(&lines) {
            for Numbered { change, .. } in accepted {
                let _ = change.done.send(Err(match &fault {
                    NotStored::Refused(cause) => NotStored::Refused(cause.clone()),
                    NotStored::Unknown(cause) => NotStored::Unknown(cause.clone()),
                }));
            }
            return;
        }
        self.last = last;
        self.apply(accepted);
    }

    /// Appends to both journal and tail, or to neither.
    fn append(&mut self, lines: &[u8]) -> Result<(), NotStored> {
        let files = self.files.as_mut().expect("changes are accepted only while the files are open");
        let (journal, tail) = (files.journal.len, files.tail.len());
        let Err(cause) = files.journal.append(lines).and_then(|()| files.tail.append(lines)) else { return Ok(()) };
        tracing::error!(%cause, "the journal could not be written");
        // While a file still has the lines, a restart would apply the changes, so no caller gets a reply yet.
        let deadline = Instant::now() + TAKE_BACK;
        loop {
            let (one, other) = (files.tail.take_back(tail), files.journal.take_back(journal));
            match one.and(other) {
                Ok(()) => return Err(NotStored::Refused(format!("journal: {cause}"))),
                Err(fault) if Instant::now() > deadline => {
                    tracing::error!(%fault, "a partial write could not be truncated");
                    self.fail();
                    return Err(NotStored::Unknown(format!("journal: {cause}; truncating it: {fault}")));
                }
                Err(_) => thread::sleep(TAKE_BACK_EVERY),
            }
        }
    }

    /// Writes durable changes to the index and replies to their callers.
    fn apply(&mut self, accepted: Vec<Numbered>) {
        let view = self.view.clone();
        let view = read(&view);
        let mut fault = view.index.is_none().then(|| "it is not open".to_owned());
        let (mut answers, mut missed) = (Vec::with_capacity(accepted.len()), Vec::new());
        for Numbered { change: Change { edits, done }, number, len } in accepted {
            let (mut existed, len) = (false, len / edits.len() as u64);
            for (Edit { tree, key, json }, number) in edits.into_iter().zip(number..) {
                let set = match &view.index {
                    Some(index) if fault.is_none() => index.set(tree, &key, number, json.as_deref()),
                    _ => Ok(None),
                };
                match set {
                    Ok(before) if fault.is_none() => {
                        self.count(before, json.as_deref(), len);
                        existed |= before.is_some();
                    }
                    outcome => {
                        fault = fault.or_else(|| outcome.err().map(|cause| cause.to_string()));
                        missed.push(((tree, key), json));
                        // Only removals use this, and their record was found before they were queued.
                        existed = true;
                    }
                }
            }
            answers.push((done, existed));
        }
        if let Some(index) = view.index.as_ref().filter(|_| fault.is_none()) {
            fault = index.note(self.last).err().map(|cause| cause.to_string());
        }
        drop(view);
        if let Some(fault) = fault {
            tracing::error!(fault, "the index failed; the journal is complete");
            self.view.write().unwrap_or_else(PoisonError::into_inner).ahead.extend(missed);
            self.fail();
        }
        for (done, before) in answers {
            let _ = done.send(Ok(before));
        }
    }

    /// Refuses all changes until the state is reopened.
    fn fail(&mut self) {
        self.files = None;
        (self.heal_at, self.heal_pause) = (Instant::now(), HEAL_FIRST);
    }

    /// Empties the tail once it is long, or at once with `always`.
    fn restart_tail(&mut self, always: bool) {
        let (view, Some(files)) = (self.view.clone(), self.files.as_mut()) else { return };
        let view = read(&view);
        if let Some(Err(cause)) = view.index.as_ref().map(|index| files.tail.restart(index, always)) {
            tracing::error!(%cause, "the journal's tail could not be restarted");
            self.fail();
        }
    }

    /// Updates the number and the bytes of the current records after a change.
    fn count(&mut self, before: Option<usize>, json: Option<&[u8]>, len: u64) {
        if json.is_some() {
            self.live += u64::from(before.is_none());
            // An estimate: a line is a few bytes longer than its record in the index.
            self.live_bytes = self.live_bytes.saturating_sub(before.unwrap_or(0) as u64) + len;
        } else if let Some(before) = before {
            self.live = self.live.saturating_sub(1);
            self.live_bytes = self.live_bytes.saturating_sub(before as u64);
        }
    }

    /// After a failure, reopens the state from its files, as at a start.
    fn heal_if_due(&mut self) {
        if self.files.is_some() || Instant::now() < self.heal_at || free_bytes(&self.dir) < self.sizes.reserve {
            return;
        }
        // Readers are not kept waiting: closing and opening take seconds on a failing disk. Only this thread writes to the
        // files and to `ahead`, so nothing changes meanwhile.
        let old = self.view.write().unwrap_or_else(PoisonError::into_inner).index.take();
        // The old index is closed first, because sled locks its files.
        drop(old);
        match recover::open(&self.dir) {
            Ok(opened) => {
                let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
                view.index = Some(opened.index);
                view.ahead.clear();
                drop(view);
                self.files = Some(Files { journal: opened.journal, tail: opened.tail });
                (self.last, self.live, self.live_bytes) = (opened.last, opened.live, opened.live_bytes);
                tracing::info!("the state was reopened");
            }
            Err(cause) => {
                tracing::error!(%cause, "the state could not be reopened");
                self.heal_at = Instant::now() + self.heal_pause;
                self.heal_pause = (self.heal_pause * 2).min(HEAL_LAST);
            }
        }
    }

    fn compact_if_worth(&mut self) {
        let Some(len) = self.files.as_ref().map(|files| files.journal.len) else { return };
        if len < self.compact_from || len < COMPACT_FACTOR * self.live_bytes {
            return;
        }
        match self.compact() {
            Ok(after) => {
                tracing::info!(before = len, after, "the journal was compacted");
                self.compact_from = self.sizes.compact_from;
                // The journal no longer contains removals, so the tail must not either; the index is synced.
                self.restart_tail(true);
            }
            Err(cause) => {
                tracing::warn!(cause, "the journal could not be compacted");
                self.compact_from = len * 2;
            }
        }
    }

    /// Replaces the journal with one of the current records only; returns its length. If the index lacks a record or cannot
    /// read it, nothing is replaced.
    fn compact(&mut self) -> Result<u64, String> {
        if free_bytes(&self.dir) < self.sizes.reserve.saturating_add(2 * self.live_bytes) {
            return Err("there is not enough disk space".to_owned());
        }
        let text = |cause: std::io::Error| cause.to_string();
        let view = self.view.clone();
        let view = read(&view);
        let index = view.index.as_ref().ok_or("the index is not open")?;
        let held = index.check().map_err(|fault| fault.to_string())?;
        if let Some(fault) = held.faults.first() {
            return Err(fault.clone());
        }
        if held.numbers.len() as u64 != self.live {
            return Err(format!("the index has {} records instead of {}", held.numbers.len(), self.live));
        }
        // The new journal has no removals, so the index that knows them must be on disk first.
        index.sync()?;
        // Ordered by number, so that an index rebuilt from the journal is written in order.
        let mut ids: Vec<_> = held.numbers.into_iter().collect();
        ids.sort_unstable_by_key(|(_, number)| *number);
        let mut draft = Draft::begin(&self.dir).map_err(text)?;
        for ((tree, key), number) in &ids {
            let record = index.get(*tree, key).map_err(|fault| fault.to_string())?;
            let (_, json) = record.ok_or("a record is missing from the index")?;
            draft.add(*tree, key, *number, Some(&json)).map_err(text)?;
        }
        let bytes = draft.bytes;
        let complete = draft.complete().map_err(text)?;
        match (complete.replace(&self.dir), self.files.as_mut()) {
            (Ok(journal), Some(files)) => {
                files.journal = journal;
                self.live_bytes = bytes;
                Ok(bytes)
            }
            (replaced, _) => {
                // Which journal is in place is unknown until the state is reopened.
                self.fail();
                Err(replaced.err().map_or_else(|| "the journal is not open".to_owned(), text))
            }
        }
    }
}

fn read(view: &Shared) -> RwLockReadGuard<'_, View> {
    view.read().unwrap_or_else(PoisonError::into_inner)
}

/// Disk space available to an unprivileged program in `dir`, bytes; `u64::MAX` if the system does not report it.
pub fn free_bytes(dir: &Path) -> u64 {
    rustix::fs::statvfs(dir).map_or(u64::MAX, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}
