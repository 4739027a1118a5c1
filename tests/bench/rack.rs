//! Remote workers and several servers, with the real programs nats-server and PostgreSQL: the speed of two workers, the time that
//! a worker adds to a segment, what viewers notice when something is killed, and the time of a save. `scripts/bench rack` runs all of it, and
//! `HEARTHCAST_BENCH_PART` (`workers`, `added`, `kill-worker`, `kill-queue`, `kill-database`, `kill-server`, `saves`, `start`) one part.

use std::path::Path;

#[path = "../it/rack/certificates.rs"]
mod certificates;
/// Kill -9 of what a server needs, with viewers.
mod kills;
/// Films, and stand-ins for ffmpeg.
mod media;
#[path = "../it/rack/nats_server.rs"]
mod nats_server;
#[path = "../it/rack/nginx_server.rs"]
mod nginx_server;
#[path = "../it/rack/postgres_server.rs"]
#[allow(dead_code, reason = "the tests need more of it")]
mod postgres_server;
#[path = "../it/rack/s3_server.rs"]
#[allow(dead_code, reason = "the tests need more of it")]
mod s3_server;
/// The time of a save by where the state is.
mod saves;
/// Servers as processes.
mod server;
/// Two workers against one, and a worker against the server itself.
mod speed;
/// The start of a server.
mod start;
/// Sessions, and the viewers of them.
mod viewers;
/// Workers as processes.
mod worker;

use crate::wait::MAX_WAIT;

pub fn run() {
    println!("\n# rack");
    if !cfg!(feature = "cluster") {
        println!("skipped: the program is built without the cargo feature cluster");
        return;
    }
    let missing = ["taskset", "perl"].into_iter().find(|program| !is_installed(program));
    if let Some(program) = missing {
        println!("skipped: {program} is not installed");
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be built");
    let part = std::env::var("HEARTHCAST_BENCH_PART").unwrap_or_default();
    let is_selected = |name: &str| {
        let is_selected = part.is_empty() || part == name;
        if is_selected {
            let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
            println!("{name}, load average {}", load.split(' ').next().unwrap_or_default());
        }
        is_selected
    };
    if is_selected("workers") {
        runtime.block_on(speed::measure_two_workers(folder.path()));
    }
    if is_selected("added") {
        runtime.block_on(speed::measure_added_time(folder.path()));
    }
    runtime.block_on(kills::measure(folder.path(), is_selected));
    if is_selected("saves") {
        runtime.block_on(saves::measure(folder.path()));
    }
    if is_selected("start") {
        runtime.block_on(start::measure(folder.path()));
    }
}

fn is_installed(program: &str) -> bool {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .any(|folder| Path::new(&folder).join(program).is_file())
}
