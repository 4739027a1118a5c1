//! Group commit: one thread writes every change, and makes all that wait durable with one sync.
//!
//! A change goes into the journal first and is synced there with `fdatasync`; then into its tail, the same way; then into
//! the index, which is not waited for (sled's own `flush` ends in `sync_file_range`, which a power cut may undo: 200
//! flushes made 3 fsyncs, measured with 0.34.7); then it is acknowledged.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::index::Index;
use super::journal::{self, Appender, Draft};
use super::recover::{self, Opened};
use super::tail::Tail;
use super::tree::Tree;

/// Callers that may wait at once; the next one waits to wait.
const WAITING: usize = 1024;

/// Changes made durable with one sync at most.
const BATCH: usize = 512;

/// A journal is written anew when it is this long and this much longer than what it says.
const COMPACT_FROM_BYTES: u64 = 16 << 20;
const COMPACT_FACTOR: u64 = 4;

/// Between two tries to open an index again that failed.
const MEND_EVERY: Duration = Duration::from_secs(1);

/// What a waiter is told: durable and whether there was a record before, or why not.
pub type Outcome = Result<bool, String>;

/// The index as readers share it; None while it is opened again.
pub type Shared = Arc<RwLock<Option<Index>>>;

/// One change, and who waits for it.
pub struct Change {
    pub tree: Tree,
    pub key: String,
    /// None to remove.
    pub json: Option<Vec<u8>>,
    pub done: oneshot::Sender<Outcome>,
}

struct Committer {
    dir: PathBuf,
    index: Shared,
    journal: Appender,
    tail: Tail,
    last: u64,
    live: u64,
    live_bytes: u64,
    /// Disk space left alone, bytes.
    reserve: u64,
    /// No compaction below this length, after one that failed.
    compact_from: u64,
    failed_at: Option<Instant>,
}

/// Starts the committer. It ends when the sender is dropped.
pub fn start(
    dir: PathBuf,
    opened: Opened,
    reserve: u64,
) -> std::io::Result<(Shared, mpsc::Sender<Change>, JoinHandle<()>)> {
    let (waiting, mut queue) = mpsc::channel::<Change>(WAITING);
    let Opened { index, journal, tail, last, live, live_bytes } = opened;
    let index: Shared = Arc::new(RwLock::new(Some(index)));
    let shared = index.clone();
    let compact_from = COMPACT_FROM_BYTES;
    let mut committer =
        Committer { dir, index, journal, tail, last, live, live_bytes, reserve, compact_from, failed_at: None };
    let run = move || {
        while let Some(first) = queue.blocking_recv() {
            let mut batch = vec![first];
            while batch.len() < BATCH
                && let Ok(next) = queue.try_recv()
            {
                batch.push(next);
            }
            committer.commit(batch);
            committer.compact_if_worth();
            committer.restart_tail(false);
        }
        committer.restart_tail(true);
    };
    let thread = thread::Builder::new().name("store-commit".into()).spawn(run)?;
    Ok((shared, waiting, thread))
}

impl Committer {
    /// Makes a batch durable, and tells each waiter.
    fn commit(&mut self, batch: Vec<Change>) {
        if self.failed_at.is_some_and(|at| at.elapsed() > MEND_EVERY) {
            self.mend();
        }
        let refusal = self.failed_at.map(|_| "the index failed and could not be opened again yet".to_owned());
        let free = free_bytes(&self.dir);
        let mut lines = Vec::new();
        let mut accepted = Vec::with_capacity(batch.len());
        for change in batch {
            // What frees space may use a part of what is held back.
            let floor = if change.json.is_some() { self.reserve } else { self.reserve / 4 };
            let full = (free < floor).then(|| format!("{free} bytes are free, {floor} are held back"));
            if let Some(cause) = refusal.clone().or(full) {
                // A waiter that gave up needs no answer.
                let _ = change.done.send(Err(cause));
                continue;
            }
            let number = self.last + 1 + accepted.len() as u64;
            let begin = lines.len();
            journal::write(&mut lines, change.tree, &change.key, number, change.json.as_deref());
            let len = (lines.len() - begin) as u64;
            accepted.push((change, number, len));
        }
        if accepted.is_empty() {
            return;
        }
        if let Err(cause) = self.append(&lines) {
            tracing::error!(%cause, "the journal could not be written");
            for (change, ..) in accepted {
                let _ = change.done.send(Err(format!("journal: {cause}")));
            }
            return;
        }
        self.last += accepted.len() as u64;
        let index = self.index.clone();
        let index = index.read().unwrap_or_else(PoisonError::into_inner);
        let mut told = Vec::with_capacity(accepted.len());
        for (change, number, len) in accepted {
            let outcome = match index.as_ref() {
                Some(index) if self.failed_at.is_none() => index
                    .set(change.tree, &change.key, number, change.json.as_deref())
                    .map_err(|cause| cause.to_string()),
                _ => Err("the index failed".to_owned()),
            };
            let outcome = outcome.map(|before| {
                self.count(before, change.json.as_deref(), len);
                before.is_some()
            });
            if let Err(cause) = &outcome
                && self.failed_at.is_none()
            {
                tracing::error!(cause, "the index failed; the journal has everything");
                self.failed_at = Some(Instant::now());
            }
            told.push((change.done, outcome));
        }
        if let Some(index) = index.as_ref()
            && self.failed_at.is_none()
            && let Err(cause) = index.note(self.last)
        {
            tracing::error!(%cause, "the index failed; the journal has everything");
            self.failed_at = Some(Instant::now());
        }
        for (done, outcome) in told {
            let _ = done.send(outcome);
        }
    }

