//! `/api/library/albums`: albums of music, and their tracks.

use super::artwork::{ArtworkLinks, ArtworkUrls};
use super::item::LibraryItem;
use super::items::{is_scanning, parse_text};
use crate::domain::catalogue::{AlbumId, AlbumSortKey};
use crate::domain::time::{format_ms, round_to_ms};
use crate::http::api::prelude::*;
use crate::service::catalogue::{AlbumDetails, AlbumFilter, DEFAULT_LIMIT, ListedAlbum, MAX_LIMIT, Page};

/// One page of albums.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct AlbumsAnswer {
    albums: Vec<Album>,
    /// Albums on all pages.
    total: usize,
    /// Send it as `cursor` for the next page; null on the last.
    next_cursor: Option<String>,
    /// Whether the library is still being read: more albums may come.
    scanning: bool,
}

/// An album: tracks with one title of an album, in one folder or in the folders of its discs. Tracks without such a title are
/// the album of their folder.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Album {
    id: String,
    title: String,
    /// Null for an album of several artists.
    artist: Option<String>,
    year: Option<u32>,
    /// Its folder; above those of its discs.
    folder: String,
    disc_count: usize,
    track_count: usize,
    /// Null until all tracks were examined, which happens while the server is idle.
    duration_seconds: Option<f64>,
    /// When its newest track was added.
    #[schema(format = DateTime)]
    added_at: String,
    /// The `poster` is the cover.
    artwork: ArtworkUrls,
}

/// An album with its tracks.
#[derive(Serialize, ToSchema)]
pub(super) struct AlbumAnswer {
    album: Album,
    /// By disc and number.
    tracks: Vec<LibraryItem>,
}

/// Albums of the library
#[utoipa::path(get, path = "/api/library/albums", params(
    ("artist" = Option<String>, Query, description = "Only albums with a track by this artist; case and diacritics do not matter"),
    ("genre" = Option<String>, Query, description = "Only albums with a track of this genre"),
    ("folder" = Option<String>, Query, description = "Only albums in this folder or below it: its absolute path"),
    ("sort" = Option<String>, Query, description = "`artist` (default: then by year), `title`, `added` (the newest first) or `year` (the latest first)"),
    ("limit" = Option<usize>, Query, description = "Albums per page, 1 to 200; default 50"),
    ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page, with the same other parameters")), responses(
    (status = 200, description = "The albums", body = AlbumsAnswer),
    (status = 400, description = "`VALIDATION_ERROR`")))]
pub async fn albums(service: Arc<Service>, call: Call) -> Result<Response> {
    let user = call.user()?;
    let links = ArtworkLinks::new(&service, user);
    let limit = call.limit(DEFAULT_LIMIT, MAX_LIMIT)?;
    let (artist, genre) = (parse_text(&call, "artist")?, parse_text(&call, "genre")?);
    let filter = AlbumFilter { artist, genre, folder: call.query("folder").map(str::to_owned) };
    let Page { entries, total, next_cursor } =
        service.list_albums(user, &filter, parse_sort(&call)?, call.query("cursor"), limit)?;
    let albums = entries.into_iter().map(|album| Album::new(album, &links)).collect();
    Ok(reply::json(&AlbumsAnswer { albums, total, next_cursor, scanning: is_scanning(&service) }))
}

/// One album with its tracks
#[utoipa::path(get, path = "/api/library/albums/{id}", params(("id" = String, Path, description = "Id of an album")), responses(
    (status = 200, description = "With the tracks by disc and number", body = AlbumAnswer),
    (status = 404, description = "`NOT_FOUND`: there is no such album")))]
pub async fn album(service: Arc<Service>, call: Call) -> Result<Response> {
    let principal = call.user()?;
    let (user, links) = (&principal.user_id, ArtworkLinks::new(&service, principal));
    let missing = || Error::new(Code::NotFound, "there is no such album in the library");
    let id = AlbumId::parse(&call.params[0]).ok_or_else(missing)?;
    let AlbumDetails { album, tracks } = service.album_details(principal, id)?;
    let tracks = tracks.into_iter().map(|track| LibraryItem::new(user, track, &links)).collect();
    Ok(reply::json(&AlbumAnswer { album: Album::new(album, &links), tracks }))
}

/// The order that `sort` requests.
pub(super) fn parse_sort(call: &Call) -> Result<AlbumSortKey> {
    let Some(text) = call.query("sort") else { return Ok(AlbumSortKey::Artist) };
    AlbumSortKey::parse(text).ok_or_else(|| Error::invalid_field("sort", "must be artist, title, added or year"))
}

impl Album {
    pub(super) fn new(album: ListedAlbum, links: &ArtworkLinks<'_>) -> Self {
        let ListedAlbum { id, folder, disc_count, summary } = album;
        let (owner, versions) = &summary.artwork;
        Self {
            id: id.to_string(),
            artwork: links.of_item(*owner, versions),
            title: summary.title,
            artist: summary.artist,
            year: summary.year,
            folder,
            disc_count,
            track_count: summary.file_count,
            duration_seconds: summary.duration_seconds.map(round_to_ms),
            added_at: format_ms(summary.added_ms),
        }
    }
}
