//! Configuration of a service in the process of a test or benchmark.

use std::path::Path;

use hearthcast::config::Config;

/// The defaults. The process is no worker, so workers run the program under test.
pub fn service_config(state: &Path, cache: &Path) -> Config {
    let mut config = Config::new(state.to_owned(), cache.to_owned());
    config.worker_program = env!("CARGO_BIN_EXE_hearthcast").into();
    config
}
