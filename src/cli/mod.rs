//! The command line: one file per command that has arguments.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::app::memory;
use crate::config::Config;
use crate::config::sources::{self, Flags};
use crate::engine::versions;
use crate::error::{Code, Error};
use crate::http::openapi;
use crate::telemetry;

mod accounts;
mod config;
mod demo;
mod doctor;
mod export;
mod health;
mod keys;
mod manual;
mod pipelines;
mod probe;
mod serve;
mod stream_token;
mod token;
mod user;
mod worker;

/// The result of a command; the error is a message for the terminal.
type Outcome = Result<(), String>;

#[derive(Parser)]
#[command(name = "hearthcast", about, disable_version_flag = true)]
struct Cli {
    /// Print the versions of Hearthcast, GStreamer and ffmpeg.
    #[arg(short = 'V', long)]
    version: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Run the server.
    Serve(serve::Serve),
    /// Print the media info of a file as JSON.
    Probe(probe::Probe),
    /// Manage the users of a stopped server.
    #[command(subcommand)]
    User(user::UserCommand),
    /// Create bearer tokens for scripts.
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Create tokens for players that cannot sign in.
    #[command(subcommand)]
    StreamToken(stream_token::StreamTokenCommand),
    /// Manage the keys that sign links.
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    /// Print the OpenAPI document of the HTTP API.
    Openapi,
    /// Create sample media and serve them, with a link that sets up the first user.
    Demo(demo::Demo),
    /// Check that this machine has everything playback needs.
    Doctor(doctor::Doctor),
    /// Check whether a server answers, for containers and scripts.
    Health(health::Health),
    /// Print the complete state as JSON Lines.
    Export(export::Export),
    /// Write the complete state to a file; the server may be running.
    Backup(export::Backup),
    /// Create a state from exported JSON Lines.
    Import(export::Import),
    /// List, check or draw the GStreamer pipelines.
    #[command(subcommand)]
    Pipelines(pipelines::PipelinesCommand),
    /// Check the configuration.
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Write man pages and shell completions, for packages.
    #[command(hide = true)]
    Manual(manual::Manual),
    /// Make runs of a server on this machine (a server starts its local workers by itself).
    #[cfg_attr(not(feature = "cluster"), command(hide = true))]
    Worker(worker::Worker),
}

/// The options `--config` and `--state`, shared by all commands that need them.
#[derive(Args, Clone, Debug)]
pub struct ConfigArgs {
    /// Configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// State folder: accounts, keys, channels, progress.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

impl ConfigArgs {
    fn flags(&self) -> Flags {
        Flags { config: self.config.clone(), state: self.state.clone(), ..Flags::default() }
    }

    /// Loads the configuration as `serve` would with these options.
    fn load_config(&self) -> Result<Config, String> {
        sources::load_from_process(&self.flags())
    }
}

/// Runs the program.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    // All files a command creates are private: state, segments, backups. Recordings get the mode of their folder.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    // The server receives the log of its local workers.
    if !matches!(&cli.command, Some(Command::Worker(worker)) if worker.is_local()) {
        telemetry::init();
    }
    let outcome = match cli.command {
        _ if cli.version => print_versions(),
        Some(Command::Serve(serve)) => serve.run(),
        Some(Command::Probe(probe)) => probe.run(),
        Some(Command::User(user)) => user.run(),
        Some(Command::Token(token)) => token.run(),
        Some(Command::StreamToken(token)) => token.run(),
        Some(Command::Keys(keys)) => keys.run(),
        Some(Command::Openapi) => print_openapi(),
        Some(Command::Demo(demo)) => demo.run(),
        Some(Command::Doctor(doctor)) => doctor.run(),
        Some(Command::Health(health)) => health.run(),
        Some(Command::Export(export)) => export.run(),
        Some(Command::Backup(backup)) => backup.run(),
        Some(Command::Import(import)) => import.run(),
        Some(Command::Pipelines(pipelines)) => pipelines.run(),
        Some(Command::Config(config)) => config.run(),
        Some(Command::Manual(manual)) => manual.run(Cli::command()),
        Some(Command::Worker(worker)) => return worker.run(),
        None => Err(Cli::command().render_help().to_string()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            for line in message.lines() {
                eprintln!("hearthcast: {line}");
            }
            ExitCode::FAILURE
        }
    }
}

fn print_versions() -> Outcome {
    println!("hearthcast {}", env!("CARGO_PKG_VERSION"));
    println!("GStreamer {}", versions::gstreamer_version());
    println!("ffmpeg {}", versions::ffmpeg_version().unwrap_or_else(|| "not found".to_owned()));
    Ok(())
}

/// Prints the OpenAPI document, as `GET /api/openapi.json` returns it.
fn print_openapi() -> Outcome {
    println!("{}", openapi::text());
    Ok(())
}

/// A runtime for async work in commands.
fn runtime() -> tokio::runtime::Runtime {
    memory::configure_allocator();
    tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime can be built")
}

/// The text of an error for the terminal: an internal error shows its cause, which clients never see.
fn error_text(error: Error) -> String {
    match error.cause {
        Some(cause) if error.code == Code::Internal => cause,
        Some(cause) => format!("{}: {cause}", error.message),
        None => error.message,
    }
}
