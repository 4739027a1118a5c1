//! The real program as a separate process, whose leftovers can be counted.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use hearthcast::config::Config;
use hearthcast::domain::access::Role;
use hearthcast::service::accounts::Accounts;
use hearthcast::service::clock::Clock;
use hearthcast::store::Store;
use tempfile::TempDir;

use super::disk::SmallDisk;
use super::faults::FaultInjector;
use super::plugin_registry::copy_registry;
use super::wait::MAX_WAIT;

/// A running `hearthcast serve`. Dropping it kills it.
pub struct ServerProcess {
    pub base: String,
    /// A bearer token of an ordinary user.
    pub token: String,
    /// A bearer token of an admin.
    pub admin: String,
    pub client: reqwest::Client,
    child: Child,
    folder: TempDir,
    roots: Vec<PathBuf>,
    settings: Vec<(String, String)>,
    launch_options: LaunchOptions,
}

/// The environment of the process.
#[derive(Default)]
struct LaunchOptions {
    /// A disk of its own for its state.
    disk: Option<SmallDisk>,
    /// The largest size of any file it writes, bytes; reset when it starts again.
    file_limit_bytes: Option<u64>,
    /// Whether a write beyond a limit fails instead of ending the process.
    survives_limits: bool,
    /// Makes its system calls fail.
    faults: Option<FaultInjector>,
    /// Whether it has no registry of GStreamer's plugins, as on the first start ever.
    lacks_registry: bool,
    /// Traces the system calls of it and its children: lines that match the first are written to the second.
    trace: Option<(String, PathBuf)>,
}

impl ServerProcess {
    /// Starts it over library roots; `settings` are `HEARTHCAST_…` variables.
    pub async fn start(roots: &[&Path], settings: &[(&str, &str)]) -> Self {
        Self::start_with(roots, settings, tempfile::tempdir().expect("a temporary folder"), LaunchOptions::default())
            .await
    }

    /// Starts it as on a machine where it never ran.
    pub async fn start_new(roots: &[&Path]) -> Self {
        let launch = LaunchOptions { lacks_registry: true, ..LaunchOptions::default() };
        Self::start_with(roots, &[], tempfile::tempdir().expect("a temporary folder"), launch).await
    }

    /// Starts it with a limit on the size of every file it writes, bytes; a write beyond it fails.
    pub async fn start_limited(roots: &[&Path], settings: &[(&str, &str)], limit_bytes: u64) -> Self {
        let launch =
            LaunchOptions { file_limit_bytes: Some(limit_bytes), survives_limits: true, ..LaunchOptions::default() };
        Self::start_with(roots, settings, tempfile::tempdir().expect("a temporary folder"), launch).await
    }

