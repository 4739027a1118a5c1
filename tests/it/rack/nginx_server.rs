//! nginx in front of servers.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::MAX_WAIT;

/// A running nginx; dropping it ends it.
pub struct NginxServer {
    child: Child,
    pub base: String,
}

impl NginxServer {
    /// Starts it in front of servers; None, with a message, where it is not installed.
    #[cfg(feature = "cluster")]
    pub fn start(folder: &Path, servers: &[String]) -> Option<Self> {
        let servers: String = servers
            .iter()
            .map(|base| format!("server {} max_fails=0;\n", base.strip_prefix("http://").unwrap()))
            .collect();
        Self::start_with(folder, |address| {
            format!(
                "access_log off; upstream hearthcast {{ {servers} }}\n\
                 server {{ listen {address}; location / {{ proxy_pass http://hearthcast; proxy_http_version 1.1;\n\
                 proxy_set_header Host $http_host; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n\
                 proxy_buffering off; proxy_next_upstream error timeout; proxy_connect_timeout 2s; }} }}\n"
            )
        })
    }

    /// Starts it with what `configure` returns for its address as the content of `http`; None, with a message, where it is not
    /// installed.
    pub fn start_with(folder: &Path, configure: impl FnOnce(SocketAddr) -> String) -> Option<Self> {
        let address = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).unwrap();
        let prefix = folder.join("nginx");
        std::fs::create_dir(&prefix).unwrap();
        let folders: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .iter()
            .map(|kind| format!("{kind}_temp_path {}/{kind};\n", prefix.display()))
            .collect();
        let config = format!(
            "daemon off; worker_processes 1; pid {p}/pid; error_log {p}/error.log;\n\
             events {{ worker_connections 256; }}\nhttp {{ {folders} {} }}\n",
            configure(address),
            p = prefix.display(),
        );
        std::fs::write(prefix.join("nginx.conf"), config).unwrap();
        let mut nginx = Command::new("nginx");
        nginx.arg("-p").arg(&prefix).arg("-c").arg(prefix.join("nginx.conf")).stdin(Stdio::null());
        match nginx.spawn() {
            Ok(child) => {
                let base = format!("http://{address}");
                let deadline = Instant::now() + MAX_WAIT;
                while std::net::TcpStream::connect(address).is_err() {
                    assert!(Instant::now() < deadline, "nginx listens");
                    std::thread::sleep(Duration::from_millis(20));
                }
                Some(Self { child, base })
            }
            Err(cause) => {
                assert!(std::env::var_os("CI").is_none(), "nginx is not installed");
                eprintln!("skipped: nginx is not installed ({cause})");
                None
            }
        }
    }
}

impl Drop for NginxServer {
    fn drop(&mut self) {
        // Its worker ends with SIGTERM only.
        let _ =
            rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}
