//! Users, their logins, and what a name or a password must look like.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::access::Role;

/// Longest user name, characters.
pub const MAX_NAME_CHARS: usize = 64;

/// Shortest and longest password, bytes. NIST SP 800-63B: at least 8, no rules of composition, room for a passphrase.
pub const PASSWORD_BYTES: std::ops::RangeInclusive<usize> = 8..=1024;

/// Longest name of a device, characters.
pub const MAX_DEVICE_CHARS: usize = 100;

/// Somebody who may sign in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub id: String,
    pub username: String,
    pub role: Role,
    /// Argon2id in PHC form; None when only tokens made on the command line let this user in.
    pub password_hash: Option<String>,
    pub created_at: Timestamp,
}

/// One device that is signed in. Its token is known by its SHA-256 only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    pub id: String,
    pub user_id: String,
    /// SHA-256 of the token, hex.
    pub token_sha256: String,
    /// As the device called itself.
    pub device: Option<String>,
    /// Where it signed in from.
    pub address: Option<String>,
    pub created_at: Timestamp,
    pub last_seen_at: Timestamp,
}

/// A token of a device that cannot sign in: it watches live television and nothing else, until it is revoked. Known by its
/// SHA-256 only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamToken {
    pub id: String,
    pub user_id: String,
    pub name: String,
    /// SHA-256 of the token, hex.
    pub token_sha256: String,
    /// None for all channels.
    pub channels: Option<Vec<u32>>,
    pub created_at: Timestamp,
    pub last_used_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
}

/// The form under which names are compared: two users may not differ by case alone.
pub fn folded(username: &str) -> String {
    username.trim().to_lowercase()
}

/// A user name as it is kept.
///
/// # Errors
/// What is wrong with it.
pub fn username(raw: &str) -> Result<String, &'static str> {
    let name = raw.trim();
    if name.is_empty() {
        return Err("must not be empty");
    }
    if name.chars().count() > MAX_NAME_CHARS {
        return Err("must not be longer than 64 characters");
    }
    if name.chars().any(char::is_control) {
        return Err("must not hold control characters");
    }
    Ok(name.to_owned())
}

/// Whether a new password may be used.
///
/// # Errors
/// What is wrong with it.
pub fn password(raw: &str) -> Result<(), &'static str> {
    match raw.len() {
        n if n < *PASSWORD_BYTES.start() => Err("must have at least 8 characters"),
        n if n > *PASSWORD_BYTES.end() => Err("must not be longer than 1024 bytes"),
        _ => Ok(()),
    }
}

/// A device's name as it is kept: one line, cut to length; None when nothing is left.
pub fn device(raw: &str) -> Option<String> {
    let plain: String = raw.trim().chars().filter(|c| !c.is_control()).take(MAX_DEVICE_CHARS).collect();
    (!plain.is_empty()).then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_trimmed_bounded_and_compared_without_case() {
        assert_eq!(username("  Ada Löwe "), Ok("Ada Löwe".to_owned()));
        assert_eq!(folded(" ADA Löwe"), folded("ada löwe "));
        for wrong in ["", "  ", "a\nb", &"x".repeat(65)] {
            assert!(username(wrong).is_err(), "{wrong:?}");
        }
        assert!(username(&"ö".repeat(64)).is_ok());
        assert!(password("1234567").is_err() && password("12345678").is_ok() && password(&"x".repeat(1025)).is_err());
        assert_eq!(device(" Living\u{7} room "), Some("Living room".to_owned()));
        assert_eq!(device("\n"), None);
    }
}
