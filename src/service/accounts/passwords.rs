//! Passwords: argon2id, off the async threads, a few at a time.

use std::sync::Arc;

use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use tokio::sync::Semaphore;

use super::random_bytes;
use crate::error::{Code, Error, Result};

/// Memory of one hash, KiB, and passes over it (OWASP's minimum for argon2id).
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;

/// Hashes computed at once: each takes 19 MiB and 20-60 ms of a core.
const MAX_CONCURRENT_HASHES: usize = 2;

/// Callers that may wait for a permit.
const MAX_WAITING: usize = 64;

/// Replaces the hash of a user who does not exist, so that both cases take the same work. No password matches it.
const PLACEHOLDER_HASH: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5IGhhcyB0aGlz$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Hashes and checks passwords.
#[derive(Debug)]
pub struct Passwords {
    permits: Arc<Semaphore>,
    /// Places in the queue for a permit.
    queue: Semaphore,
}

impl Default for Passwords {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(MAX_CONCURRENT_HASHES)), queue: Semaphore::new(MAX_WAITING) }
    }
}

impl Passwords {
    /// A new hash, in PHC form.
    ///
    /// # Errors
    /// `SERVER_BUSY` when too many wait.
    pub async fn hash(&self, password: &str) -> Result<String> {
        let password = password.to_owned();
        self.run_limited(move || hash(&password)).await?
    }

    /// Whether the password matches. Takes the same work when there is no hash.
    ///
    /// # Errors
    /// `SERVER_BUSY` when too many wait.
    pub async fn verify(&self, hash: Option<&str>, password: &str) -> Result<bool> {
        let has_hash = hash.is_some();
        let (hash, password) = (hash.unwrap_or(PLACEHOLDER_HASH).to_owned(), password.to_owned());
        let is_match = self.run_limited(move || verify_hash(&hash, &password)).await?;
        Ok(has_hash && is_match)
    }

    async fn run_limited<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let busy = |_| Error::new(Code::ServerBusy, "too many sign-ins at once").with_retry_after(2);
        let queued = self.queue.try_acquire().map_err(busy)?;
        let permit = self.permits.clone().acquire_owned().await.map_err(Error::internal)?;
        drop(queued);
        // The permit moves with the work, so that a caller that leaves does not let another one in early.
        let result = tokio::task::spawn_blocking(move || {
            let _turn = permit;
            work()
        });
        result.await.map_err(Error::internal)
    }
}

/// A new hash, in PHC form. Blocks for tens of milliseconds.
///
/// # Errors
/// `INTERNAL` when there is no memory for it.
pub fn hash(password: &str) -> Result<String> {
    let params = Params::new(MEMORY_KIB, PASSES, 1, None).expect("these parameters are within argon2's bounds");
    let salt = SaltString::encode_b64(&random_bytes::<16>()).map_err(Error::internal)?;
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    Ok(argon2.hash_password(password.as_bytes(), &salt).map_err(Error::internal)?.to_string())
}

/// Verifies a password with the parameters in the hash.
fn verify_hash(hash: &str, password: &str) -> bool {
    PasswordHash::new(hash).is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
}

/// Whether a hash made by another program may be used: argon2id, at least as costly as ours.
///
/// # Errors
/// The reason why it may not.
pub fn check_external_hash(hash: &str) -> Result<(), String> {
    let parsed = PasswordHash::new(hash).map_err(|_| "it is no argon2id hash in PHC form".to_owned())?;
    let params = Params::try_from(&parsed).map_err(|cause| cause.to_string())?;
    if parsed.algorithm.as_str() != "argon2id" || parsed.hash.is_none() {
        return Err("it is no argon2id hash in PHC form".to_owned());
    }
    if params.m_cost() < MEMORY_KIB || params.t_cost() < PASSES || params.m_cost() > 1 << 20 || params.t_cost() > 16 {
        return Err("it must use 19 MiB to 1 GiB of memory and 2 to 16 passes".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_password_matches_its_hash_and_a_missing_hash_matches_none() {
        let passwords = Passwords::default();
        let hash = passwords.hash("correct horse").await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert!(passwords.verify(Some(&hash), "correct horse").await.unwrap());
        assert!(!passwords.verify(Some(&hash), "Correct horse").await.unwrap());
        assert!(!passwords.verify(None, "").await.unwrap());
        assert!(
            PasswordHash::new(PLACEHOLDER_HASH).unwrap().hash.is_some(),
            "the placeholder takes as much work as a hash"
        );
        assert_eq!(check_external_hash(&hash), Ok(()));
        assert!(check_external_hash("$argon2id$v=19$m=8,t=1,p=1$bm9ib2R5IGhhcyB0aGlz$AAAAAAAAAAAAAAAAAAAAAA").is_err());
        assert!(check_external_hash("plain text").is_err());
    }
}
