//! Server processes whose state is in PostgreSQL.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::postgres_server::PostgresServer;
use crate::kit::media;
use crate::kit::plugin_registry::copy_registry;
use crate::kit::program::create_tokens;
use crate::kit::wait::MAX_WAIT;

/// A database with the state of a household, a film, and the token of a user.
pub struct Household {
    pub database: PostgresServer,
    pub folder: TempDir,
    pub film: PathBuf,
    pub token: String,
    /// The token of an admin.
    pub admin: String,
    /// Variables of the environment of its servers.
    pub settings: Vec<(&'static str, String)>,
}

impl Household {
    /// Makes accounts in a folder, and moves them to the database by export and import.
    pub async fn start() -> Option<Self> {
        let database = PostgresServer::start()?;
        let folder = tempfile::tempdir().unwrap();
        let (state, media_folder) = (folder.path().join("files"), folder.path().join("media"));
        std::fs::create_dir(&media_folder).unwrap();
        let film = media_folder.join("a.mp4");
        media::run_ffmpeg(&film, &["-f lavfi -i", "testsrc2=s=64x64:r=5:d=1", "-c:v libx264 -preset ultrafast"]);
        let (token, admin) = create_tokens(&state, &folder.path().join("cache")).await;
        let exported = run(&["export"], state.to_str().unwrap(), &folder.path().join("unused"), None);
        let file = folder.path().join("export");
        std::fs::write(&file, exported).unwrap();
        run(&["import", file.to_str().unwrap()], &database.url, &folder.path().join("importer"), None);
        Some(Self { database, folder, film, token, admin, settings: Vec::new() })
    }

    /// Starts a server with a state folder of its own.
    pub fn server(&self, name: &str) -> Server {
        self.server_at(name, "127.0.0.1:0", &[])
    }

    /// Starts a server that listens on `address`, with more arguments.
    pub fn server_at(&self, name: &str, address: &str, arguments: &[&str]) -> Server {
        Server::start(self, name, &self.database.url, address, arguments)
    }

    /// Starts a server that reaches the database under another address.
    pub fn server_with_database(&self, name: &str, url: &str) -> Server {
        Server::start(self, name, url, "127.0.0.1:0", &[])
    }

    /// Asserts that the numbers of all changes are there once.
    pub fn expect_dense_numbers(&self) {
        let statement = "SELECT count(*) = coalesce(max(number) - min(number) + 1, 0) FROM hearthcast_change";
        assert_eq!(self.database.sql(statement), "t");
    }
}

/// A server process. Dropping it kills it.
pub struct Server {
    pub child: Child,
    lines: mpsc::Receiver<String>,
    pub base: String,
    pub client: reqwest::Client,
    token: String,
    film: PathBuf,
    pub state: PathBuf,
}

impl Server {
    fn start(household: &Household, name: &str, url: &str, address: &str, arguments: &[&str]) -> Self {
        let folder = household.folder.path().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        copy_registry(&folder.join("cache"));
        let log = std::fs::File::options().create(true).append(true).open(folder.join("log")).unwrap();
        let mut command = program(url, &folder);
        command.envs(household.settings.iter().map(|(name, value)| (name, value)));
        command.args(["serve", "--listen", address, "--root"]).arg(household.film.parent().unwrap()).args(arguments);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let stdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let (token, film) = (household.token.clone(), household.film.clone());
        let client = reqwest::Client::new();
        Self { child, lines, base: String::new(), client, token, film, state: folder.join("hearthcast") }
    }

    /// Waits until it is the active server; returns how long that took.
    pub fn wait_until_listening(&mut self) -> Duration {
        self.wait_for_line("listening on ")
    }

    /// Waits until it is a standby that passes requests on.
    pub fn wait_until_standby(&mut self) {
        self.wait_for_line("standby on ");
    }

    /// Waits for the line with its address that begins so; others are passed over.
    fn wait_for_line(&mut self, start: &str) -> Duration {
        let began = Instant::now();
        loop {
            let line = self.lines.recv_timeout(MAX_WAIT).expect("it has its role");
            if let Some(base) = line.strip_prefix(start) {
                base.clone_into(&mut self.base);
                return began.elapsed();
            }
        }
    }

    pub async fn save(&self, position: u64) -> reqwest::Result<reqwest::Response> {
        let body = json!({"mediaPath": self.film, "positionSeconds": position, "durationSeconds": 1_000_000});
        let request = self.client.post(format!("{}/api/stream/progress", self.base)).bearer_auth(&self.token);
        request.json(&body).timeout(Duration::from_secs(20)).send().await
    }

    /// The stored position; 0 without one.
    pub async fn position(&self) -> u64 {
        let url = format!("{}{}", self.base, progress_path(&self.film));
        let response = self.client.get(url).bearer_auth(&self.token).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let record: Value = response.json().await.unwrap();
        record["progress"]["positionSeconds"].as_f64().unwrap_or(0.0) as u64
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Stops all its threads. The signal alone is sent before they have stopped.
    pub fn suspend(&self) {
        self.signal(rustix::process::Signal::STOP);
        let threads = format!("/proc/{}/task", self.child.id());
        let is_running = |thread: std::fs::DirEntry| {
            let status = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // The state is after the name in parentheses (proc_pid_stat(5)).
            status.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('T'))
        };
        let began = Instant::now();
        while std::fs::read_dir(&threads).unwrap().flatten().any(is_running) {
            assert!(began.elapsed() < MAX_WAIT, "its threads have not stopped");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The active server and its standby.
pub struct Pair {
    pub household: Household,
    pub active: Server,
    pub standby: Server,
}

impl Pair {
    pub async fn start() -> Option<Self> {
        let household = Household::start().await?;
        let mut active = household.server("a");
        active.wait_until_listening();
        let mut standby = household.server("b");
        standby.wait_until_standby();
        Some(Self { household, active, standby })
    }
}

/// The route of the progress of a film.
pub fn progress_path(film: &Path) -> String {
    let query = serde_urlencoded::to_string([("path", film.to_str().unwrap())]).unwrap();
    format!("/api/stream/progress?{query}")
}

/// A film with other bytes beside that of the household.
pub fn another_film(household: &Household, name: &str) -> PathBuf {
    let film = household.film.with_file_name(name);
    let mut bytes = std::fs::read(&household.film).unwrap();
    // A box that players skip (ISO/IEC 14496-12, 8.1.2).
    bytes.extend([0, 0, 0, 16]);
    bytes.extend(b"free");
    bytes.extend(format!("{name:8.8}").bytes());
    std::fs::write(&film, bytes).unwrap();
    film
}

/// The program with a state; its folders are below `folder`.
pub fn program(state: &str, folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearthcast"));
    let kept = ["PATH", "HOME", "LD_LIBRARY_PATH"].iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    command.env_clear().envs(kept).env("HEARTHCAST_STATE", state).env("XDG_STATE_HOME", folder);
    command.envs([("HEARTHCAST_HEVC_ENCODER", "off"), ("HEARTHCAST_AV1_ENCODER", "off")]);
    command.env("HEARTHCAST_CACHE", folder.join("cache"));
    command
}

/// Runs a command; returns its standard output. With `fault`, it must fail with a message that contains it.
pub fn run(arguments: &[&str], state: &str, folder: &Path, fault: Option<&str>) -> Vec<u8> {
    let output = program(state, folder).args(arguments).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.success(), fault.is_none(), "{message}");
    assert!(message.contains(fault.unwrap_or_default()), "{message}");
    output.stdout
}