    /// Starts it over a disk that can be filled: a tmpfs of its own (None where none can be mounted), or with file sizes that
    /// can be limited while it runs.
    pub async fn start_fillable(roots: &[&Path], has_own_disk: bool) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mount_point = folder.path().join("disk");
        std::fs::create_dir(&mount_point).expect("a fresh folder");
        let disk = if has_own_disk { Some(SmallDisk::mount_over(&mount_point)?) } else { None };
        let launch = LaunchOptions { disk, survives_limits: true, ..LaunchOptions::default() };
        Some(Self::start_with(roots, &[], folder, launch).await)
    }

    /// Starts it so that system calls on its state can be made to fail.
    pub async fn start_with_faults(roots: &[&Path]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let launch = LaunchOptions { faults: Some(FaultInjector::new(folder.path())), ..LaunchOptions::default() };
        Self::start_with(roots, &[], folder, launch).await
    }

    /// Starts it under strace; the lines that match `pattern` (grep -E) are written to the file `trace`.
    pub async fn start_traced(roots: &[&Path], settings: &[(&str, &str)], pattern: &str, trace: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let trace = Some((pattern.to_owned(), trace.to_owned()));
        Self::start_with(roots, settings, folder, LaunchOptions { trace, ..LaunchOptions::default() }).await
    }

    async fn start_with(roots: &[&Path], settings: &[(&str, &str)], folder: TempDir, launch: LaunchOptions) -> Self {
        let (cache, scratch) = (folder.path().join("cache"), folder.path().join("scratch"));
        let state = state_folder(folder.path(), &launch);
        std::fs::create_dir(&scratch).expect("a fresh folder");
        if !launch.lacks_registry {
            copy_registry(&cache);
        }
        let (token, admin) = create_tokens(&state, &cache).await;
        let roots: Vec<PathBuf> = roots.iter().map(|root| root.to_path_buf()).collect();
        let settings: Vec<(String, String)> =
            settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (child, base) = spawn(folder.path(), &roots, &settings, &launch).await.expect("a listening program");
        Self {
            base,
            token,
            admin,
            client: reqwest::Client::new(),
            child,
            folder,
            roots,
            settings,
            launch_options: launch,
        }
    }

    /// Kills it and starts it over the state that is there.
    pub async fn restart(&mut self) {
        self.kill();
        self.launch_options.file_limit_bytes = None;
        self.try_start().await.expect("the program prints its address");
    }

    /// Starts it after [`Self::kill`]; returns its exit status if it ends before it listens.
    pub async fn try_start(&mut self) -> Result<(), ExitStatus> {
        (self.child, self.base) = spawn(self.folder.path(), &self.roots, &self.settings, &self.launch_options).await?;
        self.client = reqwest::Client::new();
        Ok(())
    }

    /// Like [`Self::restart`], with a limit on the size of every file it writes, bytes.
    pub async fn restart_limited(&mut self, limit_bytes: u64) {
        self.kill();
        self.launch_options.file_limit_bytes = Some(limit_bytes);
        self.try_start().await.expect("the program prints its address");
    }

    /// Ends it with SIGKILL, as a power cut would.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub fn state_folder(&self) -> PathBuf {
        state_folder(self.folder.path(), &self.launch_options)
    }

    /// Mount point of its disk, as seen by programs inside the mount namespace.
    pub fn mount_point(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    pub fn disk(&self) -> Option<&SmallDisk> {
        self.launch_options.disk.as_ref()
    }

    /// Panics unless it was started with [`Self::start_with_faults`].
    pub fn faults(&self) -> &FaultInjector {
        self.launch_options.faults.as_ref().expect("the program was started with faults")
    }

    /// A request with the user's token; `target` is path and query, already encoded.
    pub fn get(&self, target: &str) -> reqwest::RequestBuilder {
        self.client.get(format!("{}{target}", self.base)).bearer_auth(&self.token)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process is still running.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("the process can be waited for").is_none()
    }

    /// Ids of all descendants of this process.
    pub fn descendants(&self) -> Vec<u32> {
        let mut pids = vec![self.pid()];
        let mut next = 0;
        while next < pids.len() {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", pids[next])).into_iter().flatten().flatten();
            for task in tasks {
                let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
                pids.extend(text.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
            }
            next += 1;
        }
        pids.split_off(1)
    }

    /// Command lines of all descendants of this process.
    pub fn children(&self) -> Vec<String> {
        let command_line =
            |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).map(|l| l.replace('\0', " "));
        self.descendants().iter().filter_map(|pid| command_line(pid).ok()).collect()
    }

    /// Waits until it has no child processes but idle workers.
    pub async fn wait_until_childless(&self) {
        const MAX_IDLE_WORKERS: usize = 4;
        let deadline = Instant::now() + MAX_WAIT;
        let is_worker = |line: &String| line.contains(" worker --number ");
        let is_idle = |children: &[String]| children.iter().all(is_worker) && children.len() <= MAX_IDLE_WORKERS;
        while !is_idle(&self.children()) {
            assert!(Instant::now() < deadline, "still running: {:?}", self.children());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Number of open files.
    pub fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).map_or(0, Iterator::count)
    }

    /// Resident memory, KiB.
    pub fn memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    }

    /// All files in its temporary folder and in its segment cache.
    pub fn leftovers(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.folder.path().join("scratch"), self.folder.path().join("cache")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    true => folders.push(entry.path()),
                    false => found.push(entry.path()),
                }
            }
        }
        // GStreamer's registry is made once and stays.
        found.retain(|path| !path.ends_with("gstreamer-registry.bin"));
        found
    }

    /// Its whole log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The state folder, as this process sees it.
