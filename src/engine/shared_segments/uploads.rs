//! The queue of segments that wait for their upload.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::poll_fn;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, timeout};

use super::circuit_breaker::Fault;
use super::{MAX_OBJECT_BYTES, SegmentObject, SharedKey, SharedSegments, count};

/// Segments that wait.
const MAX_WAITING_SEGMENTS: usize = 64;

/// Bytes of segments that wait or are being sent, KiB.
const MAX_WAITING_KIB: usize = 128 << 10;

/// Uploads at once.
const MAX_UPLOADS: usize = 2;

/// Time for one upload.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(super) struct QueuedUpload {
    path: String,
    content_type: &'static str,
    bytes: Bytes,
    /// Its part of [`MAX_WAITING_KIB`].
    _room: OwnedSemaphorePermit,
}

#[derive(Debug)]
pub(super) struct UploadQueue {
    sender: mpsc::Sender<QueuedUpload>,
    room: Arc<Semaphore>,
}

impl UploadQueue {
    pub fn new() -> (Self, mpsc::Receiver<QueuedUpload>) {
        let (sender, waiting) = mpsc::channel(MAX_WAITING_SEGMENTS);
        (Self { sender, room: Arc::new(Semaphore::new(MAX_WAITING_KIB)) }, waiting)
    }

    /// False if the segment is too large, or the queue is full.
    pub fn push(&self, key: &SharedKey, index: usize, bytes: Bytes) -> bool {
        if bytes.len() > MAX_OBJECT_BYTES {
            return false;
        }
        let Ok(size_kib) = u32::try_from(bytes.len().div_ceil(1024)) else { return false };
        let Ok(room) = self.room.clone().try_acquire_many_owned(size_kib) else { return false };
        let upload = QueuedUpload { path: key.object_path(index), content_type: key.content_type, bytes, _room: room };
        self.sender.try_send(upload).is_ok()
    }
}

/// Makes the uploads of a store.
pub struct Uploads {
    shared: SharedSegments,
    waiting: mpsc::Receiver<QueuedUpload>,
}

impl Uploads {
    pub(super) fn new(shared: SharedSegments, waiting: mpsc::Receiver<QueuedUpload>) -> Self {
        Self { shared, waiting }
    }

    /// Uploads segments, until it is dropped. Those that wait then are lost.
    pub async fn run(mut self) {
        let shared = self.shared;
        poll_fn(|context| self.waiting.poll_recv(context))
            .for_each_concurrent(MAX_UPLOADS, |upload| shared.upload(upload))
            .await;
    }
}

impl SharedSegments {
    async fn upload(&self, upload: QueuedUpload) {
        let (breaker, counters) = (&self.inner.breaker, &self.inner.counters);
        if !breaker.try_pass(Instant::now(), UPLOAD_TIMEOUT) {
            return count(&counters.dropped_uploads);
        }
        let QueuedUpload { path, content_type, bytes, _room } = upload;
        let sent = self.inner.bucket.put(&path, SegmentObject::new(bytes, content_type));
        let fault = match timeout(UPLOAD_TIMEOUT, sent).await {
            Ok(Ok(())) => {
                breaker.record_success();
                return count(&counters.uploaded);
            }
            Ok(Err(reason)) => (Fault::Failed, reason),
            Err(_) => (Fault::TooSlow, format!("an upload took more than {} s", UPLOAD_TIMEOUT.as_secs())),
        };
        count(&counters.failed_uploads);
        breaker.record_fault(Instant::now(), fault.0, &fault.1);
    }
}
