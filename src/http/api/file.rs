//! `GET /api/stream/file`: the bytes of a media file (direct play), with `Range` requests.

use std::cell::RefCell;
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderValue, LAST_MODIFIED,
};
use http::{HeaderMap, Method, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::domain::visibility::Visibility;
use crate::engine::source::SourceFile;
use crate::http::api::prelude::*;
use crate::http::byte_range::{mark_partial, requested_range};
use crate::http::conditional::{PreconditionResult, Validators};
use crate::http::server::FileBody;
use crate::service::library::Library;

/// Bodies up to this size are read before the response starts and sent in one write with its headers. Larger ones are
/// sent by the kernel without a copy (at 64 KiB that takes a sixth less CPU time and a third off the 99th percentile).
const MAX_BUFFERED_BYTES: u64 = 32 << 10;

/// The path of the route.
pub const PATH: &str = "/api/stream/file";

/// The bytes of a media file
#[utoipa::path(get, path = "/api/stream/file", params(
    ("path" = String, Query, description = "Absolute path of a media file inside a library root"),
    ("st" = Option<String>, Query, description = "Signed grant for exactly this path, instead of a bearer token"),
    ("Range" = Option<String>, Header, description = "`bytes=first-last`, `bytes=first-` or `bytes=-count`"),
    ("If-Range" = Option<String>, Header, description = "Honour the range only if this ETag or Last-Modified still matches")), responses(
    (status = 200, description = "The whole file", content_type = "*/*", body = [u8]),
    (status = 206, description = "The requested bytes", content_type = "*/*", body = [u8]),
    (status = 304, description = "Not modified"),
    (status = 403, description = "`FORBIDDEN`: the path is outside the library roots"),
    (status = 404, description = "`NOT_FOUND`: no such regular file"),
    (status = 412, description = "`PRECONDITION_FAILED`"),
    (status = 415, description = "`UNSUPPORTED_MEDIA_TYPE`: the file is not media"),
    (status = 416, description = "`RANGE_NOT_SATISFIABLE`, with `Content-Range: bytes */size`"),
    (status = 504, description = "`STORAGE_TIMEOUT`")))]
pub async fn file(service: Arc<Service>, call: Call) -> Result<Response> {
    let request = FileRequest { method: &call.method, headers: &call.headers };
    respond(&service.library, &call.user()?.visibility, call.media_path()?, request).await
}

/// The resource that a signed grant for a media file is for.
pub fn grant_resource(call: &Call) -> Option<String> {
    Some(format!("stream/file:{}", call.media_path().ok()?))
}

/// The response to a request for a file of `library`, from a user who sees a part of it.
pub async fn respond(
    library: &Arc<Library>,
    visibility: &Visibility,
    path: &str,
    request: FileRequest<'_>,
) -> Result<Response> {
    let source = library.open_seen(visibility, path).await?;
    if let Some(response) = answer(library, request, source.clone()).await? {
        return Ok(response);
    }
    // The file shrank between stat and read: retry once.
    library.evict(&source);
    let source = library.open_seen(visibility, path).await?;
    answer(library, request, source)
        .await?
        .ok_or_else(|| Error::new(Code::SourceChanged, "the file changed while it was being read"))
}

/// The parts of a request that decide the response.
#[derive(Clone, Copy)]
pub struct FileRequest<'a> {
    pub method: &'a Method,
    pub headers: &'a HeaderMap,
}

/// The response; None when the file became shorter while it was being read.
pub(super) async fn answer(
    library: &Arc<Library>,
    request: FileRequest<'_>,
    source: Arc<SourceFile>,
) -> Result<Option<Response>> {
    let cached_headers = source.get_or_derive(CachedHeaders::for_source);
    let validators = Validators::new(&cached_headers.etag, source.modified);
    match validators.evaluate(request.headers) {
        PreconditionResult::Proceed => {}
        PreconditionResult::Failed => {
            return Err(Error::new(Code::PreconditionFailed, "precondition failed: the file has changed"));
        }
        PreconditionResult::NotModified => {
            let mut response = Response::default();
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            *response.headers_mut() = cached_headers.headers();
            return Ok(Some(response));
        }
    }
    let range = requested_range(request.method, request.headers, &validators, source.len, "file")?;
    let (offset, len) = range.map_or((0, source.len), |range| (range.first, range.len()));
    let Some(mut response) = body_response(library, request.method, &source, offset, len).await? else {
        return Ok(None);
    };
    let headers = response.headers_mut();
    *headers = cached_headers.headers();
    headers.insert(CONTENT_TYPE, cached_headers.content_type.clone());
    headers.insert(CONTENT_LENGTH, len.into());
    if let Some(disposition) = &cached_headers.disposition {
        headers.insert(CONTENT_DISPOSITION, disposition.clone());
    }
    if let Some(range) = range {
        mark_partial(&mut response, range, source.len);
    }
    Ok(Some(response))
}

