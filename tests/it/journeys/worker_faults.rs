//! Faults of the decoder in a worker: what the viewers notice, what goes in quarantine, and what is left.
//!
//! `HEARTHCAST_FAULT_ROUNDS=50` repeats each fault as often and each signal twice as often, with twenty viewers of other
//! films, and prints a table.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hearthcast::config::BackendSetting;
use hearthcast::domain::access::Role;
use hearthcast::domain::worker::{ProvenFault, Stage};
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::sessions::session_path;
use crate::kit::decoder_faults::{copy_as_another_film, make_film, worker_program};
use crate::kit::response::{expect_success, send_until_ready};
use crate::kit::wait::{MAX_WAIT, wait_until};
use crate::kit::{self, Server};

/// Seconds of the film before the fault.
const HEALTHY_SECONDS: u32 = 6;

/// Seconds of a film of which a run makes only a part before a viewer has read on.
const LONG_SECONDS: u32 = 30;

/// How often each fault happens, and how many others watch meanwhile.
#[derive(Clone, Copy)]
struct Scale {
    rounds: u64,
    viewers: u64,
}

impl Scale {
    fn of_environment() -> Self {
        match std::env::var("HEARTHCAST_FAULT_ROUNDS") {
            Ok(rounds) => Self { rounds: rounds.parse().expect("HEARTHCAST_FAULT_ROUNDS is a number"), viewers: 20 },
            Err(_) => Self { rounds: 1, viewers: 2 },
        }
    }
}

/// A server over a folder of films whose workers can be made to fail.
struct FaultyHouse {
    folder: TempDir,
    server: Server,
}

impl FaultyHouse {
    async fn open(fault: &str, healthy_seconds: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        make_film(&folder.path().join("healthy.mp4"), "none", HEALTHY_SECONDS);
        make_film(&folder.path().join("faulty.mp4"), fault, healthy_seconds);
        let roots = [folder.path()];
        let server = kit::start_server_with(&roots, |config| {
            config.backend = BackendSetting::Gstreamer;
            config.worker_program = worker_program().to_owned();
            config.limits.sessions_per_user = 64;
            config.limits.concurrent_jobs = 32;
        });
        let server = server.await;
        Self { folder, server }
    }

    /// A film that was never seen before.
    fn film(&self, kind: &str, number: u64) -> PathBuf {
        let path = self.folder.path().join(format!("{kind}-{number}.mp4"));
        copy_as_another_film(&self.folder.path().join(format!("{kind}.mp4")), &path, number);
        path
    }

    /// Plays a film to its end, and calls `after_segment` with the number of segments played. The wait for each segment.
    async fn play(&self, film: &Path, after_segment: impl Fn(usize)) -> Vec<Duration> {
        self.play_as("viewer", film, after_segment).await
    }

    /// Like [`Self::play`], as a user of this name: the same film started twice by one user is one session.
    async fn play_as(&self, user: &str, film: &Path, after_segment: impl Fn(usize)) -> Vec<Duration> {
        let token = self.server.service.accounts.issue_token(user, Role::User).await.unwrap();
        self.media_info(film).await;
        let post = |path: &str, body| {
            self.server.client.post(format!("{}{path}", self.server.base)).bearer_auth(&token).json(&body).send()
        };
        let body = json!({"mediaPath": film.to_str().unwrap(), "forceTranscode": true});
        let started = post("/api/stream/transcode/start", body).await.unwrap();
        let session: Value = expect_success(started, 200).await;
        let path = session_path(&session);
        let master = self.playlist(&token, session["playlistUrl"].as_str().unwrap()).await;
        let variant = m3u8_rs::parse_master_playlist_res(&master).unwrap().variants[0].uri.clone();
        let playlist = self.playlist(&token, &format!("{path}/{variant}")).await;
        let segments = m3u8_rs::parse_media_playlist_res(&playlist).unwrap().segments;
        assert!(segments.len() >= 4, "{} segments", segments.len());
        let mut waits = Vec::new();
        for (index, segment) in segments.iter().enumerate() {
            let (bytes, wait) = self.get(&token, &format!("{path}/{}", segment.uri)).await;
            assert!(!bytes.is_empty(), "segment {index} of {} is empty", film.display());
            waits.push(wait);
            after_segment(index + 1);
        }
        let stopped = post(&format!("{path}/stop"), json!({})).await.unwrap();
        assert!(stopped.status().is_success(), "{}", stopped.status());
        waits
    }

    /// Requests media info until it is known.
    async fn media_info(&self, film: &Path) -> String {
        let address = format!("/api/stream/info/full?path={}", film.to_str().unwrap().replace('/', "%2F"));
        let answer = send_until_ready(self.server.get(&address)).await;
        let status = answer.status();
        let info = answer.text().await.unwrap();
        assert_eq!(status, 200, "{}: {info}", film.display());
        info
    }

