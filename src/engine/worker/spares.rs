//! Idle workers of one purpose: spares that were started ahead, and used ones that were given back.
//!
//! One task owns them, so that the end of an idle worker is noticed and its heartbeats are read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::process::{WorkerEvent, WorkerProcess};
use super::starter::WorkerStarter;
use crate::engine::process::sandbox::WorkerKind;

/// Idle workers at most: two that were given back, and a spare.
pub const MAX_IDLE: usize = 3;

/// Without a request for this long, one idle worker remains.
const IDLE_TIME: Duration = Duration::from_secs(60);

/// Time between a start that failed and the next one.
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// Time between taking the last idle worker and starting the next: the job that was just given needs the processor more, because
/// a viewer waits for its first result.
const REPLACEMENT_DELAY: Duration = Duration::from_secs(1);

/// Requests that may wait. Each caller waits for its own.
const MAX_REQUESTS: usize = 32;

enum SpareRequest {
    /// Answered when the spare is ready, or did not start.
    Warm(oneshot::Sender<()>),
    Take(oneshot::Sender<Result<WorkerProcess, String>>),
    Return(Box<WorkerProcess>),
    Renew,
}

/// A handle of the idle workers. Dropping it ends them.
#[derive(Debug)]
pub struct Spares {
    requests: mpsc::Sender<SpareRequest>,
    idle: Arc<AtomicUsize>,
    _task: TaskGuard,
}

/// A task that is aborted when this is dropped, with the workers it owns.
#[derive(Debug)]
pub struct TaskGuard(tokio::task::JoinHandle<()>);

impl TaskGuard {
    pub fn spawn(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(task))
    }
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Spares {
    /// Starts the task; it starts no worker before the first request. With `starts_ahead` one spare is kept from then on.
    pub fn new(starter: Arc<WorkerStarter>, starts_ahead: bool) -> Self {
        let (requests, receiver) = mpsc::channel(MAX_REQUESTS);
        let idle = Arc::new(AtomicUsize::new(0));
        let task = SpareTask {
            starter,
            starts_ahead,
            is_warm: false,
            slots: [const { None }; MAX_IDLE],
            idle: idle.clone(),
            start_at: None,
            trim_at: None,
        };
        Self { requests, idle, _task: TaskGuard::spawn(task.run(receiver)) }
    }

    /// Starts a spare ahead, and waits until it is ready or did not start.
    pub async fn warm(&self) {
        let (reply, ready) = oneshot::channel();
        if self.requests.send(SpareRequest::Warm(reply)).await.is_ok() {
            let _ = ready.await;
        }
    }

    /// A worker: an idle one, or a new one.
    ///
    /// # Errors
    /// Why none starts.
    pub async fn take(&self) -> Result<WorkerProcess, String> {
        let (reply, worker) = oneshot::channel();
        let ended = |_| "the pool of workers has ended".to_owned();
        self.requests.send(SpareRequest::Take(reply)).await.map_err(|_| ended(()))?;
        worker.await.map_err(|_| ended(()))?
    }

    /// Gives a worker back that has done its job.
    pub fn give_back(&self, mut worker: WorkerProcess) {
        worker.finish_job();
        // With a full queue it is ended.
        let _ = self.requests.try_send(SpareRequest::Return(Box::new(worker)));
    }

    /// Ends the idle workers: they have an older registry of GStreamer. New ones take their place.
    pub async fn renew(&self) {
        let _ = self.requests.send(SpareRequest::Renew).await;
    }

    /// Number of idle workers.
    pub fn idle(&self) -> usize {
        self.idle.load(Ordering::Relaxed)
    }
}

struct SpareTask {
    starter: Arc<WorkerStarter>,
    starts_ahead: bool,
    is_warm: bool,
    slots: [Option<WorkerProcess>; MAX_IDLE],
    idle: Arc<AtomicUsize>,
    /// When the next spare is started.
    start_at: Option<Instant>,
    /// When surplus workers are ended.
    trim_at: Option<Instant>,
}

impl SpareTask {
    async fn run(mut self, mut requests: mpsc::Receiver<SpareRequest>) {
        loop {
            let is_empty = self.slots.iter().all(Option::is_none);
            let lacks_spare = self.is_warm && self.starts_ahead && is_empty;
            if lacks_spare && self.start_at.is_none_or(|at| at <= Instant::now()) {
                self.start_spare().await;
                continue;
            }
            let start_at = self.start_at.filter(|_| lacks_spare);
            let wake_at = start_at.into_iter().chain(self.trim_at).min();
            tokio::select! {
                request = requests.recv() => match request {
                    Some(request) => self.handle(request).await,
                    None => return,
                },
                () = wait_for_loss(&mut self.slots) => self.remove_lost().await,
                () = sleep_until(wake_at.unwrap_or_else(Instant::now)), if wake_at.is_some() => self.trim(),
            }
        }
    }

