//! Two hundred rounds: 32 writers, kill -9 at any moment, then the stored records are compared with the answers. One row
//! damages files in five rounds of six, one fills the disk, one limits file sizes, one makes system calls fail. A short
//! version is an integration test.

use std::path::PathBuf;

use crate::faults::CALLS;
use crate::kill::{self, KillReport};
use crate::progress::make_films;

const ROUNDS: u64 = 200;

pub fn run() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let films: Vec<PathBuf> = make_films(folder.path(), 32);
    let rounds = std::env::var("HEARTHCAST_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let selected_row = std::env::var("HEARTHCAST_KEPT").unwrap_or_default();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    println!(
        "| {rounds} rounds | acknowledged | refused | unknown | missing | refused but stored | damage found | slowest start, s |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let row = |name: &str, run: &dyn Fn() -> Option<KillReport>| {
        if !selected_row.is_empty() && selected_row != name {
            return;
        }
        let Some(report) = run() else {
            return println!("| {name} | no tmpfs can be mounted here |");
        };
        let KillReport { acknowledged, refused, unknown, damaged, slowest_start, faults, failed_starts } = report;
        let slowest = slowest_start.as_secs_f64();
        println!("| {name} | {acknowledged} | {refused} | {unknown} | 0 | 0 | {damaged} | {slowest:.2} |");
        if faults.iter().any(|count| *count > 0) {
            let counts: Vec<String> = CALLS.iter().zip(faults).map(|(call, count)| format!("{call} {count}")).collect();
            println!("\nfailed calls: {}; {failed_starts} starts ended with an error\n", counts.join(", "));
        }
    };
    let roots = [folder.path()];
    let disk_full = |own_disk| runtime.block_on(kill::kill_rounds_with_full_disk(&roots, &films, rounds, own_disk));
    row("damaged files", &|| Some(runtime.block_on(kill::kill_rounds(&roots, &films, rounds))));
    row("disk full", &|| disk_full(true));
    row("files limited", &|| disk_full(false));
    row("failing calls", &|| Some(runtime.block_on(kill::kill_rounds_with_faults(&roots, &films, rounds))));
}
