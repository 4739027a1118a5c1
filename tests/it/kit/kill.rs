//! The program killed at any moment while many write, its files damaged now and then, and what stands afterwards.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::program::Program;

/// What was seen over all rounds.
#[derive(Debug, Default)]
pub struct Seen {
    pub acknowledged: u64,
    /// Rounds in which the server said that it found damage.
    pub mended: u64,
    pub slowest_start: Duration,
}

/// What a writer was told last, and what it sent last.
struct Told {
    film: PathBuf,
    acknowledged: u64,
    told: f64,
    sent: f64,
}

/// `rounds` times: writes to every film at once, kills, damages files in two rounds of five, starts, and holds what
/// stands against what was acknowledged. Panics when anything acknowledged is missing without a word.
pub async fn rounds(roots: &[&Path], films: &[PathBuf], rounds: u64) -> Seen {
    let mut program = Program::start(roots, &[]).await;
    let mut standing: HashMap<PathBuf, f64> = HashMap::new();
    let mut seen = Seen::default();
    for round in 0..rounds {
        let begin = standing.values().copied().fold(0.0, f64::max) + 10.0;
        let all = write_until_killed(&mut program, films, begin, Duration::from_millis(40 + round * 7919 % 400)).await;
        match round % 5 {
            1 => flip(&program.state().join("db"), round, 8),
            3 => flip(&program.state().join("journal"), round, 2),
            4 => std::fs::remove_dir_all(program.state().join("db")).expect("there is an index"),
            _ => {}
        }
        let said = program.log().len();
        let started = Instant::now();
        program.restart().await;
        seen.slowest_start = seen.slowest_start.max(started.elapsed());
        let log = program.log()[said..].to_owned();
        let damage = log.contains("damaged") || log.contains("cannot be opened") || log.contains("lost its end");
        seen.mended += u64::from(damage);
        for Told { film, acknowledged, told, sent } in all {
            seen.acknowledged += acknowledged;
            let stands = position(&program, &film).await;
            let floor = if acknowledged > 0 { told } else { standing.get(&film).copied().unwrap_or(0.0) };
            // A journal damaged after a crash may have held the only copy of the last half second: that is said.
            let excused = round % 5 == 3 && log.contains("the journal is damaged");
            assert!(
                stands >= floor || excused,
                "round {round}, {}: {floor} was acknowledged, {stands} stands\n{log}",
                film.display()
            );
            assert!(stands <= sent, "round {round}: {stands} was never sent");
            standing.insert(film, stands);
        }
    }
    assert!(standing.values().all(|position| *position > 10.0), "writers got through: {standing:?}");
    seen
}

async fn write_until_killed(program: &mut Program, films: &[PathBuf], begin: f64, after: Duration) -> Vec<Told> {
    let writer = |film: PathBuf| {
        let client = program.client.clone();
        let (url, token) = (format!("{}/api/stream/progress", program.base), program.token.clone());
        async move {
            let mut last = Told { film, acknowledged: 0, told: begin, sent: begin };
            loop {
                last.sent += 1.0;
                let body = json!({"mediaPath": last.film, "positionSeconds": last.sent, "durationSeconds": 1e9});
                let Ok(answer) = client.post(&url).bearer_auth(&token).json(&body).send().await else { return last };
                assert_eq!(answer.status(), 200);
                let Ok(record) = answer.json::<Value>().await else { return last };
                last.told = record["positionSeconds"].as_f64().expect("a record has a position");
                last.acknowledged += 1;
            }
        }
    };
    let writers: Vec<_> = films.iter().cloned().map(|film| tokio::spawn(writer(film))).collect();
    tokio::time::sleep(after).await;
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

/// Flips `count` bytes of a file, or of every file in a folder.
fn flip(path: &Path, seed: u64, count: u64) {
    if path.is_dir() {
        for entry in std::fs::read_dir(path).expect("a folder") {
            flip(&entry.expect("an entry").path(), seed, count);
        }
        return;
    }
    let mut bytes = std::fs::read(path).expect("a file");
    // sled takes space ahead: what is written lies at the beginning.
    let written = bytes.len().min(256 * 1024) as u64;
    for k in 0..count {
        if written > 0 {
            bytes[((seed * 7919 + k * 104_729) % written) as usize] ^= 0x20;
        }
    }
    std::fs::write(path, bytes).expect("written");
}
