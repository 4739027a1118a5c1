//! One record on disk: a checksum, then JSON.
//!
//! The checksum (16 bytes of BLAKE3) covers tree, key and value, so that neither a flipped bit nor a value that ended up
//! under another key is taken for data. sled's own checksums cover pages, and it skips pages that fail them.

use serde::Serialize;
use serde::de::DeserializeOwned;

const CHECKSUM: usize = 16;

fn checksum(tree: &str, key: &str, json: &[u8]) -> [u8; CHECKSUM] {
    let mut hasher = blake3::Hasher::new();
    for part in [tree.as_bytes(), key.as_bytes(), json] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().as_bytes()[..CHECKSUM].try_into().expect("BLAKE3 gives 32 bytes")
}

/// A value as it is stored.
pub fn seal<T: Serialize>(tree: &str, key: &str, value: &T) -> serde_json::Result<Vec<u8>> {
    let mut sealed = vec![0; CHECKSUM];
    serde_json::to_writer(&mut sealed, value)?;
    let sum = checksum(tree, key, &sealed[CHECKSUM..]);
    sealed[..CHECKSUM].copy_from_slice(&sum);
    Ok(sealed)
}

/// The value of a stored record, or what is wrong with it.
pub fn open<T: DeserializeOwned>(tree: &str, key: &str, sealed: &[u8]) -> Result<T, String> {
    let (sum, json) = sealed.split_at_checked(CHECKSUM).ok_or("it is cut short")?;
    if sum != checksum(tree, key, json) {
        return Err("its checksum does not fit".to_owned());
    }
    serde_json::from_slice(json).map_err(|cause| cause.to_string())
}
