//! `/api/library`: folders and media files under the library roots, and the catalogue of its items.

use crate::domain::sniff::MediaKind;
use crate::domain::time::file_instant;
use crate::http::api::prelude::*;
use crate::service::library::listing::{DEFAULT_LIMIT, EntryKind, Listing, ListingEntry, MAX_LIMIT};

pub mod albums;
pub mod artists;
pub mod artwork;
pub mod books;
pub mod folders;
mod item;
pub mod items;
pub mod playlists;
pub mod previews;
pub mod search;
pub mod series;

/// One page of a folder, or all roots.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct LibraryPage {
    /// The folder; null for the list of roots.
    path: Option<String>,
    /// The folder above; null for a root.
    parent: Option<String>,
    entries: Vec<LibraryEntry>,
    /// Send it as `cursor` for the next page; null on the last.
    next_cursor: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct LibraryEntry {
    name: String,
    path: String,
    /// `folder` or `media`.
    kind: &'static str,
    /// `video` or `audio`, by the file name; null for folders.
    media_kind: Option<&'static str>,
    size_bytes: Option<u64>,
    /// ISO 8601, UTC; null for folders.
    modified_at: Option<String>,
}

/// Browse the library
#[utoipa::path(get, path = "/api/library", params(
    ("path" = Option<String>, Query, description = "Absolute path of a folder; default: list the roots"),
    ("limit" = Option<usize>, Query, description = "Entries per page, 1 to 1000; default 200"),
    ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page")), responses(
    (status = 200, description = "Folders, then files, in natural order", body = LibraryPage),
    (status = 404, description = "`NOT_FOUND`: no such folder")))]
pub async fn browse(service: Arc<Service>, call: Call) -> Result<Response> {
    let limit = call.limit(DEFAULT_LIMIT, MAX_LIMIT)?;
    let (cursor, visibility) = (call.query("cursor"), &call.user()?.visibility);
    let Listing { path, parent, entries, next_cursor } = match call.query("path") {
        None => service.library.list_roots(visibility),
        Some(path) => service.library.list_seen(visibility, path, limit, cursor).await?,
    };
    let entries = entries.into_iter().map(to_library_entry).collect();
    Ok(reply::json(&LibraryPage { path, parent, entries, next_cursor }))
}

fn to_library_entry(entry: ListingEntry) -> LibraryEntry {
    let (kind, media_kind, size_bytes, modified_at) = match entry.kind {
        EntryKind::Folder => ("folder", None, None, None),
        EntryKind::Media { kind, size_bytes, modified } => {
            let kind = match kind {
                MediaKind::Video => "video",
                MediaKind::Audio => "audio",
            };
            ("media", Some(kind), Some(size_bytes), Some(file_instant(modified)))
        }
    };
    LibraryEntry { name: entry.name, path: entry.path, kind, media_kind, size_bytes, modified_at }
}
