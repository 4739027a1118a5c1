//! `hearthcast worker`: a media worker, started by the server itself. It reads no configuration and needs no runtime.

use std::process::ExitCode;

use clap::Args;

use crate::engine::gst::worker;
use crate::engine::process::sandbox::WorkerKind;

/// Run as a media worker of a server (started by the server itself).
#[derive(Args)]
pub struct Worker {
    /// Number of this worker, unique while its server runs.
    #[arg(long, value_name = "N", default_value_t = 0)]
    number: u32,
    /// Receive streams from the network instead of reading files.
    #[arg(long)]
    network: bool,
    /// Write GStreamer's registry of plugins and end.
    #[arg(long, conflicts_with_all = ["number", "network"])]
    make_registry: bool,
}

impl Worker {
    pub(super) fn run(self) -> ExitCode {
        if self.make_registry {
            return match worker::make_registry() {
                Ok(()) => ExitCode::SUCCESS,
                Err(reason) => {
                    eprintln!("hearthcast: {reason}");
                    ExitCode::FAILURE
                }
            };
        }
        worker::serve(self.number, if self.network { WorkerKind::Network } else { WorkerKind::Media })
    }
}
