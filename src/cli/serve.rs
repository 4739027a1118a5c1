//! `hearthcast serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::{ConfigArgs, Outcome, error_text, runtime};
use crate::app::{self, supervision::Reloader};
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
    /// NATS server through which workers on other machines are reached, e.g. nats://127.0.0.1:4222.
    #[arg(long, value_name = "URL")]
    queue: Option<String>,
    /// Store of encoded segments that servers share, e.g. s3://bucket/prefix.
    #[arg(long, value_name = "URL")]
    segments: Option<String>,
}

impl Serve {
    pub fn run(self) -> Outcome {
        let mut flags = self.config_args.flags();
        flags.listen = self.listen;
        flags.roots = self.root;
        flags.backend = self.backend;
        flags.isolation = self.isolation;
        flags.queue = self.queue;
        flags.segments = self.segments;
        let config = sources::load_from_process(&flags)?;
        let runtime = runtime();
        let outcome = runtime.block_on(async {
            let reloader = Reloader::new(Arc::new(move || sources::load_from_process(&flags)))?;
            app::run(config, reloader, app::shutdown_signal()?).await
        });
        // A thread that still blocks (a library on an unreachable network) must not prevent the exit.
        runtime.shutdown_timeout(Duration::from_secs(2));
        outcome.map_err(error_text)
    }
}
