//! The catalogue of 10,000 files, and search among 50,000.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::idle::settled_kib;
use crate::probe::percentile_millis;
use crate::program::ServerProcess;

/// Files of the two libraries.
const CATALOGUED_FILES: usize = 10_000;
const SEARCHED_FILES: usize = 50_000;

const QUERIES: usize = 1000;

/// Syllables of the words in titles.
const SYLLABLES: [&str; 24] = [
    "ka", "lo", "mer", "tin", "sol", "ba", "ren", "vi", "dor", "al", "ne", "gri", "ham", "ost", "pel", "qua", "rin",
    "sta", "tul", "um", "wes", "xan", "yo", "zer",
];

pub fn run() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(catalogue());
    runtime.block_on(search());
}

/// Time from the start of the server to a complete catalogue, and memory for each item.
async fn catalogue() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let empty = ServerProcess::start(&[folder.path()], &[]).await;
    let empty_kib = settled_kib(&empty).await;
    drop(empty);
    fill(folder.path(), CATALOGUED_FILES);
    let started = Instant::now();
    let mut program = ServerProcess::start(&[folder.path()], &[]).await;
    wait_for_all(&program, CATALOGUED_FILES).await;
    let seconds = started.elapsed().as_secs_f64();
    let bytes_each = |kib: u64| kib.saturating_sub(empty_kib) * 1024 / CATALOGUED_FILES as u64;
    let first = bytes_each(settled_kib(&program).await);
    program.kill();
    let restarted = Instant::now();
    program.restart().await;
    wait_for_all(&program, CATALOGUED_FILES).await;
    let restart_seconds = restarted.elapsed().as_secs_f64();
    let later = bytes_each(settled_kib(&program).await);
    println!("{CATALOGUED_FILES} files: catalogued in {seconds:.1} s, {first} bytes of memory each");
    println!("after a restart: complete in {restart_seconds:.1} s, {later} bytes each");
}

async fn search() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    fill(folder.path(), SEARCHED_FILES);
    let program = ServerProcess::start(&[folder.path()], &[]).await;
    wait_for_all(&program, SEARCHED_FILES).await;
    let mut times: Vec<Duration> = Vec::new();
    for number in 0..QUERIES {
        let word = word(number * 37);
        let query = match number % 4 {
            0 => word[..word.len().min(3)].to_owned(),
            1 => word,
            // Two letters exchanged.
            2 => format!("{}{}{}{}", &word[..1], &word[2..3], &word[1..2], &word[3..]),
            _ => format!("{word} {}", &self::word(number * 11)[..4]),
        };
        let started = Instant::now();
        let address = format!("/api/library/search?q={}", query.replace(' ', "%20"));
        let answer = program.get(&address).send().await.expect("an answer");
        assert_eq!(answer.status(), 200);
        answer.bytes().await.expect("a whole answer");
        times.push(started.elapsed());
    }
    let [median, worst] = [0.5, 0.99].map(|part| percentile_millis(times.clone(), part));
    println!("search among {SEARCHED_FILES} items over HTTP: median {median:.1} ms, p99 {worst:.1} ms");
}

/// Half films in folders of their own, the others episodes and music. A third has an NFO file, another third an image.
fn fill(root: &Path, files: usize) {
    for number in 0..files {
        let title = format!("{} {}", capitalized(number * 7), capitalized(number * 13 + 5));
        let year = 1950 + number % 75;
        let path = match number % 4 {
            0 | 1 => format!("Movies/{title} {number} ({year})/{title} {number} ({year}).1080p.BluRay.x264.mkv"),
            2 => format!(
                "TV/{}/Season {}/{title} S{:02}E{:02}.mkv",
                capitalized(number / 200),
                number / 40 % 5 + 1,
                number / 40 % 5 + 1,
                number % 40
            ),
            _ => format!(
                "Music/{}/{title} ({year})/{:02} - {}.m4a",
                capitalized(number / 100),
                number % 20 + 1,
                capitalized(number)
            ),
        };
        let path = root.join(path);
        let folder = path.parent().expect("in a folder");
        std::fs::create_dir_all(folder).expect("a folder");
        let mut bytes = b"\0\0\0\x14ftypisom\0\0\x02\0isom\0\0\0\0mdat".to_vec();
        bytes.extend(number.to_le_bytes().repeat(250));
        std::fs::write(&path, bytes).expect("a file");
        if number % 3 == 0 {
            let nfo = format!(
                "<movie><title>{title}</title><year>{year}</year><plot>{}</plot><genre>Drama</genre><genre>{}</genre>\
                 <actor><name>{} {}</name><role>One</role></actor></movie>",
                "A story in a few words. ".repeat(8),
                capitalized(number % 20),
                capitalized(number % 997),
                capitalized(number % 499 + 3)
            );
            std::fs::write(path.with_extension("nfo"), nfo).expect("a file");
        } else if number % 3 == 1 {
            std::fs::write(folder.join("poster.jpg"), b"\xff\xd8\xff").expect("a file");
        }
    }
}

/// One of some thousand words.
fn word(number: usize) -> String {
    let number = number % 7919;
    [number % 24, number / 24 % 24, number / 576 % 24].map(|at| SYLLABLES[at]).concat()
}

fn capitalized(number: usize) -> String {
    let word = word(number);
    word[..1].to_uppercase() + &word[1..]
}

async fn wait_for_all(program: &ServerProcess, files: usize) {
    loop {
        let answer = program.get("/api/library/items?limit=1").send().await.expect("an answer");
        let answer: serde_json::Value = answer.json().await.expect("JSON");
        if answer["scanning"] == false && answer["total"].as_u64().is_some_and(|total| total as usize >= files) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
