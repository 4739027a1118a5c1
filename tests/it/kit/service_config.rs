//! Configuration of a service in the process of a test or benchmark.

use std::path::Path;

use hearthcast::config::Config;

/// The defaults. The process is no worker, so workers run the program under test, or another build of it in a benchmark.
pub fn service_config(state: &Path, cache: &Path) -> Config {
    let mut config = Config::new(state.to_owned(), cache.to_owned());
    let other_build = std::env::var_os("HEARTHCAST_BENCH_PROGRAM");
    config.worker_program = other_build.unwrap_or_else(|| env!("CARGO_BIN_EXE_hearthcast").into()).into();
    config
}
