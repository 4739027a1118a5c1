//! Kills the program at any moment while many writers save, damages its files, fills its disk or makes system calls fail,
//! and checks what is stored afterwards: everything acknowledged, and nothing refused.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hearthcast::store::{Store, Tree};
use serde_json::{Value, json};

use super::damage::{DAMAGES, damage_files};
use super::disk::limit_file_size;
use super::faults::{CALLS, CallCounts, Fault};
use super::program::ServerProcess;
use super::wait::MAX_WAIT;

/// Counts over all rounds.
#[derive(Debug, Default)]
pub struct KillReport {
    pub acknowledged: u64,
    /// Saves answered with an error.
    pub refused: u64,
    /// Saves answered with "the outcome is unknown".
    pub unknown: u64,
    /// Rounds in which the server reported damage.
    pub damaged: u64,
    pub slowest_start: Duration,
    /// System calls that failed on request.
    pub faults: CallCounts,
    /// Starts that ended with an error because of those.
    pub failed_starts: u64,
}

/// Requests of one writer and the answers to them.
struct WriterLog {
    film: PathBuf,
    acknowledged: u64,
    refused: u64,
    last_acknowledged: f64,
    last_sent: f64,
    /// Positions sent after the last acknowledged one whose outcome is unknown or that were not answered.
    undecided: Vec<f64>,
    unknown: u64,
}

/// Each round writes to every film at once, kills the server, damages files (in five rounds of six), starts it, and
/// compares what is stored with what was acknowledged. Panics when anything acknowledged is missing.
pub async fn kill_rounds(roots: &[&Path], films: &[PathBuf], rounds: u64) -> KillReport {
    let mut program = ServerProcess::start(roots, &[]).await;
    let (mut stored_positions, mut report) = (HashMap::new(), KillReport::default());
    for round in 0..rounds {
        let pause = Duration::from_millis(40 + round * 7919 % 400);
        let writer_logs = write_until_killed(&mut program, films, &stored_positions, false, async |_| {
            tokio::time::sleep(pause).await
        })
        .await;
        damage_files(&program.state_folder(), DAMAGES[(round % 6) as usize], round);
        let log = restart_killed(&mut program, &mut report).await;
        check_stored(&program, writer_logs, &mut stored_positions, &mut report, &format!("round {round}\n{log}")).await;
    }
    assert!(stored_positions.values().all(|position| *position > 10.0), "writers made progress: {stored_positions:?}");
    report
}

/// Each round writes to every film at once, fills the disk, frees it again (in two rounds of three), kills the server,
/// starts it (in a sixth of the rounds with only 8 MiB free), and compares what is stored with what was acknowledged.
///
/// With `has_own_disk` the state lies on a tmpfs that is filled; returns None where none can be mounted. Without it, file sizes
/// are limited, so that writes fail halfway.
pub async fn kill_rounds_with_full_disk(
    roots: &[&Path],
    films: &[PathBuf],
    rounds: u64,
    has_own_disk: bool,
) -> Option<KillReport> {
    let mut program = ServerProcess::start_fillable(roots, has_own_disk).await?;
    let (mut stored_positions, mut report) = (HashMap::new(), KillReport::default());
    for round in 0..rounds {
        let pause = |salt: u64| tokio::time::sleep(Duration::from_millis(20 + (round * 7919 + salt * 104_729) % 150));
        let writer_logs = write_until_killed(&mut program, films, &stored_positions, false, async |program| {
            pause(1).await;
            fill_disk(program, round);
            pause(2).await;
            if round % 3 < 2 {
                free_disk(program);
                pause(3).await;
            }
        });
        let all = writer_logs.await;
        if round % 6 != 2 && program.disk().is_some() {
            free_disk(&program);
        }
        let log = restart_killed(&mut program, &mut report).await;
        check_stored(&program, all, &mut stored_positions, &mut report, &format!("round {round}\n{log}")).await;
        free_disk(&program);
        wait_until_saves_succeed(&program, &films[0], &mut stored_positions).await;
    }
    assert!(report.refused > 0 && report.acknowledged > 0, "{report:?}");
    Some(report)
}

