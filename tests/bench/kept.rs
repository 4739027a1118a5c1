//! Two hundred times: 32 writers, kill -9 at any moment, and what stands afterwards held against what was acknowledged;
//! once with files damaged in five rounds of six, once on a disk that fills up, once with files that may not grow. The
//! short form is a test of the server.

use std::path::PathBuf;

use crate::kill::{self, Seen};
use crate::progress::films;

const ROUNDS: u64 = 200;

pub fn run() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let films: Vec<PathBuf> = films(folder.path(), 32);
    let rounds = std::env::var("HEARTHCAST_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    println!(
        "| {rounds} rounds | acknowledged | refused | missing | damage mended | slowest start, s |\n|---|---|---|---|---|---|"
    );
    let row = |name: &str, seen: Option<Seen>| match seen {
        Some(Seen { acknowledged, refused, mended, slowest_start }) => {
            println!("| {name} | {acknowledged} | {refused} | 0 | {mended} | {:.2} |", slowest_start.as_secs_f64());
        }
        None => println!("| {name} | no disk of its own can be mounted here |"),
    };
    let roots = [folder.path()];
    row("damaged files", Some(runtime.block_on(kill::rounds(&roots, &films, rounds))));
    row("disk full", runtime.block_on(kill::rounds_with_the_disk_full(&roots, &films, rounds, true)));
    row("files limited", runtime.block_on(kill::rounds_with_the_disk_full(&roots, &films, rounds, false)));
}
