//! One request as a handler receives it.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use http::header::{CONTENT_TYPE, IF_MATCH};
use http::{HeaderMap, Method};
use serde::de::DeserializeOwned;

use super::server::{RequestBody, RequestInfo};
use crate::domain::access::Principal;
use crate::error::{Code, Error, Result};

/// How long a client may take to send a body.
const BODY_DEADLINE: Duration = Duration::from_secs(10);

/// One request. Handlers take it by value.
pub struct Call {
    pub info: RequestInfo,
    pub method: Method,
    /// Decoded values of the template's `{…}` parts, in order.
    pub params: Vec<String>,
    pub headers: Arc<HeaderMap>,
    /// Present on every route that is not public.
    pub principal: Option<Arc<Principal>>,
    pub(super) query: Vec<(String, String)>,
    pub(super) body: RequestBody,
    pub(super) body_limit: u64,
}

impl Call {
    /// A query parameter; None when absent. A parameter repeated with a different value was rejected before.
    pub fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The `path` parameter of media routes.
    ///
    /// # Errors
    /// `INVALID_PATH` when it is absent.
    pub fn media_path(&self) -> Result<&str> {
        self.query("path").ok_or_else(|| Error::new(Code::InvalidPath, "path is missing"))
    }

    /// The version of a record that `If-Match` requires; None when it is absent or `*`.
    ///
    /// # Errors
    /// `BAD_REQUEST` when it is not a number.
    pub fn if_match_version(&self) -> Result<Option<u64>> {
        let required = self.header(IF_MATCH).map(str::trim).filter(|text| *text != "*");
        let version = required.map(|text| text.trim_matches('"').parse::<u64>()).transpose();
        version.map_err(|_| Error::new(Code::BadRequest, "If-Match must be the version as a quoted number"))
    }

    /// The number of entries that `limit` requests: `default` when absent, at most `max`.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` when it is not an integer of at least 1.
    pub fn limit(&self, default: usize, max: usize) -> Result<usize> {
        match self.query("limit") {
            None => Ok(default),
            Some(text) => match text.parse::<u64>() {
                Ok(limit) if limit > 0 => Ok(usize::try_from(limit).unwrap_or(max).min(max)),
                _ => Err(Error::invalid_field("limit", "must be an integer of at least 1")),
            },
        }
    }

    /// The signed-in user.
    ///
    /// # Errors
    /// `UNAUTHORIZED` on a public route without a token.
    pub fn user(&self) -> Result<&Principal> {
        self.principal.as_deref().ok_or_else(|| Error::new(Code::Unauthorized, "sign in first"))
    }

    pub fn header(&self, name: impl http::header::AsHeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The whole body, within the endpoint's limit.
    ///
    /// # Errors
    /// `PAYLOAD_TOO_LARGE`, `REQUEST_TIMEOUT`, `BAD_REQUEST`.
    pub async fn body(&mut self) -> Result<Bytes> {
        let limit = self.body_limit;
        let read_chunks = async {
            let mut bytes = BytesMut::new();
            while let Some(received) = self.body.next().await {
                let chunk = received.map_err(|_| Error::new(Code::BadRequest, "the body ended early"))?;
                if (bytes.len() + chunk.len()) as u64 > limit {
                    return Err(RequestBody::too_large(limit));
                }
                bytes.extend_from_slice(&chunk);
            }
            Ok(bytes.freeze())
        };
        tokio::time::timeout(BODY_DEADLINE, read_chunks)
            .await
            .unwrap_or_else(|_| Err(Error::new(Code::RequestTimeout, "the body did not arrive within 10 s")))
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// Those of [`Self::body`]; `UNSUPPORTED_MEDIA_TYPE` when it is declared as something else; `BAD_REQUEST` for
    /// malformed JSON; `VALIDATION_ERROR` naming the field that has the wrong type.
    pub async fn json<T: DeserializeOwned>(&mut self) -> Result<T> {
        if let Some(content_type) = self.header(CONTENT_TYPE) {
            let media_type = content_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
            if media_type != "application/json" && media_type != "text/plain" {
                return Err(Error::new(Code::UnsupportedMediaType, "the body must be application/json"));
            }
        }
        let body = self.body().await?;
        self.parse(&body)
    }

    /// Parses a body that was read before, as JSON.
    ///
    /// # Errors
    /// `BAD_REQUEST`, `VALIDATION_ERROR` as in [`Self::json`].
    pub fn parse<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T> {
        // serde would accept a JSON array as the fields in order; no client means that.
        if body.trim_ascii_start().first() != Some(&b'{') {
            return Err(match serde_json::from_slice::<serde::de::IgnoredAny>(body) {
                Ok(_) => Error::invalid_field("body", "must be an object"),
                Err(fault) => Error::new(Code::BadRequest, format!("malformed JSON: {fault}")),
            });
        }
        let mut deserializer = serde_json::Deserializer::from_slice(body);
        let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|fault| json_error(&fault))?;
        deserializer.end().map_err(|fault| Error::new(Code::BadRequest, format!("malformed JSON: {fault}")))?;
        Ok(value)
    }
}

/// Separates field name and message in the text of a serde error that names its own field.
pub const FIELD_SEPARATOR: char = '\u{1f}';

/// The error response for a JSON body: its syntax, or one of its fields.
fn json_error(error: &serde_path_to_error::Error<serde_json::Error>) -> Error {
    let (path, inner) = (error.path().to_string(), error.inner());
    if inner.classify() != serde_json::error::Category::Data {
        return Error::new(Code::BadRequest, format!("malformed JSON: {inner}"));
    }
    // Line and column help only someone who wrote the JSON by hand.
    let text = inner.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(fault, _)| fault);
    let missing = text.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
    if let Some((path, text)) = text.split_once(FIELD_SEPARATOR) {
        return Error::invalid_field(path, text);
    }
    match (path.as_str(), missing) {
        (".", Some(name)) => Error::invalid_field(name, "is missing"),
        (path, Some(name)) => Error::invalid_field(&format!("{path}.{name}"), "is missing"),
        (".", None) => Error::invalid_field("body", text),
        (path, None) => Error::invalid_field(path, text),
    }
}
