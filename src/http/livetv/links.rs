//! Addresses put into what players fetch: where this server is reached, and what lets them in.

use http::header::HOST;

use crate::domain::access::Principal;
use crate::domain::signing::{Link, MAX_LIFE_SECONDS};
use crate::error::{Code, Error, Result};
use crate::http::call::Call;
use crate::service::Service;

/// Life of the signed addresses in a list, whole days: the longest that is signed at all.
const LINK_DAYS: i64 = MAX_LIFE_SECONDS / DAY_SECONDS;

const DAY_SECONDS: i64 = 24 * 3600;

/// What addresses carry so that a player without a sign-in may use them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pass {
    None,
    /// A stream token, as it came.
    Token(String),
    /// Each address is signed, until so many unix seconds.
    Signed(i64),
}

impl Pass {
    /// What was asked for, or else what the request came with itself.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` for a kind there is none of, or a token that nobody gave.
    pub fn read(service: &Service, call: &Call) -> Result<Self> {
        // Of a signed address `token` is no stream token.
        let by_signature = call.query("st")?.is_some() || call.query("exp")?.is_some();
        let given = call.query("token")?.filter(|_| !by_signature);
        let signed = || Ok(Self::Signed(Self::until(service, call.user()?)));
        match call.query("auth")? {
            Some("none") => Ok(Self::None),
            Some("token") => given
                .map(|token| Self::Token(token.to_owned()))
                .ok_or_else(|| Error::field("auth", "can be token only where a stream token came along")),
            Some("signed") => signed(),
            Some(_) => Err(Error::field("auth", "must be token, signed or none")),
            None if by_signature => signed(),
            None => Ok(given.map_or(Self::None, |token| Self::Token(token.to_owned()))),
        }
    }

    /// To a midnight, so that all lists of a day are alike, but no longer than what let the request in. An `exp` of the
    /// query counts only as part of a signature that was verified: `Principal::until`.
    fn until(service: &Service, user: &Principal) -> i64 {
        let day = service.clock.now().as_second().div_euclid(DAY_SECONDS);
        let midnight = (day + LINK_DAYS) * DAY_SECONDS;
        user.until.map_or(midnight, |until| until.min(midnight))
    }

    /// The query of an address of `resource`, without a question mark; empty when it needs none.
    ///
    /// # Errors
    /// `UNAUTHORIZED` when nobody asks.
    pub fn query(&self, service: &Service, call: &Call, resource: &str) -> Result<String> {
        Ok(match self {
            Self::None => String::new(),
            Self::Token(token) => {
                let token = percent_encoding::utf8_percent_encode(token, crate::http::info::QUERY);
                format!("token={token}")
            }
            Self::Signed(until) => {
                let Link { token, exp, sig } = service.accounts.sign_link(call.user()?, resource, *until);
                format!("token={token}&exp={exp}&sig={sig}")
            }
        })
    }

    /// Whether what carries it must be kept by nobody.
    pub fn is_secret(&self) -> bool {
        *self != Self::None
    }
}

/// Where this server is reached, without a slash at its end: as configured, or as the client did.
///
/// # Errors
/// `BAD_REQUEST` for a Host header that is none.
pub fn base(service: &Service, call: &Call) -> Result<String> {
    if let Some(base) = service.config.base_url() {
        return Ok(base.to_owned());
    }
    let host = call.header(HOST).filter(|host| {
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte))
    });
    host.map(|host| format!("http://{host}"))
        .ok_or_else(|| Error::new(Code::BadRequest, "the Host header is no address"))
}
