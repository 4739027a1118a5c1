//! `GET /api/livetv/logos/{id}` and `/icons/{id}/{start}`: logos of channels and icons of programmes, generated or of other servers.

use std::sync::OnceLock;

use bytes::Bytes;
use http::StatusCode;
use http::header::{ACCEPT, CACHE_CONTROL, HeaderValue, LOCATION, VARY};

use crate::domain::channel_logo::{HUES, PNG_SIZES, hue_of, to_png, to_svg};
use crate::domain::lineup::{image_version, remote_logo};
use crate::http::api::prelude::*;

/// The PNGs of all hues, each drawn once: some 4 MB at most.
static PNGS: [[OnceLock<Bytes>; HUES as usize]; PNG_SIZES.len()] =
    [const { [const { OnceLock::new() }; HUES as usize] }; PNG_SIZES.len()];

/// Logo for a channel id
///
/// Logos are fetched without credentials. Those that this server generates reveal nothing about the channel, not even whether it
/// exists; one of another server is shown at its address in the channel only (`v`). A client whose `Accept` names `image/svg+xml`, as
/// that of browsers does, gets a generated logo as SVG; others get PNG, because televisions draw no SVG.
#[utoipa::path(get, path = "/api/livetv/logos/{id}", params(
    ("id" = u32, Path, description = "A channel id"),
    ("v" = Option<String>, Query, description = "Names the channel's logo on another server, which is fetched, checked and shown as PNG"),
    ("size" = Option<u32>, Query, description = "128 or 512: a PNG of this size in any case, at most of this width for one of another server")), responses(
    (status = 200, description = "The logo, or a television set in a colour derived from the id, as `image/svg+xml` or `image/png`", body = [u8], content_type = "image/*"),
    (status = 302, description = "Where the logo is, if this server cannot fetch it, or it is no PNG, JPEG, WebP or SVG"),
    (status = 400, description = "`VALIDATION_ERROR`: another size")))]
pub async fn logo(service: Arc<Service>, call: Call) -> Result<Response> {
    let id: u32 = call.params[0].parse().map_err(|_| Error::new(Code::NotFound, "the channel id must be a number"))?;
    let channel = call.query("v").and_then(|_| service.channels.get(id).ok());
    if let Some(url) = channel.as_deref().and_then(remote_logo).filter(|url| is_named(&call, url)) {
        let size = parse_size(&call)?;
        return remote_image(&service, size, &url).await;
    }
    let accepts_svg = call.header(ACCEPT).is_some_and(|value| value.contains("image/svg+xml"));
    let mut response = match parse_size(&call)? {
        None if accepts_svg => reply::bytes("image/svg+xml", to_svg(hue_of(id)).into()),
        size => reply::bytes("image/png", png(hue_of(id), size.unwrap_or(PNG_SIZES.len() - 1))),
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=86400"));
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    Ok(response)
}

/// Icon of a programme of an imported guide
///
/// The addresses are in the guide, and are fetched without credentials.
#[utoipa::path(get, path = "/api/livetv/icons/{id}/{start}", params(
    ("id" = u32, Path, description = "A channel id"),
    ("start" = i64, Path, description = "Start of the programme, unix seconds"),
    ("v" = String, Query, description = "Names the icon"),
    ("size" = Option<u32>, Query, description = "128 or 512 (default): the largest width")), responses(
    (status = 200, description = "The icon, fetched from its server and checked", body = [u8], content_type = "image/png"),
    (status = 302, description = "Where the icon is, if this server cannot fetch it, or it is no PNG, JPEG, WebP or SVG"),
    (status = 400, description = "`VALIDATION_ERROR`: another size"),
    (status = 404, description = "`NOT_FOUND`: there is no such icon now")))]
pub async fn icon(service: Arc<Service>, call: Call) -> Result<Response> {
    let missing = || Error::new(Code::NotFound, "there is no such icon");
    let id: u32 = call.params[0].parse().map_err(|_| missing())?;
    let start: i64 = call.params[1].parse().map_err(|_| missing())?;
    let channel = service.channels.get(id).map_err(|_| missing())?;
    let listings = channel.listings.as_deref().map(|listings| &*listings.all).unwrap_or_default();
    let at = listings.partition_point(|listing| listing.start_ms.div_euclid(1000) < start);
    let listing = listings.get(at).filter(|listing| listing.start_ms.div_euclid(1000) == start);
    let url = listing.and_then(|listing| listing.icon_url.as_deref()).filter(|url| is_named(&call, url));
    let (size, url) = (parse_size(&call)?, url.ok_or_else(missing)?);
    remote_image(&service, size, url).await
}

/// Whether a request names the image at this address.
fn is_named(call: &Call, url: &str) -> bool {
    call.query("v").is_some_and(|version| version == image_version(url))
}

/// An image of another server; its own address if it cannot be shown here.
async fn remote_image(service: &Service, size: Option<usize>, url: &str) -> Result<Response> {
    let width = PNG_SIZES[size.unwrap_or(PNG_SIZES.len() - 1)];
    let image = service.load_remote_image(url, width).await?;
    let mut response = match image {
        Some(png) => reply::bytes("image/png", png),
        None => {
            let mut response = reply::empty();
            *response.status_mut() = StatusCode::FOUND;
            response.headers_mut().insert(LOCATION, HeaderValue::from_str(url).map_err(Error::internal)?);
            response
        }
    };
    let cache_control = if response.status().is_success() { "public, max-age=86400" } else { "public, max-age=600" };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(cache_control));
    Ok(response)
}

fn png(hue: u32, size: usize) -> Bytes {
    let drawn = PNGS[size][hue as usize].get_or_init(|| to_png(hue, PNG_SIZES[size]).into());
    drawn.clone()
}

/// Which of the sizes is requested.
fn parse_size(call: &Call) -> Result<Option<usize>> {
    let size = call.query("size").map(|text| {
        let size = PNG_SIZES.iter().position(|size| text == size.to_string());
        size.ok_or_else(|| Error::invalid_field("size", "must be 128 or 512"))
    });
    size.transpose()
}
