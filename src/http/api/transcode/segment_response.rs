//! Responses with a segment of a session. In fMP4 a client may request a byte range of it, as I-frame playlists list them.

use bytes::Bytes;
use http::StatusCode;
use http::header::{ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, ETAG, HeaderMap, HeaderValue};

use crate::domain::segment_format::SegmentFormat;
use crate::engine::content::SegmentContent;
use crate::engine::segment_cache::StoredSegment;
use crate::engine::source::SourceFile;
use crate::http::api::prelude::*;
use crate::http::byte_range::{mark_partial, requested_range};
use crate::http::conditional::{PreconditionResult, Validators};
use crate::http::server::LazySegmentBody;

/// Responds with a segment. Segments never change under their name, so clients may cache them.
pub fn segment_response(content_type: &'static str, bytes: Bytes, etag: &str, headers: &HeaderMap) -> Response {
    let mut response = match (Validators { etag, modified: None }).evaluate(headers) {
        PreconditionResult::NotModified => reply::not_modified(),
        PreconditionResult::Proceed | PreconditionResult::Failed => reply::bytes(content_type, bytes),
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, max-age=3600, immutable"));
    if let Ok(etag) = HeaderValue::from_str(etag) {
        headers.insert(ETAG, etag);
    }
    response
}

/// Responds with a media segment of a session or a channel from this file, which may still have to be packaged, or with a byte range of it. Segments in
/// MPEG-TS are sent whole.
///
/// # Errors
/// `RANGE_NOT_SATISFIABLE`.
pub fn media_segment_response(
    service: &Service,
    source: &Arc<SourceFile>,
    (content_type, format): (&'static str, SegmentFormat),
    stored: StoredSegment,
    call: &Call,
) -> Result<Response> {
    let StoredSegment { content, etag } = stored;
    let (validators, len) = (Validators { etag: &etag, modified: None }, content.size_bytes());
    let has_ranges = format == SegmentFormat::Fmp4;
    let is_range_evaluated = has_ranges && validators.evaluate(&call.headers) != PreconditionResult::NotModified;
    let range = match is_range_evaluated {
        true => requested_range(&call.method, &call.headers, &validators, len, "segment")?,
        false => None,
    };
    let (bytes, reader) = match (content, range) {
        (SegmentContent::InMemory(bytes), None) => (bytes, None),
        (SegmentContent::InMemory(bytes), Some(range)) => {
            (bytes.slice(range.first as usize..=range.last as usize), None)
        }
        (SegmentContent::Lazy(segment), None) => (Bytes::new(), Some(segment.reader(source.clone()))),
        (SegmentContent::Lazy(segment), Some(range)) => {
            let reader = segment.range_reader(source.clone(), range);
            (Bytes::new(), Some(reader.ok_or_else(|| Error::internal("the segment is not CMAF"))?))
        }
    };
    let mut response = segment_response(content_type, bytes, &etag, &call.headers);
    if response.status() == StatusCode::OK {
        if let Some(reader) = reader {
            response.headers_mut().insert(CONTENT_LENGTH, reader.remaining_bytes().into());
            response.extensions_mut().insert(LazySegmentBody::new(service.library.clone(), reader));
        }
        if let Some(range) = range {
            mark_partial(&mut response, range, len);
        }
    }
    if has_ranges {
        response.headers_mut().insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use http::header::IF_NONE_MATCH;

    use super::*;

    #[test]
    fn a_segment_that_the_client_has_is_not_sent_again() {
        let table: [(&[&str], u16); 6] = [
            (&[], 200),
            (&["\"b\""], 200),
            (&["\"b\", \"a\""], 304),
            (&["W/\"a\""], 304),
            (&["\"b\"", "\"a\""], 304),
            (&["*"], 304),
        ];
        for (tags, status) in table {
            let mut headers = HeaderMap::new();
            for tag in tags {
                headers.append(IF_NONE_MATCH, tag.parse().unwrap());
            }
            let response = segment_response("video/mp2t", Bytes::from_static(b"ts"), "\"a\"", &headers);
            assert_eq!(response.status().as_u16(), status, "{tags:?}");
            assert_eq!(response.headers()[ETAG], "\"a\"", "{tags:?}");
        }
    }
}
