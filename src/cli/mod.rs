//! The command line: one file per command.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::config::Config;
use crate::config::sources::{self, Flags};
use crate::error::{Code, Error};
use crate::telemetry;

mod accounts;
mod config;
mod demo;
mod doctor;
mod export;
mod keys;
mod openapi;
mod pipelines;
mod probe;
mod serve;
mod stream_token;
mod token;
mod user;
mod version;

/// Why a command failed, in words for the person at the terminal.
type Outcome = Result<(), String>;

#[derive(Parser)]
#[command(name = "hearthcast", about, disable_version_flag = true)]
struct Cli {
    /// Print the version, and the GStreamer and ffmpeg found.
    #[arg(short = 'V', long)]
    version: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Run the server.
    Serve(serve::Serve),
    /// Print what a media file holds, as JSON.
    Probe(probe::Probe),
    /// Users of a server that is not running.
    #[command(subcommand)]
    User(user::User),
    /// Bearer tokens for scripts.
    #[command(subcommand)]
    Token(token::Token),
    /// Tokens for players that cannot sign in.
    #[command(subcommand)]
    StreamToken(stream_token::StreamToken),
    /// Signing keys of links.
    #[command(subcommand)]
    Keys(keys::Keys),
    /// Print the OpenAPI document of the HTTP interface.
    Openapi,
    /// Make sample media and serve them, with a link that signs in.
    Demo(demo::Demo),
    /// Look whether everything is here that playing needs.
    Doctor(doctor::Doctor),
    /// Print the whole state as JSON lines.
    Export(export::Export),
    /// Write the whole state to a file, while the server runs or not.
    Backup(export::Backup),
    /// Make a state of exported JSON lines.
    Import(export::Import),
    /// GStreamer pipelines: what they are, and whether this machine can build them.
    #[command(subcommand)]
    Pipelines(pipelines::Pipelines),
    /// Look at the configuration.
    #[command(subcommand)]
    Config(config::Config),
}

/// Where the configuration and the state are; the same for every command that needs them.
#[derive(Args, Clone, Debug)]
pub struct Place {
    /// The configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where state is kept.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

impl Place {
    fn flags(&self) -> Flags {
        Flags { config: self.config.clone(), state: self.state.clone(), ..Flags::default() }
    }

    /// The configuration as a server at this place would read it.
    fn load(&self) -> Result<Config, String> {
        sources::load_here(&self.flags())
    }
}

/// Runs the program.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    // Whatever a command makes is private: state, segments, backups. Recordings get the mode of their folder.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    telemetry::init();
    let outcome = match cli.command {
        _ if cli.version => version::print(),
        Some(Command::Serve(serve)) => serve.run(),
        Some(Command::Probe(probe)) => probe.run(),
        Some(Command::User(user)) => user.run(),
        Some(Command::Token(token)) => token.run(),
        Some(Command::StreamToken(token)) => token.run(),
        Some(Command::Keys(keys)) => keys.run(),
        Some(Command::Openapi) => openapi::print(),
        Some(Command::Demo(demo)) => demo.run(),
        Some(Command::Doctor(doctor)) => doctor.run(),
        Some(Command::Export(export)) => export.run(),
        Some(Command::Backup(backup)) => backup.run(),
        Some(Command::Import(import)) => import.run(),
        Some(Command::Pipelines(pipelines)) => pipelines.run(),
        Some(Command::Config(config)) => config.run(),
        None => Err(Cli::command().render_help().to_string()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            for line in fault.lines() {
                eprintln!("hearthcast: {line}");
            }
            ExitCode::FAILURE
        }
    }
}

/// A runtime for commands that wait for the store.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime can be built")
}

/// An error as a person reads it: for a fault of ours the cause, which no client would see.
fn told(error: Error) -> String {
    match error.cause {
        Some(cause) if error.code == Code::Internal => cause,
        Some(cause) => format!("{}: {cause}", error.message),
        None => error.message,
    }
}
