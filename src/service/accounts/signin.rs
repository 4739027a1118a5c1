//! Signing in: rate limited, without lock-out, and without revealing which names exist.

use std::net::IpAddr;
use std::sync::PoisonError;

use super::{Accounts, Ended, Issued, Keep};
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
    pub async fn login(&self, username: &str, password: &str, device: Option<&str>, address: IpAddr) -> Result<Issued> {
        let user = self.read().named(username).cloned();
        let tries = self.tries(address, username, user.as_deref());
        self.take_try(&tries)?;
        let hash = user.as_ref().and_then(|user| user.password_hash.clone());
        let fits =
            password.len() <= *account::PASSWORD_BYTES.end() && self.passwords.fits(hash.as_deref(), password).await?;
        let refused = || Error::new(Code::InvalidCredentials, "wrong user name or password");
        let Some(user) = user.filter(|_| fits) else { return Err(refused()) };

        let _change = self.changes.lock().await;
        // The password may have changed while this one was verified.
        let user = self.existing(&user.id).ok().filter(|now| now.password_hash == hash).ok_or_else(refused)?;
        self.give_back(&tries);
        self.add_device(&user, device, Some(address)).await
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
    ) -> Result<Issued> {
        let done = || Error::new(Code::Conflict, "the server is already set up; sign in");
        if !self.setup_required() {
            return Err(done());
        }
        let tries = [format!("setup/{}", network(address))];
        self.take_try(&tries)?;
        let now = self.now();
        let fits = self.setup_code(|setup| setup.as_ref().is_some_and(|setup| setup.fits(code, now)));
        if !fits {
            let text = "wrong or expired set-up code; it is on the server's console, and a restart creates a new one";
            return Err(Error::new(Code::InvalidCredentials, text));
        }
        self.give_back(&tries);
        account::validate_username(username).map_err(|fault| Error::field("username", fault))?;
        account::validate_password(password).map_err(|fault| Error::field("password", fault))?;
        let hash = self.passwords.hash(password).await?;

        let _change = self.changes.lock().await;
        if !self.setup_required() {
            return Err(done());
        }
        let user = self.new_user(username, Role::Admin, Some(hash))?;
        let issued = self.add_user_and_device(user, device, Some(address)).await?;
        if let Some(used) = self.setup_code(Option::take) {
            used.remove();
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
    ) -> Result<Ended> {
        account::validate_password(new).map_err(|fault| Error::field("newPassword", fault))?;
        let user = self.existing(&principal.user_id)?;
        let tries = self.tries(address, &user.username, Some(&user));
        self.take_try(&tries)?;
        let fits = current.len() <= *account::PASSWORD_BYTES.end()
            && self.passwords.fits(user.password_hash.as_deref(), current).await?;
        let refused = || Error::new(Code::InvalidCredentials, "the current password is wrong");
        if !fits {
            return Err(refused());
        }
        let hash = self.passwords.hash(new).await?;

        let _change = self.change_by(Some(principal)).await?;
        // The password may have changed while the current one was verified.
        let verified = user.password_hash;
        let user = self.existing(&user.id).ok().filter(|now| now.password_hash == verified).ok_or_else(refused)?;
        self.give_back(&tries);
        let keep = Keep { login: Some(&principal.login_id), stream_tokens: keep_stream_tokens };
        self.replace_user(User { password_hash: Some(hash), ..user }, keep).await
    }

    fn setup_code<T>(&self, then: impl FnOnce(&mut Option<super::SetupCode>) -> T) -> T {
        then(&mut self.setup.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The keys under which an attempt is counted.
    fn tries(&self, address: IpAddr, username: &str, user: Option<&User>) -> Vec<String> {
        let at_home = user.is_some_and(|user| {
            let home = address.to_string();
            self.read().devices_of(&user.id).any(|device| device.login.address.as_ref() == Some(&home))
        });
        let mut keys = vec![format!("address/{}", network(address))];
        if !at_home {
            let name: String = fold_username(username).chars().take(account::MAX_NAME_CHARS).collect();
            keys.push(format!("account/{name}"));
        }
        keys
    }

    fn take_try(&self, keys: &[String]) -> Result<()> {
        let now_ms = self.now().as_millisecond();
        let taken = self.throttle.lock().unwrap_or_else(PoisonError::into_inner).take(keys, now_ms);
        taken.map_err(|seconds| {
            Error::new(Code::RateLimited, format!("too many attempts; wait {seconds} s")).with_retry_after(seconds)
        })
    }

    fn give_back(&self, keys: &[String]) {
        self.throttle.lock().unwrap_or_else(PoisonError::into_inner).refund(keys);
    }
}

/// The part of an address that identifies one household: all of IPv4, the first half of IPv6.
fn network(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}")
        }
    }
}
