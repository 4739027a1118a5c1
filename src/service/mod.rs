#![doc = include_str!("README.md")]

use std::sync::Arc;

use crate::config::Config;
use crate::engine::source::Roots;
use crate::error::Result;
use crate::store::Store;

pub mod accounts;

use accounts::Accounts;

/// Everything a request can ask for.
pub struct Service {
    pub config: Config,
    pub store: Store,
    pub accounts: Accounts,
    pub roots: Arc<Roots>,
}

impl Service {
    /// Opens roots and state.
    ///
    /// # Errors
    /// What cannot be opened, by name.
    pub fn open(config: Config) -> Result<Arc<Self>> {
        let roots = Roots::open(config.roots.clone()).map_err(crate::error::Error::internal)?;
        let store = Store::open(&config.state)?;
        Ok(Arc::new(Self { accounts: Accounts::open(&config)?, roots: Arc::new(roots), store, config }))
    }
}
