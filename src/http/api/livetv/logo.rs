//! `GET /api/livetv/logos/{id}`: the generated logo of a channel without a logo of its own.

use crate::http::api::prelude::*;

use http::header::{CACHE_CONTROL, HeaderValue};

/// Generated logo for a channel id
///
/// Logos are fetched without credentials, so they reveal nothing about the channel, not even whether it exists.
#[utoipa::path(get, path = "/api/livetv/logos/{id}", params(("id" = u32, Path, description = "A channel id")), responses(
    (status = 200, description = "A television set in a colour derived from the id", body = String, content_type = "image/svg+xml")))]
pub async fn logo(_: Arc<Service>, call: Call) -> Result<Response> {
    let id: u32 = call.params[0].parse().map_err(|_| Error::new(Code::NotFound, "the channel id must be a number"))?;
    let mut response = reply::bytes("image/svg+xml", render_logo(id).into());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=86400"));
    Ok(response)
}

fn render_logo(id: u32) -> String {
    // The golden angle gives consecutive ids very different hues.
    let hue = (f64::from(id) * 137.507_764).rem_euclid(360.0).round();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 256 256\" width=\"256\" height=\"256\">\
         <rect width=\"256\" height=\"256\" rx=\"40\" fill=\"hsl({hue},55%,34%)\"/>\
         <rect x=\"48\" y=\"64\" width=\"160\" height=\"108\" rx=\"14\" fill=\"none\" stroke=\"#fff\" stroke-width=\"14\"/>\
         <path d=\"M112 96v44l38-22z\" fill=\"#fff\"/><path d=\"M88 204h80\" stroke=\"#fff\" stroke-width=\"14\" \
         stroke-linecap=\"round\"/></svg>"
    )
}