    /// A playlist; the request is repeated while the session is being prepared.
    async fn playlist(&self, token: &str, path: &str) -> Vec<u8> {
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            let (body, _) = self.get(token, path).await;
            if body.starts_with(b"#EXTM3U") {
                return body;
            }
            assert!(Instant::now() < deadline, "{path} is still being prepared");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The body of a successful answer, and the time until it was complete.
    async fn get(&self, token: &str, path: &str) -> (Vec<u8>, Duration) {
        let started_at = Instant::now();
        let request = self.server.client.get(format!("{}{path}", self.server.base)).bearer_auth(token);
        let answer = request.send().await.unwrap();
        let status = answer.status();
        let body = answer.bytes().await.unwrap().to_vec();
        assert_eq!(status, 200, "{path}: {}", String::from_utf8_lossy(&body));
        let wait = started_at.elapsed();
        assert!(wait < MAX_WAIT, "{path} took {wait:?}");
        (body, wait)
    }

    /// Films that others play meanwhile, all to their end; four viewers a film.
    async fn play_others(&self, viewers: u64, round: u64) -> Duration {
        let film_count = viewers.div_ceil(4);
        let films: Vec<PathBuf> = (0..film_count).map(|n| self.film("healthy", round * film_count + n)).collect();
        let names: Vec<String> = (0..viewers).map(|viewer| format!("viewer-{viewer}")).collect();
        let playing = names.iter().zip(films.iter().cycle()).map(|(name, film)| self.play_as(name, film, |_| ()));
        let waits = futures_util::future::join_all(playing).await;
        waits.into_iter().flatten().max().unwrap_or_default()
    }

    fn quarantined(&self) -> Vec<ProvenFault> {
        self.server.service.quarantine.list().into_iter().map(|entry| entry.fault).collect()
    }

    fn busy_workers(&self) -> usize {
        self.server.service.isolation.status().busy
    }

    /// Waits until nothing works any more, and no process or descriptor has one of the films.
    async fn wait_until_idle(&self) {
        let folder = self.folder.path();
        wait_until("something still works", || self.busy_workers() == 0 && readers(folder).is_empty()).await;
        let own = std::process::id().cast_signed();
        wait_until("this process has a film open", || !has_open(own, folder)).await;
    }
}

/// Whether a process has a file open in this folder.
fn has_open(pid: i32, folder: &Path) -> bool {
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    links
        .filter_map(|link| std::fs::read_link(link.path()).ok())
        .any(|file| file.starts_with(folder) && file.extension().is_some_and(|extension| extension == "mp4"))
}

/// Other processes that have a file open below this path.
fn readers(path: &Path) -> Vec<i32> {
    let processes =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let own = std::process::id().cast_signed();
    processes.filter(|pid| *pid != own && has_open(*pid, path)).collect()
}

fn longest(waits: &[Duration]) -> Duration {
    waits.iter().copied().max().unwrap_or_default()
}

/// A line of the report.
fn report(fault: &str, mut waits: Vec<Duration>, others: Duration) {
    waits.sort();
    let (median, worst) = (waits[waits.len() / 2], waits[waits.len() - 1]);
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
    println!(
        "{fault}: {} rounds, viewer's longest wait {median:.2?} (median), {worst:.2?} (worst); others' {others:.2?}; \
         then {descriptors} descriptors, {} MB",
        waits.len(),
        pages / 256
    );
}

/// Plays a film whose decoder fails in the middle, while others watch other films.
async fn fail_in_the_middle(fault: &str) {
    let scale = Scale::of_environment();
    let (mut waits, mut others) = (Vec::new(), Duration::ZERO);
    for round in 0..scale.rounds {
        // Deaths with three files within ten seconds would be the machine's fault, so each round has its server.
        let house = FaultyHouse::open(fault, HEALTHY_SECONDS).await;
        let film = house.film("faulty", round);
        let (victim, other) = tokio::join!(house.play(&film, |_| ()), house.play_others(scale.viewers, round));
        waits.push(longest(&victim));
        others = others.max(other);
        wait_until("nothing is in quarantine", || !house.quarantined().is_empty()).await;
        house.wait_until_idle().await;
        let faults = house.quarantined();
        let marked: Vec<_> = faults.iter().map(|one| (one.path.as_str(), one.key.stage)).collect();
        assert_eq!(marked, [(film.to_str().unwrap(), Stage::Run)], "{faults:?}");
        // The next viewer of this film meets no fault.
        let deaths = house.server.service.isolation.status().restarted;
        house.play(&film, |_| ()).await;
        assert_eq!(house.server.service.isolation.status().restarted, deaths);
    }
    report(fault, waits, others);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decoder_that_writes_to_null_ends_one_worker_only() {
    fail_in_the_middle("null-write").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decoder_that_aborts_ends_one_worker_only() {
    fail_in_the_middle("abort").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decoder_that_recurses_endlessly_ends_one_worker_only() {
    fail_in_the_middle("recursion").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decoder_that_takes_all_memory_ends_one_worker_only() {
    fail_in_the_middle("hog").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decoder_that_sleeps_is_replaced() {
    fail_in_the_middle("sleep").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_film_that_crashes_its_probe_is_probed_by_ffprobe() {
    let house = FaultyHouse::open("null-write", 0).await;
    let film = house.film("faulty", 0);
    let info = house.media_info(&film).await;
    assert!(info.contains("h264"), "{info}");
    wait_until("nothing is in quarantine", || !house.quarantined().is_empty()).await;
    house.wait_until_idle().await;
    let faults = house.quarantined();
    let marked: Vec<_> = faults.iter().map(|one| (one.path.as_str(), one.key.stage)).collect();
    assert_eq!(marked, [(film.to_str().unwrap(), Stage::Probe)], "{faults:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_from_outside_put_no_film_in_quarantine() {
    let scale = Scale::of_environment();
    let house = FaultyHouse::open("none", LONG_SECONDS).await;
    for signal in [Signal::KILL, Signal::SEGV, Signal::STOP] {
        let mut waits = Vec::new();
        let rounds = if scale.rounds > 1 { 2 * scale.rounds } else { 1 };
        for round in 0..rounds {
            let film = house.film("faulty", round);
            // Workers that have made their number of probes are replaced too.
            let deaths = || {
                let pool = house.server.service.isolation.status();
                pool.restarted - pool.causes.get("recycled").copied().unwrap_or_default()
            };
            let deaths_before = deaths();
            // The run's worker, and sometimes the one that has just examined the film.
            let signalled = Cell::new(0);
            let played = house.play(&film, |segments| {
                if segments == 1 {
                    let pids = readers(&film);
                    signalled.set(pids.len() as u64);
                    for pid in pids {
                        let _ = rustix::process::kill_process(Pid::from_raw(pid).unwrap(), signal);
                    }
                }
            });
            waits.push(longest(&played.await));
            assert_ne!(signalled.get(), 0, "a worker reads the film");
            wait_until("a death is not counted", || deaths() - deaths_before >= signalled.get()).await;
            assert_eq!(deaths() - deaths_before, signalled.get(), "deaths by {signal:?}");
        }
        report(&format!("{signal:?}"), waits, Duration::ZERO);
    }
    house.wait_until_idle().await;
    assert_eq!(house.quarantined(), []);
}

/// A control group whose processes share a small amount of memory.
struct MemoryGroup(PathBuf);

impl MemoryGroup {
    const BYTES: u64 = 300 << 20;

    /// None where this process may not make one.
    fn create() -> Option<Self> {
        let name = format!("hearthcast-test-{}", std::process::id());
        let roots = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        roots.into_iter().find_map(|(root, limit)| {
            let folder = Path::new(root).join(&name);
            std::fs::create_dir(&folder).ok()?;
            let group = Self(folder);
            std::fs::write(group.0.join(limit), Self::BYTES.to_string()).ok()?;
            Some(group)
        })
    }

    fn add(&self, pid: u32) {
        std::fs::write(self.0.join("cgroup.procs"), pid.to_string()).unwrap();
    }

    /// Runs a process that takes memory until the kernel ends a process of the group, and then itself.
    fn run_out_of_memory(&self) {
        let script = format!("echo $$ > {}/cgroup.procs && exec tail /dev/zero", self.0.display());
        let status = std::process::Command::new("sh").args(["-c", &script]).status().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "{status}");
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_that_another_process_takes_puts_no_film_in_quarantine() {
    let Some(group) = MemoryGroup::create() else {
        eprintln!("skipped: this process may not make a control group with a memory limit");
        return;
    };
    let scale = Scale::of_environment();
    let house = FaultyHouse::open("none", LONG_SECONDS).await;
    // The kernel ends the process that takes the memory; with a higher score, the worker before it. Without memory, a worker may
    // also stand still for so long that it is replaced.
    for (worker_score, min_deaths) in [("0", 0), ("1000", 1)] {
        let mut waits = Vec::new();
        for round in 0..scale.rounds {
            let film = house.film("faulty", round);
            let deaths = house.server.service.isolation.status().restarted;
            let played = house.play(&film, |segments| {
                if segments == 1 {
                    for pid in readers(&film) {
                        std::fs::write(format!("/proc/{pid}/oom_score_adj"), worker_score).unwrap();
                        group.add(pid.cast_unsigned());
                    }
                    group.run_out_of_memory();
                }
            });
            waits.push(longest(&played.await));
            assert!(house.server.service.isolation.status().restarted - deaths >= min_deaths);
        }
        report(&format!("out of memory, worker's score {worker_score}"), waits, Duration::ZERO);
    }
    house.wait_until_idle().await;
    assert_eq!(house.quarantined(), []);
}
