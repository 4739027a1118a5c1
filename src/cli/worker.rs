//! `hearthcast worker`: a media worker, started by the server itself, or on another machine by its user.

use std::process::ExitCode;

use clap::Args;

use crate::engine::gst::worker;
use crate::engine::process::sandbox::WorkerKind;

#[cfg(feature = "cluster")]
mod remote;

/// Make runs of a server on this machine (a server starts its local workers by itself).
#[derive(Args)]
pub struct Worker {
    /// Number of this worker, unique while its server runs.
    #[arg(long, value_name = "N", default_value_t = 0, hide = true)]
    number: u32,
    /// Receive streams from the network instead of reading files.
    #[arg(long, hide = true)]
    network: bool,
    /// Write GStreamer's registry of plugins and end.
    #[arg(long, conflicts_with_all = ["number", "network"], hide = true)]
    make_registry: bool,
    #[cfg(feature = "cluster")]
    #[command(flatten)]
    remote: remote::RemoteArgs,
}

impl Worker {
    /// Whether a server on this machine has started it, and receives its log.
    pub(super) fn is_local(&self) -> bool {
        #[cfg(feature = "cluster")]
        return !self.remote.has_server();
        #[cfg(not(feature = "cluster"))]
        true
    }

    pub(super) fn run(self) -> ExitCode {
        #[cfg(feature = "cluster")]
        if !self.is_local() {
            return self.remote.run();
        }
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
