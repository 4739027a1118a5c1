//! A nats-server of a test's own.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A running nats-server with JetStream; dropping it kills it.
pub struct NatsServer {
    pub url: String,
    port: u16,
    child: Option<Child>,
    folder: TempDir,
}

impl NatsServer {
    /// Starts one; None, with a message, where none is installed. `scripts/packages test` installs it, so CI fails without.
    pub fn start() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
        let mut server = Self { url: format!("nats://127.0.0.1:{port}"), port, child: None, folder };
        if let Err(cause) = server.run() {
            assert!(std::env::var_os("CI").is_none(), "nats-server is not installed: {cause}");
            eprintln!("skipped: nats-server is not installed (scripts/packages test installs it)");
            return None;
        }
        Some(server)
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
        self.child = Some(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
        let deadline = Instant::now() + Duration::from_secs(60);
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
