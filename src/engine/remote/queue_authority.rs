//! The authority over the queue: keys of an operator and of an account of NATS, by which it signs who may do what in the queue.
//! A nats-server with [`QueueAuthority::server_configuration`] lets in only whom it signed for. One without accounts lets in
//! everybody and ignores the credentials.

use std::fmt;

use data_encoding::{BASE32_NOPAD, BASE64URL_NOPAD};
use ring::digest::{SHA512_256, digest};
use ring::hmac::{HMAC_SHA256, Key as MacKey, sign as compute_mac};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

use super::nkey::{KeyRole, encode_public_key};
use super::subjects;

/// Header of every JWT of NATS.
const HEADER: &str = r#"{"typ":"JWT","alg":"ed25519-nkey"}"#;

/// The keys of a server's queue.
pub struct QueueAuthority {
    operator: Key,
    account: Key,
    /// Its account is for nats-server itself, without which there is no JetStream. It has no user.
    system_account: Key,
    server: Key,
    created_at: i64,
}

/// A key pair with its public key as text.
struct Key {
    pair: Ed25519KeyPair,
    id: String,
}

impl fmt::Debug for QueueAuthority {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "QueueAuthority({})", self.operator.id)
    }
}

impl QueueAuthority {
    /// All keys are derived from a secret, so they are the same at each start and at each server of a database. `created_at` is
    /// when it was made, unix seconds.
    pub fn new(secret: &[u8; 32], created_at: i64) -> Self {
        let secret = MacKey::new(HMAC_SHA256, secret);
        let key = |role, name: &str| {
            let seed = compute_mac(&secret, format!("hearthcast-queue\n{name}").as_bytes());
            let pair = Ed25519KeyPair::from_seed_unchecked(seed.as_ref()).expect("a seed has 32 bytes");
            let id = encode_public_key(role, pair.public_key().as_ref());
            Key { pair, id }
        };
        Self {
            operator: key(KeyRole::Operator, "operator"),
            account: key(KeyRole::Account, "account"),
            system_account: key(KeyRole::Account, "system account"),
            server: key(KeyRole::User, "server"),
            created_at,
        }
    }

    /// The credential of the server itself: a JWT for everything in the account, and the signature of nats-server's nonce.
    pub fn server_login(&self, nonce: &[u8]) -> (String, Vec<u8>) {
        let jwt =
            self.account.sign(&self.server.id, "server", (self.created_at, None), user_claims(json!({}), json!({})));
        (jwt, self.server.pair.sign(nonce).as_ref().to_vec())
    }

    /// The JWT of a worker: it takes offers, and speaks of its own runs. `public_key` has 32 bytes; times are unix seconds.
    pub fn worker_jwt(&self, worker: &str, public_key: &[u8], issued_at: i64, expires_at: i64) -> String {
        let (publish, subscribe) = subjects::of_worker(worker);
        let claims = user_claims(json!({ "allow": publish }), json!({ "allow": subscribe }));
        let user = encode_public_key(KeyRole::User, public_key);
        self.account.sign(&user, worker, (issued_at, Some(expires_at)), claims)
    }

    /// A configuration for nats-server 2.9 or newer that listens on `port`. It has no secret, and is the same each time.
    pub fn server_configuration(&self, port: u16) -> String {
        let times = (self.created_at, None);
        let operator_claims = json!({ "type": "operator", "version": 2, "system_account": self.system_account.id });
        let operator = self.operator.sign(&self.operator.id, "hearthcast", times, operator_claims);
        let account = |key: &Key, name: &str, storage: i64| {
            let jwt = self.operator.sign(&key.id, name, times, account_claims(storage));
            format!("  {}: {jwt}\n", key.id)
        };
        let accounts = account(&self.account, "workers", -1) + &account(&self.system_account, "system", 0);
        format!(
            "# For nats-server 2.9 or newer, by Hearthcast: only its server and its workers are let in.\n\
             port: {port}\njetstream: enabled\noperator: {operator}\nsystem_account: {}\nresolver: MEMORY\n\
             resolver_preload: {{\n{accounts}}}\n",
            self.system_account.id
        )
    }
}

impl Key {
    /// A JWT about `subject`, version 2 of NATS (`github.com/nats-io/jwt/v2`), valid from the first time to the second.
    fn sign(&self, subject: &str, name: &str, (issued_at, expires_at): (i64, Option<i64>), nats: Value) -> String {
        let mut claims = json!({ "iat": issued_at, "iss": self.id, "name": name, "sub": subject, "nats": nats });
        if let Some(expires_at) = expires_at {
            claims["exp"] = expires_at.into();
        }
        claims["jti"] = BASE32_NOPAD.encode(digest(&SHA512_256, claims.to_string().as_bytes()).as_ref()).into();
        let encode = |text: &str| BASE64URL_NOPAD.encode(text.as_bytes());
        let text = format!("{}.{}", encode(HEADER), encode(&claims.to_string()));
        let signature = BASE64URL_NOPAD.encode(self.pair.sign(text.as_bytes()).as_ref());
        format!("{text}.{signature}")
    }
}

/// Claims of a user without limits besides the subjects that it may publish to and subscribe to.
fn user_claims(publish: Value, subscribe: Value) -> Value {
    json!({ "type": "user", "version": 2, "pub": publish, "sub": subscribe, "subs": -1, "data": -1, "payload": -1 })
}

/// Claims of an account whose streams may take `storage` bytes of memory; -1 is without limit.
fn account_claims(storage: i64) -> Value {
    let limits = json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": 0,
        "mem_storage": storage, "disk_storage": 0, "streams": storage, "consumer": storage,
    });
    json!({ "type": "account", "version": 2, "limits": limits, "default_permissions": { "pub": {}, "sub": {} } })
}

#[cfg(test)]
mod tests {
    use ring::signature::{ED25519, UnparsedPublicKey};

    use super::*;

    fn claims(jwt: &str) -> Value {
        let part = jwt.split('.').nth(1).unwrap();
        serde_json::from_slice(&BASE64URL_NOPAD.decode(part.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn a_worker_has_its_own_subjects_for_a_limited_time() {
        let authority = QueueAuthority::new(&[7; 32], 1000);
        let jwt = authority.worker_jwt("w_1", &[1; 32], 2000, 3000);
        let claims = claims(&jwt);
        assert_eq!((&claims["iat"], &claims["exp"], &claims["name"]), (&json!(2000), &json!(3000), &json!("w_1")));
        assert_eq!(claims["iss"], authority.account.id.as_str());
        assert_eq!(claims["sub"], encode_public_key(KeyRole::User, &[1; 32]).as_str());
        let subjects = claims["nats"].to_string();
        assert!(subjects.contains("hc.worker.w_1.") && !subjects.contains("\">\"") && !subjects.contains("w_2"));
        let (text, signature) = jwt.rsplit_once('.').unwrap();
        let signature = BASE64URL_NOPAD.decode(signature.as_bytes()).unwrap();
        let key = UnparsedPublicKey::new(&ED25519, authority.account.pair.public_key());
        assert!(key.verify(text.as_bytes(), &signature).is_ok());
    }

    #[test]
    fn a_secret_decides_the_configuration_and_is_not_part_of_it() {
        let text = |secret: u8, port| QueueAuthority::new(&[secret; 32], 1000).server_configuration(port);
        assert_eq!(text(7, 4222), text(7, 4222));
        assert_ne!(text(7, 4222), text(8, 4222));
        assert!(text(7, 4333).contains("port: 4333\n"));
        assert!(!text(7, 4222).contains(" S"), "no seed");
    }
}