    async fn handle(&mut self, request: SpareRequest) {
        match request {
            SpareRequest::Warm(reply) => {
                self.is_warm = true;
                if self.starts_ahead && self.slots.iter().all(Option::is_none) {
                    self.start_spare().await;
                }
                let _ = reply.send(());
            }
            SpareRequest::Take(reply) => {
                self.is_warm = true;
                self.trim_at = Some(Instant::now() + IDLE_TIME);
                self.start_at = Some(Instant::now() + REPLACEMENT_DELAY);
                let worker = match self.take_idle() {
                    Some(worker) => Ok(worker),
                    None => self.starter.start(WorkerKind::Media).await,
                };
                // A caller that has gone away leaves the worker to the next one.
                if let Err(Ok(worker)) = reply.send(worker) {
                    self.keep(worker);
                }
            }
            SpareRequest::Return(worker) => self.keep(*worker),
            SpareRequest::Renew => self.slots = [const { None }; MAX_IDLE],
        }
        self.count();
    }

    /// A used worker if there is one, so that the spare stays for the next job beside it.
    fn take_idle(&mut self) -> Option<WorkerProcess> {
        let jobs =
            |slot: &Option<WorkerProcess>| slot.as_ref().filter(|worker| !worker.is_lost()).map(WorkerProcess::jobs);
        let best = (0..MAX_IDLE)
            .filter(|slot| jobs(&self.slots[*slot]).is_some())
            .max_by_key(|slot| jobs(&self.slots[*slot]))?;
        self.slots[best].take()
    }

    fn keep(&mut self, worker: WorkerProcess) {
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.is_none()) {
            *slot = Some(worker);
        }
    }

    async fn start_spare(&mut self) {
        let started = self.starter.start(WorkerKind::Media).await;
        let retry_at = || self.starter.pause_end().unwrap_or_else(|| Instant::now() + RETRY_DELAY);
        self.start_at = started.is_err().then(retry_at);
        if let Ok(worker) = started {
            self.keep(worker);
        }
        self.count();
    }

    async fn remove_lost(&mut self) {
        for slot in &mut self.slots {
            if let Some(mut worker) = slot.take_if(|worker| worker.is_lost()) {
                let death = worker.death().await;
                self.starter.statistics.record_death(death.cause, &format!("an idle worker: {}", death.text));
            }
        }
        // Not at once: an idle worker that always dies would start another one again and again.
        self.start_at = Some(Instant::now() + RETRY_DELAY);
        self.count();
    }

    /// Ends all idle workers but the newest, if nothing was requested for a while.
    fn trim(&mut self) {
        if self.trim_at.is_some_and(|at| at <= Instant::now()) {
            self.trim_at = None;
            let newest = self.slots.iter().flatten().map(WorkerProcess::number).max();
            for slot in &mut self.slots {
                slot.take_if(|worker| Some(worker.number()) != newest);
            }
        }
        self.count();
    }

    fn count(&self) {
        self.idle.store(self.slots.iter().flatten().count(), Ordering::Relaxed);
    }
}

/// Waits until an idle worker has ended, and reads its heartbeats meanwhile.
async fn wait_for_loss(slots: &mut [Option<WorkerProcess>; MAX_IDLE]) {
    async fn lost(slot: &mut Option<WorkerProcess>) {
        let Some(worker) = slot else { return std::future::pending().await };
        while let WorkerEvent::Frame(_) = worker.next().await {}
    }
    let [first, second, third] = slots;
    tokio::select! {
        () = lost(first) => {}
        () = lost(second) => {}
        () = lost(third) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::worker::process::WorkerSettings;

    /// A program that ends at once as the worker.
    fn spares_of(program: &str, folder: &std::path::Path) -> (Spares, Arc<WorkerStarter>) {
        let settings = WorkerSettings { program: program.into(), cache: folder.to_owned() };
        let starter = Arc::new(WorkerStarter::new(settings));
        (Spares::new(starter.clone(), true), starter)
    }

    #[tokio::test]
    async fn a_program_that_is_no_worker_pauses_the_starts() {
        let folder = tempfile::tempdir().unwrap();
        let (spares, starter) = spares_of("/bin/true", folder.path());
        let cause = spares.take().await.unwrap_err();
        assert!(cause.contains("ended as it started"), "{cause}");
        let deadline = Instant::now() + Duration::from_secs(20);
        while starter.pause_end().is_none() {
            assert!(Instant::now() < deadline, "the starts are not paused");
            let _ = spares.take().await;
        }
        let cause = spares.take().await.unwrap_err();
        assert!(cause.contains("do not start"), "{cause}");
        assert_eq!(spares.idle(), 0);
    }

    #[tokio::test]
    async fn nothing_starts_before_it_is_needed() {
        let folder = tempfile::tempdir().unwrap();
        let (spares, starter) = spares_of("/no/such/program", folder.path());
        tokio::time::sleep(RETRY_DELAY).await;
        assert_eq!((spares.idle(), starter.pause_end()), (0, None));
        let cause = spares.take().await.unwrap_err();
        assert!(cause.contains("registry"), "{cause}");
    }
}
