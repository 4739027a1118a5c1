//! Checks HTTP responses.

use std::time::{Duration, Instant};

use reqwest::header::RETRY_AFTER;
use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::Value;

use super::wait::MAX_WAIT;

/// Pause between two requests.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Sends a request, again as long as the server has no time for it (`PROBE_TIMED_OUT`, `SERVER_BUSY`) or prepares a stream (202, or
/// 200 with `Retry-After`), as clients do.
///
/// # Panics
/// If its body is a stream, or there is no answer.
pub async fn send_until_ready(request: RequestBuilder) -> Response {
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        let answer = request.try_clone().expect("the body can be sent again").send().await.expect("an answer");
        let status = answer.status();
        let is_retryable = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::ACCEPTED].contains(&status);
        // A playlist that is prepared is not an error.
        if !is_retryable && !answer.headers().contains_key(RETRY_AFTER) {
            return answer;
        }
        let headers = answer.headers().clone();
        let body = answer.bytes().await.expect("a body");
        let text = String::from_utf8_lossy(&body);
        let is_busy = ["PROBE_TIMED_OUT", "SERVER_BUSY", "\"preparing\""].iter().any(|word| text.contains(word));
        if !is_busy || Instant::now() > deadline {
            let mut answer = http::Response::builder().status(status).body(body).expect("valid");
            *answer.headers_mut() = headers;
            return answer.into();
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

/// The body of a success.
pub async fn expect_success(answer: Response, status: u16) -> Value {
    let (found_status, text) = (answer.status().as_u16(), answer.text().await.expect("a body"));
    assert_eq!(found_status, status, "{text}");
    serde_json::from_str(&text).unwrap_or_else(|fault| panic!("{fault} in {text:?}"))
}

/// Checks the whole shape of an error and the headers of every response; returns its body.
pub async fn expect_error(answer: Response, status: u16, code: &str) -> Value {
    let (found_status, headers) = (answer.status().as_u16(), answer.headers().clone());
    let text = answer.text().await.expect("a body");
    assert_eq!(found_status, status, "{text}");
    let body: Value = serde_json::from_str(&text).unwrap_or_else(|fault| panic!("{fault} in {text:?}"));
    assert_eq!(body["code"], code, "{text}");
    let message = body["error"].as_str().expect("an error has a message");
    assert!(!message.is_empty() && !message.ends_with('.'), "{message}");
    assert_eq!(body["requestId"], headers["x-request-id"].to_str().unwrap(), "{text}");
    assert_eq!(headers["x-api-version"], "1");
    assert_eq!(headers["content-type"], "application/json");
    assert_eq!(headers["cache-control"], "no-store");
    for name in body.as_object().expect("an object").keys() {
        assert!(["error", "code", "details", "requestId"].contains(&name.as_str()), "{name} in {text}");
    }
    if status == 401 && code != "INVALID_CREDENTIALS" {
        assert!(headers["www-authenticate"].to_str().unwrap().starts_with("Bearer"));
    }
    body
}