/// Each round writes to every film at once while system calls on the files of the state fail, kills the server, starts it
/// while system calls fail, kills it, starts it, and compares what is stored with the answers: everything acknowledged is
/// there, nothing refused is.
///
/// Rounds differ in the calls that fail, their number and their error. Every few rounds the journal is so long that the
/// next changes make the server compact it.
pub async fn kill_rounds_with_faults(roots: &[&Path], films: &[PathBuf], rounds: u64) -> KillReport {
    let mut program = ServerProcess::start_with_faults(roots).await;
    let (mut stored_positions, mut report, mut calls_at_start) =
        (HashMap::new(), KillReport::default(), [0; CALLS.len()]);
    for round in 0..rounds {
        if round % 20 == 19 {
            eprintln!("round {}", round + 1);
        }
        let fault = fault_while_running(round);
        let writer_logs = write_until_killed(&mut program, films, &stored_positions, true, async |program| {
            let pause = |ms| tokio::time::sleep(Duration::from_millis(ms));
            // The first changes cause a compaction.
            pause(if is_compacted(round) { 0 } else { 20 + round * 7919 % 60 }).await;
            program.faults().arm(fault);
            // In some rounds longer than truncation is tried.
            pause(if round % 48 == 45 { 11_000 } else { 120 + round * 7919 % 250 }).await;
            // In half of the rounds the state is opened again before the kill.
            if round / 12 % 2 == 1 {
                program.faults().disarm();
                pause(400).await;
            }
        });
        let all = writer_logs.await;
        program.faults().disarm();
        let fault_of_start = try_start_with_fault(&mut program, &mut report, round, rounds, &calls_at_start).await;
        if is_compacted(round + 1) {
            lengthen_journal(&program.state_folder(), round * 7919 % 40_000).await;
        }
        let calls_before = program.faults().seen_calls();
        program.faults().count_only();
        let log = restart_killed(&mut program, &mut report).await;
        program.faults().disarm();
        calls_at_start = program.faults().seen_calls();
        calls_at_start.iter_mut().zip(calls_before).for_each(|(now, before)| *now -= before);
        let context = format!("round {round}, {fault:?}, then at the start {fault_of_start:?}\n{log}");
        check_stored(&program, all, &mut stored_positions, &mut report, &context).await;
    }
    report.faults = program.faults().failed_calls();
    report
}

/// The fault of a round while the server runs.
fn fault_while_running(round: u64) -> Fault {
    // The failing call moves on from round to round; compactions alone open files, and only a few.
    let step = round / 12;
    let (calls, errno, first) =
        kind_of_fault(round, |opens| if opens { 1 + step % 6 } else { 1 + step * 4 + round % 4 });
    let burst = [1, 4, 40, u64::MAX][(round / 3 % 4) as usize];
    Fault {
        call_names: calls,
        errno,
        first,
        burst,
        is_first_write_halved: errno == libc::ENOSPC && (round / 24).is_multiple_of(2),
    }
}

/// Starts the killed server while a call fails: over `rounds` rounds, ever later ones of the `calls` of a start. Kills it
/// if it starts nevertheless.
async fn try_start_with_fault(
    program: &mut ServerProcess,
    report: &mut KillReport,
    round: u64,
    rounds: u64,
    calls: &CallCounts,
) -> Fault {
    let calls_named = |names: &[&str]| -> u64 {
        let counted = CALLS.iter().zip(calls).filter(|(name, _)| names.is_empty() || names.contains(name));
        counted.map(|(_, count)| *count).sum()
    };
    let (calls, errno, _) = kind_of_fault(round, |_| 1);
    let (first, burst) = (1 + round * calls_named(calls) / rounds, [1, 3][(round / 3 % 2) as usize]);
    let fault = Fault {
        call_names: calls,
        errno,
        first,
        burst,
        is_first_write_halved: errno == libc::ENOSPC && (round / 6).is_multiple_of(2),
    };
    program.faults().arm(fault);
    wait_until_unlocked(&program.state_folder()).await;
    let log_start = program.log().len();
    let started = program.try_start().await;
    program.faults().disarm();
    program.kill();
    if let Err(status) = started {
        report.failed_starts += 1;
        assert_eq!(status.code(), Some(1), "a start fails with an error, {fault:?}: {}", &program.log()[log_start..]);
    }
    fault
}

