//! The client of a request that a standby passes on to the active server: its address, signed with a key that both servers have.
//!
//! A header has the form `<address> <seconds> <signature>`. The signature (HMAC-SHA256) covers address, time, method, path and
//! query, so a client can neither make one nor use that of another request.

use std::net::IpAddr;

use data_encoding::BASE64URL_NOPAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::signing::SigningKey;

/// Largest difference between the clocks of the two servers and between sending and receiving, seconds.
const MAX_AGE_SECONDS: i64 = 60;

/// Longest header that is read.
const MAX_HEADER_BYTES: usize = 128;

/// The request that a signature covers.
#[derive(Clone, Copy, Debug)]
pub struct SignedRequest<'a> {
    pub method: &'a str,
    pub path: &'a str,
    /// Without the question mark; empty if it is missing.
    pub query: &'a str,
}

/// The first line differs from those of grants and signed addresses, so neither is valid as the other.
fn compute_mac(key: &SigningKey, client: &str, seconds: &str, request: SignedRequest) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    let SignedRequest { method, path, query } = request;
    mac.update(["forwarded client v1", client, seconds, method, path, query].join("\n").as_bytes());
    mac
}

/// The header of a request of `client`, passed on at `now` (unix seconds).
pub fn sign(key: &SigningKey, client: IpAddr, request: SignedRequest, now: i64) -> String {
    let (client, seconds) = (client.to_string(), now.to_string());
    let signature = compute_mac(key, &client, &seconds, request).finalize().into_bytes();
    format!("{client} {seconds} {}", BASE64URL_NOPAD.encode(&signature))
}

/// The client in a header, if it was signed by one of `keys` for this request within the last minute.
pub fn verify(keys: &[SigningKey], header: &str, request: SignedRequest, now: i64) -> Option<IpAddr> {
    if header.len() > MAX_HEADER_BYTES {
        return None;
    }
    let mut parts = header.splitn(3, ' ');
    let (client, seconds, signature) = (parts.next()?, parts.next()?, parts.next()?);
    let signature = BASE64URL_NOPAD.decode(signature.as_bytes()).ok()?;
    let is_signed = keys.iter().any(|key| compute_mac(key, client, seconds, request).verify_slice(&signature).is_ok());
    let age = now.checked_sub(seconds.parse().ok()?)?;
    if !is_signed || !(-MAX_AGE_SECONDS..=MAX_AGE_SECONDS).contains(&age) {
        return None;
    }
    client.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: SigningKey = [7; 32];

    #[test]
    fn only_the_signed_request_has_the_client_for_a_minute() {
        let request = SignedRequest { method: "POST", path: "/api/auth/login", query: "" };
        for client in ["192.0.2.1", "2001:db8::1"] {
            let client: IpAddr = client.parse().unwrap();
            let header = sign(&KEY, client, request, 1_000);
            let verified = |request, now| verify(&[[1; 32], KEY], &header, request, now);
            assert_eq!(verified(request, 1_000), Some(client));
            assert_eq!((verified(request, 1_060), verified(request, 940)), (Some(client), Some(client)));
            assert_eq!((verified(request, 1_061), verified(request, 939)), (None, None));
            assert_eq!(verified(SignedRequest { method: "GET", ..request }, 1_000), None);
            assert_eq!(verified(SignedRequest { path: "/api/auth", ..request }, 1_000), None);
            assert_eq!(verified(SignedRequest { query: "a=1", ..request }, 1_000), None);
            assert_eq!(verify(&[[1; 32]], &header, request, 1_000), None, "another key");
            let forged = header.replace(&client.to_string(), "198.51.100.1");
            assert_eq!(verify(&[KEY], &forged, request, 1_000), None);
        }
        for header in ["", "192.0.2.1", "192.0.2.1 1000", "192.0.2.1 1000 a", "192.0.2.1 1000 \u{e9}"] {
            assert_eq!(verify(&[KEY], header, request, 1_000), None, "{header:?}");
        }
    }
}
