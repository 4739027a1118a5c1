//! Users: added, listed and removed, and their passwords set by admins.

use data_encoding::BASE64URL_NOPAD;

use super::{Accounts, EndedAccess, KeptAccess, passwords, random_bytes};
use crate::config::DeclaredAdmin;
use crate::domain::access::{Principal, Role};
use crate::domain::account::{self, User};
use crate::error::{Code, Error, Result};
use crate::store::{Batch, Tree};

/// Users of one server at most.
const MAX_USERS: usize = 10_000;

impl Accounts {
    /// All users, by name.
    pub fn users(&self) -> Vec<User> {
        let mut users: Vec<User> = self.read_directory().users().map(|user| User::clone(user)).collect();
        users.sort_by_cached_key(|user| account::fold_username(&user.username));
        users
    }

    /// A user by name.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub fn user_by_name(&self, username: &str) -> Result<User> {
        let user = self.read_directory().user_by_name(username).map(|user| User::clone(user));
        user.ok_or_else(|| Error::new(Code::NotFound, format!("no user {username:?}")))
    }

    /// Adds a user who signs in with a password, for an admin; `None` is the command line.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` for an invalid name or password; `CONFLICT` when the name is in use; `UNAUTHORIZED` when the admin's
    /// login ended meanwhile.
    pub async fn add_user(&self, by: Option<&Principal>, name: &str, role: Role, password: &str) -> Result<User> {
        account::validate_password(password).map_err(|fault| Error::invalid_field("password", fault))?;
        let hash = self.passwords.hash(password).await?;
        let _change = self.change_by(by).await?;
        self.insert_user(name, role, Some(hash)).await
    }

    /// A new bearer token for a user, who is created (without a password) if absent.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` for an invalid name; `STORAGE_FULL`.
    pub async fn issue_token(&self, username: &str, role: Role) -> Result<String> {
        let _change = self.change_lock.lock().await;
        let existing_user = self.read_directory().user_by_name(username).map(|user| User::clone(user));
        let user = existing_user.map_or_else(|| self.new_user(username, role, None), Ok)?;
        Ok(self.add_device(&user, Some("command line"), None).await?.token)
    }

    /// Sets a password for an admin (`None` is the command line) and ends all access of the user except `kept_access`: both,
    /// or nothing.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` for an invalid password; `NOT_FOUND`; `STORAGE_FULL`; `UNAUTHORIZED` when the admin's login ended
    /// meanwhile.
    pub async fn set_password(
        &self,
        by: Option<&Principal>,
        user_id: &str,
        password: &str,
        kept_access: KeptAccess<'_>,
    ) -> Result<EndedAccess> {
        account::validate_password(password).map_err(|fault| Error::invalid_field("newPassword", fault))?;
        let hash = self.passwords.hash(password).await?;
        let _change = self.change_by(by).await?;
        let user = self.get_user(user_id)?;
        self.replace_user(User { password_hash: Some(hash), ..user }, kept_access).await
    }

    /// Stores a user and ends their access, in one change. The caller holds `change_lock`.
    pub(super) async fn replace_user(&self, user: User, kept_access: KeptAccess<'_>) -> Result<EndedAccess> {
        let access = self.access_to_end(&user.id, kept_access);
        let mut batch = Batch::default();
        batch.put(Tree::Users, &user.id, &user)?;
        access.add_deletions(&mut batch)?;
        self.store.write(batch).await?;
        self.write_directory().put_user(user);
        Ok(self.end_access(&access))
    }

    /// Removes a user with all their logins and stream tokens: all of it, or nothing. Their progress is removed by
    /// [`crate::service::progress::ProgressStore::clean_up`]; no other user ever has this id.
    ///
    /// # Errors
    /// `NOT_FOUND`; `CONFLICT` for the last admin, without whom no one could be given access; `STORAGE_FULL`.
    pub async fn remove_user(&self, user_id: &str) -> Result<()> {
        let _change = self.change_lock.lock().await;
        let user = self.get_user(user_id)?;
        if user.role == Role::Admin && self.read_directory().admin_count() == 1 {
            return Err(Error::new(Code::Conflict, "the last admin cannot be removed"));
        }
        let access = self.access_to_end(user_id, KeptAccess::default());
        let mut batch = Batch::default();
        batch.delete(Tree::Users, user_id)?;
        access.add_deletions(&mut batch)?;
        self.store.write(batch).await?;
        self.end_access(&access);
        self.write_directory().remove_user(user_id);
        Ok(())
    }

    /// Creates the admin declared in the configuration, or sets the password hash of its file again.
    pub(super) async fn sync_declared_admin(&self, declared: &DeclaredAdmin) -> Result<()> {
        let file = &declared.password_hash_file;
        let file_error = |cause: &dyn std::fmt::Display| Error::internal(format!("{}: {cause}", file.display()));
        #[allow(clippy::disallowed_methods, reason = "a file that the operator set in the configuration")]
        let hash = std::fs::read_to_string(file).map_err(|cause| file_error(&cause))?.trim().to_owned();
        passwords::check_external_hash(&hash).map_err(|fault| file_error(&fault))?;
        let _change = self.change_lock.lock().await;
        let existing_user = self.read_directory().user_by_name(&declared.username).map(|user| User::clone(user));
        match existing_user {
            None => self.insert_user(&declared.username, Role::Admin, Some(hash)).await.map(drop),
            Some(user) if user.role == Role::Admin && user.password_hash.as_ref() == Some(&hash) => Ok(()),
            Some(user) => {
                let user = User { role: Role::Admin, password_hash: Some(hash), ..user };
                self.replace_user(user, KeptAccess::default()).await.map(drop)
            }
        }
    }

    /// Adds a user. The caller holds `change_lock`.
    async fn insert_user(&self, username: &str, role: Role, password_hash: Option<String>) -> Result<User> {
        let user = self.new_user(username, role, password_hash)?;
        self.store.put(Tree::Users, &user.id, &user).await?;
        self.write_directory().put_user(user.clone());
        Ok(user)
    }

    /// A valid new user, not stored yet. The caller holds `change_lock`.
    pub(super) fn new_user(&self, username: &str, role: Role, password_hash: Option<String>) -> Result<User> {
        let username = account::validate_username(username).map_err(|fault| Error::invalid_field("username", fault))?;
        if self.read_directory().user_by_name(&username).is_some() {
            let conflict = Error::new(Code::Conflict, format!("the name {username:?} is already in use"));
            return Err(conflict.with_details(serde_json::json!({"field": "username"})));
        }
        if self.read_directory().users().count() >= MAX_USERS {
            return Err(Error::new(Code::Conflict, format!("the limit of {MAX_USERS} users is reached")));
        }
        let id = format!("u_{}", BASE64URL_NOPAD.encode(&random_bytes::<9>()));
        Ok(User { id, username, role, password_hash, created_at: self.now() })
    }

    /// A user by id.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub fn get_user(&self, user_id: &str) -> Result<User> {
        let user = self.read_directory().user(user_id).map(|user| User::clone(user));
        user.ok_or_else(|| Error::new(Code::NotFound, "no such user"))
    }
}
