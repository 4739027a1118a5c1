//! `GET /api/library/artists`: artists of music, and authors of audiobooks.

use super::artwork::{ArtworkLinks, ArtworkUrls};
use super::items::is_scanning;
use crate::domain::catalogue::{ArtistSortKey, ItemKind};
use crate::domain::time::format_ms;
use crate::http::api::prelude::*;
use crate::service::catalogue::{DEFAULT_LIMIT, ListedArtist, MAX_LIMIT, Page};

/// One page of artists.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ArtistsAnswer {
    artists: Vec<Artist>,
    /// Artists on all pages.
    total: usize,
    /// Send it as `cursor` for the next page; null on the last.
    next_cursor: Option<String>,
    /// Whether the library is still being read: more artists may come.
    scanning: bool,
}

/// An artist of music, or an author of audiobooks.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Artist {
    /// The `artist` of a list of albums or books.
    name: String,
    /// Albums, or books of several files, with a file of the artist.
    album_count: usize,
    /// Tracks, or files of books.
    file_count: usize,
    /// When the newest file was added.
    #[schema(format = DateTime)]
    added_at: String,
    /// That of the newest file with a cover.
    artwork: ArtworkUrls,
}

/// Artists and authors of the library
///
/// Names that differ in case, diacritics or punctuation are one artist.
#[utoipa::path(get, path = "/api/library/artists", params(
    ("kind" = Option<String>, Query, description = "`music` (default) or `audiobook`: artists, or authors"),
    ("sort" = Option<String>, Query, description = "`name` (default) or `added` (the newest file first)"),
    ("limit" = Option<usize>, Query, description = "Artists per page, 1 to 200; default 50"),
    ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page, with the same other parameters")), responses(
    (status = 200, description = "The artists", body = ArtistsAnswer),
    (status = 400, description = "`VALIDATION_ERROR`")))]
pub async fn artists(service: Arc<Service>, call: Call) -> Result<Response> {
    let user = call.user()?;
    let links = ArtworkLinks::new(&service, user);
    let limit = call.limit(DEFAULT_LIMIT, MAX_LIMIT)?;
    let Page { entries, total, next_cursor } =
        service.list_artists(user, parse_kind(&call)?, parse_sort(&call)?, call.query("cursor"), limit)?;
    let artists = entries.into_iter().map(|artist| Artist::new(artist, &links)).collect();
    Ok(reply::json(&ArtistsAnswer { artists, total, next_cursor, scanning: is_scanning(&service) }))
}

fn parse_kind(call: &Call) -> Result<ItemKind> {
    match call.query("kind") {
        None | Some("music") => Ok(ItemKind::Music),
        Some("audiobook") => Ok(ItemKind::Audiobook),
        Some(_) => Err(Error::invalid_field("kind", "must be music or audiobook")),
    }
}

fn parse_sort(call: &Call) -> Result<ArtistSortKey> {
    let Some(text) = call.query("sort") else { return Ok(ArtistSortKey::Name) };
    ArtistSortKey::parse(text).ok_or_else(|| Error::invalid_field("sort", "must be name or added"))
}

impl Artist {
    fn new(artist: ListedArtist, links: &ArtworkLinks<'_>) -> Self {
        let (owner, versions) = &artist.artwork;
        Self {
            artwork: links.of_item(*owner, versions),
            name: artist.name,
            album_count: artist.album_count,
            file_count: artist.file_count,
            added_at: format_ms(artist.added_ms),
        }
    }
}
