//! Two hundred times: 32 writers, kill -9 at any moment, and what is stored afterwards held against the answers; once
//! with files damaged in five rounds of six, once on a disk that fills up, once with files that may not grow, once with
//! system calls that fail. The short form is a test of the server.

use std::path::PathBuf;

use crate::faults::CALLS;
use crate::kill::{self, Seen};
use crate::progress::films;

const ROUNDS: u64 = 200;

pub fn run() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let films: Vec<PathBuf> = films(folder.path(), 32);
    let rounds = std::env::var("HEARTHCAST_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let chosen = std::env::var("HEARTHCAST_KEPT").unwrap_or_default();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    println!(
        "| {rounds} rounds | acknowledged | refused | unknown | missing | refused but stored | damage mended | slowest start, s |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let row = |name: &str, run: &dyn Fn() -> Option<Seen>| {
        if !chosen.is_empty() && chosen != name {
            return;
        }
        let Some(seen) = run() else {
            return println!("| {name} | no disk of its own can be mounted here |");
        };
        let Seen { acknowledged, refused, unknown, mended, slowest_start, faults, failed_starts } = seen;
        let slowest = slowest_start.as_secs_f64();
        println!("| {name} | {acknowledged} | {refused} | {unknown} | 0 | 0 | {mended} | {slowest:.2} |");
        if faults.iter().any(|count| *count > 0) {
            let counts: Vec<String> = CALLS.iter().zip(faults).map(|(call, count)| format!("{call} {count}")).collect();
            println!("\nfailed calls: {}; {failed_starts} starts ended with an error\n", counts.join(", "));
        }
    };
    let roots = [folder.path()];
    let disk_full = |own_disk| runtime.block_on(kill::rounds_with_the_disk_full(&roots, &films, rounds, own_disk));
    row("damaged files", &|| Some(runtime.block_on(kill::rounds(&roots, &films, rounds))));
    row("disk full", &|| disk_full(true));
    row("files limited", &|| disk_full(false));
    row("failing calls", &|| Some(runtime.block_on(kill::rounds_with_faults(&roots, &films, rounds))));
}
