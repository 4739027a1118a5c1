//! Configuration: flags over `HEARTHCAST_*` environment over the TOML file over defaults.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::domain::library::Root;

/// Everything a running server was told.
#[derive(Clone, Debug)]
pub struct Config {
    pub listen: SocketAddr,
    /// Where state is kept (accounts, keys, caches that survive).
    pub state: PathBuf,
    /// Where segments may spill.
    pub cache: PathBuf,
    pub roots: Vec<Root>,
    pub limits: Limits,
    /// Length segments aim at, seconds, 1 to 6; one value for the whole library.
    pub segment_seconds: f64,
    /// Origins that may call from a browser (CORS), e.g. `https://tv.example`.
    pub allowed_origins: Vec<String>,
    pub public_base_url: Option<String>,
    /// The transcoder program; a bare name is looked up in `PATH`.
    pub ffmpeg: PathBuf,
}

/// Bounds of contract section 16.
#[derive(Clone, Debug)]
pub struct Limits {
    pub body_bytes: u64,
    pub sessions_per_user: usize,
    /// Encoding runs at once; copies are not counted.
    pub concurrent_jobs: usize,
    pub segment_memory_bytes: u64,
    pub segment_disk_bytes: u64,
    pub segment_wait: Duration,
    pub session_idle: Duration,
    pub probe_deadline: Duration,
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        Self {
            body_bytes: 64 * 1024,
            sessions_per_user: 4,
            concurrent_jobs: (cores / 2).max(1),
            segment_memory_bytes: 512 << 20,
            segment_disk_bytes: 4 << 30,
            segment_wait: Duration::from_secs(20),
            session_idle: Duration::from_secs(60),
            probe_deadline: Duration::from_secs(5),
            connections: 4096,
        }
    }
}

impl Config {
    /// Defaults for a state folder; no roots.
    pub fn new(state: PathBuf, cache: PathBuf) -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8470)),
            state,
            cache,
            roots: Vec::new(),
            limits: Limits::default(),
            segment_seconds: 2.0,
            allowed_origins: Vec::new(),
            public_base_url: None,
            ffmpeg: "ffmpeg".into(),
        }
    }
}
