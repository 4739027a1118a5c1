//! First set-up: the one-time code for creating the first admin.

use std::path::PathBuf;

use data_encoding::BASE32_NOPAD;
use jiff::{SignedDuration, Timestamp};
use subtle::ConstantTimeEq;

use super::random;
use crate::error::{Error, Result};
use crate::store::secret;

/// How long a code is valid.
const LIFE: SignedDuration = SignedDuration::from_hours(24);

/// A code that has not been used, and the file that contains it.
#[derive(Debug)]
pub struct SetupCode {
    code: String,
    expires_at: Timestamp,
    file: PathBuf,
}

impl SetupCode {
    /// Creates a code of 128 random bits and writes it to `file`, mode 0600.
    ///
    /// # Errors
    /// `INTERNAL` when the file cannot be written.
    pub fn make(file: PathBuf, now: Timestamp) -> Result<Self> {
        let code = BASE32_NOPAD.encode(&random::<16>()).to_lowercase();
        let made = Self { code, expires_at: now.saturating_add(LIFE).map_err(Error::internal)?, file };
        secret::write(&made.file, &format!("{}\n", made.shown()))
            .map_err(|cause| Error::internal(format!("{}: {cause}", made.file.display())))?;
        Ok(made)
    }

    /// The code in groups of letters and digits, for people.
    pub fn shown(&self) -> String {
        let groups: Vec<&str> =
            self.code.as_bytes().chunks(5).map(|part| std::str::from_utf8(part).expect("base32 is ASCII")).collect();
        groups.join("-")
    }

    /// Whether `typed` is this code, ignoring case and hyphens, and the code is still valid.
    pub fn fits(&self, typed: &str, now: Timestamp) -> bool {
        let plain: String = typed.chars().filter(|c| !c.is_whitespace() && *c != '-').collect();
        let same = bool::from(plain.to_lowercase().as_bytes().ct_eq(self.code.as_bytes()));
        same && now < self.expires_at
    }

    /// Removes the file, because the code was used or is not needed.
    pub fn remove(&self) {
        if let Err(cause) = secret::remove(&self.file) {
            tracing::warn!(%cause, file = %self.file.display(), "the used set-up code could not be removed");
        }
    }
}
