//! Grants as text: HMAC-SHA256 over a canonical form (contract section 15).
//!
//! A grant travels as `<exp>.<subject>.<sig>`: ten digits of unix seconds, the login it lives by, and 43 characters of
//! base64url. It covers one resource, such as `stream/transcode/ts_…` or `stream/file:<path>`.

use data_encoding::BASE64URL_NOPAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// A signing key.
pub type Key = [u8; 32];

/// Grace for clocks that differ, seconds.
pub const LEEWAY_SECONDS: i64 = 30;

/// Longest grant accepted, bytes.
pub const MAX_GRANT_BYTES: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Invalid,
    Expired,
}

fn mac(key: &Key, resource: &str, subject: &str, exp: &str) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.update(["v1", "GET", resource, subject, exp].join("\n").as_bytes());
    mac
}

/// Signs a grant for `resource`, living until `exp` (unix seconds) and as long as login `subject` does.
pub fn sign(key: &Key, resource: &str, subject: &str, exp: i64) -> String {
    let exp = format!("{exp:010}");
    let sig = BASE64URL_NOPAD.encode(&mac(key, resource, subject, &exp).finalize().into_bytes());
    format!("{exp}.{subject}.{sig}")
}

/// Checks a grant against any of the live keys; returns its subject. The signature is checked before the expiry.
pub fn verify<'a>(keys: &[Key], resource: &str, grant: &'a str, now: i64) -> Result<&'a str, Refusal> {
    if grant.len() > MAX_GRANT_BYTES {
        return Err(Refusal::Invalid);
    }
    let mut parts = grant.splitn(3, '.');
    let (Some(exp), Some(subject), Some(sig)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(Refusal::Invalid);
    };
    if exp.len() != 10 || !exp.bytes().all(|byte| byte.is_ascii_digit()) || subject.is_empty() {
        return Err(Refusal::Invalid);
    }
    let sig = BASE64URL_NOPAD.decode(sig.as_bytes()).map_err(|_| Refusal::Invalid)?;
    if !keys.iter().any(|key| mac(key, resource, subject, exp).verify_slice(&sig).is_ok()) {
        return Err(Refusal::Invalid);
    }
    let exp: i64 = exp.parse().map_err(|_| Refusal::Invalid)?;
    if now > exp + LEEWAY_SECONDS {
        return Err(Refusal::Expired);
    }
    Ok(subject)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_covers_one_resource_until_it_expires() {
        let grant = sign(&[7; 32], "stream/transcode/ts_1", "l_1", 1_800_000_000);
        let check = |keys: &[Key], resource, now| verify(keys, resource, &grant, now);
        assert_eq!(check(&[[7; 32]], "stream/transcode/ts_1", 1_799_999_999), Ok("l_1"));
        assert_eq!(check(&[[8; 32], [7; 32]], "stream/transcode/ts_1", 1_800_000_030), Ok("l_1"));
        assert_eq!(check(&[[7; 32]], "stream/transcode/ts_2", 1_799_999_999), Err(Refusal::Invalid));
        assert_eq!(check(&[[8; 32]], "stream/transcode/ts_1", 1_799_999_999), Err(Refusal::Invalid));
        assert_eq!(check(&[[7; 32]], "stream/transcode/ts_1", 1_800_000_031), Err(Refusal::Expired));
    }
}
