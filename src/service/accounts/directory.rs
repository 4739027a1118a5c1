//! Users and logins in memory, as every request needs them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::devices::SEEN_LAG_SECONDS;
use super::last_use::LastUse;
use crate::domain::access::{Principal, Role};
use crate::domain::account::{Login, User, fold_username};
use crate::domain::household::Member;
use crate::domain::visibility::Visibility;

/// Characters kept of a name that is in use: a name has 64 at most.
const MAX_STEM: usize = 56;

/// The SHA-256 of a token.
pub type TokenHash = [u8; 32];

/// The hash by which a token is found. Tokens are 256 random bits, so a plain hash cannot be inverted.
///
/// Each thread caches the last one, because a player sends hundreds of requests on one connection.
pub fn token_hash(token: &str) -> TokenHash {
    LAST.with_borrow_mut(|(last_token, hash)| {
        if !bool::from(last_token.as_bytes().ct_eq(token.as_bytes())) {
            *hash = Sha256::digest(token.as_bytes()).into();
            token.clone_into(last_token);
        }
        *hash
    })
}

thread_local! {
    static LAST: RefCell<(String, TokenHash)> = RefCell::new((String::new(), Sha256::digest(b"").into()));
}

/// A valid login.
#[derive(Debug)]
pub struct Device {
    pub login: Login,
    /// Shared with every request under way.
    pub principal: Arc<Principal>,
    pub(super) last_use: LastUse,
}

impl Device {
    fn new(login: Login, user: &User, visibility: Visibility) -> Arc<Self> {
        let last_use = LastUse::from_stored(login.last_seen_at.as_second());
        let principal = Principal {
            user_id: user.id.clone(),
            username: user.username.clone(),
            role: user.role,
            login_id: login.id.clone(),
            channels: None,
            expires_at: None,
            visibility,
        };
        Arc::new(Self { login, principal: Arc::new(principal), last_use })
    }

    pub fn last_seen(&self) -> Timestamp {
        Timestamp::from_second(self.last_use.seconds()).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    pub fn is_expired(&self, now: i64, life_seconds: i64) -> bool {
        now - self.last_use.seconds() > life_seconds
    }

    /// Whether the stored time of its last use is at most twice as old as it may become.
    pub(super) fn has_stored_use(&self) -> bool {
        self.last_use.unstored_seconds() < 2 * SEEN_LAG_SECONDS
    }

    /// The login as it should be stored now.
    pub fn current_login(&self) -> Login {
        Login { last_seen_at: self.last_seen(), ..self.login.clone() }
    }
}

/// All users and logins.
#[derive(Debug, Default)]
pub struct Directory {
    users: HashMap<String, Arc<User>>,
    /// Folded name to user id.
    ids_by_name: HashMap<String, String>,
    devices_by_token: HashMap<TokenHash, Arc<Device>>,
    /// Login id to token.
    tokens_by_login: HashMap<String, TokenHash>,
    /// By user id; only of users.
    members: HashMap<String, Member>,
}

impl Directory {
    pub fn user(&self, id: &str) -> Option<&Arc<User>> {
        self.users.get(id)
    }

    pub fn user_by_name(&self, name: &str) -> Option<&Arc<User>> {
        self.users.get(self.ids_by_name.get(&fold_username(name))?)
    }

    /// A free name for a user whose own name is in use; None if it is not.
    pub fn find_free_name(&self, name: &str) -> Option<String> {
        self.user_by_name(name)?;
        let stem: String = name.chars().take(MAX_STEM).collect();
        let mut names = (2..).map(|number| format!("{stem}-{number}"));
        names.find(|name| self.user_by_name(name).is_none())
    }

    pub fn users(&self) -> impl Iterator<Item = &Arc<User>> {
        self.users.values()
    }

    pub fn admin_count(&self) -> usize {
        self.users.values().filter(|user| user.role == Role::Admin).count()
    }

    pub fn device_by_token(&self, hash: &TokenHash) -> Option<&Arc<Device>> {
        self.devices_by_token.get(hash)
    }

    pub fn device_by_login(&self, id: &str) -> Option<&Arc<Device>> {
        self.devices_by_token.get(self.tokens_by_login.get(id)?)
    }

    pub fn devices(&self) -> impl Iterator<Item = &Arc<Device>> {
        self.devices_by_token.values()
    }

    pub fn devices_of<'a>(&'a self, user_id: &'a str) -> impl Iterator<Item = &'a Arc<Device>> {
        self.devices_by_token.values().filter(move |device| device.login.user_id == user_id)
    }

    /// Adds or replaces a user, and updates their logins.
    pub fn put_user(&mut self, user: User) {
        let user = Arc::new(user);
        if let Some(previous) = self.users.insert(user.id.clone(), user.clone()) {
            self.ids_by_name.remove(&fold_username(&previous.username));
        }
        self.ids_by_name.insert(fold_username(&user.username), user.id.clone());
        self.update_devices(&user);
    }

    /// The record of a member; None for a user who chose nothing.
    pub fn member(&self, user_id: &str) -> Option<&Member> {
        self.members.get(user_id)
    }

    /// The part of the library that a user sees.
    pub fn visibility_of(&self, user: &User) -> Visibility {
        self.member(&user.id).map(|member| member.visibility(user.role)).unwrap_or_default()
    }

    /// Adds or replaces a member who is a user, and updates their logins.
    pub fn put_member(&mut self, user_id: &str, member: Member) {
        if let Some(user) = self.users.get(user_id).cloned() {
            self.members.insert(user_id.to_owned(), member);
            self.update_devices(&user);
        }
    }

    fn update_devices(&mut self, user: &User) {
        let visibility = self.visibility_of(user);
        for device in self.devices_by_token.values_mut().filter(|device| device.login.user_id == user.id) {
            let stored_seen = device.login.last_seen_at;
            *device = Device::new(device.current_login(), user, visibility.clone());
            device.last_use.mark_stored(stored_seen.as_second());
        }
    }

    pub fn remove_user(&mut self, id: &str) {
        self.members.remove(id);
        if let Some(user) = self.users.remove(id) {
            self.ids_by_name.remove(&fold_username(&user.username));
        }
    }

    /// Adds a login; false when its user does not exist or its token hash is invalid.
    pub fn put_login(&mut self, login: Login) -> bool {
        let hash = HEXLOWER.decode(login.token_sha256.as_bytes()).ok().and_then(|hash| hash.try_into().ok());
        let (Some(hash), Some(user)) = (hash, self.users.get(&login.user_id)) else { return false };
        let visibility = self.visibility_of(user);
        let device = Device::new(login, user, visibility);
        self.tokens_by_login.insert(device.login.id.clone(), hash);
        self.devices_by_token.insert(hash, device);
        true
    }

    pub fn remove_login(&mut self, id: &str) -> bool {
        self.tokens_by_login.remove(id).is_some_and(|hash| self.devices_by_token.remove(&hash).is_some())
    }
}