/// The failing calls, their errno, and the first call that fails.
fn kind_of_fault(round: u64, first_failing: impl Fn(bool) -> u64) -> (&'static [&'static str], i32, u64) {
    const WRITING_CALLS: &[&str] = &[
        "write",
        "pwrite",
        "writev",
        "pwritev",
        "fsync",
        "fdatasync",
        "sync_file_range",
        "ftruncate",
        "fallocate",
        "rename",
        "link",
        "mkdir",
    ];
    match round % 3 {
        0 => (&[], libc::EIO, first_failing(false)),
        1 => (WRITING_CALLS, libc::ENOSPC, first_failing(false)),
        _ => (&["open"], libc::EMFILE, first_failing(true)),
    }
}

/// Whether the journal is compacted in this round.
fn is_compacted(round: u64) -> bool {
    round % 3 == 2 || round / 12 % 3 == 1
}

/// Lengthens the journal of a stopped server until about `room_bytes` bytes of changes trigger a compaction.
async fn lengthen_journal(state: &Path, room_bytes: u64) {
    /// The journal length at which the server compacts.
    const COMPACT_FROM_BYTES: u64 = 16 << 20;
    wait_until_unlocked(state).await;
    let store = Store::open_waiting(state).expect("the state opens");
    loop {
        let len = fs::metadata(state.join("journal")).expect("there is a journal").len();
        let missing_bytes = COMPACT_FROM_BYTES.saturating_sub(len + room_bytes);
        if missing_bytes < 2048 {
            break;
        }
        let filler = "x".repeat((missing_bytes - 1024).min(3 << 20) as usize);
        store.put(Tree::Progress, "filler", &filler).await.expect("there is space");
    }
    store.delete(Tree::Progress, "filler").await.expect("there is space");
}

fn fill_disk(program: &ServerProcess, round: u64) {
    match program.disk() {
        // Leaves room for a start on a full disk; otherwise fills to the last byte, into the reserve, or almost into it.
        Some(disk) if round % 6 == 2 => disk.fill_up_to((8 << 20) + round * 7919 % 4096),
        Some(disk) => disk.fill_up_to([0, 0, 1 << 20, 30 << 20][(round % 4) as usize] + round * 7919 % 4096),
        None => {
            let len = fs::metadata(program.state_folder().join("journal")).map_or(0, |meta| meta.len());
            limit_file_size(program.pid(), Some(len + round * 7919 % 8192));
        }
    }
}

fn free_disk(program: &ServerProcess) {
    match program.disk() {
        Some(disk) => disk.free(),
        None => limit_file_size(program.pid(), None),
    }
}

