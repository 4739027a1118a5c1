//! Kills the program at any moment while many writers save, damages its files, fills its disk or makes system calls fail,
//! and checks what is stored afterwards: everything acknowledged, and nothing refused.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hearthcast::store::{Store, Tree};
use serde_json::{Value, json};

use super::damage::{DAMAGES, damage};
use super::disk::limit_files;
use super::faults::{CALLS, Counts, Fault};
use super::program::Program;

/// Counts over all rounds.
#[derive(Debug, Default)]
pub struct Seen {
    pub acknowledged: u64,
    /// Saves answered with an error.
    pub refused: u64,
    /// Saves answered with "the outcome is unknown".
    pub unknown: u64,
    /// Rounds in which the server reported damage.
    pub mended: u64,
    pub slowest_start: Duration,
    /// System calls that failed on request.
    pub faults: Counts,
    /// Starts that ended with an error because of those.
    pub failed_starts: u64,
}

/// Requests of one writer and the answers to them.
struct Told {
    film: PathBuf,
    acknowledged: u64,
    refused: u64,
    told: f64,
    sent: f64,
    /// Positions sent after the last acknowledged one whose outcome is unknown or that were not answered.
    open: Vec<f64>,
    unknown: u64,
}

/// Each round writes to every film at once, kills the server, damages files (in five rounds of six), starts it, and
/// compares what is stored with what was acknowledged. Panics when anything acknowledged is missing.
pub async fn rounds(roots: &[&Path], films: &[PathBuf], rounds: u64) -> Seen {
    let mut program = Program::start(roots, &[]).await;
    let (mut standing, mut seen) = (HashMap::new(), Seen::default());
    for round in 0..rounds {
        let pause = Duration::from_millis(40 + round * 7919 % 400);
        let all =
            write_until_killed(&mut program, films, &standing, false, async |_| tokio::time::sleep(pause).await).await;
        damage(&program.state(), DAMAGES[(round % 6) as usize], round);
        let log = start(&mut program, &mut seen).await;
        hold(&program, all, &mut standing, &mut seen, &format!("round {round}\n{log}")).await;
    }
    assert!(standing.values().all(|position| *position > 10.0), "writers made progress: {standing:?}");
    seen
}

/// Each round writes to every film at once, fills the disk, frees it again (in two rounds of three), kills the server,
/// starts it (in a sixth of the rounds with only 8 MiB free), and compares what is stored with what was acknowledged.
///
/// With `own_disk` the state lies on a tmpfs that is filled; returns None where none can be mounted. Without it, file sizes
/// are limited, so that writes fail halfway.
pub async fn rounds_with_the_disk_full(
    roots: &[&Path],
    films: &[PathBuf],
    rounds: u64,
    own_disk: bool,
) -> Option<Seen> {
    let mut program = Program::start_fillable(roots, own_disk).await?;
    let (mut standing, mut seen) = (HashMap::new(), Seen::default());
    for round in 0..rounds {
        let pause = |salt: u64| tokio::time::sleep(Duration::from_millis(20 + (round * 7919 + salt * 104_729) % 150));
        let all = write_until_killed(&mut program, films, &standing, false, async |program| {
            pause(1).await;
            fill(program, round);
            pause(2).await;
            if round % 3 < 2 {
                free(program);
                pause(3).await;
            }
        });
        let all = all.await;
        if round % 6 != 2 && program.disk().is_some() {
            free(&program);
        }
        let log = start(&mut program, &mut seen).await;
        hold(&program, all, &mut standing, &mut seen, &format!("round {round}\n{log}")).await;
        free(&program);
        goes_on(&program, &films[0], &mut standing).await;
    }
    assert!(seen.refused > 0 && seen.acknowledged > 0, "{seen:?}");
    Some(seen)
}

