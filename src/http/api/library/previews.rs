//! Seek previews of films: sheets of images, and the WebVTT file of their places.

use percent_encoding::utf8_percent_encode;

use super::artwork::{respond, seen_paths};
use crate::http::api::prelude::*;
use crate::http::urls::QUERY_ENCODE_SET;
use crate::service::artwork::PREVIEWS_VERSION;
use crate::service::catalogue::parse_item_id;

/// The places of seek previews
///
/// A WebVTT file: each cue has the time of an image, and as its text the address of a sheet with a rectangle
/// (`previews/0?v=1&st=…#xywh=240,0,240,136`), relative to this file. Its own address is `previewsUrl` in media info.
#[utoipa::path(get, path = "/api/library/items/{id}/artwork/previews.vtt", params(
    ("id" = String, Path, description = "Id of an item")), responses(
    (status = 200, description = "WebVTT", content_type = "text/vtt", body = String),
    (status = 304, description = "Not modified"),
    (status = 404, description = "`NOT_FOUND`: there is no such item, or it has no video")))]
pub async fn index(service: Arc<Service>, call: Call) -> Result<Response> {
    let layout = service.preview_layout(&seen_paths(&service, &call)?, parse_item_id(&call.params[0])?).await?;
    let grant = call
        .query("st")
        .map(|grant| format!("&st={}", utf8_percent_encode(grant, QUERY_ENCODE_SET)))
        .unwrap_or_default();
    let text = layout.render_webvtt(|sheet| format!("previews/{sheet}?v={PREVIEWS_VERSION}{grant}"));
    respond(&call, "text/vtt; charset=utf-8", text, false)
}

/// A sheet of seek previews
///
/// A JPEG of 6 by 6 images, or of 10 by 10 of small video, made when it is first requested. Where each image is, the WebVTT file says.
#[utoipa::path(get, path = "/api/library/items/{id}/artwork/previews/{sheet}", params(
    ("id" = String, Path, description = "Id of an item"),
    ("sheet" = u32, Path, description = "From 0"),
    ("v" = Option<String>, Query, description = "The version: with the current one the sheet is immutable")), responses(
    (status = 200, description = "The sheet", content_type = "image/jpeg", body = [u8]),
    (status = 304, description = "Not modified"),
    (status = 404, description = "`NOT_FOUND`: there is no such item or sheet, or its video cannot be decoded"),
    (status = 503, description = "`SERVER_BUSY`: try again")))]
pub async fn sheet(service: Arc<Service>, call: Call) -> Result<Response> {
    let id = parse_item_id(&call.params[0])?;
    let sheet = call.params[1].parse().map_err(|_| Error::new(Code::NotFound, "there are no such previews"))?;
    let image = service.preview_sheet(&seen_paths(&service, &call)?, id, sheet).await?;
    let is_current = call.query("v").is_some_and(|version| version == PREVIEWS_VERSION.to_string());
    respond(&call, "image/jpeg", image, is_current)
}
