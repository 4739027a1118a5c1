//! Servers as processes, with their state in a folder or in PostgreSQL.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::plugin_registry::copy_registry;
use crate::program::create_tokens;

/// Longest wait for a line or an answer that is no failure.
const MAX_WAIT: Duration = Duration::from_secs(120);

/// Folders, settings and accounts that the servers of a part share.
pub struct Installation {
    /// Folder of everything: logs, states, media.
    pub folder: PathBuf,
    pub media: PathBuf,
    /// A folder, or the address of a database.
    pub state: String,
    /// `HEARTHCAST_…` variables.
    pub settings: Vec<(&'static str, String)>,
    /// A bearer token of an ordinary user.
    pub token: String,
    /// A bearer token of an admin.
    pub admin: String,
}

/// A server process. Dropping it kills it.
pub struct Server {
    pub base: String,
    child: Child,
    lines: mpsc::Receiver<String>,
    admin: String,
}

impl Installation {
    /// Makes accounts in a folder, and moves them to the database if there is one.
    pub async fn make(folder: &Path, database: Option<&str>) -> Self {
        let (files, media) = (folder.join("files"), folder.join("media"));
        std::fs::create_dir_all(&media).expect("a fresh folder");
        let (token, admin) = create_tokens(&files, &folder.join("files-cache")).await;
        if let Some(database) = database {
            let exported = run_program(&["export"], &files.display().to_string(), folder);
            let export = folder.join("export");
            std::fs::write(&export, exported).expect("a fresh file");
            run_program(&["import", &export.display().to_string()], database, folder);
        }
        let state = database.map_or_else(|| files.display().to_string(), str::to_owned);
        Self { folder: folder.to_owned(), media, state, settings: Vec::new(), token, admin }
    }

    /// Starts a server that listens on `address`, on one core if one is named; `name` is that of its folder.
    pub fn start(&self, name: &str, address: &str, core: Option<usize>) -> Server {
        let folder = self.folder.join(name);
        if !folder.exists() {
            copy_registry(&folder.join("cache"));
        }
        let log = std::fs::File::options().create(true).append(true).open(folder.join("log")).expect("a log");
        let mut command = program(&self.state, &folder, core);
        command.envs(self.settings.iter().map(|(name, value)| (name, value)));
        command.args(["serve", "--listen", address, "--root"]).arg(&self.media);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().expect("it starts");
        let (sender, lines) = mpsc::channel();
        let stdout = child.stdout.take().expect("stdout is piped");
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Server { base: String::new(), child, lines, admin: self.admin.clone() }
    }
}

impl Server {
    /// Waits until it is the active server.
    pub fn wait_until_listening(&mut self) {
        self.wait_for_line("listening on ");
    }

    /// Waits until it is a standby that passes requests on.
    pub fn wait_until_standby(&mut self) {
        self.wait_for_line("standby on ");
    }

    fn wait_for_line(&mut self, start: &str) {
        loop {
            let line = self.lines.recv_timeout(MAX_WAIT).expect("it has its role in time");
            if let Some(base) = line.strip_prefix(start) {
                base.clone_into(&mut self.base);
                return;
            }
        }
    }

    /// The address that it listens on, without a scheme.
    pub fn address(&self) -> String {
        self.base.trim_start_matches("http://").to_owned()
    }

    /// Ends it with SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Lets all of its threads run on every core from now on.
    pub fn release_core(&self) {
        let mut command = Command::new("taskset");
        command.args(["-a", "-p", "-c", "0-63", &self.child.id().to_string()]).stdout(Stdio::null());
        assert!(command.status().expect("taskset runs").success(), "{command:?}");
    }

    /// A one-time code for a worker.
    pub async fn create_worker_code(&self) -> String {
        let request = reqwest::Client::new().post(format!("{}/api/workers/codes", self.base)).bearer_auth(&self.admin);
        let answer: Value = request.send().await.expect("an answer").json().await.expect("JSON");
        answer["code"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// The number of remote workers, and of the runs that they make.
    pub async fn count_workers(&self) -> (usize, u64) {
        let request = reqwest::Client::new().get(format!("{}/api/stream/v2-workers", self.base));
        let Ok(answer) = request.bearer_auth(&self.admin).send().await else { return (0, 0) };
        let view: Value = answer.json().await.unwrap_or_default();
        let workers = view["workers"].as_array().cloned().unwrap_or_default();
        (workers.len(), workers.iter().filter_map(|worker| worker["activeJobCount"].as_u64()).sum())
    }

    /// Waits until it has this many workers.
    pub async fn wait_for_workers(&self, count: usize) {
        let deadline = Instant::now() + MAX_WAIT;
        while self.count_workers().await.0 != count {
            assert!(Instant::now() < deadline, "{count} workers report");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The program with a state, on one core if one is named; its folders are below `folder`.
fn program(state: &str, folder: &Path, core: Option<usize>) -> Command {
    // A benchmark can measure another build.
    let program = std::env::var_os("HEARTHCAST_BENCH_PROGRAM").unwrap_or(env!("CARGO_BIN_EXE_hearthcast").into());
    let mut command = match core {
        Some(core) => {
            let mut command = Command::new("taskset");
            command.args(["-c", &core.to_string()]).arg(program);
            command
        }
        None => Command::new(program),
    };
    let kept = ["PATH", "HOME", "LD_LIBRARY_PATH"].iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    command.env_clear().envs(kept).env("HEARTHCAST_STATE", state).env("XDG_STATE_HOME", folder);
    command.envs([("HEARTHCAST_HEVC_ENCODER", "off"), ("HEARTHCAST_AV1_ENCODER", "off")]);
    command.env("HEARTHCAST_CACHE", folder.join("cache"));
    command
}

/// Runs a command of the program; returns its standard output.
fn run_program(arguments: &[&str], state: &str, folder: &Path) -> Vec<u8> {
    let output = program(state, &folder.join("importer"), None).args(arguments).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}
