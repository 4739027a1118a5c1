//! Users, their logins on devices, and signed grants.
#![doc = include_str!("README.md")]

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use jiff::Timestamp;

use crate::config::{Config, DeclaredAdmin, Limits};
use crate::domain::access::{Principal, Role};
use crate::domain::account::{Login, StreamToken, User};
use crate::domain::forwarded_client::{self, SignedRequest};
use crate::domain::household::Member;
use crate::domain::signing::{self, SignatureError, SignedParameters};
use crate::domain::throttle::RateLimiter;
use crate::error::{Code, Error, Result};
use crate::service::clock::{Clock, FutureTimeGuard};
use crate::store::{Store, Tree, secret};

mod devices;
mod directory;
mod household;
pub mod keys;
mod last_use;
pub mod passwords;
mod preferences;
mod setup;
mod signin;
mod stream_tokens;
mod users;

#[cfg(test)]
mod tests;

pub use devices::{DeviceView, EndedAccess, IssuedLogin, KeptAccess};
use directory::{Directory, token_hash};
pub use household::{OfferedMember, RequestedChange};
use setup::SetupCode;
use stream_tokens::StreamTokens;

/// The subject of grants that all viewers share. No login has this id: those begin with `l_` and `s_`.
const SHARED_SUBJECT: &str = "shared";

/// Shortest life of a shared grant, seconds; it is rounded up to a multiple of the second value. A player that pauses for half
/// a day continues with a new playlist.
const SHARED_GRANT_SECONDS: i64 = 12 * 3600;
const SHARED_GRANT_STEP_SECONDS: i64 = 6 * 3600;

/// Manages users and their logins.
///
/// Reads are from memory. A change is stored before it takes effect, except signing devices out and revoking stream tokens
/// by themselves, which take effect first. Changes are made one at a time.
pub struct Accounts {
    store: Store,
    clock: Clock,
    keys: keys::Keys,
    passwords: passwords::Passwords,
    directory: RwLock<Directory>,
    streams: RwLock<StreamTokens>,
    /// Locked during every change, so that a check is still true when the change is stored.
    change_lock: tokio::sync::Mutex<()>,
    rate_limiter: Mutex<RateLimiter>,
    /// Wrong PINs in a row, by user.
    wrong_pins: Mutex<HashMap<String, u32>>,
    setup_code: Mutex<Option<SetupCode>>,
    setup_file: PathBuf,
    declared_admin: Option<DeclaredAdmin>,
    login_life_seconds: AtomicI64,
    future_time_guard: FutureTimeGuard,
}

fn login_life_seconds(limits: &Limits) -> i64 {
    i64::try_from(limits.login_lifetime.as_secs()).unwrap_or(i64::MAX)
}

pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system gives random bytes");
    bytes
}

impl Accounts {
    /// Reads users, logins and keys.
    pub fn open(config: &Config, store: Store, clock: Clock) -> Result<Self> {
        let (directory, streams) = read_stored(&store)?;
        Ok(Self {
            streams: RwLock::new(streams),
            keys: keys::open(&config.state)?,
            store,
            clock,
            passwords: passwords::Passwords::default(),
            directory: RwLock::new(directory),
            change_lock: tokio::sync::Mutex::default(),
            wrong_pins: Mutex::default(),
            rate_limiter: Mutex::new(RateLimiter::new(config.limits.logins_per_minute)),
            setup_code: Mutex::default(),
            setup_file: config.state.join("setup-code"),
            declared_admin: config.admin.clone(),
            login_life_seconds: AtomicI64::new(login_life_seconds(&config.limits)),
            future_time_guard: FutureTimeGuard::default(),
        })
    }

    /// Reads users, logins and stream tokens again, after another server has changed them.
    ///
    /// # Errors
    /// The store cannot be read; nothing has changed then.
    pub fn reload(&self) -> Result<()> {
        let (directory, streams) = read_stored(&self.store)?;
        *self.write_directory() = directory;
        *self.write_stream_tokens() = streams;
        Ok(())
    }

    /// Whether the stored time of a login's last use is as new as the server that stores it keeps it. If it is not, the use must
    /// reach that server, because a login expires without use.
    pub fn is_use_stored(&self, login_id: &str) -> bool {
        self.read_directory().device_by_login(login_id).is_none_or(|device| device.has_stored_use())
    }

    /// Changes how many sign-ins may fail a minute, and how long a login stays valid.
    pub fn set_limits(&self, limits: &Limits) {
        self.login_life_seconds.store(login_life_seconds(limits), Ordering::Relaxed);
        let mut rate_limiter = self.rate_limiter.lock().unwrap_or_else(PoisonError::into_inner);
        rate_limiter.set_rate(limits.logins_per_minute);
    }

