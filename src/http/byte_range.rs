//! Range requests: the byte range that a response has, and its headers (RFC 9110 section 14).

use http::header::{CONTENT_RANGE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use warp::reply::Response;

use super::conditional::Validators;
use crate::domain::range::{ByteRange, ResolvedRange, resolve_range};
use crate::error::{Code, Error, Result};

/// The requested range of a representation of `len` bytes; None for all bytes. `noun` names it in the error.
///
/// # Errors
/// `RANGE_NOT_SATISFIABLE`, with the headers of a 416.
pub fn requested_range(
    method: &Method,
    headers: &HeaderMap,
    validators: &Validators,
    len: u64,
    noun: &str,
) -> Result<Option<ByteRange>> {
    // `Range` is defined only for GET (section 14.2).
    let range = validators.applicable_range(headers).filter(|_| *method == Method::GET);
    match range.map_or(ResolvedRange::Whole, |range| resolve_range(range, len)) {
        ResolvedRange::Whole => Ok(None),
        ResolvedRange::Part(range) => Ok(Some(range)),
        ResolvedRange::Unsatisfiable => {
            Err(Error::new(Code::RangeNotSatisfiable, format!("the range is outside the {noun}'s {len} bytes"))
                .with_header("content-range", format!("bytes */{len}"))
                .with_header("accept-ranges", "bytes"))
        }
    }
}

/// Makes a response whose body is this range of `len` bytes a 206.
pub fn mark_partial(response: &mut Response, range: ByteRange, len: u64) {
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    response.headers_mut().insert(CONTENT_RANGE, content_range(range, len));
}

/// `bytes first-last/length`, formatted on the stack because every seek of a player needs one.
fn content_range(range: ByteRange, len: u64) -> HeaderValue {
    // Three numbers of 20 digits at most.
    let (mut buffer, mut end) = ([0; 72], 0);
    let mut formatter = itoa::Buffer::new();
    for (separator, value) in [("bytes ", range.first), ("-", range.last), ("/", len)] {
        for part in [separator, formatter.format(value)] {
            buffer[end..end + part.len()].copy_from_slice(part.as_bytes());
            end += part.len();
        }
    }
    HeaderValue::from_bytes(&buffer[..end]).expect("digits and spaces are visible ASCII")
}
