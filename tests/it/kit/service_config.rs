//! Configuration of a service in the process of a test or benchmark.

use std::path::Path;
use std::time::Duration;

use hearthcast::config::Config;

/// The defaults, with sessions that stay: a session that holds a slot has no requests meanwhile, and a busy machine may take minutes
/// for the rest of a test. The process is no worker, so workers run the program under test, or another build of it in a benchmark.
pub fn service_config(state: &Path, cache: &Path) -> Config {
    let mut config = Config::new(state.to_owned(), cache.to_owned());
    config.limits.session_idle = Duration::from_secs(60 * 60);
    let other_build = std::env::var_os("HEARTHCAST_BENCH_PROGRAM");
    config.worker_program = other_build.unwrap_or_else(|| env!("CARGO_BIN_EXE_hearthcast").into()).into();
    config
}
