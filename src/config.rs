//! The configuration: flags override `HEARTHCAST_*` variables, which override the TOML file, which overrides defaults.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::domain::codec::{TargetCodec, is_hardware_decoder, is_hardware_encoder};
use crate::domain::library::Root;
use crate::domain::subtitles::TextStyle;

mod database_address;
mod errors;
pub mod live;
pub mod reload;
mod segment_store;
pub mod sources;

pub use database_address::{DatabaseAddress, DatabaseSettings};

/// The configuration of a server, as the file states it until `sources` has resolved its paths.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub listen: SocketAddr,
    /// Folder of the state (accounts, keys, persistent caches).
    pub state: PathBuf,
    /// The PostgreSQL database that has the state, if `state` is an address; the folder is then a copy of it.
    #[serde(skip)]
    pub database: Option<DatabaseAddress>,
    /// PEM file with the certificates that are trusted at a database with `sslmode=require`; those of the system if unset.
    pub state_ca_file: Option<PathBuf>,
    /// Where the other servers of the database reach this one, `http://host:port`; found by itself if unset.
    pub peer_address: Option<String>,
    /// Folder of the segments spilled to disk, and of artwork.
    pub cache: PathBuf,
    #[serde(deserialize_with = "sources::roots")]
    pub roots: Vec<Root>,
    /// Folder for recordings; recording is off if unset. It becomes a library root of its own unless it is inside another
    /// one.
    pub recordings: Option<PathBuf>,
    pub backend: BackendSetting,
    pub isolation: IsolationSetting,
    /// Whether sessions are encoded in HEVC for clients that prefer it.
    pub hevc_encoder: EncoderSetting,
    /// Whether sessions are encoded in AV1 for clients that prefer it.
    pub av1_encoder: EncoderSetting,
    /// Hardware encoders and decoders that are never used, by ffmpeg's names; [`FORBIDDEN_HARDWARE`] forbids all of them.
    pub forbidden_encoders: Vec<String>,
    /// The program that runs as worker: this one. Tests run it from outside; no setting.
    #[serde(skip)]
    pub worker_program: PathBuf,
    pub limits: Limits,
    /// Font family of plain-text subtitles burned into video; the built-in font if unset.
    pub subtitle_font: Option<String>,
    /// Their line height in percent of the video's height.
    pub subtitle_size_percent: f64,
    /// Target duration of segments, seconds, 1 to 6; one value for the whole library.
    pub segment_seconds: f64,
    /// Origins that may call from a browser (CORS), e.g. `https://tv.example`.
    pub allowed_origins: Vec<String>,
    /// Trusted reverse proxies: their `X-Forwarded-For` is used when sign-ins are counted per address.
    pub trusted_proxies: Vec<IpAddr>,
    /// The server's external URL, with a path if a proxy serves it under one.
    pub public_base_url: Option<String>,
    /// Non-global addresses, networks and hosts that sources may be fetched from (exceptions to the SSRF check).
    pub allowed_sources: Vec<String>,
    /// The ffmpeg executable; a bare name is looked up in `PATH`.
    pub ffmpeg: PathBuf,
    pub admin: Option<DeclaredAdmin>,
    /// Whether segments of live channels have addresses that a shared cache (nginx, a CDN) can keep.
    pub shared_cache: bool,
    /// Whether the lineup is also offered as an HDHomeRun network tuner (`/hdhr/<stream token>`).
    pub hdhomerun: bool,
    /// File with the stream token of the tuner to announce in the home network (SSDP); no tuner is announced if unset.
    pub hdhomerun_token_file: Option<PathBuf>,
    /// Whether intros and credits are looked for in films and episodes while nothing is played.
    pub find_marks: bool,
    /// Address of the NATS server through which workers on other machines are reached; none are used if unset.
    pub queue: Option<String>,
    /// Address of a store that servers share (`s3://bucket/prefix`), where encoded segments are kept; none is used if unset.
    pub segments: Option<String>,
    /// Address of a server of that store, unless it is that of AWS.
    pub segments_endpoint: Option<String>,
    /// Region of the store; that of the AWS variables, otherwise `us-east-1`, if unset.
    pub segments_region: Option<String>,
    /// File with the credentials of the store, in the format of the AWS tools; those of the AWS variables if unset.
    pub segments_credentials_file: Option<PathBuf>,
    /// Time for a segment from the store. Tests on slow machines raise it; no setting.
    #[serde(skip)]
    pub segments_deadline: Duration,
    /// Address of an OpenTelemetry collector (OTLP over HTTP) that receives traces; nothing is recorded if unset.
    pub otlp_endpoint: Option<String>,
}