    /// Writes to journal and tail: to both, or as if to none.
    fn append(&mut self, lines: &[u8]) -> std::io::Result<()> {
        let before = self.journal.len;
        self.journal.append(lines)?;
        self.tail.append(lines).inspect_err(|_| self.journal.take_back(before))
    }

    fn restart_tail(&mut self, whatever: bool) {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        // An index that failed is not what the tail may rely on.
        if let Some(index) = index.as_ref().filter(|_| self.failed_at.is_none()) {
            self.tail.restart(index, whatever);
        }
    }

    fn count(&mut self, before: Option<usize>, json: Option<&[u8]>, len: u64) {
        if json.is_some() {
            self.live += u64::from(before.is_none());
            // A line is some bytes longer than the record it makes: near enough.
            self.live_bytes = self.live_bytes.saturating_sub(before.unwrap_or(0) as u64) + len;
        } else if let Some(before) = before {
            self.live = self.live.saturating_sub(1);
            self.live_bytes = self.live_bytes.saturating_sub(before as u64);
        }
    }

    /// Opens an index again that failed, with what the journal says.
    fn mend(&mut self) {
        self.failed_at = Some(Instant::now());
        if free_bytes(&self.dir) < self.reserve {
            return;
        }
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        // The old one first: there is one claim on its files.
        *index = None;
        match recover::open(&self.dir) {
            Ok(opened) => {
                *index = Some(opened.index);
                (self.journal, self.tail, self.last) = (opened.journal, opened.tail, opened.last);
                (self.live, self.live_bytes) = (opened.live, opened.live_bytes);
                self.failed_at = None;
                tracing::info!("the index was opened again");
            }
            Err(cause) => tracing::error!(%cause, "the index could not be opened again"),
        }
    }

    fn compact_if_worth(&mut self) {
        let len = self.journal.len;
        if len < self.compact_from || len < COMPACT_FACTOR * self.live_bytes || self.failed_at.is_some() {
            return;
        }
        match self.compact() {
            Ok(()) => {
                tracing::info!(before = len, after = self.journal.len, "the journal was written anew");
                self.compact_from = COMPACT_FROM_BYTES;
            }
            Err(cause) => {
                tracing::warn!(%cause, "the journal could not be written anew; it grows on");
                self.compact_from = len * 2;
            }
        }
    }

    /// Writes a journal of what there is now, in place of all that ever was. What the index cannot give is not thrown
    /// out of the journal: then nothing happens.
    fn compact(&mut self) -> Result<(), String> {
        if free_bytes(&self.dir) < self.reserve.saturating_add(2 * self.live_bytes) {
            return Err("there is no space for it".to_owned());
        }
        let text = |cause: std::io::Error| cause.to_string();
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let index = index.as_ref().ok_or("the index is not open")?;
        let held = index.check();
        if let Some(fault) = held.faults.first() {
            return Err(fault.clone());
        }
        if held.numbers.len() as u64 != self.live {
            return Err(format!("the index holds {} records of {}", held.numbers.len(), self.live));
        }
        // By number, so that an index made from it is made in order.
        let mut ids: Vec<_> = held.numbers.into_iter().collect();
        ids.sort_unstable_by_key(|(_, number)| *number);
        let mut draft = Draft::begin(&self.dir).map_err(text)?;
        for ((tree, key), number) in &ids {
            let (_, json) = index.get(*tree, key).ok_or("a record went away")?;
            draft.add(*tree, key, *number, Some(&json)).map_err(text)?;
        }
        let bytes = draft.bytes;
        draft.finish(&self.dir).map_err(text)?;
        self.journal = Appender::open(&self.dir.join("journal"), bytes).map_err(text)?;
        self.live_bytes = bytes;
        Ok(())
    }
}

/// Space a program without privileges may still use where `dir` lies, bytes; all there could be when nobody can tell.
pub fn free_bytes(dir: &std::path::Path) -> u64 {
    rustix::fs::statvfs(dir).map_or(u64::MAX, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}
