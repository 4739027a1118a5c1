//! A nats-server of a test's own.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::MAX_WAIT;

/// A nats-server with JetStream; dropping it kills it.
pub struct NatsServer {
    pub url: String,
    pub port: u16,
    /// The text of its configuration file, which each start writes.
    pub configuration: Option<String>,
    child: Option<Child>,
    folder: TempDir,
}

impl NatsServer {
    /// One on a free port that is not started yet.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
        Self { url: format!("nats://127.0.0.1:{port}"), port, configuration: None, child: None, folder }
    }

    /// Starts one that lets in everybody; None as [`Self::run_if_installed`].
    pub fn start() -> Option<Self> {
        Self::new().run_if_installed()
    }

    /// Starts it; None, with a message, where none is installed. `scripts/packages test` installs it, so CI fails without.
    pub fn run_if_installed(mut self) -> Option<Self> {
        if let Err(cause) = self.run() {
            assert!(std::env::var_os("CI").is_none(), "nats-server is not installed: {cause}");
            eprintln!("skipped: nats-server is not installed (scripts/packages test installs it)");
            return None;
        }
        Some(self)
    }

    /// Ends it with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts it on its port, the first time or after [`Self::kill`].
    pub fn run(&mut self) -> std::io::Result<()> {
        let mut command = Command::new("nats-server");
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:/usr/sbin"));
        command.args(["-js", "-a", "127.0.0.1", "-p", &self.port.to_string(), "-sd"]).arg(self.folder.path());
        if let Some(text) = &self.configuration {
            let file = self.folder.path().join("nats-server.conf");
            std::fs::write(&file, text)?;
            command.arg("-c").arg(file);
        }
        self.child = Some(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
        let deadline = Instant::now() + MAX_WAIT;
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(Instant::now() < deadline, "nats-server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill();
    }
}
