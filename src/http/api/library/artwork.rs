//! Artwork of items, series and seasons: its addresses in lists, and the images.

use http::HeaderMap;
use http::header::{ACCEPT, CACHE_CONTROL, ETAG, HeaderValue, VARY};

use crate::domain::access::Principal;
use crate::domain::catalogue::artwork::ArtworkKind;
use crate::domain::visibility::VisiblePaths;
use crate::domain::xmltv::ItemIcons;
use crate::engine::artwork::OutputFormat;
use crate::http::api::prelude::*;
use crate::http::conditional::{PreconditionResult, Validators};
use crate::service::artwork::ImageRequest;
use crate::service::artwork::PREVIEWS_VERSION;
use crate::service::catalogue::{Artwork, ArtworkVersions, ItemId, SeriesId, parse_item_id};

/// One grant is for all artwork, which every user may see. Guides are given to other programs, so an address in them has a grant for its
/// image alone, and [`IMAGE_SCOPE`].
const RESOURCE: &str = "library/artwork";

/// The value of the parameter `scope`.
const IMAGE_SCOPE: &str = "image";

/// The grant in an address is the same for this time, and valid for at least as long, seconds. Browsers cache by address.
const GRANT_PERIOD_SECONDS: i64 = 3 * 86_400;

/// Largest width in a request, pixels.
const MAX_WIDTH: u32 = 1920;

/// Width of icons in a guide, pixels.
const ICON_WIDTH: u32 = 480;

/// Largest season in a request.
const MAX_SEASON: u32 = 9999;

/// Addresses of images. Add `&width=` with the width that is shown, in device pixels. A kind that does not exist is missing. Images
/// begin to exist when files are added, or once a file was examined.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct ArtworkUrls {
    /// Upright; of music and audiobooks the cover.
    #[serde(skip_serializing_if = "Option::is_none")]
    poster: Option<String>,
    /// Wide, without text.
    #[serde(skip_serializing_if = "Option::is_none")]
    backdrop: Option<String>,
    /// Wide; a frame of the film if there is no file.
    #[serde(skip_serializing_if = "Option::is_none")]
    thumbnail: Option<String>,
    /// The title as an image, transparent.
    #[serde(skip_serializing_if = "Option::is_none")]
    logo: Option<String>,
}

impl ArtworkUrls {
    /// A thumbnail alone.
    pub fn of_thumbnail(url: String) -> Self {
        Self { thumbnail: Some(url), ..Self::default() }
    }
}

/// A grant for all artwork.
#[derive(Clone)]
pub struct ArtworkGrant {
    text: Arc<str>,
    /// When it ends, unix seconds.
    until: i64,
}

impl ArtworkGrant {
    pub fn new(service: &Service, principal: &Principal) -> Self {
        let now = service.clock.now().as_second();
        let until = (now.div_euclid(GRANT_PERIOD_SECONDS) + 2) * GRANT_PERIOD_SECONDS;
        Self { text: service.accounts.sign_grant(principal, RESOURCE, until).into(), until }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Builds addresses that a page can show without headers.
pub struct ArtworkLinks<'a> {
    urls: ResourceUrls<'a>,
    grant: ArtworkGrant,
}

impl<'a> ArtworkLinks<'a> {
    pub fn new(service: &'a Service, principal: &Principal) -> Self {
        Self::with_grant(service, ArtworkGrant::new(service, principal))
    }

    pub fn with_grant(service: &'a Service, grant: ArtworkGrant) -> Self {
        Self { urls: ResourceUrls::from_config(&service.config), grant }
    }

    pub fn grant(&self) -> &str {
        &self.grant.text
    }

    /// Posters of items as icons in a guide, otherwise thumbnails.
    pub fn icons(&self, service: Arc<Service>, principal: Arc<Principal>) -> ItemIcons {
        let until = self.grant.until;
        let paths = service.library.visible_paths(&principal.visibility);
        ItemIcons::new(move |id| {
            let of_kind = |kind| Some((kind, service.catalogue.item_artwork(&paths, id, kind)?.version));
            let (kind, version) = of_kind(ArtworkKind::Poster).or_else(|| of_kind(ArtworkKind::Thumbnail))?;
            let resource = image_resource([&*id.to_string(), kind.as_str()]);
            let grant = service.accounts.sign_grant(&principal, &resource, until);
            let query = format!("v={version:016x}&width={ICON_WIDTH}&scope={IMAGE_SCOPE}&st={grant}");
            Some(ResourceUrls::from_config(&service.config).artwork(format_args!("items/{id}"), kind, query))
        })
    }

