//! Access to the accounts of a stopped server, for commands.

use std::io::Read;

use super::{ConfigArgs, Outcome, error_text, runtime};
use crate::config::Config;
use crate::error::{Code, Error, Result};
use crate::service::accounts::Accounts;
use crate::service::clock::Clock;
use crate::store::Store;

/// Most bytes read from standard input; the limit for passwords is in `domain::account`.
const MAX_INPUT_BYTES: u64 = 4096;

fn open_store(config: &Config) -> Result<Store> {
    Store::open_configured(&config.state, config.database_settings(), false)
}

/// Opens the accounts, runs `work`, and closes them. `route` is the HTTP route that does the same on a running server.
pub fn with_accounts<F>(config_args: &ConfigArgs, route: &str, work: F) -> Outcome
where
    F: AsyncFnOnce(&Accounts) -> Result<()>,
{
    let config = config_args.load_config()?;
    let open = |config: &Config| Accounts::open(config, open_store(config)?, Clock::default());
    runtime().block_on(async { work(&open(&config)?).await }).map_err(|error| error_text_with_route(error, route))
}

/// The text of an error; if the server is running, it also names `route` as the alternative.
pub fn error_text_with_route(error: Error, route: &str) -> String {
    let is_locked = error.code == Code::Conflict && error.message.contains("in use by a running");
    let text = error_text(error);
    if is_locked { format!("{text}: use {route}, or stop the server first") } else { text }
}

/// Reads a password from the first line of standard input.
pub fn password_from_stdin() -> std::result::Result<String, String> {
    let mut text = String::new();
    std::io::stdin().take(MAX_INPUT_BYTES).read_to_string(&mut text).map_err(|why| format!("standard input: {why}"))?;
    let line = text.split(['\r', '\n']).next().unwrap_or_default();
    if line.is_empty() {
        return Err("no password on standard input".to_owned());
    }
    Ok(line.to_owned())
}