    fn login_life_seconds(&self) -> i64 {
        self.login_life_seconds.load(Ordering::Relaxed)
    }

    /// Prepares to serve: updates the declared admin, and creates a set-up code while there is no admin at all.
    /// Returns that code, for the console.
    ///
    /// # Errors
    /// `INTERNAL` for a hash file that cannot be used or a code that cannot be written.
    pub async fn prepare(&self) -> Result<Option<String>> {
        if let Some(declared) = &self.declared_admin {
            self.sync_declared_admin(declared).await?;
        }
        if !self.needs_setup() {
            let _ = secret::remove(&self.setup_file);
            return Ok(None);
        }
        let code = SetupCode::create(self.setup_file.clone(), self.clock.now())?;
        let formatted = code.formatted();
        *self.setup_code.lock().unwrap_or_else(PoisonError::into_inner) = Some(code);
        Ok(Some(formatted))
    }

    /// Whether there is no admin yet.
    pub fn needs_setup(&self) -> bool {
        self.read_directory().admin_count() == 0
    }

    /// The owner of a bearer token. From memory, in well under a microsecond.
    ///
    /// # Errors
    /// `UNAUTHORIZED` for an unknown token, `TOKEN_EXPIRED` for a known one past its time.
    pub fn authenticate(&self, token: &str) -> Result<Arc<Principal>> {
        let now = self.clock.now().as_second();
        let hash = token_hash(token);
        let directory = self.read_directory();
        let device = directory.device_by_token(&hash).ok_or_else(|| Error::new(Code::Unauthorized, "unknown token"))?;
        if device.is_expired(now, self.login_life_seconds()) {
            return Err(Error::new(Code::TokenExpired, "the token has expired; sign in again"));
        }
        device.last_use.record(now);
        Ok(device.principal.clone())
    }

    /// Signs a grant for one resource until `exp` (unix seconds). It ends earlier with the principal's login, with the token
    /// or signature that admitted the principal, and after seven days.
    pub fn sign_grant(&self, principal: &Principal, resource: &str, exp: i64) -> String {
        signing::sign_grant(&self.keys[0], resource, &principal.login_id, self.latest_expiry(principal, exp))
    }

    /// The latest end of a signature for this principal, at most `exp` (unix seconds).
    fn latest_expiry(&self, principal: &Principal, exp: i64) -> i64 {
        let max_expiry = self.clock.now().as_second() + signing::MAX_LIFE_SECONDS;
        exp.min(max_expiry).min(principal.expires_at.unwrap_or(i64::MAX))
    }

    /// The principal a grant was signed for, if it covers `resource` now and its login is still valid.
    ///
    /// # Errors
    /// `SIGNATURE_INVALID`, `SIGNATURE_EXPIRED`.
    pub fn redeem(&self, resource: &str, grant: &str) -> Result<Arc<Principal>> {
        let now = self.clock.now().as_second();
        let (subject, exp) = signing::verify_grant(&self.keys, resource, grant, now).map_err(signature_error)?;
        self.signed_principal(subject, exp)
    }

    /// Signs a grant for a resource that all viewers share. It belongs to no login, and all that are signed within six hours are
    /// the same.
    pub fn sign_shared(&self, resource: &str) -> String {
        let step = SHARED_GRANT_STEP_SECONDS;
        let exp = (self.clock.now().as_second() + SHARED_GRANT_SECONDS).div_euclid(step) * step + step;
        signing::sign_grant(&self.keys[0], resource, SHARED_SUBJECT, exp)
    }

    /// The principal of a grant of [`Self::sign_shared`], if it covers `resource` now.
    ///
    /// # Errors
    /// `SIGNATURE_INVALID`, `SIGNATURE_EXPIRED`.
    pub fn redeem_shared(&self, resource: &str, grant: &str) -> Result<Arc<Principal>> {
        let now = self.clock.now().as_second();
        let (subject, exp) = signing::verify_grant(&self.keys, resource, grant, now).map_err(signature_error)?;
        match subject == SHARED_SUBJECT {
            true => Ok(Arc::new(Principal::without_login(String::new()).limited_to(exp))),
            false => Err(signature_error(SignatureError::Invalid)),
        }
    }

    /// A signed address of a resource (canonical form: `domain::signing`). It ends as a grant does.
    pub fn sign_link(&self, principal: &Principal, resource: &str, exp: i64) -> SignedParameters {
        signing::sign_link(&self.keys[0], resource, &principal.login_id, self.latest_expiry(principal, exp))
    }

