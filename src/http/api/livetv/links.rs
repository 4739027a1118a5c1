//! URLs in playlists and guides: the base URL of this server, and the credentials for players that cannot sign in.

use http::header::HOST;

use crate::domain::access::Principal;
use crate::domain::signing::{MAX_LIFE_SECONDS, SignedParameters};
use crate::http::api::prelude::*;

/// Lifetime of signed links in playlists, whole days: the longest that can be signed.
const LINK_LIFETIME_DAYS: i64 = MAX_LIFE_SECONDS / DAY_SECONDS;

const DAY_SECONDS: i64 = 24 * 3600;

/// The credentials that links carry, for players that cannot sign in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkCredentials {
    None,
    /// The stream token of the request.
    Token(String),
    /// Each link is signed until this time, unix seconds.
    Signed(i64),
}

impl LinkCredentials {
    /// The kind selected by `auth`; by default the credentials of the request.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` for an unknown kind, or for `token` if the request has no stream token.
    pub fn from_request(service: &Service, call: &Call) -> Result<Self> {
        // The `token` of a signed link is not a stream token.
        let by_signature = call.query("st").is_some() || call.query("exp").is_some();
        let stream_token = call.query("token").filter(|_| !by_signature);
        let signed = || Ok(Self::Signed(Self::link_expiry(service, call.user()?)));
        match call.query("auth") {
            Some("none") => Ok(Self::None),
            Some("token") => stream_token
                .map(|token| Self::Token(token.to_owned()))
                .ok_or_else(|| Error::invalid_field("auth", "can be token only if the request has a stream token")),
            Some("signed") => signed(),
            Some(_) => Err(Error::invalid_field("auth", "must be token, signed or none")),
            None if by_signature => signed(),
            None => Ok(stream_token.map_or(Self::None, |token| Self::Token(token.to_owned()))),
        }
    }

    /// Expiry of signed links: a midnight, so that all playlists of a day are equal, but no later than the credentials of
    /// the request expire. An `exp` in the query counts only as part of a verified signature (`Principal::expires_at`).
    fn link_expiry(service: &Service, user: &Principal) -> i64 {
        let today = service.clock.now().as_second().div_euclid(DAY_SECONDS);
        let midnight = (today + LINK_LIFETIME_DAYS) * DAY_SECONDS;
        user.expires_at.map_or(midnight, |until| until.min(midnight))
    }

    /// The query of a link to `resource`, without a question mark; empty without credentials.
    ///
    /// # Errors
    /// `UNAUTHORIZED` without a signed-in user.
    pub fn query_for(&self, service: &Service, call: &Call, resource: &str) -> Result<String> {
        Ok(match self {
            Self::None => String::new(),
            Self::Token(token) => {
                let token = percent_encoding::utf8_percent_encode(token, crate::http::urls::QUERY_ENCODE_SET);
                format!("token={token}")
            }
            Self::Signed(until) => {
                let SignedParameters { token, exp, sig } = service.accounts.sign_link(call.user()?, resource, *until);
                format!("token={token}&exp={exp}&sig={sig}")
            }
        })
    }

    /// Whether links carry credentials, so that responses with them must not be cached.
    pub fn has_credentials(&self) -> bool {
        *self != Self::None
    }
}

/// Base URL of this server without a trailing slash: as configured, otherwise from the `Host` header.
///
/// # Errors
/// `BAD_REQUEST` for a missing or invalid `Host` header.
pub fn base_url(service: &Service, call: &Call) -> Result<String> {
    if let Some(base) = service.config.base_url() {
        return Ok(base.to_owned());
    }
    let host = call.header(HOST).filter(|host| {
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte))
    });
    host.map(|host| format!("http://{host}")).ok_or_else(|| {
        Error::new(Code::BadRequest, "the Host header must be a host name or address, with an optional port")
    })
}