fn state_folder(folder: &Path, launch: &LaunchOptions) -> PathBuf {
    launch.disk.as_ref().map_or(folder, SmallDisk::outside_path).join("state")
}

/// Starts the program over a folder with `state`, `cache` and `scratch`. Returns where it listens, or its exit status if it
/// ends before that.
async fn spawn(
    folder: &Path,
    roots: &[PathBuf],
    settings: &[(String, String)],
    launch: &LaunchOptions,
) -> Result<(Child, String), ExitStatus> {
    // A benchmark can measure another build.
    let program = std::env::var_os("HEARTHCAST_BENCH_PROGRAM").unwrap_or(env!("CARGO_BIN_EXE_hearthcast").into());
    let mut command = match (&launch.disk, &launch.trace) {
        (Some(disk), _) => disk.command_inside(),
        (None, Some((pattern, trace))) => {
            // With -D the tracer is a grandchild, so that the child is the server.
            let mut command = Command::new("strace");
            let filter = format!("|grep --line-buffered -E '{pattern}' > '{}'", trace.display());
            command.args(["-D", "-f", "-qq", "-s", "200", "-o", &filter]);
            command
        }
        (None, None) => Command::new("env"),
    };
    if launch.survives_limits {
        // SIGXFSZ after a write beyond the limit would end the program; if ignored, the write fails. In 512-byte blocks.
        let limit = launch.file_limit_bytes.map_or(String::new(), |bytes| format!("ulimit -f {};", bytes / 512));
        command.args(["sh", "-c", &format!("trap '' XFSZ; {limit} exec \"$0\" \"$@\"")]);
    }
    command.arg(program);
    command
        .env_clear()
        .envs(["PATH", "HOME", "LD_LIBRARY_PATH"].iter().filter_map(|&n| Some((n, std::env::var_os(n)?))));
    // Their measurement at each start would take the processor time of the tests.
    command.envs([("HEARTHCAST_HEVC_ENCODER", "off"), ("HEARTHCAST_AV1_ENCODER", "off")]);
    let settings = settings.iter().map(|(name, value)| (name, value));
    command.env("TMPDIR", folder.join("scratch")).env("HEARTHCAST_CACHE", folder.join("cache")).envs(settings);
    if let Some(faults) = &launch.faults {
        command.envs(faults.environment(&state_folder(folder, launch)));
    }
    // Inside the namespace, the disk lies at its mount point.
    let base_folder = if launch.disk.is_some() { folder.join("disk") } else { folder.to_owned() };
    command.args(["serve", "--listen", "127.0.0.1:0", "--state"]).arg(base_folder.join("state"));
    for root in roots {
        command.arg("--root").arg(root);
    }
    let log = std::fs::File::options().create(true).append(true).open(folder.join("log")).expect("a log");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).process_group(0);
    let mut child = command.spawn().expect("the program starts");
    let stdout = child.stdout.take().expect("stdout is piped");
    let listening = tokio::task::spawn_blocking(move || {
        let lines = BufReader::new(stdout).lines().map_while(Result::ok);
        lines.into_iter().find_map(|line| line.strip_prefix("listening on ").map(str::to_owned))
    });
    let listening = tokio::time::timeout(MAX_WAIT, listening).await;
    match listening.expect("it listens").expect("no panic") {
        Some(base) => Ok((child, base)),
        None => Err(child.wait().expect("the process can be waited for")),
    }
}

/// Creates a user and an admin before the program opens its state.
pub async fn create_tokens(state: &Path, cache: &Path) -> (String, String) {
    let config = Config::new(state.to_owned(), cache.to_owned());
    let store = Store::open_waiting(state).expect("a fresh store opens");
    let accounts = Accounts::open(&config, store, Clock::default()).expect("fresh accounts open");
    let token = accounts.issue_token("viewer", Role::User).await.expect("a user can be made");
    (token, accounts.issue_token("operator", Role::Admin).await.expect("a user can be made"))
}
