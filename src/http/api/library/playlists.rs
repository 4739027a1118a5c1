//! `GET /api/library/playlists`: M3U and PLS files of the library, by which channels may be made.

use super::artwork::seen_paths;
use super::items::is_scanning;
use crate::http::api::prelude::*;
use crate::service::catalogue::PlaylistSummary;

/// Playlists of the library.
#[derive(Serialize, ToSchema)]
pub(super) struct PlaylistsAnswer {
    /// By path.
    playlists: Vec<Playlist>,
    /// Whether the library is still being read: more playlists may come.
    scanning: bool,
}

/// A playlist file.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Playlist {
    /// The `value` of a channel's rule of the kind `playlist`.
    path: String,
    /// The name of the file without its extension.
    name: String,
    /// Files that it lists.
    file_count: usize,
    /// Those of them that are items of the library.
    item_count: usize,
}

/// Playlists of the library, by path
#[utoipa::path(get, path = "/api/library/playlists", responses(
    (status = 200, description = "M3U and PLS files with the number of their items", body = PlaylistsAnswer)))]
pub async fn playlists(service: Arc<Service>, call: Call) -> Result<Response> {
    let paths = seen_paths(&service, &call)?;
    let to_playlist =
        |PlaylistSummary { path, name, file_count, item_count }| Playlist { path, name, file_count, item_count };
    let playlists = service.catalogue.playlists(&paths).into_iter().map(to_playlist).collect();
    Ok(reply::json(&PlaylistsAnswer { playlists, scanning: is_scanning(&service) }))
}
