//! `hearthcast worker --server` as a process.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::kit::Server;
use crate::kit::response::expect_success;

/// A running worker; dropping it kills it.
pub struct WorkerProgram {
    child: Child,
}

impl WorkerProgram {
    /// Enrols and starts a worker with one slot; its state and its log are in `folder`.
    pub async fn enrol(server: &Server, folder: &Path) -> Self {
        Self::start(&server.base, &new_code(server).await, folder)
    }

    /// The same with this ffmpeg.
    #[cfg(feature = "cluster")]
    pub async fn enrol_with_ffmpeg(server: &Server, folder: &Path, ffmpeg: &Path) -> Self {
        Self::start_with(&server.base, &new_code(server).await, folder, ffmpeg)
    }

    /// Enrols it with a code at the server of an address.
    pub fn start(base: &str, code: &str, folder: &Path) -> Self {
        Self::start_with(base, code, folder, Path::new("ffmpeg"))
    }

    fn start_with(base: &str, code: &str, folder: &Path, ffmpeg: &Path) -> Self {
        let log = File::create(folder.join("log")).expect("a log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_hearthcast"));
        command.args(["worker", "--server", base, "--code", code, "--slots", "1", "--name", "desktop"]);
        command
            .arg("--worker-state")
            .arg(folder)
            .arg("--ffmpeg")
            .arg(ffmpeg)
            .env("HEARTHCAST_LOG", "debug")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        Self { child: command.spawn().expect("the program starts") }
    }

    #[cfg(feature = "cluster")]
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_none())
    }

    /// Ends it with SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for WorkerProgram {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A one-time code of the admin.
pub async fn new_code(server: &Server) -> String {
    let request = server.request(reqwest::Method::POST, "/api/workers/codes").bearer_auth(&server.admin);
    let answer: Value = expect_success(request.send().await.unwrap(), 201).await;
    answer["code"].as_str().unwrap().to_owned()
}
