//! `GET /api/stream/attachment`: a font attached to a film, for the client that renders its ASS subtitles.

use std::os::unix::fs::FileExt;

use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Method, StatusCode};

use crate::domain::media::font_type;
use crate::engine::probe;
use crate::http::api::prelude::*;
use crate::http::conditional::{PreconditionResult, Validators};
use crate::http::server::FileBody;

/// Largest font that is sent. Fonts with all Chinese characters have 20 MB.
const MAX_FONT_BYTES: u64 = 32 << 20;

#[utoipa::path(get, path = "/api/stream/attachment", params(
    ("path" = String, Query, description = "Absolute path of the media file"),
    ("index" = u32, Query, description = "`index` of one of the media info's `attachments` that has a `url`")), responses(
    (status = 200, description = "The font", content_type = "font/*", body = [u8]),
    (status = 304, description = "Not modified"),
    (status = 404, description = "`NOT_FOUND`: no such file or attachment"),
    (status = 413, description = "`PAYLOAD_TOO_LARGE`: the font is larger than 32 MiB"),
    (status = 415, description = "`UNSUPPORTED_MEDIA_TYPE`: neither the name nor the bytes are those of a font")))]
pub async fn attachment(service: Arc<Service>, call: Call) -> Result<Response> {
    let index = call.query("index").ok_or_else(|| Error::invalid_field("index", "is missing"))?;
    let index: usize = index.parse().map_err(|_| Error::invalid_field("index", "must be a whole number"))?;
    let source = service.library.open_seen(&call.user()?.visibility, call.media_path()?).await?;
    let media = service.media.probe(&source).await?.media;
    let not_found = || Error::new(Code::NotFound, "this file has no such attachment");
    let listed_attachment = media.attachments.get(index).ok_or_else(not_found)?;
    let not_a_font = || Error::new(Code::UnsupportedMediaType, format!("attachment {index} is not a font"));
    if !listed_attachment.is_font() {
        return Err(not_a_font());
    }
    let name = listed_attachment.file_name.clone().ok_or_else(not_found)?;
    let probed_source = source.clone();
    let locate_font = move || {
        let Some((offset, len)) = probe::find_attachment(&probed_source, &name) else { return Ok(None) };
        let mut magic = [0; 4];
        let has_magic = probed_source.file.read_exact_at(&mut magic, offset).is_ok() && len >= 4;
        Ok(Some((offset, len, has_magic.then(|| font_type(magic)).flatten())))
    };
    let (offset, len, detected_type) =
        service.library.run_with_deadline(source.root_index, locate_font).await?.ok_or_else(not_found)?;
    let content_type = detected_type.ok_or_else(not_a_font)?;
    if len > MAX_FONT_BYTES {
        return Err(Error::new(Code::PayloadTooLarge, format!("the font has {len} bytes, more than {MAX_FONT_BYTES}")));
    }
    let etag = format!("\"{}-{offset}\"", source.etag().trim_matches('"'));
    let mut response = Response::default();
    let found = Validators { etag: &etag, modified: None }.evaluate(&call.headers);
    let headers = response.headers_mut();
    headers.insert(ETAG, HeaderValue::from_str(&etag).map_err(Error::internal)?);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if found == PreconditionResult::NotModified {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return Ok(response);
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CONTENT_LENGTH, len.into());
    if call.method != Method::HEAD {
        response.extensions_mut().insert(FileBody::new(service.library.clone(), source, offset, len));
    }
    Ok(response)
}
