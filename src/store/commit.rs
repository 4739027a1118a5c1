//! Group commit: one thread writes every change, and makes all that wait durable with one sync.
//!
//! A change is appended to the journal and synced there with `fdatasync`; then to its tail, the same way; then it is
//! written to the index, which is not waited for (sled's own `flush` ends in `sync_file_range`, which a power cut may
//! undo: 200 flushes made 3 fsyncs, measured with 0.34.7); then it is acknowledged.
//!
//! Once both files have a change it is durable, whatever happens to the index: it is acknowledged, readers get it from
//! [`View::ahead`], and the state is opened again from its files. A change that one of the files did not take is taken
//! back from both before it is refused.

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

/// Callers that may wait at once; further ones wait for a slot.
const WAITING: usize = 1024;

/// Callers whose changes are made durable with one sync at most, and the bytes of those.
const GROUP: usize = 512;
const GROUP_BYTES: usize = 16 << 20;

/// A journal is compacted when it is this many times as long as what it says.
const COMPACT_FACTOR: u64 = 4;

/// Between two attempts to open the state again: at first, and at most.
const HEAL_FIRST: Duration = Duration::from_millis(250);
const HEAL_LAST: Duration = Duration::from_secs(30);

/// How often the committer looks for changes while the state is not open.
const FAILED_POLL: Duration = Duration::from_millis(20);

/// How long lines are tried to be taken back before their waiters are answered that the outcome is unknown.
const TAKE_BACK: Duration = Duration::from_secs(10);
const TAKE_BACK_EVERY: Duration = Duration::from_millis(20);

/// Sizes that tests set otherwise.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// Disk space left free, bytes.
    pub reserve: u64,
    /// Shortest journal that is compacted, bytes.
    pub compact_from: u64,
}

/// Why a change is not acknowledged.
#[derive(Debug)]
pub enum NotStored {
    /// It is in none of the files, and will not be there after a restart.
    Refused(String),
    /// The disk failed while it was written, and while it was taken back: it may be there after a restart.
    Unknown(String),
}

/// What a waiter gets: durable, and whether there was a record before.
pub type Outcome = Result<bool, NotStored>;

/// What readers see.
pub struct View {
    /// None while it is opened again.
    pub index: Option<Index>,
    /// Acknowledged changes that the index did not take, until it is opened again; None for a removal.
    pub ahead: BTreeMap<(Tree, String), Option<Vec<u8>>>,
}

/// The view as readers share it.
pub type Shared = Arc<RwLock<View>>;

/// Changes of one caller, made together or not at all.
pub struct Change {
    /// One at least.
    pub edits: Vec<Edit>,
    pub done: oneshot::Sender<Outcome>,
}

impl Change {
    fn bytes(&self) -> usize {
        self.edits.iter().filter_map(|edit| edit.json.as_ref()).map(Vec::len).sum()
    }
}

/// A change with the number of its first edit and the length of its line.
struct Numbered {
    change: Change,
    number: u64,
    len: u64,
}

/// The files that changes are appended to.
struct Files {
    journal: Appender,
    tail: Tail,
}

struct Committer {
    dir: PathBuf,
    view: Shared,
    /// None after a failure, until the state is opened again: what they refer to may not be in place any more.
    files: Option<Files>,
    last: u64,
    live: u64,
    live_bytes: u64,
    sizes: Sizes,
    /// No compaction below this length, bytes; greater after one that failed.
    compact_from: u64,
    heal_at: Instant,
    heal_pause: Duration,
}

