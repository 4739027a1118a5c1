//! `/api/stream/progress`, `/api/stream/history`, `/api/stream/next-up`: watch progress, history and next files to watch.

use http::HeaderValue;
use http::header::ETAG;

use crate::domain::progress::{ProgressRecord, ProgressSave, ProgressStatus, SaveResult};
use crate::http::api::prelude::*;
use crate::service::catalogue::NextUp;
use crate::service::progress::HistoryFilter;

mod record;
pub(super) mod request;

pub use record::{PastPosition, WatchProgress};
use request::{SaveRequest, WatchedRequest};

/// Records per page: default and maximum.
pub(super) const DEFAULT_LIMIT: usize = 20;
pub(super) const MAX_LIMIT: usize = 200;

/// Progress in a file.
#[derive(Serialize, ToSchema)]
pub(super) struct ProgressAnswer {
    /// Null for a file that was never played.
    progress: Option<WatchProgress>,
}

/// Result of a reset.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResetAnswer {
    media_path: String,
    /// False if there was no progress.
    deleted: bool,
}

/// A page of the watch history.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct HistoryAnswer {
    history: Vec<WatchProgress>,
    /// The limit that was applied: at most 200.
    limit: usize,
    total: usize,
    /// Send it as `cursor` for the next page; null on the last.
    next_cursor: Option<String>,
}

/// Files to watch next.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NextUpAnswer {
    next_up: Vec<NextUpItem>,
    limit: usize,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NextUpItem {
    media_path: String,
    title: String,
    /// The file of the same series or folder that was completed last.
    after: WatchProgress,
    /// Null for a file that was never played.
    progress: Option<WatchProgress>,
}

/// Save progress in a file
///
/// Progress in a part of an audiobook is progress in the book: the end of a part is the start of the next, and the last part completes it.
#[utoipa::path(post, path = "/api/stream/progress", request_body = SaveRequest, responses(
    (status = 200, description = "The stored record; `applied` is false if a newer one was already stored", body = WatchProgress),
    (status = 403, description = "`FORBIDDEN`: the path is outside the library roots"),
    (status = 404, description = "`NOT_FOUND`: no such file"),
    (status = 409, description = "`CONFLICT`: If-Match names another version than the stored one"),
    (status = 507, description = "`STORAGE_FULL`: nothing was saved; older progress is kept")))]
pub async fn save(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let request: SaveRequest = call.json().await?;
    save_file(&service, call, request.into_save()?).await
}

async fn save_file(service: &Service, call: Call, (path, mut save): (String, ProgressSave)) -> Result<Response> {
    save.version = call.if_match_version()?.or(save.version);
    let user = call.user()?;
    let result = service.save_file_progress(user, &path, save).await?;
    save_response(&call, result, |record, applied| WatchProgress::new(&user.user_id, record, applied))
}

/// Progress in a file
#[utoipa::path(get, path = "/api/stream/progress", params(("path" = String, Query, description = "Absolute path of a media file")), responses(
    (status = 200, description = "The progress", body = ProgressAnswer),
    (status = 404, description = "`NOT_FOUND`: no such file, and no progress is stored for the path")))]
pub async fn read(service: Arc<Service>, call: Call) -> Result<Response> {
    let user = call.user()?;
    let record = service.file_progress(user, call.media_path()?).await?;
    let version = record.as_ref().map(|record| record.version);
    let progress = record.map(|record| WatchProgress::new(&user.user_id, record, true));
    Ok(versioned_json(&ProgressAnswer { progress }, version))
}

/// Delete the progress in a file
///
/// That of a part of an audiobook is that of the whole book.
#[utoipa::path(delete, path = "/api/stream/progress", params(("path" = String, Query, description = "Absolute path of a media file")), responses(
    (status = 200, description = "No progress is stored any more", body = ResetAnswer)))]
pub async fn reset(service: Arc<Service>, call: Call) -> Result<Response> {
    let (media_path, deleted) = service.reset_file_progress(call.user()?, call.media_path()?).await?;
    Ok(reply::json(&ResetAnswer { media_path, deleted }))
}

/// Mark a file as watched
#[utoipa::path(post, path = "/api/stream/progress/watched", request_body = WatchedRequest, responses(
    (status = 200, description = "The stored record", body = WatchProgress),
    (status = 403, description = "`FORBIDDEN`: the path is outside the library roots"),
    (status = 404, description = "`NOT_FOUND`: no such file"),
    (status = 409, description = "`CONFLICT`: If-Match names another version than the stored one"),
    (status = 507, description = "`STORAGE_FULL`: nothing was saved; older progress is kept")))]
