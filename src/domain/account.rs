//! Users, their logins, and the rules for names and passwords.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::access::Role;

pub const MAX_NAME_CHARS: usize = 64;

/// Minimum and maximum length of a password, bytes. NIST SP 800-63B: at least 8, no composition rules, room for a
/// passphrase.
pub const PASSWORD_BYTES: std::ops::RangeInclusive<usize> = 8..=1024;

const MAX_DEVICE_CHARS: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub id: String,
    pub username: String,
    pub role: Role,
    /// Argon2id in PHC form; None if the user can only use tokens made on the command line.
    pub password_hash: Option<String>,
    pub created_at: Timestamp,
}

/// One signed-in device. Only the SHA-256 of its token is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    pub id: String,
    pub user_id: String,
    /// SHA-256 of the token, hex.
    pub token_sha256: String,
    /// The name the device gave itself.
    pub device: Option<String>,
    /// The address it signed in from.
    pub address: Option<String>,
    pub created_at: Timestamp,
    pub last_seen_at: Timestamp,
}

/// A token for a device that cannot sign in: it allows live television only, until it is revoked. Only its SHA-256 is
/// stored.
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

/// The form in which names are compared: two users must not differ by case alone.
pub fn fold_username(username: &str) -> String {
    username.trim().to_lowercase()
}

/// The stored form of a user name, or the reason it is invalid.
pub fn validate_username(raw: &str) -> Result<String, &'static str> {
    match raw.trim() {
        "" => Err("must not be empty"),
        name if name.chars().count() > MAX_NAME_CHARS => Err("must not be longer than 64 characters"),
        name if name.chars().any(char::is_control) => Err("must not contain control characters"),
        name => Ok(name.to_owned()),
    }
}

/// Checks a new password; the error is the reason it is invalid.
pub fn validate_password(raw: &str) -> Result<(), &'static str> {
    match raw.len() {
        n if n < *PASSWORD_BYTES.start() => Err("must have at least 8 characters"),
        n if n > *PASSWORD_BYTES.end() => Err("must not be longer than 1024 bytes"),
        _ => Ok(()),
    }
}

/// The stored form of a device name: one line, truncated; None if nothing is left.
pub fn clean_device_name(raw: &str) -> Option<String> {
    let plain: String = raw.trim().chars().filter(|c| !c.is_control()).take(MAX_DEVICE_CHARS).collect();
    (!plain.is_empty()).then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_trimmed_bounded_and_compared_without_case() {
        assert_eq!(validate_username("  Ada Löwe "), Ok("Ada Löwe".to_owned()));
        assert_eq!(fold_username(" ADA Löwe"), fold_username("ada löwe "));
        for wrong in ["", "  ", "a\nb", &"x".repeat(65)] {
            assert!(validate_username(wrong).is_err(), "{wrong:?}");
        }
        assert!(validate_username(&"ö".repeat(64)).is_ok());
        assert!(validate_password("1234567").is_err() && validate_password("12345678").is_ok());
        assert!(validate_password(&"x".repeat(1025)).is_err());
        assert_eq!(clean_device_name(" Living\u{7} room "), Some("Living room".to_owned()));
        assert_eq!(clean_device_name("\n"), None);
    }
}
