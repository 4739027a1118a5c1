//! `/api/library/folders`: the media folders, and the folders of the machine to choose them from; admins only.

use std::path::Path;

use http::StatusCode;

use crate::domain::media_folder::FolderKind;
use crate::http::api::prelude::*;
use crate::service::media_folders::{FolderOrigin, MediaFolder, ServerFolderListing};

/// A media folder.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = MediaFolder)]
pub(super) struct MediaFolderView {
    id: String,
    path: String,
    /// `configuration` or `recordings`: it is set where the server is started; `admin`: it can be removed.
    origin: &'static str,
    /// Its content, as an admin chose it: `films`, `series`, `music`, `audiobooks` or `homeVideos`; null if names decide alone.
    kind: Option<&'static str>,
    /// Whether the server can open it now.
    available: bool,
}

/// All media folders.
#[derive(Serialize, ToSchema)]
pub(super) struct MediaFoldersAnswer {
    folders: Vec<MediaFolderView>,
}

/// A new media folder.
#[derive(Serialize, ToSchema)]
pub(super) struct MediaFolderAnswer {
    folder: MediaFolderView,
}

/// A media folder to add.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MediaFolderRequest {
    /// Absolute path of a folder on the server.
    path: String,
    /// Its content: `films`, `series`, `music`, `audiobooks` or `homeVideos`. It decides about files whose names do not say what
    /// they are; absent or null: names decide alone.
    kind: Option<String>,
}

/// The folders in a folder of the server.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServerFolderAnswer {
    path: String,
    /// The folder above; null for `/`.
    parent: Option<String>,
    /// In natural order, without hidden ones, links and folders of the system; at most 1000.
    folders: Vec<ServerSubfolder>,
    /// Whether folders were left out.
    truncated: bool,
}

/// A folder in a folder of the server.
#[derive(Serialize, ToSchema)]
pub(super) struct ServerSubfolder {
    name: String,
    path: String,
}

/// The media folders
#[utoipa::path(get, path = "/api/library/folders", responses(
    (status = 200, description = "Those of the configuration first", body = MediaFoldersAnswer)))]
pub async fn folders(service: Arc<Service>, _: Call) -> Result<Response> {
    let folders = service.media_folders().await.into_iter().map(MediaFolderView::from).collect();
    Ok(reply::json(&MediaFoldersAnswer { folders }))
}

/// Add a media folder
///
/// Its files are read in the background, without a restart. A folder inside another one of the library is refused.
#[utoipa::path(post, path = "/api/library/folders", request_body = MediaFolderRequest, responses(
    (status = 201, description = "Added", body = MediaFolderAnswer),
    (status = 400, description = "`VALIDATION_ERROR`: a folder of the system or of the server; `INVALID_PATH`"),
    (status = 403, description = "`FORBIDDEN`: the server may not read it"),
    (status = 404, description = "`NOT_FOUND`: there is no such folder"),
    (status = 409, description = "`CONFLICT`: it is in the library already, or 64 were added"),
    (status = 507, description = "`STORAGE_FULL`: nothing was changed")))]
pub async fn add(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let request: MediaFolderRequest = call.json().await?;
    let unknown = || Error::invalid_field("kind", "must be films, series, music, audiobooks or homeVideos");
    let kind = request.kind.map(|name| FolderKind::parse(&name).ok_or_else(unknown)).transpose()?;
    let folder = service.add_media_folder(&request.path, kind).await?.into();
    Ok(reply::json_with(StatusCode::CREATED, &MediaFolderAnswer { folder }))
}

/// Remove a media folder
///
/// Its files stay where they are, and watch progress is kept.
#[utoipa::path(delete, path = "/api/library/folders/{id}", params(("id" = String, Path, description = "Id of a media folder")), responses(
    (status = 204, description = "Removed"),
    (status = 404, description = "`NOT_FOUND`: there is no such media folder"),
    (status = 409, description = "`CONFLICT`: it is set where the server is started")))]
pub async fn remove(service: Arc<Service>, call: Call) -> Result<Response> {
    service.remove_media_folder(&call.params[0]).await?;
    Ok(reply::empty())
}

/// Folders of the server, to choose a media folder from
#[utoipa::path(get, path = "/api/server/folders", params(
    ("path" = Option<String>, Query, description = "Absolute path of a folder; default `/`")), responses(
    (status = 200, description = "The folders in it", body = ServerFolderAnswer),
    (status = 403, description = "`FORBIDDEN`: the server may not read it"),
    (status = 404, description = "`NOT_FOUND`: there is no such folder")))]
pub async fn browse_server(service: Arc<Service>, call: Call) -> Result<Response> {
    let listing = service.server_folder(call.query("path").unwrap_or("/")).await?;
    Ok(reply::json(&ServerFolderAnswer::from(listing)))
}

fn text_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl From<MediaFolder> for MediaFolderView {
    fn from(folder: MediaFolder) -> Self {
        let origin = match folder.origin {
            FolderOrigin::Configuration => "configuration",
            FolderOrigin::Recordings => "recordings",
            FolderOrigin::Admin => "admin",
        };
        let kind = folder.kind.map(FolderKind::as_str);
        Self { id: folder.id, path: text_of(&folder.path), origin, kind, available: folder.is_available }
    }
}

impl From<ServerFolderListing> for ServerFolderAnswer {
    fn from(listing: ServerFolderListing) -> Self {
        let to_view = |name: String| ServerSubfolder { path: text_of(&listing.path.join(&name)), name };
        Self {
            folders: listing.subfolders.names.into_iter().map(to_view).collect(),
            truncated: listing.subfolders.is_truncated,
            path: text_of(&listing.path),
            parent: listing.parent.as_deref().map(text_of),
        }
    }
}
