//! Tracing to standard error, filtered by `HEARTHCAST_LOG` (or `RUST_LOG`), `info` by default.

use tracing_subscriber::EnvFilter;

/// Installs the subscriber; a second call does nothing.
pub fn init() {
    let filter = EnvFilter::try_from_env("HEARTHCAST_LOG")
        .or_else(|_| EnvFilter::try_from_default_env())
        .unwrap_or_else(|_| EnvFilter::new("info"));
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
}
