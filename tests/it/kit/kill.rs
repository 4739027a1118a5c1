//! The program killed at any moment while many write, its files damaged now and then, its disk full, or its system calls
//! failing, and what is stored afterwards: what was acknowledged, and nothing that was refused.

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

/// What was seen over all rounds.
#[derive(Debug, Default)]
pub struct Seen {
    pub acknowledged: u64,
    /// Saves answered with an error.
    pub refused: u64,
    /// Saves answered that the outcome is unknown.
    pub unknown: u64,
    /// Rounds in which the server said that it found damage.
    pub mended: u64,
    pub slowest_start: Duration,
    /// System calls that failed on request.
    pub faults: Counts,
    /// Starts that ended with an error because of that.
    pub failed_starts: u64,
}

/// What a writer was told last, and what it sent last.
struct Told {
    film: PathBuf,
    acknowledged: u64,
    refused: u64,
    told: f64,
    sent: f64,
    /// Sent and not answered, or answered that the outcome is unknown, after what was acknowledged last.
    open: Vec<f64>,
    unknown: u64,
}

/// `rounds` times: writes to every film at once, kills, damages files in five rounds of six, starts, and holds what
/// stands against what was acknowledged. Panics when anything acknowledged is missing.
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
    assert!(standing.values().all(|position| *position > 10.0), "writers got through: {standing:?}");
    seen
}

/// `rounds` times: writes to every film at once, fills the disk and in two rounds of three frees it again, kills, starts
/// (in a sixth of the rounds with the disk still full but for 8 MiB), and holds what stands against what was acknowledged.
///
/// With `own_disk` the state lies on a tmpfs that is filled; gives None where none can be mounted. Without it the size
/// of files is limited, so that writes fail in their middle.
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

/// `rounds` times: writes to every film at once while system calls on the files of the state fail, kills, starts while
/// system calls fail, kills, starts, and holds what is stored against the answers: what was acknowledged is there, and what
/// was refused is not.
///
/// In each round other calls fail, another number of them, and with another error. Every few rounds the journal is so
/// long that the next changes let it be compacted.
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
            // A compaction comes with the first changes.
            pause(if is_compacted(round) { 0 } else { 20 + round * 7919 % 60 }).await;
            program.faults().arm(fault);
            // In some rounds as long as truncation is tried, and longer.
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

/// What fails in a round while the server runs.
fn fault(round: u64) -> Fault {
    // At ever later calls; those that open files come with a compaction, and are few.
    let step = round / 12;
    let (calls, errno, first) =
        kind_of_fault(round, |opens| if opens { 1 + step % 6 } else { 1 + step * 4 + round % 4 });
    let burst = [1, 4, 40, u64::MAX][(round / 3 % 4) as usize];
    Fault { calls, errno, first, burst, half: errno == libc::ENOSPC && (round / 24).is_multiple_of(2) }
}

/// Starts the killed server while a call fails, of `rounds` at ever later ones of the `calls` of a start; kills it where it
/// started all the same.
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

/// Calls, an errno that they give, and the first one that fails.
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

/// Whether the journal is compacted in a round.
fn is_compacted(round: u64) -> bool {
    round % 3 == 2 || round / 12 % 3 == 1
}

/// Makes the journal of a server that does not run so long that some `room` bytes of changes let it be compacted.
async fn lengthen_journal(state: &Path, room: u64) {
    /// Where the server begins to compact.
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
        // With what a start needs, where it starts so; else to the last byte, into the reserve, or almost into it.
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

/// Waits until the state of a killed server can be opened: a child that was forked and does not run its program yet still
/// has the lock.
async fn until_released(state: &Path) {
    let deadline = Instant::now() + Duration::from_secs(10);
    let lock = fs::File::open(state.join("lock")).expect("there is a lock");
    while rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
        assert!(Instant::now() < deadline, "a killed server lets go of its state");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Starts what was killed; gives what it said.
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

/// Holds what stands against what was acknowledged and what was sent.
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

/// Waits until saves are taken again.
async fn goes_on(program: &Program, film: &Path, standing: &mut HashMap<PathBuf, f64>) {
    let deadline = Instant::now() + Duration::from_secs(10);
    let position = standing.get(film).copied().unwrap_or(0.0) + 1.0;
    while save(program, film, position).await != 200 {
        assert!(Instant::now() < deadline, "saves go on once there is space: {}", program.log());
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
                    // The state is being opened again, or the disk did not give a record that was asked for.
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
    assert!(program.lives(), "it outlives what its disk does: {}", program.log());
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
