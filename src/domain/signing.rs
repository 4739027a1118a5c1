//! Signed URLs and grants: HMAC-SHA256 over a canonical form, compared in constant time.
//!
//! A grant has the form `<exp>.<subject>.<sig>`: ten digits of unix seconds, the login it belongs to, and 43 characters of
//! base64url. It covers one resource, such as `stream/transcode/ts_…` or `stream/file:<path>`.

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

pub type SigningKey = [u8; 32];

/// Tolerance for clock differences, seconds.
const LEEWAY_SECONDS: i64 = 30;

/// Maximum lifetime of a grant or a signed address, seconds: seven days.
pub const MAX_LIFE_SECONDS: i64 = 7 * 86_400;

const MAX_GRANT_BYTES: usize = 256;

/// Parses keys in hexadecimal digits, a line each; `None` when a line has other content.
pub fn parse_keys(text: &str) -> Option<Vec<SigningKey>> {
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(|line| HEXLOWER.decode(line.trim().as_bytes()).ok()?.try_into().ok()).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureError {
    Invalid,
    Expired,
}

fn compute_mac(key: &SigningKey, resource: &str, subject: &str, exp: &str) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.update(["v1", "GET", resource, subject, exp].join("\n").as_bytes());
    mac
}

/// Signs a grant for `resource`, valid until `exp` (unix seconds) and only as long as login `subject` exists.
pub fn sign_grant(key: &SigningKey, resource: &str, subject: &str, exp: i64) -> String {
    let exp = format!("{exp:010}");
    let sig = BASE64URL_NOPAD.encode(&compute_mac(key, resource, subject, &exp).finalize().into_bytes());
    format!("{exp}.{subject}.{sig}")
}

/// Checks a grant against the current keys; returns its subject and its expiry (unix seconds). The signature is checked
/// before the expiry.
pub fn verify_grant<'a>(
    keys: &[SigningKey],
    resource: &str,
    grant: &'a str,
    now: i64,
) -> Result<(&'a str, i64), SignatureError> {
    let mut parts = grant.splitn(3, '.');
    let (Some(exp), Some(subject), Some(sig)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(SignatureError::Invalid);
    };
    if grant.len() > MAX_GRANT_BYTES || subject.is_empty() {
        return Err(SignatureError::Invalid);
    }
    Ok((subject, check_signature(keys, [resource, subject, exp], sig, now)?))
}

/// Checks a signature by any of `keys` over resource, subject and expiry; returns the expiry in unix seconds. One beyond the
/// maximum lifetime comes from an older version or from a clock that was ahead.
fn check_signature(
    keys: &[SigningKey],
    [resource, subject, exp]: [&str; 3],
    sig: &str,
    now: i64,
) -> Result<i64, SignatureError> {
    let sig = BASE64URL_NOPAD.decode(sig.as_bytes()).map_err(|_| SignatureError::Invalid)?;
    let is_signed = keys.iter().any(|key| compute_mac(key, resource, subject, exp).verify_slice(&sig).is_ok());
    let is_expiry = exp.len() == 10 && exp.bytes().all(|byte| byte.is_ascii_digit());
    if !is_signed || !is_expiry {
        return Err(SignatureError::Invalid);
    }
    let exp: i64 = exp.parse().map_err(|_| SignatureError::Invalid)?;
    match exp - now {
        left if left < -LEEWAY_SECONDS => Err(SignatureError::Expired),
        left if left > MAX_LIFE_SECONDS + LEEWAY_SECONDS => Err(SignatureError::Invalid),
        _ => Ok(exp),
    }
}

/// The query parameters of a signed address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedParameters {
    /// `k<key>.<subject>`.
    pub token: String,
    /// Ten digits of unix seconds.
    pub exp: String,
    /// 43 characters of base64url.
    pub sig: String,
}

/// Maximum length of a parameter of a signed address, bytes.
const MAX_PARAMETER_BYTES: usize = 128;

/// The name of a key in signed addresses: it identifies the key and reveals nothing of it.
fn key_name(key: &SigningKey) -> String {
    HEXLOWER.encode(&Sha256::digest(key)[..4])
}

/// Signs an address of `resource` for `subject`, valid until `exp` (unix seconds).
pub fn sign_link(key: &SigningKey, resource: &str, subject: &str, exp: i64) -> SignedParameters {
    let (token, exp) = (format!("k{}.{subject}", key_name(key)), format!("{exp:010}"));
    let sig = BASE64URL_NOPAD.encode(&compute_mac(key, resource, &token, &exp).finalize().into_bytes());
    SignedParameters { token, exp, sig }
}

