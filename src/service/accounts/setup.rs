//! First set-up: the one-time code for creating the first admin.

use std::path::PathBuf;

use data_encoding::BASE32_NOPAD;
use jiff::{SignedDuration, Timestamp};
use subtle::ConstantTimeEq;

use super::random_bytes;
use crate::error::{Error, Result};
use crate::store::secret;

/// How long a code is valid.
const CODE_LIFETIME: SignedDuration = SignedDuration::from_hours(24);

/// A code that has not been used, and the file that contains it.
#[derive(Debug)]
pub struct SetupCode {
    code: String,
    expires_at: Timestamp,
    file: PathBuf,
}

impl SetupCode {
    /// Creates a code of 128 random bits and writes it to `file`, mode 0600.
    pub fn create(file: PathBuf, now: Timestamp) -> Result<Self> {
        let code = BASE32_NOPAD.encode(&random_bytes::<16>()).to_lowercase();
        let setup_code = Self { code, expires_at: now.saturating_add(CODE_LIFETIME).map_err(Error::internal)?, file };
        secret::write(&setup_code.file, &format!("{}\n", setup_code.formatted()))
            .map_err(|cause| Error::internal(format!("{}: {cause}", setup_code.file.display())))?;
        Ok(setup_code)
    }

    /// The code in groups of letters and digits, for people.
    pub fn formatted(&self) -> String {
        let groups: Vec<&str> =
            self.code.as_bytes().chunks(5).map(|group| std::str::from_utf8(group).expect("base32 is ASCII")).collect();
        groups.join("-")
    }

    /// Whether `input` is this code, ignoring case and hyphens, and the code is still valid.
    pub fn matches(&self, input: &str, now: Timestamp) -> bool {
        let normalised: String = input.chars().filter(|c| !c.is_whitespace() && *c != '-').collect();
        let is_same = bool::from(normalised.to_lowercase().as_bytes().ct_eq(self.code.as_bytes()));
        is_same && now < self.expires_at
    }

    /// Removes the file, because the code was used or is not needed.
    pub fn remove(&self) {
        if let Err(cause) = secret::remove(&self.file) {
            tracing::warn!(%cause, file = %self.file.display(), "the used set-up code could not be removed");
        }
    }
}
