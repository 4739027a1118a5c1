//! Users: added, listed, changed and removed, and their passwords set by admins.

use data_encoding::BASE64URL_NOPAD;

use super::{Accounts, EndedAccess, KeptAccess, passwords, random_bytes};
use crate::config::DeclaredAdmin;
use crate::domain::access::{Principal, Role};
use crate::domain::account::{self, User};
use crate::domain::visibility::Visibility;
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
        Ok(self.add_device(&user, Some("command line"), None, None).await?.token)
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

    /// Stores a user with another password, removes their PIN and ends their access, in one change. The caller holds `change_lock`.
    pub(super) async fn replace_user(&self, user: User, kept_access: KeptAccess<'_>) -> Result<EndedAccess> {
        let access = self.access_to_end(&user.id, kept_access);
        let mut batch = Batch::default();
        batch.put(Tree::Users, &user.id, &user)?;
        access.add_deletions(&mut batch)?;
        let member = self.add_pin_removal(&user.id, &mut batch)?;
        self.store.write(batch).await?;
        let mut directory = self.write_directory();
        let user_id = user.id.clone();
        directory.put_user(user);
        if let Some(member) = member {
            directory.put_member(&user_id, member);
        }
        drop(directory);
        Ok(self.end_access(&access))
    }

    /// Removes a user with all their logins, stream tokens and preferences: all of it, or nothing. Their progress is removed by
    /// [`crate::service::progress::ProgressStore::clean_up`]; no other user ever has this id.
    ///
    /// # Errors
    /// `NOT_FOUND`; `CONFLICT` for the last admin, without whom no one could be given access; `STORAGE_FULL`.
    pub async fn remove_user(&self, user_id: &str) -> Result<()> {
        let _change = self.change_lock.lock().await;
        let user = self.get_user(user_id)?;
        self.check_not_last_admin(&user)?;
        let access = self.access_to_end(user_id, KeptAccess::default());
        let mut batch = Batch::default();
        batch.delete(Tree::Users, user_id)?;
        batch.delete(Tree::Preferences, user_id)?;
        batch.delete(Tree::Household, user_id)?;
        access.add_deletions(&mut batch)?;
        self.store.write(batch).await?;
        self.end_access(&access);
        self.write_directory().remove_user(user_id);
        self.reset_wrong_pins(user_id);
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
        let username = self.validate_free_name(username, None)?;
        if self.read_directory().users().count() >= MAX_USERS {
            return Err(Error::new(Code::Conflict, format!("the limit of {MAX_USERS} users is reached")));
        }
        let id = format!("u_{}", BASE64URL_NOPAD.encode(&random_bytes::<9>()));
        Ok(User { id, username, role, password_hash, created_at: self.now() })
    }

    /// A user with another name or role, not stored yet. The caller holds `change_lock`.
    pub(super) fn changed_user(&self, user: &User, username: Option<&str>, role: Option<Role>) -> Result<User> {
        let username =
            username.map_or_else(|| Ok(user.username.clone()), |name| self.validate_free_name(name, Some(user)))?;
        let changed = User { username, role: role.unwrap_or(user.role), ..user.clone() };
        let is_declared =
            |name: &str| self.declared_admin.as_ref().is_some_and(|declared| has_same_name(&declared.username, name));
        let keeps_declaration = changed.role == user.role && has_same_name(&changed.username, &user.username);
        if is_declared(&user.username) && !keeps_declaration {
            // The next start would undo it, or add the admin again.
            return Err(Error::new(Code::Conflict, "the admin of the configuration keeps name and role"));
        }
        if changed.role != Role::Admin {
            self.check_not_last_admin(user)?;
        }
        Ok(changed)
    }

    /// An admin is needed, because otherwise no one could be given access.
    fn check_not_last_admin(&self, user: &User) -> Result<()> {
        if user.role == Role::Admin && self.read_directory().admin_count() == 1 {
            return Err(Error::new(Code::Conflict, "the last admin must stay an admin"));
        }
        Ok(())
    }

    /// The valid form of a name that only `owner` may have already.
    fn validate_free_name(&self, name: &str, owner: Option<&User>) -> Result<String> {
        let name = account::validate_username(name).map_err(|fault| Error::invalid_field("username", fault))?;
        let holder = self.read_directory().user_by_name(&name).map(|user| user.id.clone());
        if holder.is_some_and(|id| owner.is_none_or(|owner| owner.id != id)) {
            let conflict = Error::new(Code::Conflict, format!("the name {name:?} is already in use"));
            return Err(conflict.with_details(serde_json::json!({"field": "username"})));
        }
        Ok(name)
    }

    /// The part of the library that a user sees; None if there is no such user.
    pub fn visibility_of(&self, user_id: &str) -> Option<Visibility> {
        let directory = self.read_directory();
        directory.user(user_id).map(|user| directory.visibility_of(user))
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

/// Whether two names are the same user's.
fn has_same_name(a: &str, b: &str) -> bool {
    account::fold_username(a) == account::fold_username(b)
}
