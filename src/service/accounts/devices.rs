//! Logins: one per device, listed, revoked, deleted after expiry.

use std::net::IpAddr;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use jiff::{SignedDuration, Timestamp};

use super::directory::token_hash;
use super::{Accounts, random_bytes};
use crate::domain::account::{self, Login, User};
use crate::error::{Code, Error, Result};
use crate::store::{Batch, Tree};

/// Signed-in devices of one user at most; the one not seen for longest is removed first.
const MAX_DEVICES: usize = 100;

/// How old the stored time of a device's last request may be, seconds. A login lives for weeks, so an hour does not matter,
/// and one write per request would be too much.
pub(super) const SEEN_LAG_SECONDS: i64 = 3600;

/// How long an expired login is kept, so that its device gets the right error.
const REMEMBER_EXPIRED_SECONDS: i64 = 30 * 86_400;

/// Logins stored in one batch: each takes less than 1 KiB.
const SEEN_BATCH: usize = 4096;

/// A new login, with the only copy of its token.
#[derive(Debug)]
pub struct IssuedLogin {
    pub token: String,
    pub expires_at: Timestamp,
    pub user: User,
}

/// The part of a user's access that stays when the rest is ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeptAccess<'a> {
    /// A device that stays signed in.
    pub login: Option<&'a str>,
    /// All stream tokens, so that players that cannot sign in keep working.
    pub stream_tokens: bool,
}

/// The access of a user that was ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndedAccess {
    pub logins: usize,
    pub stream_tokens: usize,
}

/// Logins and stream tokens to be ended, by id.
pub(super) struct EndingAccess {
    logins: Vec<String>,
    stream_tokens: Vec<String>,
}

impl EndingAccess {
    pub(super) fn add_deletions(&self, batch: &mut Batch) -> Result<()> {
        self.logins.iter().try_for_each(|id| batch.delete(Tree::Logins, id))?;
        self.stream_tokens.iter().try_for_each(|id| batch.delete(Tree::StreamTokens, id))
    }
}

/// A login as its user sees it.
#[derive(Clone, Debug)]
pub struct DeviceView {
    pub login: Login,
    pub expires_at: Timestamp,
}

impl Accounts {
    /// Signs a device of `user` in, in place of a login of the same device, and adds the user if they are new: all of it, or
    /// nothing. The caller holds `change_lock`.
    pub(super) async fn add_device(
        &self,
        user: &User,
        device: Option<&str>,
        address: Option<IpAddr>,
        replaced_login: Option<&str>,
    ) -> Result<IssuedLogin> {
        let is_new = self.read_directory().user(&user.id).is_none();
        let token = format!("hc_{}", BASE64URL_NOPAD.encode(&random_bytes::<32>()));
        let now = self.now();
        let login = Login {
            id: format!("l_{}", BASE64URL_NOPAD.encode(&random_bytes::<9>())),
            user_id: user.id.clone(),
            token_sha256: HEXLOWER.encode(&token_hash(&token)),
            device: device.and_then(account::clean_device_name),
            address: address.map(|address| address.to_string()),
            created_at: now,
            last_seen_at: now,
        };
        let mut surplus = EndingAccess { logins: self.surplus_logins(&user.id), stream_tokens: Vec::new() };
        surplus.logins.extend(replaced_login.map(str::to_owned));
        let mut batch = Batch::default();
        if is_new {
            batch.put(Tree::Users, &user.id, user)?;
        }
        batch.put(Tree::Logins, &login.id, &login)?;
        surplus.add_deletions(&mut batch)?;
        self.store.write(batch).await?;
        let issued = IssuedLogin { token, expires_at: self.login_expiry(now), user: user.clone() };
        let mut directory = self.write_directory();
        if is_new {
            directory.put_user(user.clone());
        }
        directory.put_login(login);
        drop(directory);
        self.end_access(&surplus);
        Ok(issued)
    }

    /// The logins of a user that must be removed so that one more can be added.
    fn surplus_logins(&self, user_id: &str) -> Vec<String> {
        let mut devices: Vec<(Timestamp, String)> = self
            .read_directory()
            .devices_of(user_id)
            .map(|device| (device.last_seen(), device.login.id.clone()))
            .collect();
        devices.sort_unstable();
        let surplus = (devices.len() + 1).saturating_sub(MAX_DEVICES);
        devices.into_iter().take(surplus).map(|(_, id)| id).collect()
    }

    /// Revokes at once, then durably.
    pub(super) async fn remove_login(&self, login_id: &str) -> Result<bool> {
        let was_present = self.write_directory().remove_login(login_id);
        self.store.delete(Tree::Logins, login_id).await?;
        Ok(was_present)
    }

    /// The devices a user is signed in on, last seen first.
    pub fn devices(&self, user_id: &str) -> Vec<DeviceView> {
        let view = |device: &std::sync::Arc<super::directory::Device>| {
            let login = device.current_login();
            DeviceView { expires_at: self.login_expiry(login.last_seen_at), login }
        };
        let now = self.now();
        let mut devices: Vec<DeviceView> =
            self.read_directory().devices_of(user_id).map(view).filter(|device| device.expires_at > now).collect();
        devices.sort_by(|a, b| b.login.last_seen_at.cmp(&a.login.last_seen_at).then(a.login.id.cmp(&b.login.id)));
        devices
    }

