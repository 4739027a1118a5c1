//! The Discoverer in the server process, for installations without worker processes.
//!
//! It runs on two threads of its own with a short queue. A file that blocks longer than the timeout occupies its thread
//! until GStreamer returns, never an async thread. While both are occupied, the result is "busy" and ffprobe runs instead.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::discoverer::{DISCOVERER_TIMEOUT, discover, prepare_discoverer};
use crate::engine::probe::DecoderInfo;
use crate::engine::source::SourceFile;

const THREADS: usize = 2;
const MAX_QUEUED: usize = 8;

struct DiscoverRequest {
    source: Arc<SourceFile>,
    reply: oneshot::Sender<Result<Vec<DecoderInfo>, String>>,
}

/// Runs the discoverer in this process.
///
/// # Errors
/// The reason why ffprobe is needed.
pub async fn discover_in_process(source: &Arc<SourceFile>) -> Result<Vec<DecoderInfo>, String> {
    let queue = request_queue().ok_or("GStreamer could not be initialized")?;
    let (reply, result) = oneshot::channel();
    queue.try_send(DiscoverRequest { source: source.clone(), reply }).map_err(|refused| match refused {
        TrySendError::Full(_) => "the discoverer is busy",
        TrySendError::Disconnected(_) => "the discoverer has ended",
    })?;
    let reply_timeout = Duration::from_millis(DISCOVERER_TIMEOUT.mseconds() + 300);
    let answer = tokio::time::timeout(reply_timeout, result).await.map_err(|_| "the discoverer timed out")?;
    answer.map_err(|_| "the discoverer has ended")?
}

/// Initializes GStreamer and starts the threads, so that the first probe does not wait for it (0.2 s). Blocks.
pub fn start_discoverers() {
    request_queue();
}

fn request_queue() -> Option<&'static SyncSender<DiscoverRequest>> {
    static QUEUE: OnceLock<Option<SyncSender<DiscoverRequest>>> = OnceLock::new();
    QUEUE
        .get_or_init(|| {
            super::initialize().ok()?;
            let (sender, requests) = sync_channel(MAX_QUEUED);
            let requests = Arc::new(Mutex::new(requests));
            for number in 0..THREADS {
                let thread_requests = requests.clone();
                std::thread::Builder::new()
                    .name(format!("discoverer-{number}"))
                    .spawn(move || handle_requests(&thread_requests))
                    .ok()?;
            }
            Some(sender)
        })
        .as_ref()
}

fn handle_requests(requests: &Mutex<Receiver<DiscoverRequest>>) {
    // An error is reported by each request.
    let _ = prepare_discoverer();
    loop {
        let request = requests.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(request) = request else { return };
        if request.reply.is_closed() {
            continue;
        }
        let result = discover(&request.source);
        let _ = request.reply.send(result);
    }
}
