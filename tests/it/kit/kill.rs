//! The program killed at any moment while many write, its files damaged now and then or its disk full, and what stands
//! afterwards.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::disk::limit_files;
use super::program::Program;

/// What was seen over all rounds.
#[derive(Debug, Default)]
pub struct Seen {
    pub acknowledged: u64,
    /// Saves answered that the disk is full.
    pub refused: u64,
    /// Rounds in which the server said that it found damage.
    pub mended: u64,
    pub slowest_start: Duration,
}

/// What a writer was told last, and what it sent last.
struct Told {
    film: PathBuf,
    acknowledged: u64,
    refused: u64,
    told: f64,
    sent: f64,
}

/// What was done to the files of a killed server.
#[derive(Clone, Copy, Debug)]
enum Damage {
    None,
    Index,
    Tail,
    Journal,
    NoIndex,
    JournalCut,
}

const DAMAGES: [Damage; 6] =
    [Damage::None, Damage::Index, Damage::Tail, Damage::Journal, Damage::NoIndex, Damage::JournalCut];

/// `rounds` times: writes to every film at once, kills, damages files in five rounds of six, starts, and holds what
/// stands against what was acknowledged. Panics when anything acknowledged is missing.
pub async fn rounds(roots: &[&Path], films: &[PathBuf], rounds: u64) -> Seen {
    let mut program = Program::start(roots, &[]).await;
    let (mut standing, mut seen) = (HashMap::new(), Seen::default());
    for round in 0..rounds {
        let pause = Duration::from_millis(40 + round * 7919 % 400);
        let all = write_until_killed(&mut program, films, &standing, async |_| tokio::time::sleep(pause).await).await;
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
        let all = write_until_killed(&mut program, films, &standing, async |program| {
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

/// Starts what was killed; gives what it said.
async fn start(program: &mut Program, seen: &mut Seen) -> String {
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
    for Told { film, acknowledged, refused, told, sent } in all {
        seen.acknowledged += acknowledged;
        seen.refused += refused;
        let stands = position(program, &film).await;
        let floor = if acknowledged > 0 { told } else { standing.get(&film).copied().unwrap_or(0.0) };
        let film_name = film.display();
        assert!(stands >= floor, "{film_name}: {floor} was acknowledged, {stands} stands; {what}");
        assert!(stands <= sent, "{film_name}: {stands} was never sent; {what}");
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
    meanwhile: impl AsyncFnOnce(&Program),
) -> Vec<Told> {
    let begin = standing.values().copied().fold(0.0, f64::max) + 10.0;
    let writer = |film: PathBuf| {
        let client = program.client.clone();
        let (url, token) = (format!("{}/api/stream/progress", program.base), program.token.clone());
        async move {
            let mut last = Told { film, acknowledged: 0, refused: 0, told: begin, sent: begin };
            loop {
                last.sent += 1.0;
                let body = json!({"mediaPath": last.film, "positionSeconds": last.sent, "durationSeconds": 1e9});
                let Ok(answer) = client.post(&url).bearer_auth(&token).json(&body).send().await else { return last };
                let status = answer.status().as_u16();
                let Ok(record) = answer.json::<Value>().await else { return last };
                if status == 507 {
                    assert_eq!(record["code"], "STORAGE_FULL");
                    last.refused += 1;
                    continue;
                }
                assert_eq!(status, 200, "{record}");
                last.told = record["positionSeconds"].as_f64().expect("a record has a position");
                last.acknowledged += 1;
            }
        }
    };
    let writers: Vec<_> = films.iter().cloned().map(|film| tokio::spawn(writer(film))).collect();
    meanwhile(program).await;
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

fn damage(state: &Path, damage: Damage, seed: u64) {
    match damage {
        Damage::None => {}
        Damage::Index => flip(&state.join("db"), seed, 8),
        Damage::Tail => flip(&state.join("journal.tail"), seed, 2),
        Damage::Journal => flip(&state.join("journal"), seed, 2),
        Damage::NoIndex => fs::remove_dir_all(state.join("db")).expect("there is an index"),
        Damage::JournalCut => {
            let file = fs::File::options().write(true).open(state.join("journal")).expect("there is a journal");
            let len = file.metadata().expect("it has a length").len();
            file.set_len(len.saturating_sub(seed * 7919 % 4096)).expect("it can be cut");
        }
    }
}

/// Flips `count` bytes of a file, or of every file in a folder: the last one near the end of what is written.
fn flip(path: &Path, seed: u64, count: u64) {
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("a folder") {
            flip(&entry.expect("an entry").path(), seed, count);
        }
        return;
    }
    let mut bytes = fs::read(path).expect("a file");
    // sled takes space ahead: what is written lies at the beginning.
    let written = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1);
    for k in 0..count {
        if written > 0 {
            let step = seed * 7919 + k * 104_729;
            let at = if k + 1 == count { written - 1 - step % written.min(2048) } else { step % written };
            bytes[at as usize] ^= 0x20;
        }
    }
    fs::write(path, bytes).expect("written");
}
