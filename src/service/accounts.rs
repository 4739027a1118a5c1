//! Users, logins and grants.

use std::collections::HashMap;
use std::sync::Mutex;

use data_encoding::BASE64URL_NOPAD;

use crate::config::Config;
use crate::domain::access::{Principal, Role};
use crate::domain::signing::{self, Key, Refusal};
use crate::error::{Code, Error, Result};

/// Keeper of users and their logins.
pub struct Accounts {
    keys: Vec<Key>,
    logins: Mutex<HashMap<String, Principal>>,
}

/// `n` random bytes from the system.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system gives random bytes");
    bytes
}

impl Accounts {
    pub fn open(_config: &Config) -> Result<Self> {
        Ok(Self { keys: vec![random()], logins: Mutex::default() })
    }

    /// A fresh bearer token for a user.
    pub fn issue(&self, username: &str, role: Role) -> String {
        let token = format!("hc_{}", BASE64URL_NOPAD.encode(&random::<32>()));
        let principal = Principal {
            user_id: format!("u_{username}"),
            username: username.to_owned(),
            role,
            login_id: format!("l_{}", BASE64URL_NOPAD.encode(&random::<9>())),
        };
        self.logins.lock().expect("no panic while held").insert(token.clone(), principal);
        token
    }

    /// Who a bearer token belongs to.
    ///
    /// # Errors
    /// `UNAUTHORIZED` for an unknown token, `TOKEN_EXPIRED` for a known one past its time.
    pub fn authenticate(&self, token: &str) -> Result<Principal> {
        let logins = self.logins.lock().expect("no panic while held");
        logins.get(token).cloned().ok_or_else(|| Error::new(Code::Unauthorized, "unknown token"))
    }

    /// Signs a grant for one resource, living as long as the principal's login but at most until `exp` (unix seconds).
    pub fn grant(&self, principal: &Principal, resource: &str, exp: i64) -> String {
        signing::sign(&self.keys[0], resource, &principal.login_id, exp)
    }

    /// Who a grant was signed for, if it covers `resource` now and its login still lives.
    ///
    /// # Errors
    /// `SIGNATURE_INVALID`, `SIGNATURE_EXPIRED`.
    pub fn redeem(&self, resource: &str, grant: &str) -> Result<Principal> {
        let now = jiff::Timestamp::now().as_second();
        let invalid = || Error::new(Code::SignatureInvalid, "the signature does not cover this resource");
        let subject = signing::verify(&self.keys, resource, grant, now).map_err(|refusal| match refusal {
            Refusal::Invalid => invalid(),
            Refusal::Expired => Error::new(Code::SignatureExpired, "the signed link has expired"),
        })?;
        let logins = self.logins.lock().expect("no panic while held");
        logins.values().find(|principal| principal.login_id == subject).cloned().ok_or_else(invalid)
    }
}
