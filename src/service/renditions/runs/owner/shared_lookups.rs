//! Lookups in the store that servers share: a segment that may be there is made only once the store has answered.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Owner;
use crate::engine::content::SegmentContent;
use crate::engine::segment_cache::StoredSegment;
use crate::engine::shared_segments::{SharedKey, SharedSegments};

/// Lookups at once for segments that no viewer has requested yet.
const MAX_EARLY_LOOKUPS: usize = 4;

/// How long an answer holds. Another server may have made a segment since.
const ANSWER_LIFETIME: Duration = Duration::from_secs(30);

/// Answers that are kept before old ones are removed.
const MAX_ANSWERS: usize = 256;

/// The store as the owner of one rendition uses it.
pub(super) struct SharedLookups {
    /// None if there is no store, or if this rendition is not shared.
    shared: Option<(SharedSegments, SharedKey)>,
    running: HashSet<usize>,
    answers: HashMap<usize, Answer>,
    tasks: JoinSet<(usize, Option<Bytes>)>,
}

#[derive(Clone, Copy)]
struct Answer {
    was_found: bool,
    answered_at: Instant,
}

impl SharedLookups {
    pub fn new(shared: Option<(SharedSegments, SharedKey)>) -> Self {
        Self { shared, running: HashSet::new(), answers: HashMap::new(), tasks: JoinSet::new() }
    }

    pub fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Whether a segment is being looked up.
    pub fn is_running(&self, index: usize) -> bool {
        self.running.contains(&index)
    }

    /// Whether a segment may be in the store, so that no run is started for it yet.
    pub fn may_find(&self, index: usize) -> bool {
        let Some((shared, _)) = &self.shared else { return false };
        self.is_running(index)
            || (shared.is_available() && self.recent_answer(index).is_none_or(|answer| answer.was_found))
    }

    fn was_found(&self, index: usize) -> bool {
        self.may_find(index)
            && !self.is_running(index)
            && self.recent_answer(index).is_some_and(|answer| answer.was_found)
    }

    fn recent_answer(&self, index: usize) -> Option<Answer> {
        self.answers.get(&index).copied().filter(|answer| answer.answered_at.elapsed() < ANSWER_LIFETIME)
    }

    fn start(&mut self, index: usize) {
        let Some((shared, key)) = self.shared.clone() else { return };
        self.running.insert(index);
        self.tasks.spawn(async move { (index, shared.find(&key, index).await) });
    }

    /// The next answer; pending forever without lookups. Dropping the future loses nothing.
    pub async fn next(&mut self) -> (usize, Option<Bytes>) {
        loop {
            match self.tasks.join_next().await {
                Some(Ok((index, found))) => {
                    self.note_answer(index, found.is_some());
                    return (index, found);
                }
                // A task that panicked does not name its segment. None may wait for it forever.
                Some(Err(_)) => {
                    for index in self.running.drain().collect::<Vec<_>>() {
                        self.note_answer(index, false);
                    }
                }
                None => std::future::pending().await,
            }
        }
    }

    fn note_answer(&mut self, index: usize, was_found: bool) {
        self.running.remove(&index);
        if self.answers.len() >= MAX_ANSWERS {
            self.answers.retain(|_, answer| answer.answered_at.elapsed() < ANSWER_LIFETIME);
        }
        self.answers.insert(index, Answer { was_found, answered_at: Instant::now() });
    }

    /// Uploads a segment that was made here, in the background.
    pub fn offer(&self, index: usize, content: &SegmentContent) {
        if let (Some((shared, key)), SegmentContent::InMemory(bytes)) = (&self.shared, content) {
            shared.offer(key, index, bytes.clone());
        }
    }
}

impl Owner {
    /// Looks up the segments that are requested, and those that readers will request next.
    pub(super) fn start_lookups(&mut self) {
        if !self.lookups.is_shared() {
            return;
        }
        let requested: Vec<usize> = self.waiting_requests.iter().map(|waiting| waiting.request.index).collect();
        for index in requested {
            // Found before, it was evicted since: it is read again.
            if index < self.end_segment && !self.lookups.is_running(index) && self.lookups.may_find(index) {
                self.lookups.start(index);
            }
        }
        let windows = self.reader_positions.values().map(|position| self.read_ahead_window(position.segment));
        for index in windows.collect::<Vec<_>>().into_iter().flatten() {
            if self.lookups.running.len() >= MAX_EARLY_LOOKUPS {
                return;
            }
            let is_unknown = !self.lookups.is_running(index)
                && self.lookups.may_find(index)
                && self.lookups.recent_answer(index).is_none();
            if is_unknown && !self.segments.contains(&self.rendition_key, index) {
                self.lookups.start(index);
            }
        }
    }

    /// Whether a segment is stored here, or was found in the store and is read from there again when it is requested.
    pub(super) fn is_available(&self, index: usize) -> bool {
        self.segments.contains(&self.rendition_key, index) || self.lookups.was_found(index)
    }

    /// Whether a segment must be made here: it is not stored, and the store that servers share does not have it.
    pub(super) fn must_be_made(&self, index: usize) -> bool {
        !self.segments.contains(&self.rendition_key, index) && !self.lookups.may_find(index)
    }

    /// Stores a segment that was found, and answers the requests for it.
    pub(super) async fn handle_answer(&mut self, index: usize, found: Option<Bytes>) {
        let Some(bytes) = found else { return };
        let stored = match self.kept_segment(index).await {
            Some(kept) => kept,
            None => self.segments.put(&self.rendition_key, index, SegmentContent::InMemory(bytes), None).await,
        };
        self.deliver(index, &stored);
    }

    /// A segment that is stored already, when it arrives from a run or from the store: players may have its ETag.
    pub(super) async fn kept_segment(&self, index: usize) -> Option<StoredSegment> {
        let is_kept = self.lookups.is_shared() && self.segments.contains(&self.rendition_key, index);
        if is_kept { self.segments.find(&self.rendition_key, index).await } else { None }
    }
}
