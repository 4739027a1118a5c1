//! The address of the database that has the state, and the settings of the connection.

use std::path::Path;

use super::Config;

/// The address of a PostgreSQL database. It may contain a password, so it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseAddress(String);

/// How the database that has the state is reached.
#[derive(Clone, Copy)]
pub struct DatabaseSettings<'a> {
    pub address: &'a str,
    /// PEM file with the certificates that are trusted instead of those of the system.
    pub ca_file: Option<&'a Path>,
}

impl DatabaseAddress {
    /// Takes a setting that is an address; other settings are folders.
    pub fn from_setting(setting: &Path) -> Option<Self> {
        let text = setting.to_str()?;
        let is_address = ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme));
        is_address.then(|| Self(text.to_owned()))
    }
}

impl Config {
    /// The database that has the state, if there is one.
    pub fn database_settings(&self) -> Option<DatabaseSettings<'_>> {
        let DatabaseAddress(address) = self.database.as_ref()?;
        Some(DatabaseSettings { address, ca_file: self.state_ca_file.as_deref() })
    }
}

impl std::fmt::Debug for DatabaseAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("postgres://…")
    }
}
