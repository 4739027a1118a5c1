//! Worker processes: probes and runs in them give what they give in this process, and their deaths are judged rightly.

use std::time::Instant;

use hearthcast::domain::subtitles::TextStyle;
use hearthcast::domain::worker::blame::Blame;
use hearthcast::domain::worker::{ProvenFault, QuarantineKey};
use hearthcast::engine::worker::{FaultRecorder, Isolation, PoolSettings, WorkerBackend, WorkerPool};
use rustix::process::{Pid, Signal};

use super::*;
use crate::kit::wait::wait_until;
use crate::kit::worker_processes;

const ENCODER_ARGS: &str = "-c:v libx264 -preset ultrafast -g 60 -bf 2 -c:a aac -b:a 96k";

/// Counts faults; none is allowed in these tests.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    faults: std::sync::Mutex<Vec<ProvenFault>>,
}

impl FaultRecorder for Recorder {
    fn is_quarantined(&self, _: &QuarantineKey) -> bool {
        false
    }

    fn record(&self, fault: ProvenFault) {
        self.faults.lock().unwrap().push(fault);
    }

    fn count(&self) -> usize {
        self.faults.lock().unwrap().len()
    }
}

/// A pool of workers of the program.
pub(super) struct Workers {
    pub(super) pool: Arc<WorkerPool>,
    pub(super) recorder: Arc<Recorder>,
    cache: tempfile::TempDir,
}

impl Workers {
    pub(super) async fn start() -> Self {
        let (cache, recorder) = (tempfile::tempdir().unwrap(), Arc::<Recorder>::default());
        let pool = Arc::new(WorkerPool::new(PoolSettings {
            program: env!("CARGO_BIN_EXE_hearthcast").into(),
            cache: cache.path().to_owned(),
            recorder: recorder.clone(),
            version: "test".into(),
        }));
        pool.warm().await;
        Self { pool, recorder, cache }
    }

    pub(super) fn isolation(&self) -> Isolation {
        Isolation::Process(self.pool.clone())
    }

    /// The cache folder, which identifies its processes.
    pub(super) fn cache(&self) -> &Path {
        self.cache.path()
    }

    /// Waits for the two spares.
    pub(super) async fn wait_until_ready(&self) {
        wait_until("no spare was started", || self.isolation().status().ready >= 2).await;
    }

    /// A bench whose segments workers make.
    async fn bench(&self, name: &str, seconds: u32) -> Bench {
        let mut bench = Bench::of_new_film(name, Container::Mp4, seconds, ENCODER_ARGS);
        let report = self.pool.examine().await.expect("a worker examines the machine");
        bench.backend = Arc::new(WorkerBackend::new(self.pool.clone(), report, TextStyle::default()));
        bench
    }
}

/// Processes that read the film of this bench: its descriptor was passed to them.
fn workers_of(bench: &Bench) -> Vec<Pid> {
    let film = bench.folder.path().join(bench.source.file_name());
    let processes =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let has_film = |pid: &i32| {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
        files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok()).any(|file| file == film)
    };
    let own = std::process::id().cast_signed();
    processes.filter(|pid| *pid != own && has_film(pid)).filter_map(Pid::from_raw).collect()
}

