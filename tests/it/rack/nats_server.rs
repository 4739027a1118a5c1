//! A nats-server of a test's own.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A running nats-server with JetStream; dropping it kills it.
pub struct NatsServer {
    pub url: String,
    child: Child,
    _folder: TempDir,
}

impl NatsServer {
    /// Starts one; None, with a message, where none is installed. `scripts/packages test` installs it, so CI fails without.
    pub fn start() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
        let mut command = Command::new("nats-server");
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:/usr/sbin"));
        command.args(["-js", "-a", "127.0.0.1", "-p", &port.to_string(), "-sd"]).arg(folder.path());
        let child = match command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
            Ok(child) => child,
            Err(cause) => {
                assert!(std::env::var_os("CI").is_none(), "nats-server is not installed: {cause}");
                eprintln!("skipped: nats-server is not installed (scripts/packages test installs it)");
                return None;
            }
        };
        let server = Self { url: format!("nats://127.0.0.1:{port}"), child, _folder: folder };
        let deadline = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "nats-server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(server)
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
