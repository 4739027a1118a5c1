//! Preferences of users, stored for each of their devices.

use super::Accounts;
use crate::domain::access::Principal;
use crate::domain::preferences::{Preferences, PreferencesChange};
use crate::error::Result;
use crate::store::Tree;

impl Accounts {
    /// The preferences of a user; the defaults if none were chosen.
    ///
    /// # Errors
    /// `INTERNAL` if the record cannot be read.
    pub fn preferences(&self, user_id: &str) -> Result<Preferences> {
        Ok(self.store.get(Tree::Preferences, user_id)?.unwrap_or_default())
    }

    /// Changes the preferences of a user, and returns all of them.
    ///
    /// # Errors
    /// `UNAUTHORIZED` when the login of the user ended meanwhile; `STORAGE_FULL`.
    pub async fn change_preferences(&self, user: &Principal, change: PreferencesChange) -> Result<Preferences> {
        let _change = self.change_by(Some(user)).await?;
        let stored = self.preferences(&user.user_id)?;
        let mut preferences = stored.clone();
        preferences.apply(change);
        if preferences != stored {
            self.store.put(Tree::Preferences, &user.user_id, &preferences).await?;
        }
        Ok(preferences)
    }
}