/// Waits until the state of a killed server can be opened: a forked child that has not yet executed its program still
/// holds the lock.
async fn wait_until_unlocked(state: &Path) {
    let deadline = Instant::now() + MAX_WAIT;
    let lock = fs::File::open(state.join("lock")).expect("there is a lock");
    while rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
        assert!(Instant::now() < deadline, "a killed server releases its state");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Starts the killed server; returns what it logged.
async fn restart_killed(program: &mut ServerProcess, report: &mut KillReport) -> String {
    wait_until_unlocked(&program.state_folder()).await;
    let log_start = program.log().len();
    let started = Instant::now();
    program.restart().await;
    report.slowest_start = report.slowest_start.max(started.elapsed());
    let log = program.log()[log_start..].to_owned();
    let is_damaged = log.contains("damaged") || log.contains("cannot be opened") || log.contains("lost its end");
    report.damaged += u64::from(is_damaged);
    log
}

/// Compares what is stored with what was acknowledged and sent.
async fn check_stored(
    program: &ServerProcess,
    writer_logs: Vec<WriterLog>,
    stored_positions: &mut HashMap<PathBuf, f64>,
    report: &mut KillReport,
    context: &str,
) {
    for WriterLog { film, acknowledged, refused, last_acknowledged, last_sent, undecided, unknown } in writer_logs {
        report.acknowledged += acknowledged;
        report.refused += refused;
        report.unknown += unknown;
        let stored = stored_position(program, &film).await;
        let floor =
            if acknowledged > 0 { last_acknowledged } else { stored_positions.get(&film).copied().unwrap_or(0.0) };
        let film_name = film.display();
        assert!(stored >= floor, "{film_name}: {floor} was acknowledged, {stored} is stored; {context}");
        assert!(stored <= last_sent, "{film_name}: {stored} was never sent; {context}");
        let is_explained = stored == floor || undecided.contains(&stored);
        assert!(is_explained, "{film_name}: {stored} was refused and is stored, {floor} was acknowledged; {context}");
        stored_positions.insert(film, stored);
    }
}

/// Waits until saves succeed again.
async fn wait_until_saves_succeed(program: &ServerProcess, film: &Path, stored_positions: &mut HashMap<PathBuf, f64>) {
    let deadline = Instant::now() + MAX_WAIT;
    let position = stored_positions.get(film).copied().unwrap_or(0.0) + 1.0;
    while save_position(program, film, position).await != 200 {
        assert!(Instant::now() < deadline, "saves succeed once there is space: {}", program.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stored_positions.insert(film.to_owned(), position);
}

async fn save_position(program: &ServerProcess, film: &Path, position: f64) -> u16 {
    let body = json!({"mediaPath": film, "positionSeconds": position, "durationSeconds": 1e9});
    let url = format!("{}/api/stream/progress", program.base);
    program.client.post(url).bearer_auth(&program.token).json(&body).send().await.expect("an answer").status().as_u16()
}

async fn write_until_killed(
    program: &mut ServerProcess,
    films: &[PathBuf],
    stored_positions: &HashMap<PathBuf, f64>,
    has_faults: bool,
    disturb: impl AsyncFnOnce(&ServerProcess),
) -> Vec<WriterLog> {
    let first_position = stored_positions.values().copied().fold(0.0, f64::max) + 10.0;
    let write_film = |film: PathBuf| {
        let client = program.client.clone();
        let (url, token) = (format!("{}/api/stream/progress", program.base), program.token.clone());
        async move {
            let (acknowledged, refused, unknown, undecided) = (0, 0, 0, Vec::new());
            let mut log = WriterLog {
                film,
                acknowledged,
                refused,
                last_acknowledged: first_position,
                last_sent: first_position,
                undecided,
                unknown,
            };
            loop {
                log.last_sent += 1.0;
                let body = json!({"mediaPath": log.film, "positionSeconds": log.last_sent, "durationSeconds": 1e9});
                let answer = async {
                    let answer = client.post(&url).bearer_auth(&token).json(&body).send().await.ok()?;
                    Some((answer.status().as_u16(), answer.json::<Value>().await.ok()?))
                };
                let Some((status, record)) = answer.await else {
                    log.undecided.push(log.last_sent);
                    return log;
                };
                let text = record["error"].as_str().unwrap_or_default();
                match (status, record["code"].as_str()) {
                    (200, _) => {
                        log.last_acknowledged = record["positionSeconds"].as_f64().expect("a record has a position");
                        log.acknowledged += 1;
                        log.undecided.clear();
                    }
                    (500, _) if text.contains("is unknown") => {
                        log.unknown += 1;
                        log.undecided.push(log.last_sent);
                    }
                    (507, Some("STORAGE_FULL")) => log.refused += 1,
                    // The index failed on the full disk and is being reopened.
                    (503, Some("SERVER_BUSY")) => {
                        log.refused += 1;
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    // The disk failed to read a requested record.
                    (500, _) if has_faults => log.refused += 1,
                    _ => panic!("{status}: {record}"),
                }
            }
        }
    };
    let writers: Vec<_> = films.iter().cloned().map(|film| tokio::spawn(write_film(film))).collect();
    disturb(program).await;
    assert!(program.is_running(), "the server survives disk errors: {}", program.log());
    program.kill();
    let mut logs = Vec::new();
    for writer in writers {
        logs.push(writer.await.expect("no writer panics"));
    }
    logs
}

async fn stored_position(program: &ServerProcess, film: &Path) -> f64 {
    let query = serde_urlencoded::to_string([("path", film.to_str().expect("plain text"))]).expect("plain text");
    let answer = program.get(&format!("/api/stream/progress?{query}")).send().await.expect("an answer");
    assert_eq!(answer.status(), 200, "{}", program.log());
    let answer: Value = answer.json().await.expect("JSON");
    answer["progress"]["positionSeconds"].as_f64().unwrap_or(0.0)
}
