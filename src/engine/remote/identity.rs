//! The key pair of a worker (Ed25519, RFC 8032): it proves who renews a credential.

use data_encoding::BASE64URL_NOPAD;
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

/// The private key of a worker.
#[derive(Debug)]
pub struct WorkerIdentity {
    pkcs8: Vec<u8>,
    key_pair: Ed25519KeyPair,
}

impl WorkerIdentity {
    /// A new key pair.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn generate() -> Result<Self, String> {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|cause| cause.to_string())?;
        Self::from_pkcs8(document.as_ref().to_vec())
    }

    /// The key pair of [`Self::to_text`].
    ///
    /// # Errors
    /// When the text is not that of a key pair.
    pub fn from_text(text: &str) -> Result<Self, String> {
        Self::from_pkcs8(BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|cause| cause.to_string())?)
    }

    fn from_pkcs8(pkcs8: Vec<u8>) -> Result<Self, String> {
        let key_pair = Ed25519KeyPair::from_pkcs8(&pkcs8).map_err(|cause| cause.to_string())?;
        Ok(Self { pkcs8, key_pair })
    }

    /// The private key as text. Secret.
    pub fn to_text(&self) -> String {
        BASE64URL_NOPAD.encode(&self.pkcs8)
    }

    /// The public key, base64url without padding.
    pub fn public_key(&self) -> String {
        BASE64URL_NOPAD.encode(self.key_pair.public_key().as_ref())
    }

    /// A signature, base64url without padding.
    pub fn sign(&self, text: &str) -> String {
        BASE64URL_NOPAD.encode(&self.sign_bytes(text.as_bytes()))
    }

    /// A signature, 64 bytes.
    pub fn sign_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        self.key_pair.sign(bytes).as_ref().to_vec()
    }
}

/// The 32 bytes of a public key; None if it is not the text of one.
pub fn parse_public_key(public_key: &str) -> Option<Vec<u8>> {
    BASE64URL_NOPAD.decode(public_key.as_bytes()).ok().filter(|bytes| bytes.len() == 32)
}

/// Whether `signature` is that of `text` by the owner of `public_key`.
pub fn is_signed_by(public_key: &str, text: &str, signature: &str) -> bool {
    let decode = |text: &str| BASE64URL_NOPAD.decode(text.as_bytes());
    let (Ok(key), Ok(signature)) = (decode(public_key), decode(signature)) else { return false };
    UnparsedPublicKey::new(&ED25519, key).verify(text.as_bytes(), &signature).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_of_a_key_signs_for_it() {
        let (own, other) = (WorkerIdentity::generate().unwrap(), WorkerIdentity::generate().unwrap());
        let own = WorkerIdentity::from_text(&own.to_text()).unwrap();
        let signature = own.sign("a");
        assert!(parse_public_key(&own.public_key()).is_some() && parse_public_key("AAAA").is_none());
        assert!(is_signed_by(&own.public_key(), "a", &signature));
        assert!(!is_signed_by(&own.public_key(), "b", &signature));
        assert!(!is_signed_by(&other.public_key(), "a", &signature));
        assert!(!is_signed_by("?", "a", &signature) && !is_signed_by(&own.public_key(), "a", "?"));
    }
}
