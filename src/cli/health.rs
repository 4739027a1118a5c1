//! `hearthcast health`.

use std::net::SocketAddr;

use clap::Args;

use super::{ConfigArgs, Outcome, runtime};
use crate::app::health_check;

#[derive(Args)]
pub struct Health {
    #[command(flatten)]
    config_args: ConfigArgs,
    /// Address and port of the server [default: those of the configuration].
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
}

impl Health {
    pub fn run(self) -> Outcome {
        let listen = match self.listen {
            Some(listen) => listen,
            None => self.config_args.load_config()?.listen,
        };
        runtime().block_on(health_check::check(listen))
    }
}
