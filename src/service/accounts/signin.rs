//! Signing in: rate limited, without lock-out, and without revealing which names exist.

use std::net::IpAddr;
use std::sync::PoisonError;

use super::{Accounts, EndedAccess, IssuedLogin, KeptAccess};
use crate::domain::access::{Principal, Role};
use crate::domain::account::{self, User, fold_username};
use crate::error::{Code, Error, Result};

impl Accounts {
    /// Signs a device in.
    ///
    /// Failed attempts are counted per address and per account. An address from which one of this user's devices is signed
    /// in is not counted against the account, so that an attacker at another address cannot lock the owner out at home.
    ///
    /// # Errors
    /// `INVALID_CREDENTIALS`, the same for unknown names; `RATE_LIMITED`; `SERVER_BUSY`.
    pub async fn login(&self, name: &str, password: &str, device: Option<&str>, from: IpAddr) -> Result<IssuedLogin> {
        let user = self.read_directory().user_by_name(name).cloned();
        let attempt_keys = self.attempt_keys(from, name, user.as_deref());
        self.count_attempt(&attempt_keys)?;
        let hash = user.as_ref().and_then(|user| user.password_hash.clone());
        let is_correct = password.len() <= *account::PASSWORD_BYTES.end()
            && self.passwords.verify(hash.as_deref(), password).await?;
        let wrong_credentials = || Error::new(Code::InvalidCredentials, "wrong user name or password");
        let Some(user) = user.filter(|_| is_correct) else { return Err(wrong_credentials()) };

        let _change = self.change_lock.lock().await;
        // The password may have changed while this one was verified.
        let user =
            self.get_user(&user.id).ok().filter(|new| new.password_hash == hash).ok_or_else(wrong_credentials)?;
        self.refund_attempt(&attempt_keys);
        self.add_device(&user, device, Some(from), None).await
    }

    /// Creates the first admin and signs their device in.
    ///
    /// # Errors
    /// `CONFLICT` once there is an admin; `INVALID_CREDENTIALS` for a wrong or expired code; `RATE_LIMITED`;
    /// `VALIDATION_ERROR` for an invalid name or password.
    pub async fn set_up(
        &self,
        code: &str,
        username: &str,
        password: &str,
        device: Option<&str>,
        address: IpAddr,
    ) -> Result<IssuedLogin> {
        let already_done = || Error::new(Code::Conflict, "the server is already set up; sign in");
        if !self.needs_setup() {
            return Err(already_done());
        }
        let attempt_keys = [format!("setup/{}", network_key(address))];
        self.count_attempt(&attempt_keys)?;
        let now = self.now();
        let is_correct = self.with_setup_code(|setup| setup.as_ref().is_some_and(|setup| setup.matches(code, now)));
        if !is_correct {
            let text = "wrong or expired set-up code; it is on the server's console, and a restart creates a new one";
            return Err(Error::new(Code::InvalidCredentials, text));
        }
        self.refund_attempt(&attempt_keys);
        account::validate_username(username).map_err(|fault| Error::invalid_field("username", fault))?;
        account::validate_password(password).map_err(|fault| Error::invalid_field("password", fault))?;
        let hash = self.passwords.hash(password).await?;

        let _change = self.change_lock.lock().await;
        if !self.needs_setup() {
            return Err(already_done());
        }
        let user = self.new_user(username, Role::Admin, Some(hash))?;
        let issued = self.add_device(&user, device, Some(address), None).await?;
        if let Some(used_code) = self.with_setup_code(Option::take) {
            used_code.remove();
        }
        Ok(issued)
    }

    /// Changes the user's own password; every other device is signed out, and stream tokens end unless they are kept.
    ///
    /// # Errors
    /// `INVALID_CREDENTIALS` when the current password is wrong; `RATE_LIMITED`; `VALIDATION_ERROR`; `UNAUTHORIZED` when the
    /// login ended meanwhile.
    pub async fn change_password(
        &self,
        principal: &Principal,
        current: &str,
        new: &str,
        keep_stream_tokens: bool,
        address: IpAddr,
    ) -> Result<EndedAccess> {
        account::validate_password(new).map_err(|fault| Error::invalid_field("newPassword", fault))?;
        let user = self.verify_own_password(principal, current, address).await?;
        let refused = || Error::new(Code::InvalidCredentials, "the current password is wrong");
        let hash = self.passwords.hash(new).await?;

        let _change = self.change_by(Some(principal)).await?;
        // The password may have changed while the current one was verified.
        let verified = user.password_hash;
        let user = self.get_user(&user.id).ok().filter(|now| now.password_hash == verified).ok_or_else(refused)?;
        let kept_access = KeptAccess { login: Some(&principal.login_id), stream_tokens: keep_stream_tokens };
        self.replace_user(User { password_hash: Some(hash), ..user }, kept_access).await
    }

    /// The user of a request, whose password was entered again.
    ///
    /// # Errors
    /// `INVALID_CREDENTIALS` when it is wrong; `RATE_LIMITED`; `SERVER_BUSY`; `NOT_FOUND`.
    pub(super) async fn verify_own_password(
        &self,
        principal: &Principal,
        password: &str,
        address: IpAddr,
    ) -> Result<User> {
        let user = self.get_user(&principal.user_id)?;
        let attempt_keys = self.attempt_keys(address, &user.username, Some(&user));
        self.count_attempt(&attempt_keys)?;
        let is_correct = password.len() <= *account::PASSWORD_BYTES.end()
            && self.passwords.verify(user.password_hash.as_deref(), password).await?;
        if !is_correct {
            return Err(Error::new(Code::InvalidCredentials, "the current password is wrong"));
        }
        self.refund_attempt(&attempt_keys);
        Ok(user)
    }

    fn with_setup_code<T>(&self, f: impl FnOnce(&mut Option<super::SetupCode>) -> T) -> T {
        f(&mut self.setup_code.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The keys under which an attempt is counted.
    fn attempt_keys(&self, address: IpAddr, username: &str, user: Option<&User>) -> Vec<String> {
        let is_known_address = user.is_some_and(|user| {
            let text = address.to_string();
            self.read_directory().devices_of(&user.id).any(|device| device.login.address.as_ref() == Some(&text))
        });
        let mut keys = vec![format!("address/{}", network_key(address))];
        if !is_known_address {
            let name: String = fold_username(username).chars().take(account::MAX_NAME_CHARS).collect();
            keys.push(format!("account/{name}"));
        }
        keys
    }

    pub(super) fn count_attempt(&self, keys: &[String]) -> Result<()> {
        let now_ms = self.now().as_millisecond();
        let result = self.rate_limiter.lock().unwrap_or_else(PoisonError::into_inner).take(keys, now_ms);
        result.map_err(|seconds| {
            Error::new(Code::RateLimited, format!("too many attempts; wait {seconds} s")).with_retry_after(seconds)
        })
    }

    pub(super) fn refund_attempt(&self, keys: &[String]) {
        self.rate_limiter.lock().unwrap_or_else(PoisonError::into_inner).refund(keys);
    }
}

/// The part of an address that identifies one household: all of IPv4, the first half of IPv6.
pub(super) fn network_key(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}")
        }
    }
}
