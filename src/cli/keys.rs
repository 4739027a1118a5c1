//! `hearthcast keys rotate`.

use clap::Subcommand;

use super::accounts::in_use;
use super::{Outcome, Place};
use crate::service::accounts::keys;
use crate::store::Store;

#[derive(Subcommand)]
pub enum Keys {
    /// Create a new signing key. Links signed with the current key keep working; older links stop working.
    Rotate(Place),
}

impl Keys {
    pub fn run(self) -> Outcome {
        let Self::Rotate(place) = self;
        let config = place.load()?;
        // Opening the store fails while a server runs: it has the keys in memory and would continue with the old ones.
        let rotated = Store::open(&config.state).and_then(|_store| keys::rotate(&config.state));
        rotated.map_err(|error| in_use(error, "DELETE /api/auth/sessions to end one user's links"))?;
        println!("rotated: links signed with the previous key still work, older ones do not");
        Ok(())
    }
}
