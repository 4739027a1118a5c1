//! `hearthcast worker --server URL`: a worker for a server on another machine.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::app::shutdown_signal;
use crate::cli::{error_text, runtime};
use crate::config::can_be_forbidden;
use crate::engine::remote::program::{WorkerOptions, work};

/// The options of a worker for another machine.
#[derive(Args)]
pub struct RemoteArgs {
    /// Address of the server, e.g. <https://tv.example>.
    #[arg(long, value_name = "URL", conflicts_with_all = ["number", "network", "make_registry"])]
    server: Option<String>,
    /// The one-time code of an admin, needed at the first start.
    #[arg(long, requires = "server")]
    code: Option<String>,
    /// Folder of its credential [default: $STATE_DIRECTORY, otherwise $XDG_STATE_HOME/hearthcast-worker].
    #[arg(long, value_name = "DIR", requires = "server")]
    worker_state: Option<PathBuf>,
    /// Runs at once [default: half of the processors, at least 1].
    #[arg(long, value_name = "N", requires = "server", value_parser = clap::value_parser!(u8).range(1..=64))]
    slots: Option<u8>,
    /// Name of this machine in the server's lists [default: the host name].
    #[arg(long, requires = "server")]
    name: Option<String>,
    /// The ffmpeg program; a bare name is looked up in PATH.
    #[arg(long, value_name = "FILE", default_value = "ffmpeg")]
    ffmpeg: PathBuf,
    /// A hardware encoder or decoder that is never used, by ffmpeg's name, or `hardware` for all of them; may be repeated.
    #[arg(long, value_name = "NAME", requires = "server")]
    forbid: Vec<String>,
}

impl RemoteArgs {
    pub(super) fn has_server(&self) -> bool {
        self.server.is_some()
    }

    pub(super) fn run(self) -> ExitCode {
        let options = match self.options() {
            Ok(options) => options,
            Err(reason) => return fail(&reason),
        };
        let ended = runtime().block_on(async {
            let stop = shutdown_signal().map_err(error_text)?;
            tokio::select! {
                ended = work(options) => ended,
                () = stop => Ok(()),
            }
        });
        match ended {
            Ok(()) => ExitCode::SUCCESS,
            Err(reason) => fail(&reason),
        }
    }

    fn options(self) -> Result<WorkerOptions, String> {
        if let Some(name) = self.forbid.iter().find(|name| !can_be_forbidden(name)) {
            return Err(format!("--forbid {name}: `hearthcast doctor` lists the hardware encoders and decoders"));
        }
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let host_name = || rustix::system::uname().nodename().to_string_lossy().into_owned();
        Ok(WorkerOptions {
            server: self.server.ok_or("--server is missing")?,
            code: self.code,
            state: self.worker_state.or_else(default_state).ok_or("no state folder: set --worker-state")?,
            slots: self.slots.map_or((processors / 2).max(1), usize::from),
            ffmpeg: self.ffmpeg,
            forbidden: self.forbid,
            name: self.name.unwrap_or_else(host_name),
        })
    }
}

/// The state folder by systemd or XDG.
fn default_state() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let xdg = || folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")));
    folder("STATE_DIRECTORY").or_else(|| Some(xdg()?.join("hearthcast-worker")))
}

fn fail(reason: &str) -> ExitCode {
    eprintln!("hearthcast: {reason}");
    ExitCode::FAILURE
}
