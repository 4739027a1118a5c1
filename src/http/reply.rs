//! Builders of responses: JSON, bytes, errors.

use bytes::Bytes;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, REFERRER_POLICY, RETRY_AFTER};
use serde::Serialize;
use serde_json::json;
use warp::reply::Response;

use super::server::RequestInfo;
use crate::error::{Code, Error, Result};

/// A 200 with a JSON body that is never cached.
pub fn json(body: &impl Serialize) -> Response {
    json_with(StatusCode::OK, body)
}

/// A JSON body with the given status, never cached.
pub fn json_with(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(text) => {
            let mut response = bytes("application/json", text.into());
            *response.status_mut() = status;
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        Err(cause) => error(Error::internal(cause), &RequestInfo::default()),
    }
}

/// A 201 with a JSON body, and the URL of the new resource if there is one.
///
/// # Errors
/// `INTERNAL` if the URL is not valid in a header.
pub fn created(body: &impl Serialize, location: Option<String>) -> Result<Response> {
    let mut response = json_with(StatusCode::CREATED, body);
    if let Some(location) = location {
        response.headers_mut().insert(LOCATION, HeaderValue::try_from(location).map_err(Error::internal)?);
    }
    Ok(response)
}

/// A 200 with these bytes as its body.
pub fn bytes(content_type: &'static str, body: Bytes) -> Response {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A 204.
pub fn empty() -> Response {
    let mut response = Response::new(Bytes::new().into());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// A 304.
pub fn not_modified() -> Response {
    let mut response = empty();
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    response
}

/// Marks a response that contains a token or a signed URL: it is not cached, and its links send no referrer.
pub fn secretive(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// The response for an error: `{error, code, details?, requestId}`.
pub fn error(error: Error, info: &RequestInfo) -> Response {
    if error.code == Code::Internal {
        tracing::error!(request.id = info.request_id.as_str(), cause = error.cause.as_deref(), "request failed");
    } else if let Some(cause) = &error.cause {
        tracing::info!(request.id = info.request_id.as_str(), code = error.code.as_str(), cause, "request refused");
    }
    let mut body = json!({"error": error.message, "code": error.code.as_str(), "requestId": info.request_id.as_str()});
    if let Some(details) = error.details {
        body["details"] = details;
    }
    let mut response = bytes("application/json", body.to_string().into());
    *response.status_mut() = StatusCode::from_u16(error.code.status()).expect("codes carry valid statuses");
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(seconds) = error.retry_after {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    for (name, value) in error.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    response
}