/// All workers of this pool.
fn worker_processes(workers: &Workers) -> Vec<i32> {
    worker_processes::worker_processes(workers.cache())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_discovers_what_this_process_discovers() {
    let workers = Workers::start().await;
    for (name, container) in [("a.mp4", Container::Mp4), ("a.mkv", Container::Matroska)] {
        let bench = Bench::of_new_film(name, container, 3, ENCODER_ARGS);
        let expected = Isolation::None.discover(&bench.source).await.unwrap();
        assert_eq!(expected.len(), 2, "video and audio");
        for _ in 0..3 {
            assert_eq!(workers.isolation().discover(&bench.source).await, Ok(expected.clone()), "{name}");
        }
    }
    let status = workers.isolation().status();
    assert_eq!((status.busy, status.restarted), (0, 0), "{status:?}");
    assert!(status.sandbox.seccomp, "{:?}", status.sandbox);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_in_a_worker_makes_the_segments_of_a_run_in_this_process() {
    let workers = Workers::start().await;
    let bench = workers.bench("a.mp4", 7).await;
    let segments = bench.all_segments().await;
    assert_eq!(segments.len(), bench.grid.len());
    let joined = bench.write_joined("worker.ts", &segments);
    assert_eq!(media::decoder_warnings(&joined), "");
    let bench = bench.with_gstreamer();
    let expected = bench.all_segments().await;
    let indexes = |segments: &[SegmentBytes]| segments.iter().map(|segment| segment.index).collect::<Vec<_>>();
    assert_eq!(indexes(&segments), indexes(&expected));
    let expected = bench.write_joined("process.ts", &expected);
    let times = |path: &Path| media::packets(path).iter().map(|packet| (packet.stream, packet.pts)).collect::<Vec<_>>();
    assert_eq!(times(&joined), times(&expected));
    let psnr = media::worst_psnr_decibels(&joined, &expected);
    assert!(psnr > 40.0, "frames differ, {psnr} dB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_pauses_at_its_gate_and_leaves_no_process_when_dropped() {
    let workers = Workers::start().await;
    let bench = workers.bench("a.mp4", 12).await;
    let mut run = bench.start(0, 1);
    for index in 0..2 {
        assert_eq!(next_segment(&mut run).await.unwrap().unwrap().index, index);
    }
    assert!(tokio::time::timeout(Duration::from_millis(700), run.next()).await.is_err(), "2 is beyond the gate");
    assert_eq!(workers_of(&bench).len(), 1);
    run.allow_through(3);
    assert_eq!(next_segment(&mut run).await.unwrap().unwrap().index, 2);
    let (running, failed) = workers.isolation().pipelines().await.unwrap();
    assert!(!running.is_empty() && failed.is_empty(), "{running:?} {failed:?}");
    let messages = workers.isolation().messages(running[0].number).await.unwrap();
    assert!(messages.is_some(), "its worker answers");
    drop(run);
    wait_until("the worker still exists", || workers_of(&bench).is_empty()).await;
}

/// The error of a run whose worker gets a signal after its first segment, and the time until then.
async fn loss_by(workers: &Workers, signal: Signal) -> (RunError, Duration) {
    let bench = workers.bench("a.mp4", 30).await;
    let mut run = bench.start(0, 0);
    next_segment(&mut run).await.unwrap().unwrap();
    // A process that another test is starting has the file open until it is the new program.
    wait_until("not one worker reads the film", || workers_of(&bench).len() == 1).await;
    let pid = workers_of(&bench)[0];
    run.allow_through(usize::MAX);
    next_segment(&mut run).await.unwrap().unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
    let sent_at = Instant::now();
    loop {
        match next_segment(&mut run).await.expect("the run ends with an error") {
            Ok(_) => {}
            Err(error) => {
                assert!(next_segment(&mut run).await.is_none());
                return (error, sent_at.elapsed());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_are_killed_or_stopped_from_outside_are_no_fault() {
    let workers = Workers::start().await;
    for (signal, cause) in [(Signal::KILL, "killed"), (Signal::SEGV, "killed"), (Signal::STOP, "stopped")] {
        let before = workers.isolation().status().causes.get(cause).copied().unwrap_or(0);
        let (error, after) = loss_by(&workers, signal).await;
        assert!(matches!(&error, RunError::WorkerLost { blame: Blame::Outside, .. }), "{signal:?}: {error:?}");
        // A stopped worker is noticed after a second; a busy machine takes longer.
        assert!(after < Duration::from_secs(15), "{signal:?}: reported after {after:?}");
        let status = workers.isolation().status();
        assert_eq!(status.causes.get(cause).copied(), Some(before + 1), "{signal:?}: {status:?}");
        assert!(status.last_death.is_some());
    }
    assert_eq!(workers.recorder.count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_pool_leaves_no_process() {
    let workers = Workers::start().await;
    let bench = Bench::of_new_film("a.mp4", Container::Mp4, 3, ENCODER_ARGS);
    workers.isolation().discover(&bench.source).await.unwrap();
    workers.wait_until_ready().await;
    let processes = worker_processes(&workers);
    assert!(processes.len() >= 2, "{processes:?}");
    drop(workers);
    wait_until("a worker still exists", || processes.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_worker_that_is_killed_is_replaced() {
    let workers = Workers::start().await;
    workers.wait_until_ready().await;
    for pid in worker_processes(&workers) {
        rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }
    wait_until("the deaths are not noticed", || workers.isolation().status().restarted >= 2).await;
    wait_until("no spare was started again", || workers.isolation().status().ready >= 2).await;
    let bench = Bench::of_new_film("a.mp4", Container::Mp4, 3, ENCODER_ARGS);
    workers.isolation().discover(&bench.source).await.unwrap();
}
