//! The address of the database that has the state.

use std::path::Path;

/// The address of a PostgreSQL database. It may contain a password, so it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseAddress(String);

impl DatabaseAddress {
    /// Takes a setting that is an address; other settings are folders.
    pub fn from_setting(setting: &Path) -> Option<Self> {
        let text = setting.to_str()?;
        let is_address = ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme));
        is_address.then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for DatabaseAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("postgres://…")
    }
}
