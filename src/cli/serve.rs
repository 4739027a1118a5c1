//! `hearthcast serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{ConfigArgs, Outcome, error_text, runtime};
use crate::app;
use crate::config::{BackendSetting, IsolationSetting, sources};

#[derive(Args)]
pub struct Serve {
    #[command(flatten)]
    config_args: ConfigArgs,
    /// Address and port to listen on [default: 127.0.0.1:8470].
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    /// Library folder; may be given several times.
    #[arg(long, value_name = "DIR")]
    root: Vec<PathBuf>,
    /// Backend that makes segments [default: auto].
    #[arg(long)]
    backend: Option<BackendSetting>,
    /// Where GStreamer runs [default: process].
    #[arg(long)]
    isolation: Option<IsolationSetting>,
}

impl Serve {
    pub fn run(self) -> Outcome {
        let mut flags = self.config_args.flags();
        flags.listen = self.listen;
        flags.roots = self.root;
        flags.backend = self.backend;
        flags.isolation = self.isolation;
        let config = sources::load_from_process(&flags)?;
        let runtime = runtime();
        let outcome = runtime.block_on(async { app::run(config, app::shutdown_signal()?).await });
        // A thread that still blocks (a library on an unreachable network) must not prevent the exit.
        runtime.shutdown_timeout(Duration::from_secs(2));
        outcome.map_err(error_text)
    }
}