/// Checks a signed address (token, exp, sig) against the current keys; returns its subject and its expiry (unix seconds).
/// The signature is checked before the expiry.
pub fn verify_link<'a>(
    keys: &[SigningKey],
    resource: &str,
    (token, exp, sig): (&'a str, &str, &str),
    now: i64,
) -> Result<(&'a str, i64), SignatureError> {
    if [token, exp, sig].iter().any(|text| text.len() > MAX_PARAMETER_BYTES) {
        return Err(SignatureError::Invalid);
    }
    let (name, subject) =
        token.strip_prefix('k').and_then(|rest| rest.split_once('.')).ok_or(SignatureError::Invalid)?;
    let key = keys.iter().find(|key| key_name(key) == name).ok_or(SignatureError::Invalid)?;
    Ok((subject, check_signature(std::slice::from_ref(key), [resource, token, exp], sig, now)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signed_address_covers_one_resource_and_cannot_be_altered() {
        let keys = [[7; 32], [8; 32]];
        let SignedParameters { token, exp, sig } = sign_link(&keys[1], "livetv/watch/12", "s_1", 1_800_000_000);
        assert_eq!((exp.as_str(), sig.len()), ("1800000000", 43));
        let check = |resource, token: &str, exp: &str, sig: &str, now| {
            verify_link(&keys, resource, (token, exp, sig), now).map(|(subject, exp)| (subject.to_owned(), exp))
        };
        let good = Ok(("s_1".to_owned(), 1_800_000_000));
        assert_eq!(check("livetv/watch/12", &token, &exp, &sig, 1_800_000_030), good);
        assert_eq!(check("livetv/watch/12", &token, &exp, &sig, 1_800_000_000 - MAX_LIFE_SECONDS), good);
        let early = 1_800_000_000 - MAX_LIFE_SECONDS - LEEWAY_SECONDS - 1;
        let refused = Err(SignatureError::Invalid);
        assert_eq!(check("livetv/watch/12", &token, &exp, &sig, early), refused, "more than seven days");
        assert_eq!(check("livetv/watch/12", &token, &exp, &sig, 1_800_000_031), Err(SignatureError::Expired));
        let other = token.replace("s_1", "s_2");
        let unknown = sign_link(&[9; 32], "livetv/watch/12", "s_1", 1_800_000_000);
        let padded = format!("{sig}=");
        for (resource, token, exp, sig) in [
            ("livetv/watch/1", &token, &exp, &sig),
            ("livetv/m3u", &token, &exp, &sig),
            ("livetv/watch/12", &other, &exp, &sig),
            ("livetv/watch/12", &token, &"1800000001".to_owned(), &sig),
            ("livetv/watch/12", &token, &"+180000000".to_owned(), &sig),
            ("livetv/watch/12", &token, &exp, &padded),
            ("livetv/watch/12", &unknown.token, &unknown.exp, &unknown.sig),
            ("livetv/watch/12", &"k".repeat(129), &exp, &sig),
        ] {
            let checked = check(resource, token, exp, sig, 1_799_999_999);
            assert_eq!(checked, refused, "{resource} {token} {exp} {sig}");
        }
    }

    #[test]
    fn a_grant_covers_one_resource_until_it_expires() {
        let grant = sign_grant(&[7; 32], "stream/transcode/ts_1", "l_1", 1_800_000_000);
        let check = |keys: &[SigningKey], resource, now| verify_grant(keys, resource, &grant, now);
        assert_eq!(check(&[[7; 32]], "stream/transcode/ts_1", 1_799_999_999), Ok(("l_1", 1_800_000_000)));
        assert_eq!(check(&[[8; 32], [7; 32]], "stream/transcode/ts_1", 1_800_000_030), Ok(("l_1", 1_800_000_000)));
        assert_eq!(check(&[[7; 32]], "stream/transcode/ts_2", 1_799_999_999), Err(SignatureError::Invalid));
        assert_eq!(check(&[[8; 32]], "stream/transcode/ts_1", 1_799_999_999), Err(SignatureError::Invalid));
        assert_eq!(check(&[[7; 32]], "stream/transcode/ts_1", 1_800_000_031), Err(SignatureError::Expired));
    }
}
