#![doc = include_str!("README.md")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant as SystemInstant};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::domain::histogram::{Histogram, HistogramCounts};

mod circuit_breaker;
#[cfg(feature = "cluster")]
mod credentials;
#[cfg(feature = "cluster")]
mod http_client;
mod key;
#[cfg(feature = "cluster")]
pub mod s3;
#[cfg(all(test, feature = "cluster"))]
mod tests;
mod uploads;

pub use key::SharedKey;
pub use uploads::Uploads;

use circuit_breaker::{CircuitBreaker, Fault};
use uploads::UploadQueue;

/// Largest object, bytes. A segment of 6 s at 80 Mbit/s has 60 MB.
pub const MAX_OBJECT_BYTES: usize = 64 << 20;

/// Reads at once; further ones wait, within their deadline.
const MAX_READS: usize = 32;

/// A segment as an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentObject {
    pub bytes: Bytes,
    /// BLAKE3 of the bytes when they were uploaded, hex; empty if the object states none.
    pub digest: String,
    pub content_type: &'static str,
}

impl SegmentObject {
    pub fn new(bytes: Bytes, content_type: &'static str) -> Self {
        let digest = blake3::hash(&bytes).to_hex().to_string();
        Self { bytes, digest, content_type }
    }

    fn is_undamaged(&self) -> bool {
        !self.bytes.is_empty() && blake3::hash(&self.bytes).to_hex().as_str() == self.digest
    }
}

/// Where objects are kept. Errors are for people.
pub trait ObjectBucket: Send + Sync + std::fmt::Debug {
    /// Reads an object; None if it is missing. An object above [`MAX_OBJECT_BYTES`] is an error.
    fn get(&self, path: &str) -> BoxFuture<'static, Result<Option<SegmentObject>, String>>;

    /// Writes an object whole, in place of an older one.
    fn put(&self, path: &str, object: SegmentObject) -> BoxFuture<'static, Result<(), String>>;
}

/// Requests to the store since the server started.
#[derive(Debug, Default)]
struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
    faults: AtomicU64,
    skipped: AtomicU64,
    uploaded: AtomicU64,
    failed_uploads: AtomicU64,
    dropped_uploads: AtomicU64,
    read_times: Histogram,
}

/// A copy of the counters, and whether the store is in use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StoreCounts {
    /// Segments that were read.
    pub hits: u64,
    /// Segments that the store does not have.
    pub misses: u64,
    /// Reads that failed, were too slow, or found a damaged object.
    pub faults: u64,
    /// Reads that were not tried, because the store had failed shortly before.
    pub skipped: u64,
    pub uploaded: u64,
    pub failed_uploads: u64,
    /// Uploads that were not tried: the queue was full, or the store had failed shortly before.
    pub dropped_uploads: u64,
    /// Whether the next request goes to the store.
    pub is_available: bool,
    /// How long answers to reads took, with those that failed.
    pub read_times: HistogramCounts,
}

/// The store of segments that servers share. Clones share it.
#[derive(Clone, Debug)]
pub struct SharedSegments {
    inner: Arc<StoreState>,
}

#[derive(Debug)]
struct StoreState {
    bucket: Arc<dyn ObjectBucket>,
    breaker: CircuitBreaker,
    counters: Counters,
    /// Time within which a segment must have been read.
    read_deadline: Duration,
    reads: Semaphore,
    uploads: UploadQueue,
}

impl SharedSegments {
    /// Uses `bucket`, and waits at most `read_deadline` for a segment. The uploads are made by the second value, as long as
    /// it runs.
    pub fn new(bucket: Arc<dyn ObjectBucket>, read_deadline: Duration) -> (Self, Uploads) {
        let (uploads, waiting) = UploadQueue::new();
        let state = StoreState {
            bucket,
            breaker: CircuitBreaker::default(),
            counters: Counters::default(),
            read_deadline,
            reads: Semaphore::new(MAX_READS),
            uploads,
        };
        let shared = Self { inner: Arc::new(state) };
        (shared.clone(), Uploads::new(shared, waiting))
    }

    /// Whether a request would go to the store at this moment: not while it is left alone after faults.
    pub fn is_available(&self) -> bool {
        self.inner.breaker.is_closed(Instant::now())
    }

    /// Reads a segment. None if the store does not have it, or not undamaged, or does not answer within the deadline.
    pub async fn find(&self, key: &SharedKey, index: usize) -> Option<Bytes> {
        let StoreState { breaker, counters, .. } = &*self.inner;
        let deadline = Instant::now() + self.inner.read_deadline;
        if !breaker.try_pass(Instant::now(), self.inner.read_deadline) {
            count(&counters.skipped);
            return None;
        }
        let path = key.object_path(index);
        let started = SystemInstant::now();
        let read = timeout_at(deadline, async {
            let _turn = self.inner.reads.acquire().await.map_err(|closed| closed.to_string())?;
            self.inner.bucket.get(&path).await
        });
        let outcome = read.await;
        counters.read_times.record(started.elapsed());
        match outcome {
            Ok(Ok(found)) => {
                breaker.record_success();
                let Some(object) = found else {
                    count(&counters.misses);
                    return None;
                };
                if !object.is_undamaged() {
                    tracing::warn!(object = path, "a damaged object of the segment store is not used");
                    count(&counters.faults);
                    return None;
                }
                count(&counters.hits);
                Some(object.bytes)
            }
            Ok(Err(reason)) => {
                count(&counters.faults);
                breaker.record_fault(Instant::now(), Fault::Failed, &reason);
                None
            }
            Err(_) => {
                count(&counters.faults);
                breaker.record_fault(Instant::now(), Fault::TooSlow, "it does not answer in time");
                None
            }
        }
    }

    /// Uploads a segment in the background, unless the queue is full or the store is left alone.
    pub fn offer(&self, key: &SharedKey, index: usize, bytes: Bytes) {
        let is_queued = self.is_available() && self.inner.uploads.push(key, index, bytes);
        if !is_queued {
            count(&self.inner.counters.dropped_uploads);
        }
    }

    pub fn counts(&self) -> StoreCounts {
        let Counters { hits, misses, faults, skipped, uploaded, failed_uploads, dropped_uploads, read_times } =
            &self.inner.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StoreCounts {
            hits: read(hits),
            misses: read(misses),
            faults: read(faults),
            skipped: read(skipped),
            uploaded: read(uploaded),
            failed_uploads: read(failed_uploads),
            dropped_uploads: read(dropped_uploads),
            is_available: self.is_available(),
            read_times: read_times.counts(),
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