/// The backend that makes segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum BackendSetting {
    /// The preferred backend of this version.
    #[default]
    Auto,
    /// GStreamer; ffmpeg for media it does not support and after a failure.
    Gstreamer,
    /// ffmpeg as a subprocess.
    Ffmpeg,
}

impl BackendSetting {
    /// The name in the configuration and in responses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Gstreamer => "gstreamer",
            Self::Ffmpeg => "ffmpeg",
        }
    }
}

/// The name in `forbidden_encoders` for all hardware encoders and decoders.
pub const FORBIDDEN_HARDWARE: &str = "hardware";

/// Whether a list such as `forbidden_encoders` may contain this name.
pub fn can_be_forbidden(name: &str) -> bool {
    name == FORBIDDEN_HARDWARE || is_hardware_encoder(name) || is_hardware_decoder(name)
}

/// Whether such a list forbids the hardware encoder or decoder of this name.
pub fn is_forbidden(forbidden: &[String], name: &str) -> bool {
    forbidden.iter().any(|forbidden| forbidden == name || forbidden == FORBIDDEN_HARDWARE)
}

/// Whether a codec other than H.264 is encoded for clients that prefer it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EncoderSetting {
    /// If this machine was measured to encode 1080p faster than real time, with a margin.
    #[default]
    Auto,
    On,
    Off,
}

impl EncoderSetting {
    /// The name in the configuration and in responses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::On => "on",
            Self::Off => "off",
        }
    }
}

/// Where GStreamer runs. Unit tests run it in their own process, because the test program is no worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum IsolationSetting {
    /// In worker processes, confined by Landlock and seccomp: a file that crashes one does not end the server.
    #[cfg_attr(not(test), default)]
    Process,
    /// In the server process: a crash ends the server.
    #[cfg_attr(test, default)]
    None,
}

impl IsolationSetting {
    /// The name in the configuration and in responses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::None => "none",
        }
    }
}

/// The program of this process, also after an update has replaced its file.
fn own_program() -> PathBuf {
    "/proc/self/exe".into()
}

/// An admin declared in the configuration, for appliances: created at start; its password follows the file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeclaredAdmin {
    #[serde(default = "DeclaredAdmin::default_username")]
    pub username: String,
    /// File with one argon2id hash (`hearthcast user hash`); a relative path is resolved in `$CREDENTIALS_DIRECTORY`.
    pub password_hash_file: PathBuf,
}

impl DeclaredAdmin {
    fn default_username() -> String {
        "admin".to_owned()
    }
}

