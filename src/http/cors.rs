//! CORS: which other web origins may call this server (Fetch standard, section 3.3).

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, HeaderValue,
    ORIGIN, VARY,
};

/// Request headers a page may send in addition to those that are always allowed.
const ALLOWED_HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, if-match, if-modified-since, if-none-match, if-range, last-event-id, prefer, range",
);

/// Response headers a page may read in addition to those that are always readable.
const EXPOSED_HEADERS: HeaderValue = HeaderValue::from_static(
    "accept-ranges, content-disposition, content-length, content-range, etag, last-modified, location, retry-after, \
     x-api-version, x-request-id",
);

/// How long a browser may cache a preflight, seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// The configured origins. Tokens travel in a header that a page must set itself, so credentials are never allowed.
#[derive(Clone, Copy, Debug)]
pub struct Cors<'a> {
    origins: &'a [String],
}

impl<'a> Cors<'a> {
    pub fn new(origins: &'a [String]) -> Self {
        Self { origins }
    }

    /// The request's origin, if it is an allowed one.
    pub fn allowed_origin(self, request: &HeaderMap) -> Option<HeaderValue> {
        let origin = request.get(ORIGIN)?;
        self.origins.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes()).then(|| origin.clone())
    }

    pub fn add_headers(self, origin: Option<HeaderValue>, response: &mut HeaderMap) {
        if self.origins.is_empty() || response.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN) {
            return;
        }
        response.append(VARY, HeaderValue::from_static("origin"));
        if let Some(origin) = origin {
            response.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            response.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
        }
    }

    /// Lets pages of any origin read a response that a shared cache keeps: `Vary: Origin` would be a copy for each origin. Only
    /// for responses whose URL is the credential. Without configured origins it has no effect.
    pub fn allow_any_origin(self, response: &mut HeaderMap) {
        if !self.origins.is_empty() {
            response.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
            response.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
        }
    }

    /// Adds the headers that answer a preflight: the methods and headers allowed for this path.
    pub fn add_preflight_headers(self, request: &HeaderMap, methods: &HeaderValue, response: &mut HeaderMap) {
        if self.allowed_origin(request).is_some() && request.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
            response.insert(ACCESS_CONTROL_ALLOW_METHODS, methods.clone());
            response.insert(ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS);
            response.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        }
    }
}