/// A response with these bytes and no headers yet.
async fn body_response(
    library: &Arc<Library>,
    method: &Method,
    source: &Arc<SourceFile>,
    offset: u64,
    len: u64,
) -> Result<Option<Response>> {
    if method == Method::HEAD || len == 0 {
        return Ok(Some(Response::default()));
    }
    if len > MAX_BUFFERED_BYTES {
        let mut response = Response::default();
        response.extensions_mut().insert(FileBody::new(library.clone(), source.clone(), offset, len));
        return Ok(Some(response));
    }
    let mut buffer = ThreadBuffer::take();
    let bytes = match source.read_cached(&mut buffer.0[..len as usize], offset) {
        Ok(Some(filled)) => Bytes::from_owner(buffer).slice(..filled),
        _ => library.read(source, offset, len as usize).await?.into(),
    };
    Ok((bytes.len() as u64 == len).then(|| Response::new(bytes.into())))
}

/// A buffer of [`MAX_BUFFERED_BYTES`] from its thread's pool, returned on drop: a fresh buffer would be zeroed each time.
struct ThreadBuffer(Vec<u8>);

/// Largest number of spare buffers per thread.
const MAX_SPARE_BUFFERS: usize = 8;

thread_local! {
    static FREE_BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

impl ThreadBuffer {
    fn take() -> Self {
        Self(FREE_BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_else(|| vec![0; MAX_BUFFERED_BYTES as usize]))
    }
}

impl AsRef<[u8]> for ThreadBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for ThreadBuffer {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.0);
        // The pool is already gone in a thread that is ending.
        let _ = FREE_BUFFERS.try_with(|free| {
            let mut free = free.borrow_mut();
            if free.len() < MAX_SPARE_BUFFERS {
                free.push(buffer);
            }
        });
    }
}

/// Headers common to all responses about one file, formatted once.
struct CachedHeaders {
    etag: String,
    etag_header: Option<HeaderValue>,
    last_modified: Option<(SystemTime, HeaderValue)>,
    content_type: HeaderValue,
    disposition: Option<HeaderValue>,
}

/// Capacity for the headers of a response, including those that the dispatch adds.
const HEADER_CAPACITY: usize = 16;

impl CachedHeaders {
    fn for_source(source: &SourceFile) -> Self {
        let etag = source.etag();
        let is_dated = source.modified >= SystemTime::UNIX_EPOCH;
        let date = is_dated.then(|| HeaderValue::from_str(&httpdate::fmt_http_date(source.modified)).ok()).flatten();
        Self {
            etag_header: HeaderValue::from_str(&etag).ok(),
            etag,
            last_modified: date.map(|date| (source.modified, date)),
            content_type: HeaderValue::from_static(source.mime()),
            disposition: HeaderValue::from_str(&content_disposition(source.file_name())).ok(),
        }
    }

    /// Headers that 200, 206 and 304 must all carry (RFC 9110 section 15.4.5).
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(HEADER_CAPACITY);
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        if let Some(etag) = &self.etag_header {
            headers.insert(ETAG, etag.clone());
        }
        // A date in the future must not be sent (RFC 9110 section 8.8.2.1).
        if let Some((modified, date)) = &self.last_modified
            && *modified <= SystemTime::now()
        {
            headers.insert(LAST_MODIFIED, date.clone());
        }
        headers
    }
}

/// `inline` with the file name as ASCII for old clients and, if that differs, also exactly (RFC 6266, RFC 8187).
fn content_disposition(name: &str) -> String {
    const ATTR_CHAR: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'!')
        .remove(b'#')
        .remove(b'$')
        .remove(b'&')
        .remove(b'+')
        .remove(b'-')
        .remove(b'.')
        .remove(b'^')
        .remove(b'_')
        .remove(b'`')
        .remove(b'|')
        .remove(b'~');
    let ascii: String =
        name.chars().map(|c| if matches!(c, ' '..='~') && !matches!(c, '"' | '\\' | '%') { c } else { '_' }).collect();
    if ascii == name {
        return format!("inline; filename=\"{ascii}\"");
    }
    format!("inline; filename=\"{ascii}\"; filename*=UTF-8''{}", utf8_percent_encode(name, ATTR_CHAR))
}

#[cfg(test)]
mod tests {
    use super::content_disposition;

    #[test]
    fn the_name_is_sent_exactly_and_cannot_break_the_header() {
        assert_eq!(content_disposition("a b.mp4"), "inline; filename=\"a b.mp4\"");
        assert_eq!(
            content_disposition("é\"\r\nx: y%\\;.mp4"),
            "inline; filename=\"____x: y__;.mp4\"; filename*=UTF-8''%C3%A9%22%0D%0Ax%3A%20y%25%5C%3B.mp4"
        );
    }
}
