//! One request as a handler sees it.

use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method};
use serde::de::DeserializeOwned;

use crate::domain::access::Principal;
use crate::error::{Code, Error, Result};

/// How long a client may take to send a body.
const BODY_DEADLINE: Duration = Duration::from_secs(10);

/// What the accept loop knows of a request; it rides in the request's extensions.
#[derive(Clone, Debug)]
pub struct Context {
    pub request_id: Arc<str>,
    pub remote: IpAddr,
}

impl Default for Context {
    fn default() -> Self {
        Self { request_id: "-".into(), remote: IpAddr::V4(Ipv4Addr::LOCALHOST) }
    }
}

pub(super) type BodyStream = Pin<Box<dyn Stream<Item = Result<Bytes, warp::Error>> + Send>>;

/// One request. Handlers take it by value.
pub struct Call {
    pub context: Context,
    pub method: Method,
    /// The raw path.
    pub path: String,
    /// Decoded values of the template's `{…}` parts, in order.
    pub params: Vec<String>,
    pub headers: HeaderMap,
    /// Present on every route but public ones.
    pub principal: Option<Principal>,
    pub(super) query: Vec<(String, String)>,
    pub(super) body: BodyStream,
    pub(super) body_limit: u64,
}

impl Call {
    /// A query parameter; None when absent.
    ///
    /// # Errors
    /// `BAD_REQUEST` when it is given twice.
    pub fn query(&self, name: &str) -> Result<Option<&str>> {
        let mut values = self.query.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let first = values.next();
        match values.next() {
            Some(_) => Err(Error::new(Code::BadRequest, format!("{name} is given twice"))),
            None => Ok(first),
        }
    }

    /// The `path` parameter of media routes.
    ///
    /// # Errors
    /// `INVALID_PATH` when it is absent.
    pub fn media_path(&self) -> Result<&str> {
        self.query("path")?.ok_or_else(|| Error::new(Code::InvalidPath, "path is missing"))
    }

    /// The signed-in user.
    ///
    /// # Errors
    /// `UNAUTHORIZED` on a public route without a token.
    pub fn user(&self) -> Result<&Principal> {
        self.principal.as_ref().ok_or_else(|| Error::new(Code::Unauthorized, "sign in first"))
    }

    /// A header as text.
    pub fn header(&self, name: impl http::header::AsHeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The whole body, within the endpoint's limit.
    ///
    /// # Errors
    /// `PAYLOAD_TOO_LARGE`, `REQUEST_TIMEOUT`, `BAD_REQUEST`.
    pub async fn body(&mut self) -> Result<Bytes> {
        let limit = self.body_limit;
        let read = async {
            let mut whole = BytesMut::new();
            while let Some(piece) = self.body.next().await {
                let mut piece = piece.map_err(|_| Error::new(Code::BadRequest, "the body ended early"))?;
                if (whole.len() + piece.remaining()) as u64 > limit {
                    return Err(Error::new(Code::PayloadTooLarge, format!("the body is larger than {limit} bytes")));
                }
                while piece.has_remaining() {
                    let chunk = piece.chunk();
                    let n = chunk.len();
                    whole.put_slice(chunk);
                    piece.advance(n);
                }
            }
            Ok(whole.freeze())
        };
        tokio::time::timeout(BODY_DEADLINE, read)
            .await
            .unwrap_or_else(|_| Err(Error::new(Code::RequestTimeout, "the body did not arrive within 10 s")))
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// Those of [`Self::body`]; `UNSUPPORTED_MEDIA_TYPE` when it is declared as something else; `BAD_REQUEST` for
    /// malformed JSON; `VALIDATION_ERROR` naming the field that has the wrong type.
    pub async fn json<T: DeserializeOwned>(&mut self) -> Result<T> {
        if let Some(kind) = self.header(CONTENT_TYPE) {
            let essence = kind.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
            if essence != "application/json" && essence != "text/plain" {
                return Err(Error::new(Code::UnsupportedMediaType, "the body must be application/json"));
            }
        }
        let body = self.body().await?;
        let mut reader = serde_json::Deserializer::from_slice(&body);
        let value = serde_path_to_error::deserialize(&mut reader).map_err(|fault| {
            let path = fault.path().to_string();
            let inner = fault.into_inner();
            match inner.classify() {
                serde_json::error::Category::Data => Error::field(&path, inner),
                _ => Error::new(Code::BadRequest, format!("malformed JSON: {inner}")),
            }
        })?;
        reader.end().map_err(|fault| Error::new(Code::BadRequest, format!("malformed JSON: {fault}")))?;
        Ok(value)
    }
}