/// Each round writes to every film at once while system calls on the files of the state fail, kills the server, starts it
/// while system calls fail, kills it, starts it, and compares what is stored with the answers: everything acknowledged is
/// there, nothing refused is.
///
/// Rounds differ in the calls that fail, their number and their error. Every few rounds the journal is so long that the
/// next changes make the server compact it.
pub async fn rounds_with_faults(roots: &[&Path], films: &[PathBuf], rounds: u64) -> Seen {
    let mut program = Program::start_with_faults(roots).await;
    let (mut standing, mut seen, mut calls) = (HashMap::new(), Seen::default(), [0; CALLS.len()]);
    for round in 0..rounds {
        if round % 20 == 19 {
            eprintln!("round {}", round + 1);
        }
        let fault = fault(round);
        let all = write_until_killed(&mut program, films, &standing, true, async |program| {
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
        let all = all.await;
        program.faults().disarm();
        let fault_of_start = start_with_a_fault(&mut program, &mut seen, round, rounds, &calls).await;
        if is_compacted(round + 1) {
            lengthen_journal(&program.state(), round * 7919 % 40_000).await;
        }
        let before = program.faults().seen();
        program.faults().count();
        let log = start(&mut program, &mut seen).await;
        program.faults().disarm();
        calls = program.faults().seen();
        calls.iter_mut().zip(before).for_each(|(now, before)| *now -= before);
        let what = format!("round {round}, {fault:?}, then at the start {fault_of_start:?}\n{log}");
        hold(&program, all, &mut standing, &mut seen, &what).await;
    }
    seen.faults = program.faults().injected();
    seen
}

/// The fault of a round while the server runs.
fn fault(round: u64) -> Fault {
    // The failing call moves on from round to round; compactions alone open files, and only a few.
    let step = round / 12;
    let (calls, errno, first) =
        kind_of_fault(round, |opens| if opens { 1 + step % 6 } else { 1 + step * 4 + round % 4 });
    let burst = [1, 4, 40, u64::MAX][(round / 3 % 4) as usize];
    Fault { calls, errno, first, burst, half: errno == libc::ENOSPC && (round / 24).is_multiple_of(2) }
}

/// Starts the killed server while a call fails: over `rounds` rounds, ever later ones of the `calls` of a start. Kills it
/// if it starts nevertheless.
async fn start_with_a_fault(program: &mut Program, seen: &mut Seen, round: u64, rounds: u64, calls: &Counts) -> Fault {
    let of_start = |names: &[&str]| -> u64 {
        let counted = CALLS.iter().zip(calls).filter(|(name, _)| names.is_empty() || names.contains(name));
        counted.map(|(_, count)| *count).sum()
    };
    let (calls, errno, _) = kind_of_fault(round, |_| 1);
    let (first, burst) = (1 + round * of_start(calls) / rounds, [1, 3][(round / 3 % 2) as usize]);
    let fault = Fault { calls, errno, first, burst, half: errno == libc::ENOSPC && (round / 6).is_multiple_of(2) };
    program.faults().arm(fault);
    until_released(&program.state()).await;
    let said = program.log().len();
    let started = program.try_start().await;
    program.faults().disarm();
    program.kill();
    if let Err(status) = started {
        seen.failed_starts += 1;
        assert_eq!(status.code(), Some(1), "a start fails with an error, {fault:?}: {}", &program.log()[said..]);
    }
    fault
}

/// The failing calls, their errno, and the first call that fails.
fn kind_of_fault(round: u64, first: impl Fn(bool) -> u64) -> (&'static [&'static str], i32, u64) {
    const GROWING: &[&str] = &[
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
        0 => (&[], libc::EIO, first(false)),
        1 => (GROWING, libc::ENOSPC, first(false)),
        _ => (&["open"], libc::EMFILE, first(true)),
    }
}

/// Whether the journal is compacted in this round.
fn is_compacted(round: u64) -> bool {
    round % 3 == 2 || round / 12 % 3 == 1
}

/// Lengthens the journal of a stopped server until about `room` bytes of changes trigger a compaction.
async fn lengthen_journal(state: &Path, room: u64) {
    /// The journal length at which the server compacts.
    const LONG: u64 = 16 << 20;
    until_released(state).await;
    let store = Store::open_waiting(state).expect("the state opens");
    loop {
        let len = fs::metadata(state.join("journal")).expect("there is a journal").len();
        let missing = LONG.saturating_sub(len + room);
        if missing < 2048 {
            break;
        }
        let filler = "x".repeat((missing - 1024).min(3 << 20) as usize);
        store.put(Tree::Progress, "filler", &filler).await.expect("there is space");
    }
    store.delete(Tree::Progress, "filler").await.expect("there is space");
}

fn fill(program: &Program, round: u64) {
    match program.disk() {
        // Leaves room for a start on a full disk; otherwise fills to the last byte, into the reserve, or almost into it.
        Some(disk) if round % 6 == 2 => disk.fill((8 << 20) + round * 7919 % 4096),
        Some(disk) => disk.fill([0, 0, 1 << 20, 30 << 20][(round % 4) as usize] + round * 7919 % 4096),
        None => {
            let len = fs::metadata(program.state().join("journal")).map_or(0, |meta| meta.len());
            limit_files(program.pid(), Some(len + round * 7919 % 8192));
        }
    }
}

fn free(program: &Program) {
    match program.disk() {
        Some(disk) => disk.free(),
        None => limit_files(program.pid(), None),
    }
}

/// Waits until the state of a killed server can be opened: a forked child that has not yet executed its program still
/// holds the lock.
async fn until_released(state: &Path) {
    let deadline = Instant::now() + Duration::from_secs(10);
    let lock = fs::File::open(state.join("lock")).expect("there is a lock");
    while rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
        assert!(Instant::now() < deadline, "a killed server releases its state");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Starts the killed server; returns what it logged.
async fn start(program: &mut Program, seen: &mut Seen) -> String {
    until_released(&program.state()).await;
    let said = program.log().len();
    let started = Instant::now();
    program.restart().await;
    seen.slowest_start = seen.slowest_start.max(started.elapsed());
    let log = program.log()[said..].to_owned();
    let damage = log.contains("damaged") || log.contains("cannot be opened") || log.contains("lost its end");
    seen.mended += u64::from(damage);
    log
}

/// Compares what is stored with what was acknowledged and sent.
async fn hold(program: &Program, all: Vec<Told>, standing: &mut HashMap<PathBuf, f64>, seen: &mut Seen, what: &str) {
    for Told { film, acknowledged, refused, told, sent, open, unknown } in all {
        seen.acknowledged += acknowledged;
        seen.refused += refused;
        seen.unknown += unknown;
        let stands = position(program, &film).await;
        let floor = if acknowledged > 0 { told } else { standing.get(&film).copied().unwrap_or(0.0) };
        let film_name = film.display();
        assert!(stands >= floor, "{film_name}: {floor} was acknowledged, {stands} is stored; {what}");
        assert!(stands <= sent, "{film_name}: {stands} was never sent; {what}");
        let answered = stands == floor || open.contains(&stands);
        assert!(answered, "{film_name}: {stands} was refused and is stored, {floor} was acknowledged; {what}");
        standing.insert(film, stands);
    }
}

/// Waits until saves succeed again.
async fn goes_on(program: &Program, film: &Path, standing: &mut HashMap<PathBuf, f64>) {
    let deadline = Instant::now() + Duration::from_secs(10);
    let position = standing.get(film).copied().unwrap_or(0.0) + 1.0;
    while save(program, film, position).await != 200 {
        assert!(Instant::now() < deadline, "saves succeed once there is space: {}", program.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    standing.insert(film.to_owned(), position);
}

async fn save(program: &Program, film: &Path, position: f64) -> u16 {
    let body = json!({"mediaPath": film, "positionSeconds": position, "durationSeconds": 1e9});
    let url = format!("{}/api/stream/progress", program.base);
    program.client.post(url).bearer_auth(&program.token).json(&body).send().await.expect("an answer").status().as_u16()
}

async fn write_until_killed(
    program: &mut Program,
    films: &[PathBuf],
    standing: &HashMap<PathBuf, f64>,
    injected: bool,
    meanwhile: impl AsyncFnOnce(&Program),
) -> Vec<Told> {
    let begin = standing.values().copied().fold(0.0, f64::max) + 10.0;
    let writer = |film: PathBuf| {
        let client = program.client.clone();
        let (url, token) = (format!("{}/api/stream/progress", program.base), program.token.clone());
        async move {
            let (acknowledged, refused, unknown, open) = (0, 0, 0, Vec::new());
            let mut last = Told { film, acknowledged, refused, told: begin, sent: begin, open, unknown };
            loop {
                last.sent += 1.0;
                let body = json!({"mediaPath": last.film, "positionSeconds": last.sent, "durationSeconds": 1e9});
                let answer = async {
                    let answer = client.post(&url).bearer_auth(&token).json(&body).send().await.ok()?;
                    Some((answer.status().as_u16(), answer.json::<Value>().await.ok()?))
                };
                let Some((status, record)) = answer.await else {
                    last.open.push(last.sent);
                    return last;
                };
                let text = record["error"].as_str().unwrap_or_default();
                match (status, record["code"].as_str()) {
                    (200, _) => {
                        last.told = record["positionSeconds"].as_f64().expect("a record has a position");
                        last.acknowledged += 1;
                        last.open.clear();
                    }
                    (500, _) if text.contains("is unknown") => {
                        last.unknown += 1;
                        last.open.push(last.sent);
                    }
                    (507, Some("STORAGE_FULL")) => last.refused += 1,
                    // The state is being opened again, or the disk failed to read a requested record.
                    (503 | 500, _) if injected => {
                        last.refused += 1;
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    _ => panic!("{status}: {record}"),
                }
            }
        }
    };
    let writers: Vec<_> = films.iter().cloned().map(|film| tokio::spawn(writer(film))).collect();
    meanwhile(program).await;
    assert!(program.lives(), "the server survives disk errors: {}", program.log());
    program.kill();
    let mut all = Vec::new();
    for writer in writers {
        all.push(writer.await.expect("no writer panics"));
    }
    all
}

async fn position(program: &Program, film: &Path) -> f64 {
    let query = serde_urlencoded::to_string([("path", film.to_str().expect("plain text"))]).expect("plain text");
    let answer = program.get(&format!("/api/stream/progress?{query}")).send().await.expect("an answer");
    assert_eq!(answer.status(), 200, "{}", program.log());
    let answer: Value = answer.json().await.expect("JSON");
    answer["progress"]["positionSeconds"].as_f64().unwrap_or(0.0)
}
