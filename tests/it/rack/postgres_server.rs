//! A PostgreSQL cluster of a test's own.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use super::certificates::ServerCertificate;

use super::MAX_WAIT;

/// User and group that the cluster runs as when the tests run as root, which PostgreSQL refuses; no files belong to them.
const UNPRIVILEGED_ID: u32 = 65534;

/// A running PostgreSQL; dropping it kills it.
pub struct PostgresServer {
    /// Address of its database.
    pub url: String,
    port: u16,
    programs: PathBuf,
    child: Option<Child>,
    folder: TempDir,
}

impl PostgresServer {
    /// Starts one; None, with a message, where none is installed. `scripts/packages test` installs it, so CI fails without.
    pub fn start() -> Option<Self> {
        let Some(programs) = find_programs() else {
            assert!(std::env::var_os("CI").is_none(), "PostgreSQL is not installed");
            eprintln!("skipped: PostgreSQL is not installed (scripts/packages test installs it)");
            return None;
        };
        let folder = tempfile::tempdir().expect("a temporary folder");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(folder.path(), Some(UNPRIVILEGED_ID), Some(UNPRIVILEGED_ID)).expect("a chown");
        }
        let mut initdb = unprivileged(&programs.join("initdb"));
        initdb.args(["-A", "trust", "-U", "hearth", "-E", "UTF8", "--locale", "C", "--no-sync", "-D"]);
        let output = initdb.arg(folder.path().join("data")).output().expect("initdb runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let url = format!("postgres://hearth@127.0.0.1:{port}/postgres");
        let mut server = Self { url, port, programs, child: None, folder };
        server.run();
        Some(server)
    }

    /// Ends it with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts it after [`Self::kill`], once the processes of the killed one have ended.
    pub fn run(&mut self) {
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            let mut child = self.spawn();
            while child.try_wait().expect("the process can be waited for").is_none() {
                assert!(Instant::now() < deadline, "PostgreSQL does not answer: {}", self.log());
                if self.try_sql("SELECT 1").is_some() {
                    self.child = Some(child);
                    return;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            assert!(Instant::now() < deadline, "PostgreSQL does not start: {}", self.log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Signals all its processes.
    pub fn signal(&self, signal: Signal) {
        let main = Pid::from_child(self.child.as_ref().expect("it runs"));
        // The main process first: it must not start others meanwhile.
        for pid in std::iter::once(main).chain(children(main)) {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    /// Requires a password for a new user; returns the address of its database without user and password.
    pub fn add_user_with_password(&self, name: &str, password: &str) -> String {
        self.sql(&format!("CREATE USER {name} PASSWORD '{password}'"));
        let rules = self.folder.path().join("data/pg_hba.conf");
        let text = std::fs::read_to_string(&rules).expect("the rules");
        std::fs::write(&rules, format!("host all {name} 127.0.0.1/32 scram-sha-256\n{text}")).expect("new rules");
        assert_eq!(self.sql("SELECT pg_reload_conf()"), "t");
        format!("127.0.0.1:{}/postgres", self.port)
    }

    /// Starts it again with TLS and this certificate.
    pub fn use_tls(&mut self, server: &ServerCertificate) {
        let data = self.folder.path().join("data");
        self.kill();
        for (name, text) in [("server.crt", &server.certificate), ("server.key", &server.key)] {
            std::fs::write(data.join(name), text).expect("a file");
        }
        let key = data.join("server.key");
        std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).expect("a mode");
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&key, Some(UNPRIVILEGED_ID), Some(UNPRIVILEGED_ID)).expect("a chown");
        }
        std::fs::write(data.join("postgresql.auto.conf"), "ssl = on\n").expect("a file");
        self.run();
    }

    /// Refuses connections without TLS from its next start, except over a local socket.
    pub fn refuse_plain_connections(&mut self) {
        let rules = self.folder.path().join("data/pg_hba.conf");
        std::fs::write(rules, "local all all trust\nhostssl all all 127.0.0.1/32 trust\n").expect("new rules");
        self.kill();
        self.run();
    }

    /// The answer to a statement, as text.
    pub fn sql(&self, statement: &str) -> String {
        self.try_sql(statement).expect("the statement succeeds")
    }

    /// The answer to a statement in another database.
    pub fn sql_in(&self, database: &str, statement: &str) -> String {
        let url = format!("{}/{database}", self.url.rsplit_once('/').expect("a path").0);
        self.try_sql_at(&url, statement).expect("the statement succeeds")
    }

    fn try_sql(&self, statement: &str) -> Option<String> {
        self.try_sql_at(&self.url, statement)
    }

    fn try_sql_at(&self, url: &str, statement: &str) -> Option<String> {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["-X", "-A", "-t", "-c", statement, url]).env("PGCONNECT_TIMEOUT", "2");
        let output = psql.output().expect("psql runs");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    fn spawn(&self) -> Child {
        let log = std::fs::File::options().create(true).append(true).open(self.log_file()).expect("a log");
        let mut postgres = unprivileged(&self.programs.join("postgres"));
        postgres.arg("-D").arg(self.folder.path().join("data")).arg("-k").arg(self.folder.path());
        postgres.args(["-p", &self.port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
        postgres.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        postgres.spawn().expect("PostgreSQL starts")
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        if self.child.is_some() {
            // Stopped processes would not notice that the main one is gone.
            self.signal(Signal::CONT);
        }
        self.kill();
    }
}

/// The processes that a process has started.
fn children(parent: Pid) -> Vec<Pid> {
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_child = |id: &i32| {
        let status = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        // After the name in parentheses: the state, then the parent.
        let after_name = status.rsplit_once(')').map_or("", |(_, rest)| rest);
        after_name.split_whitespace().nth(1) == Some(&*parent.as_raw_nonzero().to_string())
    };
    ids.filter(is_child).filter_map(Pid::from_raw).collect()
}

/// The folder with initdb, which Debian does not put into PATH.
fn find_programs() -> Option<PathBuf> {
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let in_path = std::env::var("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = installed.map(|version| version.path().join("bin")).collect();
    folders.extend(in_path.split(':').map(PathBuf::from));
    folders.into_iter().find(|folder| folder.join("initdb").exists() && folder.join("psql").exists())
}

fn unprivileged(program: &Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    let id = UNPRIVILEGED_ID.to_string();
    command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]).arg(program).current_dir("/");
    command
}
