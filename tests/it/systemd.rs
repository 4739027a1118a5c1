//! The protocol of service managers (sd_notify): ready, watchdog, configuration read again, stopping.

use std::path::Path;
use std::process::Stdio;

use reqwest::header::{ACCESS_CONTROL_ALLOW_ORIGIN, ORIGIN};
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::UnixDatagram;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::kit::wait::MAX_WAIT;

const PAGE: &str = "https://tv.example";

/// The service manager's end.
struct Notifications(UnixDatagram);

impl Notifications {
    /// The next notification with this line.
    async fn with_line(&self, line: &str) -> String {
        loop {
            let mut bytes = [0; 4096];
            let length = timeout(MAX_WAIT, self.0.recv(&mut bytes)).await.expect(line).unwrap();
            let text = String::from_utf8(bytes[..length].to_vec()).unwrap();
            if text.lines().any(|one| one == line) {
                return text;
            }
        }
    }
}

fn start_server(folder: &Path, config: &Path, socket: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearthcast"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(config);
    command.arg("--state").arg(folder.join("state"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.envs([("HEARTHCAST_HEVC_ENCODER", "off"), ("HEARTHCAST_AV1_ENCODER", "off")]);
    command.env("NOTIFY_SOCKET", socket).env("WATCHDOG_USEC", "2000000");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    command.spawn().unwrap()
}

fn send_signal(server: &Child, signal: Signal) {
    let pid = Pid::from_raw(server.id().expect("it runs") as i32).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Whether a page of another origin may call the server.
async fn allows_page(base: &str) -> bool {
    let request = reqwest::Client::new().get(format!("{base}/api/health")).header(ORIGIN, PAGE);
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    response.headers().contains_key(ACCESS_CONTROL_ALLOW_ORIGIN)
}

#[tokio::test]
async fn the_service_manager_learns_when_the_server_is_ready_lives_reloads_and_stops() {
    let folder = tempfile::tempdir().unwrap();
    let (config, socket) = (folder.path().join("hearthcast.toml"), folder.path().join("notify"));
    let notifications = Notifications(UnixDatagram::bind(&socket).unwrap());
    std::fs::write(&config, "").unwrap();
    let server = start_server(folder.path(), &config, &socket);

    let ready = notifications.with_line("READY=1").await;
    let base = ready.split("STATUS=listening on ").nth(1).expect(&ready).trim().to_owned();
    assert!(!allows_page(&base).await);
    notifications.with_line("WATCHDOG=1").await;

    // Settings that need no restart are applied, others are named.
    std::fs::write(&config, format!("allowed_origins = [{PAGE:?}]\nsegment_seconds = 4\n")).unwrap();
    send_signal(&server, Signal::HUP);
    let reloading = notifications.with_line("RELOADING=1").await;
    let time = reloading.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC=")).expect(&reloading);
    assert!(time.parse::<u64>().is_ok(), "{reloading}");
    let ready = notifications.with_line("READY=1").await;
    assert!(ready.contains("applied: allowed_origins; needs a restart: segment_seconds"), "{ready}");
    assert!(allows_page(&base).await);

    // A configuration with errors changes nothing.
    std::fs::write(&config, "allowed_origins = 3\n").unwrap();
    send_signal(&server, Signal::HUP);
    let ready = notifications.with_line("READY=1").await;
    assert!(ready.contains("has errors and was not changed"), "{ready}");
    assert!(allows_page(&base).await);
    notifications.with_line("WATCHDOG=1").await;

    send_signal(&server, Signal::TERM);
    notifications.with_line("STOPPING=1").await;
    let output = timeout(MAX_WAIT, server.wait_with_output()).await.expect("it ends").unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{log}");
    for text in ["needs a restart: segment_seconds", "hearthcast.toml", "allowed_origins = 3"] {
        assert!(log.contains(text), "{text:?} in {log}");
    }
}