    /// The principal a URL was signed for, if it covers `resource` now and its subject is still valid.
    ///
    /// # Errors
    /// `SIGNATURE_INVALID`, `SIGNATURE_EXPIRED`.
    pub fn redeem_link(&self, resource: &str, token: &str, exp: &str, sig: &str) -> Result<Arc<Principal>> {
        let now = self.clock.now().as_second();
        let (owner, exp) =
            signing::verify_link(&self.keys, resource, (token, exp, sig), now).map_err(signature_error)?;
        self.signed_principal(owner, exp)
    }

    /// The client of a request that a standby passed on, if one of the current keys signed it.
    pub fn forwarded_client(&self, header: &str, request: SignedRequest) -> Option<IpAddr> {
        forwarded_client::verify(&self.keys, header, request, self.clock.now().as_second())
    }

    /// The principal of a signature that lasts until `exp`: a signed-in device or a stream token. Its use is no activity of
    /// the device, because otherwise a login would live as long as players hold links made with it.
    fn signed_principal(&self, subject: &str, exp: i64) -> Result<Arc<Principal>> {
        let now = self.clock.now().as_second();
        let device = self.read_directory().device_by_login(subject).cloned();
        let principal = match device {
            Some(device) if device.is_expired(now, self.login_life_seconds()) => {
                return Err(Error::new(Code::SignatureExpired, "the login of this link has expired"));
            }
            Some(device) => device.principal.clone(),
            None => self.signed_stream_principal(subject).ok_or_else(|| signature_error(SignatureError::Invalid))?,
        };
        Ok(Arc::new(principal.limited_to(exp)))
    }

    pub fn is_user(&self, user_id: &str) -> bool {
        self.read_directory().user(user_id).is_some()
    }

    /// Locks `change_lock`, then checks that the login of a request still exists and still is an admin's if it was: a new password or
    /// role may have come since the request was admitted. `None` is the command line.
    async fn change_by(&self, by: Option<&Principal>) -> Result<tokio::sync::MutexGuard<'_, ()>> {
        let change = self.change_lock.lock().await;
        let Some(principal) = by else { return Ok(change) };
        match self.read_directory().device_by_login(&principal.login_id) {
            None => {
                let revoked = Error::new(Code::Unauthorized, "the token was revoked");
                Err(revoked.with_header("www-authenticate", "Bearer error=\"invalid_token\""))
            }
            Some(device) if principal.role == Role::Admin && device.principal.role != Role::Admin => {
                Err(Error::new(Code::Forbidden, "only admins may do this"))
            }
            Some(_) => Ok(change),
        }
    }

    fn read_stream_tokens(&self) -> RwLockReadGuard<'_, StreamTokens> {
        self.streams.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_stream_tokens(&self) -> RwLockWriteGuard<'_, StreamTokens> {
        self.streams.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    // A panic under the lock leaves complete records, because each change is one insert or one remove.
    fn read_directory(&self) -> RwLockReadGuard<'_, Directory> {
        self.directory.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_directory(&self) -> RwLockWriteGuard<'_, Directory> {
        self.directory.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Users with their logins, and stream tokens, from the store.
fn read_stored(store: &Store) -> Result<(Directory, StreamTokens)> {
    let mut directory = Directory::default();
    let mut users: Vec<User> = store.scan::<User>(Tree::Users)?.into_iter().map(|(_, user)| user).collect();
    // Versions before 2026-11-22 could store several users with one name: the first keeps it, and signs in with it.
    users.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
    for mut user in users {
        if let Some(free_name) = directory.find_free_name(&user.username) {
            tracing::error!(user.id = %user.id, name = user.username, shown_as = free_name,
                "two users have the same name; the later one is renamed and signs in with the new name");
            user.username = free_name;
        }
        directory.put_user(user);
    }
    for (id, member) in store.scan::<Member>(Tree::Household)? {
        directory.put_member(&id, member);
    }
    for (id, login) in store.scan::<Login>(Tree::Logins)? {
        if !directory.put_login(login) {
            tracing::warn!(login.id = %id, "a login without a user is ignored");
        }
    }
    let mut streams = StreamTokens::default();
    for (id, token) in store.scan::<StreamToken>(Tree::StreamTokens)? {
        if !streams.insert(token) {
            tracing::warn!(token.id = %id, "an unreadable stream token is ignored");
        }
    }
    Ok((directory, streams))
}

fn signature_error(refusal: SignatureError) -> Error {
    match refusal {
        SignatureError::Invalid => Error::new(Code::SignatureInvalid, "the signature does not cover this resource"),
        SignatureError::Expired => Error::new(Code::SignatureExpired, "the signed link has expired"),
    }
}
