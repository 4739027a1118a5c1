//! The closed list of error codes, and the error type that becomes an error response.

use std::fmt;

use serde_json::Value;

macro_rules! codes {
    ($($name:ident $status:literal $text:literal),+ $(,)?) => {
        /// All error codes of responses, each with its HTTP status.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code { $(#[doc = $text] $name),+ }

        impl Code {
            /// All codes, by HTTP status.
            pub const ALL: &[Code] = &[$(Code::$name),+];

            /// The code as sent in responses.
            pub const fn as_str(self) -> &'static str {
                match self { $(Code::$name => $text),+ }
            }

            /// The HTTP status of this code.
            pub const fn status(self) -> u16 {
                match self { $(Code::$name => $status),+ }
            }
        }
    };
}

codes! {
    BadRequest 400 "BAD_REQUEST",
    ValidationError 400 "VALIDATION_ERROR",
    InvalidPath 400 "INVALID_PATH",
    Unauthorized 401 "UNAUTHORIZED",
    TokenExpired 401 "TOKEN_EXPIRED",
    InvalidCredentials 401 "INVALID_CREDENTIALS",
    Forbidden 403 "FORBIDDEN",
    SignatureInvalid 403 "SIGNATURE_INVALID",
    SignatureExpired 403 "SIGNATURE_EXPIRED",
    RightsWithdrawn 403 "RIGHTS_WITHDRAWN",
    NotFound 404 "NOT_FOUND",
    SessionNotFound 404 "SESSION_NOT_FOUND",
    AssetNotFound 404 "ASSET_NOT_FOUND",
    ChannelNotFound 404 "CHANNEL_NOT_FOUND",
    MethodNotAllowed 405 "METHOD_NOT_ALLOWED",
    RequestTimeout 408 "REQUEST_TIMEOUT",
    Conflict 409 "CONFLICT",
    SessionEnded 410 "SESSION_ENDED",
    PreconditionFailed 412 "PRECONDITION_FAILED",
    PayloadTooLarge 413 "PAYLOAD_TOO_LARGE",
    UriTooLong 414 "URI_TOO_LONG",
    UnsupportedMediaType 415 "UNSUPPORTED_MEDIA_TYPE",
    RangeNotSatisfiable 416 "RANGE_NOT_SATISFIABLE",
    UnplayableMedia 422 "UNPLAYABLE_MEDIA",
    RightsBasisRequired 422 "RIGHTS_BASIS_REQUIRED",
    RateLimited 429 "RATE_LIMITED",
    TooManySessions 429 "TOO_MANY_SESSIONS",
    HeadersTooLarge 431 "HEADERS_TOO_LARGE",
    Internal 500 "INTERNAL",
    DecodeFailed 500 "DECODE_FAILED",
    EncoderFailed 500 "ENCODER_FAILED",
    SourceReadFailed 500 "SOURCE_READ_FAILED",
    SourceChanged 500 "SOURCE_CHANGED",
    TranscoderBusy 503 "TRANSCODER_BUSY",
    TranscoderUnavailable 503 "TRANSCODER_UNAVAILABLE",
    ChannelUnavailable 503 "CHANNEL_UNAVAILABLE",
    ServerBusy 503 "SERVER_BUSY",
    ProbeTimedOut 503 "PROBE_TIMED_OUT",
    SegmentTimeout 504 "SEGMENT_TIMEOUT",
    StorageTimeout 504 "STORAGE_TIMEOUT",
    StorageFull 507 "STORAGE_FULL",
}

/// An error response: the part sent to the client, and the cause that goes only to the log.
#[derive(Clone, Debug)]
pub struct Error {
    pub code: Code,
    /// For the client: lower case, specific, no full stop.
    pub message: String,
    pub details: Option<Value>,
    /// Seconds, sent as `Retry-After`.
    pub retry_after: Option<u32>,
    /// Further response headers (`Allow`, `Content-Range`, `WWW-Authenticate`).
    pub headers: Vec<(&'static str, String)>,
    /// The full cause, for the log. Never sent.
    pub cause: Option<String>,
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: None, retry_after: None, headers: Vec::new(), cause: None }
    }

    /// A server fault: the cause goes to the log and is not sent to the client.
    pub fn internal(cause: impl fmt::Display) -> Self {
        Self { cause: Some(cause.to_string()), ..Self::new(Code::Internal, "internal error") }
    }

    /// A well-formed request with one invalid field.
    pub fn invalid_field(field: &str, message: impl fmt::Display) -> Self {
        Self::new(Code::ValidationError, format!("{field}: {message}"))
            .with_details(serde_json::json!({"fields": [{"field": field, "message": message.to_string()}]}))
    }

    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    pub fn with_retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    pub fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub fn with_cause(mut self, cause: impl fmt::Display) -> Self {
        self.cause = Some(cause.to_string());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.message)?;
        match &self.cause {
            Some(cause) => write!(f, " ({cause})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}