    /// Signs one device of this user out.
    ///
    /// # Errors
    /// `NOT_FOUND` when it is not one of theirs; `STORAGE_FULL`.
    pub async fn revoke(&self, user_id: &str, login_id: &str) -> Result<()> {
        let is_own = self.read_directory().device_by_login(login_id).is_some_and(|one| one.login.user_id == user_id);
        if !is_own {
            return Err(Error::new(Code::NotFound, "no such session"));
        }
        let _change = self.change_lock.lock().await;
        self.remove_login(login_id).await.map(drop)
    }

    /// Ends all access of a user except `kept_access`, and every link signed with it: at once, then durably.
    ///
    /// # Errors
    /// `STORAGE_FULL`: then all access is valid again after a restart.
    pub async fn revoke_all(&self, user_id: &str, kept_access: KeptAccess<'_>) -> Result<EndedAccess> {
        let _change = self.change_lock.lock().await;
        let access = self.access_to_end(user_id, kept_access);
        let mut batch = Batch::default();
        access.add_deletions(&mut batch)?;
        let ended = self.end_access(&access);
        self.store.write(batch).await?;
        Ok(ended)
    }

    /// The access of a user except `kept_access`. The caller holds `change_lock`.
    pub(super) fn access_to_end(&self, user_id: &str, kept_access: KeptAccess<'_>) -> EndingAccess {
        let logins: Vec<String> = self
            .read_directory()
            .devices_of(user_id)
            .map(|device| device.login.id.clone())
            .filter(|id| Some(id.as_str()) != kept_access.login)
            .collect();
        let streams = if kept_access.stream_tokens { Vec::new() } else { self.stream_token_ids(user_id) };
        EndingAccess { logins, stream_tokens: streams }
    }

    /// Ends access in memory. The caller holds `change_lock` and deletes the records.
    pub(super) fn end_access(&self, access: &EndingAccess) -> EndedAccess {
        let mut directory = self.write_directory();
        for id in &access.logins {
            directory.remove_login(id);
        }
        drop(directory);
        self.remove_stream_tokens(&access.stream_tokens);
        EndedAccess { logins: access.logins.len(), stream_tokens: access.stream_tokens.len() }
    }

    /// Cleanup, once a minute: stores when devices were last seen, and deletes logins that expired long ago.
    ///
    /// # Errors
    /// `STORAGE_FULL`.
    pub async fn cleanup(&self) -> Result<()> {
        self.set_back_future_times();
        self.store_last_seen(SEEN_LAG_SECONDS).await?;
        self.cleanup_stream_tokens().await?;
        let now = self.now().as_second();
        let max_idle_seconds = self.login_life_seconds().saturating_add(REMEMBER_EXPIRED_SECONDS);
        let expired: Vec<String> = self
            .read_directory()
            .devices()
            .filter(|device| device.is_expired(now, max_idle_seconds))
            .map(|device| device.login.id.clone())
            .collect();
        let _change = self.change_lock.lock().await;
        for id in expired {
            self.remove_login(&id).await?;
        }
        Ok(())
    }

    /// Sets back the last use of devices and tokens if it is in the future because of a wrong clock: they would never
    /// expire.
    fn set_back_future_times(&self) {
        let now = self.now().as_second();
        let devices: Vec<_> =
            self.read_directory().devices().filter(|device| device.last_use.is_ahead(now)).cloned().collect();
        let streams: Vec<_> =
            self.read_stream_tokens().iter().filter(|stream| stream.last_use.is_ahead(now)).cloned().collect();
        if self.future_time_guard.is_due(!devices.is_empty() || !streams.is_empty(), now) {
            devices.iter().for_each(|device| device.last_use.set(now));
            streams.iter().for_each(|stream| stream.last_use.set(now));
        }
    }

    /// Stores everything that is only in memory, at shutdown.
    ///
    /// # Errors
    /// `STORAGE_FULL`.
    pub async fn flush(&self) -> Result<()> {
        self.store_last_seen(1).await?;
        self.write_used(1).await
    }

    async fn store_last_seen(&self, lag_seconds: i64) -> Result<()> {
        let _change = self.change_lock.lock().await;
        let outdated: Vec<_> = self
            .read_directory()
            .devices()
            .filter(|device| device.last_use.unstored_seconds() >= lag_seconds)
            .cloned()
            .collect();
        for devices in outdated.chunks(SEEN_BATCH) {
            let logins: Vec<Login> = devices.iter().map(|device| device.current_login()).collect();
            let mut batch = Batch::default();
            logins.iter().try_for_each(|login| batch.put(Tree::Logins, &login.id, login))?;
            self.store.write(batch).await?;
            let stored = devices.iter().zip(&logins);
            stored.for_each(|(device, login)| device.last_use.mark_stored(login.last_seen_at.as_second()));
        }
        Ok(())
    }

    fn login_expiry(&self, last_seen: Timestamp) -> Timestamp {
        last_seen.saturating_add(SignedDuration::from_secs(self.login_life_seconds())).unwrap_or(Timestamp::MAX)
    }
}
