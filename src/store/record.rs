//! A record in the index: a checksum, the number of the change that wrote it, then JSON.
//!
//! The checksum (16 bytes of BLAKE3) covers tree, key, number and value. It detects flipped bits, and values stored under
//! the wrong key. sled's own checksums cover pages, and sled skips pages that fail them.

use serde::de::DeserializeOwned;

/// Longest record that may be written, bytes of key and JSON together.
pub const MAX_RECORD_BYTES: usize = 8 << 20;

/// Length of a checksum, bytes.
const CHECKSUM_BYTES: usize = 16;

/// Length of checksum and number, bytes.
const HEADER_BYTES: usize = CHECKSUM_BYTES + 8;

/// Checksum of all parts of a record. A removal has empty JSON, which no value has.
pub fn checksum(tree: &str, key: &str, number: u64, json: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut hasher = blake3::Hasher::new();
    for part in [tree.as_bytes(), key.as_bytes(), &number.to_le_bytes(), json] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().as_bytes()[..CHECKSUM_BYTES].try_into().expect("a BLAKE3 hash has 32 bytes")
}

pub fn encode(tree: &str, key: &str, number: u64, json: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(HEADER_BYTES + json.len());
    encoded.extend_from_slice(&checksum(tree, key, number, json));
    encoded.extend_from_slice(&number.to_le_bytes());
    encoded.extend_from_slice(json);
    encoded
}

/// Checks a stored record; returns its number and JSON, or what is wrong with it.
pub fn verify<'a>(tree: &str, key: &str, encoded: &'a [u8]) -> Result<(u64, &'a [u8]), String> {
    let (header, json) = encoded.split_at_checked(HEADER_BYTES).ok_or("it is too short")?;
    let number = u64::from_le_bytes(header[CHECKSUM_BYTES..].try_into().expect("8 bytes"));
    if header[..CHECKSUM_BYTES] != checksum(tree, key, number, json) {
        return Err("its checksum does not match".to_owned());
    }
    Ok((number, json))
}

/// Decodes a stored record; returns its value, or what is wrong with it.
pub fn decode<T: DeserializeOwned>(tree: &str, key: &str, encoded: &[u8]) -> Result<T, String> {
    let (_, json) = verify(tree, key, encoded)?;
    serde_json::from_slice(json).map_err(|cause| cause.to_string())
}