    pub fn of_item(&self, id: ItemId, versions: &ArtworkVersions) -> ArtworkUrls {
        self.urls_of(&format!("items/{id}"), "", versions)
    }

    pub(super) fn of_series(&self, id: SeriesId, versions: &ArtworkVersions) -> ArtworkUrls {
        self.urls_of(&format!("series/{id}"), "", versions)
    }

    pub(super) fn of_season(&self, id: SeriesId, season: u32, versions: &ArtworkVersions) -> ArtworkUrls {
        self.urls_of(&format!("series/{id}"), &format!("season={season}&"), versions)
    }

    /// The WebVTT file of an item's seek previews.
    pub fn previews_of(&self, id: ItemId) -> String {
        self.urls.previews(id, format_args!("v={PREVIEWS_VERSION}&st={}", self.grant()))
    }

    fn urls_of(&self, owner: &str, query: &str, versions: &ArtworkVersions) -> ArtworkUrls {
        let mut urls = ArtworkUrls::default();
        for (kind, version) in versions {
            let query = format!("{query}v={version:016x}&st={}", self.grant());
            let url = Some(self.urls.artwork(owner, *kind, query));
            match kind {
                ArtworkKind::Poster => urls.poster = url,
                ArtworkKind::Backdrop => urls.backdrop = url,
                ArtworkKind::Thumbnail => urls.thumbnail = url,
                ArtworkKind::Logo => urls.logo = url,
            }
        }
        urls
    }
}

/// The resource that a grant in an address is for.
pub fn grant_resource(call: &Call) -> Option<String> {
    match call.query("scope") {
        Some(IMAGE_SCOPE) => Some(image_resource(call.params.iter().map(String::as_str))),
        _ => Some(RESOURCE.to_owned()),
    }
}

/// The resource of one image, by the parameters of its path.
fn image_resource<'a>(path: impl IntoIterator<Item = &'a str>) -> String {
    path.into_iter().fold(RESOURCE.to_owned(), |resource, part| format!("{resource}/{part}"))
}

/// An image of an item
///
/// In WebP if `Accept` names it, otherwise JPEG; logos are PNG. The addresses in `artwork` of an item contain version and grant, so
/// that `<img>` can show them and browsers keep them.
#[utoipa::path(get, path = "/api/library/items/{id}/artwork/{kind}", params(
    ("id" = String, Path, description = "Id of an item"),
    ("kind" = String, Path, description = "`poster`, `backdrop`, `thumbnail` or `logo`"),
    ("width" = Option<u32>, Query, description = "1 to 1920 pixels, rounded up to one of a few widths; images are never enlarged. Default: the largest"),
    ("v" = Option<String>, Query, description = "The version: with the current one the image is immutable"),
    ("scope" = Option<String>, Query, description = "`image`: the grant is for this image alone")), responses(
    (status = 200, description = "The image", content_type = "image/*", body = [u8]),
    (status = 304, description = "Not modified"),
    (status = 400, description = "`VALIDATION_ERROR`"),
    (status = 404, description = "`NOT_FOUND`: there is no such item, or no image of this kind"),
    (status = 503, description = "`SERVER_BUSY`: try again")))]
pub async fn of_item(service: Arc<Service>, call: Call) -> Result<Response> {
    let (id, kind) = (parse_item_id(&call.params[0])?, parse_kind(&call)?);
    let artwork = service.catalogue.item_artwork(&seen_paths(&service, &call)?, id, kind);
    answer(&service, call, kind, artwork).await
}

/// An image of a series or of one of its seasons
///
/// As for an item. The thumbnail of a series without images is that of its first episode.
#[utoipa::path(get, path = "/api/library/series/{id}/artwork/{kind}", params(
    ("id" = String, Path, description = "Id of a series"),
    ("kind" = String, Path, description = "`poster`, `backdrop`, `thumbnail` or `logo`; `poster` for a season"),
    ("season" = Option<u32>, Query, description = "A season of the series; 0 for specials"),
    ("width" = Option<u32>, Query, description = "As for an item"),
    ("v" = Option<String>, Query, description = "As for an item")), responses(
    (status = 200, description = "The image", content_type = "image/*", body = [u8]),
    (status = 304, description = "Not modified"),
    (status = 400, description = "`VALIDATION_ERROR`"),
    (status = 404, description = "`NOT_FOUND`: there is no such series, or no image of this kind"),
    (status = 503, description = "`SERVER_BUSY`: try again")))]