/// Starts the committer. It ends when the sender is dropped.
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
    /// Waits for a change; opens the state again meanwhile where that is needed.
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

    /// Makes a group of changes durable, and answers each waiter.
    fn commit(&mut self, group: Vec<Change>) {
        let failed = self.files.is_none().then(|| "the state is being opened again after a failure".to_owned());
        let free = free_bytes(&self.dir);
        let mut lines = Vec::new();
        let (mut accepted, mut last) = (Vec::with_capacity(group.len()), self.last);
        for change in group {
            // A removal frees space, so it may use a part of the reserve.
            let grows = change.edits.iter().any(|edit| edit.json.is_some());
            let floor = if grows { self.sizes.reserve } else { self.sizes.reserve / 4 };
            let full = (free < floor).then(|| format!("{free} bytes are free, {floor} are held back"));
            if let Some(cause) = failed.clone().or(full) {
                // A waiter that gave up needs no answer.
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

    /// Appends to journal and tail: to both, or to none.
    fn append(&mut self, lines: &[u8]) -> Result<(), NotStored> {
        let files = self.files.as_mut().expect("changes are accepted only while the files are open");
        let (journal, tail) = (files.journal.len, files.tail.len());
        let Err(cause) = files.journal.append(lines).and_then(|()| files.tail.append(lines)) else { return Ok(()) };
        tracing::error!(%cause, "the journal could not be written");
        // Until neither file has the lines, a restart would take the changes over: no waiter is answered before.
        let deadline = Instant::now() + TAKE_BACK;
        loop {
            let (one, other) = (files.tail.take_back(tail), files.journal.take_back(journal));
            match one.and(other) {
                Ok(()) => return Err(NotStored::Refused(format!("journal: {cause}"))),
                Err(fault) if Instant::now() > deadline => {
                    tracing::error!(%fault, "what was written in part could not be taken back");
                    self.fail();
                    return Err(NotStored::Unknown(format!("journal: {cause}; taking it back: {fault}")));
                }
                Err(_) => thread::sleep(TAKE_BACK_EVERY),
            }
        }
    }

    /// Writes durable changes to the index, and answers their waiters.
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
                        // Only a removal needs it, and its record was seen before it was sent here.
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
            tracing::error!(fault, "the index failed; the journal has everything");
            self.view.write().unwrap_or_else(PoisonError::into_inner).ahead.extend(missed);
            self.fail();
        }
        for (done, before) in answers {
            let _ = done.send(Ok(before));
        }
    }

    /// Nothing more is accepted before the state was opened again.
    fn fail(&mut self) {
        self.files = None;
        (self.heal_at, self.heal_pause) = (Instant::now(), HEAL_FIRST);
    }

    fn restart_tail(&mut self, always: bool) {
        let (view, Some(files)) = (self.view.clone(), self.files.as_mut()) else { return };
        let view = read(&view);
        if let Some(Err(cause)) = view.index.as_ref().map(|index| files.tail.restart(index, always)) {
            tracing::error!(%cause, "the journal's tail could not be begun anew");
            self.fail();
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

    /// After a failure: opens the state again from its files, as a start does.
    fn heal_if_due(&mut self) {
        if self.files.is_some() || Instant::now() < self.heal_at || free_bytes(&self.dir) < self.sizes.reserve {
            return;
        }
        let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
        // The old one first: there is one claim on its files.
        view.index = None;
        match recover::open(&self.dir) {
            Ok(opened) => {
                view.index = Some(opened.index);
                view.ahead.clear();
                self.files = Some(Files { journal: opened.journal, tail: opened.tail });
                (self.last, self.live, self.live_bytes) = (opened.last, opened.live, opened.live_bytes);
                tracing::info!("the state was opened again");
            }
            Err(cause) => {
                tracing::error!(%cause, "the state could not be opened again");
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
                // Its removals are in no other file any more, and the index is on the disk.
                self.restart_tail(true);
            }
            Err(cause) => {
                tracing::warn!(cause, "the journal could not be compacted");
                self.compact_from = len * 2;
            }
        }
    }

    /// Replaces the journal by one of the records there are now; gives its length. What the index cannot give is not
    /// dropped from the journal: then nothing happens.
    fn compact(&mut self) -> Result<u64, String> {
        if free_bytes(&self.dir) < self.sizes.reserve.saturating_add(2 * self.live_bytes) {
            return Err("there is no space for it".to_owned());
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
            return Err(format!("the index holds {} records of {}", held.numbers.len(), self.live));
        }
        // Removals are dropped from the journal, so the disk must have an index that knows them.
        index.sync()?;
        // By number, so that an index made from it is made in order.
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
                // Which journal is in place is not known: opening the state again finds out.
                self.fail();
                Err(replaced.err().map_or_else(|| "the journal is not open".to_owned(), text))
            }
        }
    }
}

fn read(view: &Shared) -> RwLockReadGuard<'_, View> {
    view.read().unwrap_or_else(PoisonError::into_inner)
}

/// Space a program without privileges may still use on the disk of `dir`, bytes; the most there can be when the system
/// does not tell.
pub fn free_bytes(dir: &Path) -> u64 {
    rustix::fs::statvfs(dir).map_or(u64::MAX, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}
