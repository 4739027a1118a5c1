//! `hearthcast keys rotate`.

use clap::Subcommand;

use super::accounts::error_text_with_route;
use super::{ConfigArgs, Outcome};
use crate::service::accounts::keys;
use crate::store::{self, Store};

#[derive(Subcommand)]
pub enum KeysCommand {
    /// Create a new signing key. Links signed with the current key keep working; older links stop working.
    Rotate(ConfigArgs),
}

impl KeysCommand {
    pub fn run(self) -> Outcome {
        let Self::Rotate(config_args) = self;
        let config = config_args.load_config()?;
        // Opening the store fails while a server runs: it has the keys in memory and would continue with the old ones.
        let database = config.database_settings();
        let rotate = |_store: Store| {
            keys::rotate(&config.state)?;
            database.map_or(Ok(()), |database| store::publish_signing_keys(&config.state, database))
        };
        let result = Store::open_configured(&config.state, database, false).and_then(rotate);
        result.map_err(|error| error_text_with_route(error, "DELETE /api/auth/sessions to end one user's links"))?;
        println!("rotated: links signed with the previous key still work, older ones do not");
        Ok(())
    }
}
