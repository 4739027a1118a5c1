//! Addresses put into what players fetch: where this server is reached, and what lets them in.

use http::header::HOST;

use crate::domain::signing::Link;
use crate::error::{Code, Error, Result};
use crate::http::call::Call;
use crate::service::Service;

/// The longest a signed address may live, whole days.
const MOST_DAYS: i64 = 7;

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
        let (token, exp) = (call.query("token")?, call.query("exp")?);
        let given = token.filter(|_| exp.is_none());
        match call.query("auth")? {
            Some("none") => Ok(Self::None),
            Some("token") => given
                .map(|token| Self::Token(token.to_owned()))
                .ok_or_else(|| Error::field("auth", "can be token only where a stream token came along")),
            Some("signed") => Ok(Self::Signed(Self::until(service, exp))),
            Some(_) => Err(Error::field("auth", "must be token, signed or none")),
            None => Ok(match (given, exp) {
                (Some(token), _) => Self::Token(token.to_owned()),
                (None, Some(_)) => Self::Signed(Self::until(service, exp)),
                (None, None) => Self::None,
            }),
        }
    }

    /// As long as the address it came by, or to a midnight, so that all of a day are alike.
    fn until(service: &Service, exp: Option<&str>) -> i64 {
        let day = service.clock.now().as_second().div_euclid(DAY_SECONDS);
        exp.and_then(|exp| exp.parse().ok()).unwrap_or((day + MOST_DAYS) * DAY_SECONDS)
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
    if let Some(base) = &service.config.public_base_url {
        return Ok(base.trim_end_matches('/').to_owned());
    }
    let host = call.header(HOST).filter(|host| {
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte))
    });
    host.map(|host| format!("http://{host}"))
        .ok_or_else(|| Error::new(Code::BadRequest, "the Host header is no address"))
}
