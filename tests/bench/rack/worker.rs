//! `hearthcast worker --server` as a process.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::server::Server;

/// A running worker with one slot; dropping it kills it.
pub struct Worker {
    child: Child,
    folder: PathBuf,
    ffmpeg: PathBuf,
}

impl Worker {
    /// Enrols and starts one; its state and its log are in `folder`.
    pub async fn enrol(server: &Server, folder: &Path, ffmpeg: &Path) -> Self {
        Self::enrol_at(&server.base, server, folder, ffmpeg).await
    }

    /// Enrols and starts one that reaches the server at another address.
    pub async fn enrol_at(base: &str, server: &Server, folder: &Path, ffmpeg: &Path) -> Self {
        std::fs::create_dir_all(folder).expect("a folder");
        let code = server.create_worker_code().await;
        let child = spawn(base, folder, ffmpeg, &["--code", &code]);
        Self { child, folder: folder.to_owned(), ffmpeg: ffmpeg.to_owned() }
    }

    /// Ends it with SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again with its stored credential; its server is at `base`.
    pub fn run(&mut self, base: &str) {
        self.child = spawn(base, &self.folder, &self.ffmpeg, &[]);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(base: &str, folder: &Path, ffmpeg: &Path, more: &[&str]) -> Child {
    let program = std::env::var_os("HEARTHCAST_BENCH_PROGRAM").unwrap_or(env!("CARGO_BIN_EXE_hearthcast").into());
    let log = File::options().create(true).append(true).open(folder.join("log")).expect("a log");
    let mut command = Command::new(program);
    command.args(["worker", "--server", base, "--slots", "1", "--name", "desktop", "--worker-state"]).arg(folder);
    command.arg("--ffmpeg").arg(ffmpeg).args(more).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().expect("the program starts")
}