pub async fn of_series(service: Arc<Service>, call: Call) -> Result<Response> {
    let id = SeriesId::parse(&call.params[0]).ok_or_else(no_image)?;
    let (kind, season) = (parse_kind(&call)?, parse_number(&call, "season", 0, MAX_SEASON)?);
    let artwork = service.catalogue.series_artwork(&seen_paths(&service, &call)?, id, season, kind);
    answer(&service, call, kind, artwork).await
}

/// The paths that the user of a request sees.
pub(super) fn seen_paths(service: &Service, call: &Call) -> Result<VisiblePaths> {
    Ok(service.library.visible_paths(&call.user()?.visibility))
}

fn no_image() -> Error {
    Error::new(Code::NotFound, "there is no such image")
}

fn parse_kind(call: &Call) -> Result<ArtworkKind> {
    ArtworkKind::parse(&call.params[1]).ok_or_else(no_image)
}

fn parse_number(call: &Call, name: &str, min: u32, max: u32) -> Result<Option<u32>> {
    let number = call.query(name).map(|text| {
        let number = text.parse().ok().filter(|number| (min..=max).contains(number));
        number.ok_or_else(|| Error::invalid_field(name, format!("must be a whole number from {min} to {max}")))
    });
    number.transpose()
}

async fn answer(service: &Service, call: Call, kind: ArtworkKind, artwork: Option<Artwork>) -> Result<Response> {
    let width = parse_number(&call, "width", 1, MAX_WIDTH)?;
    let artwork = artwork.ok_or_else(no_image)?;
    let format = match kind {
        ArtworkKind::Logo => OutputFormat::Png,
        _ if accepts_webp(&call.headers) => OutputFormat::WebP,
        _ => OutputFormat::Jpeg,
    };
    let image = service.load_artwork(&artwork, ImageRequest { width, format }).await?;
    let is_current = call.query("v").is_some_and(|version| version == format!("{:016x}", artwork.version));
    let mut response = respond(&call, content_type(&image), image, is_current)?;
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    Ok(response)
}

/// Bytes that never change at an address with the current version.
pub(super) fn respond(
    call: &Call,
    content_type: &'static str,
    bytes: impl Into<bytes::Bytes>,
    is_current: bool,
) -> Result<Response> {
    let bytes = bytes.into();
    let etag = format!("\"{}\"", &blake3::hash(&bytes).to_hex()[..32]);
    let cache_control = if is_current { "private, max-age=31536000, immutable" } else { "private, no-cache" };
    let mut response = match (Validators { etag: &etag, modified: None }).evaluate(&call.headers) {
        PreconditionResult::NotModified => reply::not_modified(),
        _ => reply::bytes(content_type, bytes),
    };
    let headers = response.headers_mut();
    headers.insert(ETAG, HeaderValue::from_str(&etag).map_err(Error::internal)?);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache_control));
    Ok(response)
}

/// The type of an image that this server made.
fn content_type(image: &[u8]) -> &'static str {
    match image {
        [b'R', b'I', b'F', b'F', ..] => "image/webp",
        [0x89, b'P', ..] => "image/png",
        _ => "image/jpeg",
    }
}

/// Whether a client names WebP. `*/*` is no sign of it: televisions send that too.
fn accepts_webp(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let is_webp = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("image/webp"));
        let is_refused = |weight: &str| weight.strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0));
        is_webp && !parts.any(is_refused)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webp_is_sent_to_clients_that_name_it() {
        let accepts = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, value.parse().unwrap());
            accepts_webp(&headers)
        };
        assert!(accepts("image/avif,image/webp,*/*;q=0.8") && accepts("image/WebP;q=0.5"));
        assert!(!accepts("*/*") && !accepts("image/*") && !accepts("image/webp;q=0, image/jpeg"));
        assert!(!accepts_webp(&HeaderMap::new()));
    }
}