/// `[limits]`: the limits an operator can change. `LIMITS.md` lists these and the fixed ones.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    pub body_bytes: u64,
    pub sessions_per_user: usize,
    /// Encode slots: simultaneous encoding runs. Copies are not counted.
    pub concurrent_jobs: usize,
    pub segment_memory_bytes: u64,
    pub segment_disk_bytes: u64,
    #[serde(rename = "segment_wait_seconds", deserialize_with = "sources::seconds")]
    pub segment_wait: Duration,
    #[serde(rename = "session_idle_seconds", deserialize_with = "sources::seconds")]
    pub session_idle: Duration,
    #[serde(rename = "probe_deadline_seconds", deserialize_with = "sources::seconds")]
    pub probe_deadline: Duration,
    /// How long an external channel stays connected after its last viewer leaves.
    #[serde(rename = "ingest_linger_seconds", deserialize_with = "sources::seconds")]
    pub ingest_linger: Duration,
    pub connections: usize,
    /// Failed sign-ins allowed per address and per account.
    pub logins_per_minute: u32,
    /// How long a login stays valid after its last use.
    #[serde(rename = "login_days", deserialize_with = "sources::days")]
    pub login_lifetime: Duration,
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
            ingest_linger: Duration::from_secs(30),
            connections: 4096,
            logins_per_minute: 5,
            login_lifetime: Duration::from_secs(30 * 24 * 3600),
        }
    }
}

impl Default for Config {
    /// The defaults, with state and cache not set.
    fn default() -> Self {
        Self::new(PathBuf::new(), PathBuf::new())
    }
}

impl Config {
    /// The defaults, with no library roots.
    pub fn new(state: PathBuf, cache: PathBuf) -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8470)),
            state,
            database: None,
            state_ca_file: None,
            peer_address: None,
            cache,
            roots: Vec::new(),
            recordings: None,
            backend: BackendSetting::Auto,
            isolation: IsolationSetting::default(),
            hevc_encoder: EncoderSetting::Auto,
            av1_encoder: EncoderSetting::Auto,
            forbidden_encoders: Vec::new(),
            worker_program: own_program(),
            limits: Limits::default(),
            subtitle_font: None,
            subtitle_size_percent: TextStyle::default().size_percent,
            segment_seconds: 2.0,
            allowed_origins: Vec::new(),
            trusted_proxies: Vec::new(),
            public_base_url: None,
            allowed_sources: Vec::new(),
            ffmpeg: "ffmpeg".into(),
            admin: None,
            shared_cache: false,
            hdhomerun: false,
            hdhomerun_token_file: None,
            find_marks: true,
            queue: None,
            segments: None,
            segments_endpoint: None,
            segments_region: None,
            segments_credentials_file: None,
            segments_deadline: segment_store::READ_DEADLINE,
            otlp_endpoint: None,
        }
    }

    /// All library roots: the configured ones, and the recordings folder unless it is inside one of them.
    pub fn library_roots(&self) -> Vec<Root> {
        let mut roots = self.roots.clone();
        if let Some(path) = &self.recordings
            && !roots.iter().any(|root| path.starts_with(&root.path))
        {
            let candidates = std::iter::once("recordings".to_owned()).chain((2..).map(|n| format!("recordings-{n}")));
            let unused = candidates.into_iter().find(|name| roots.iter().all(|root| root.id != *name));
            roots.push(Root { id: unused.expect("the names are infinite"), path: path.clone() });
        }
        roots
    }

    /// Style of plain-text subtitles burned into video.
    pub fn text_style(&self) -> TextStyle {
        TextStyle { family: self.subtitle_font.clone(), size_percent: self.subtitle_size_percent }
    }

    /// Whether sessions are encoded in this codec; H.264 always is.
    pub fn encoder_setting(&self, codec: TargetCodec) -> EncoderSetting {
        match codec {
            TargetCodec::H264 => EncoderSetting::On,
            TargetCodec::Hevc => self.hevc_encoder,
            TargetCodec::Av1 => self.av1_encoder,
        }
    }

    /// `public_base_url` without a trailing slash.
    pub fn base_url(&self) -> Option<&str> {
        self.public_base_url.as_deref().map(|url| url.trim_end_matches('/'))
    }

    /// The path of `public_base_url` without a trailing slash: empty, or e.g. `/tv`.
    pub fn path_prefix(&self) -> &str {
        let url = self.base_url().unwrap_or_default();
        let rest = url.split_once("://").map_or("", |(_, rest)| rest);
        rest.find('/').map_or("", |slash| &rest[slash..])
    }
}
