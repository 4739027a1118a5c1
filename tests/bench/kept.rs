//! Two hundred times: 32 writers, kill -9 at any moment, damaged files in two rounds of five, and what stands afterwards
//! held against what was acknowledged. The short form is a test of the server.

use std::path::PathBuf;

use crate::progress::films;

const ROUNDS: u64 = 200;

pub fn run() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let films: Vec<PathBuf> = films(folder.path(), 32);
    let rounds = std::env::var("HEARTHCAST_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let seen = runtime.block_on(crate::kill::rounds(&[folder.path()], &films, rounds));
    println!("| rounds | acknowledged | missing | damage found and mended | slowest start, s |\n|---|---|---|---|---|");
    let slowest = seen.slowest_start.as_secs_f64();
    println!("| {rounds} | {} | 0 | {} | {slowest:.2} |", seen.acknowledged, seen.mended);
}
