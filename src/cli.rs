//! The command line (contract section 17).

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::config::Config;
use crate::domain::library::Root;
use crate::{app, telemetry};

#[derive(Parser)]
#[command(name = "hearthcast", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the server.
    Serve {
        #[arg(long, default_value = "127.0.0.1:8470")]
        listen: SocketAddr,
        #[arg(long)]
        state: PathBuf,
        #[arg(long)]
        root: Vec<PathBuf>,
    },
}

/// Runs the program.
pub fn main() -> ExitCode {
    telemetry::init();
    let Command::Serve { listen, state, root } = Cli::parse().command;
    let mut config = Config::new(state.join("state"), state.join("cache"));
    config.listen = listen;
    config.roots = root.into_iter().enumerate().map(|(n, path)| Root { id: format!("r{n}"), path }).collect();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be built");
    let stop = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    match runtime.block_on(app::run(config, stop)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hearthcast: {error}");
            ExitCode::FAILURE
        }
    }
}