pub async fn mark_watched(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let request: WatchedRequest = call.json().await?;
    save_file(&service, call, request.into_save()?).await
}

/// Watch history, newest first
#[utoipa::path(get, path = "/api/stream/history", params(
    ("limit" = Option<usize>, Query, description = "Records per page, 1 to 200; default 20"),
    ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page"),
    ("mediaType" = Option<String>, Query, description = "Only records of this type: `video`, `audio`, `audiobook`, `recording`, `channel`, or any other type that was saved"),
    ("status" = Option<String>, Query, description = "`all` (default), `in_progress` or `completed`")), responses(
    (status = 200, description = "The records; `available` says whether the file exists", body = HistoryAnswer)))]
pub async fn history(service: Arc<Service>, call: Call) -> Result<Response> {
    let principal = call.user()?;
    let (user, limit) = (&principal.user_id, parse_limit(&call)?);
    let page = service.history(principal, parse_filter(&call)?, call.query("cursor"), limit)?;
    let exists = service.library.check_available(page.entries.iter().map(|record| record.path.clone()).collect()).await;
    let records = page.entries.into_iter().zip(exists);
    let history = records.map(|(past, found)| WatchProgress::new(user, past, true).with_availability(found)).collect();
    Ok(reply::json(&HistoryAnswer { history, limit, total: page.total, next_cursor: page.next_cursor }))
}

/// Next up: in each series, the episode after the one watched last
///
/// Across seasons, until the series ends. Music and audiobooks continue with the next file of their folder; films have none.
#[utoipa::path(get, path = "/api/stream/next-up", params(
    ("limit" = Option<usize>, Query, description = "Most files, 1 to 200; default 20")), responses(
    (status = 200, description = "The series or folder watched most recently first", body = NextUpAnswer)))]
pub async fn next_up(service: Arc<Service>, call: Call) -> Result<Response> {
    let principal = call.user()?;
    let (user, limit) = (&principal.user_id, parse_limit(&call)?);
    let files = service.next_up(principal, limit).await?;
    let to_item = |next: NextUp| NextUpItem {
        media_path: next.path,
        title: next.title,
        after: WatchProgress::new(user, next.after, true),
        progress: next.started.map(|record| WatchProgress::new(user, record, true)),
    };
    Ok(reply::json(&NextUpAnswer { next_up: files.into_iter().map(to_item).collect(), limit }))
}

/// The response to a save: the stored record, and whether the save was applied. A stale save is an error only with `If-Match`.
pub(super) fn save_response<T: Serialize>(
    call: &Call,
    result: SaveResult,
    to_body: impl FnOnce(ProgressRecord, bool) -> T,
) -> Result<Response> {
    let (record, applied) = match result {
        SaveResult::Applied(record) => (record, true),
        SaveResult::Stale(record) if call.headers.contains_key("if-match") => {
            return Err(Error::new(
                Code::Conflict,
                format!("If-Match must name the stored version {}", record.version),
            )
            .with_details(serde_json::json!({"field": "version", "version": record.version})));
        }
        SaveResult::Stale(record) => (record, false),
    };
    let version = record.version;
    Ok(versioned_json(&to_body(record, applied), Some(version)))
}

/// A JSON response with the version of its record, if there is one, as `ETag`.
pub(super) fn versioned_json(body: &impl Serialize, version: Option<u64>) -> Response {
    let mut response = reply::json(body);
    if let Some(value) = version.and_then(|version| HeaderValue::from_str(&format!("\"{version}\"")).ok()) {
        response.headers_mut().insert(ETAG, value);
    }
    response
}

/// The page size that `limit` requests: default 20, at most 200.
pub(super) fn parse_limit(call: &Call) -> Result<usize> {
    call.limit(DEFAULT_LIMIT, MAX_LIMIT)
}

pub(super) fn parse_filter(call: &Call) -> Result<HistoryFilter> {
    let media_type = match call.query("mediaType") {
        None | Some("") => None,
        Some(word) => Some(request::validate_media_type(word)?),
    };
    let status = match call.query("status") {
        None | Some("" | "all") => None,
        Some("in_progress") => Some(ProgressStatus::InProgress),
        Some("completed") => Some(ProgressStatus::Completed),
        Some(_) => return Err(Error::invalid_field("status", "must be one of all, in_progress, completed")),
    };
    Ok(HistoryFilter { media_type, status, ..HistoryFilter::default() })
}
