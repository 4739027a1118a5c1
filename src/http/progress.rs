//! `/api/stream/progress`, `/api/stream/history`, `/api/stream/next-up`: watch progress, history and what comes next.

use std::sync::Arc;

use http::HeaderValue;
use http::header::ETAG;
use serde::Serialize;
use utoipa::ToSchema;
use warp::reply::Response;

use super::call::Call;
use super::endpoint::{Endpoint, delete, get, post};
use super::reply;
use crate::domain::access::Access;
use crate::domain::progress::{Record, Status, Verdict};
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::progress::Filter;

mod record;
pub(super) mod request;

pub use record::{PastPosition, WatchProgress};
use request::{SaveRequest, WatchedRequest};

/// Records of a page unless asked otherwise, and at most.
pub(super) const DEFAULT_LIMIT: usize = 20;
pub(super) const MAX_LIMIT: usize = 200;

pub fn endpoints(service: &Arc<Service>) -> Vec<Endpoint> {
    vec![
        post("/api/stream/progress", Access::User).to(service, save),
        get("/api/stream/progress", Access::User).to(service, read),
        delete("/api/stream/progress", Access::User).to(service, reset),
        post("/api/stream/progress/watched", Access::User).to(service, mark_watched),
        get("/api/stream/history", Access::User).to(service, history),
        get("/api/stream/next-up", Access::User).to(service, next_up),
    ]
}

/// What is known of a file.
#[derive(Serialize, ToSchema)]
pub(super) struct ProgressAnswer {
    /// Null for a file that was never begun.
    progress: Option<WatchProgress>,
}

/// What was put back.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResetAnswer {
    media_path: String,
    /// False when there was nothing.
    deleted: bool,
}

/// A page of what was watched.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct HistoryAnswer {
    history: Vec<WatchProgress>,
    /// As it was applied: 200 at most.
    limit: usize,
    total: usize,
    /// Send it as `cursor` for the next page; null on the last.
    next_cursor: Option<String>,
}

/// What to go on with.
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
    /// The file of the same folder that was watched to its end last.
    after: WatchProgress,
    /// Null for a file that was never begun.
    progress: Option<WatchProgress>,
}

/// Save how far one is in a file
#[utoipa::path(post, path = "/api/stream/progress", request_body = SaveRequest, responses(
    (status = 200, description = "The record as it stands now; `applied` false when something newer stood", body = WatchProgress),
    (status = 403, description = "`FORBIDDEN`: outside the library roots"),
    (status = 404, description = "`NOT_FOUND`: no such file"),
    (status = 409, description = "`CONFLICT`: with If-Match, when another version stands"),
    (status = 507, description = "`STORAGE_FULL`: nothing was saved, nothing older was lost")))]
pub(super) async fn save(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let asked: SaveRequest = call.json().await?;
    let (path, mut wish) = asked.wish()?;
    let matched = if_match(&call)?;
    wish.version = matched.or(wish.version);
    let verdict = service.save_watched(&call.user()?.user_id, &path, wish).await?;
    answer(&call, verdict)
}

/// How far one is in a file
#[utoipa::path(get, path = "/api/stream/progress", params(("path" = String, Query, description = "Absolute path of a media file")),
    responses(
        (status = 200, description = "What is known", body = ProgressAnswer),
        (status = 403, description = "`FORBIDDEN`: outside the library roots"),
        (status = 404, description = "`NOT_FOUND`: no such file, and nothing is remembered of one")))]
pub(super) async fn read(service: Arc<Service>, call: Call) -> Result<Response> {
    let user = call.user()?;
    let record = service.watched(&user.user_id, call.media_path()?).await?;
    let version = record.as_ref().map(|record| record.version);
    let mut response =
        reply::json(&ProgressAnswer { progress: record.map(|record| WatchProgress::new(&user.user_id, record, true)) });
    tag(&mut response, version);
    Ok(response)
}

/// Put a file back to nothing
#[utoipa::path(delete, path = "/api/stream/progress", params(("path" = String, Query, description = "Absolute path of a media file")),
    responses(
        (status = 200, description = "Nothing is remembered any more", body = ResetAnswer),
        (status = 403, description = "`FORBIDDEN`: outside the library roots")))]
pub(super) async fn reset(service: Arc<Service>, call: Call) -> Result<Response> {
    let (media_path, deleted) = service.reset_watched(&call.user()?.user_id, call.media_path()?).await?;
    Ok(reply::json(&ResetAnswer { media_path, deleted }))
}

/// Mark a file as watched
#[utoipa::path(post, path = "/api/stream/progress/watched", request_body = WatchedRequest, responses(
    (status = 200, description = "The record as it stands now", body = WatchProgress),
    (status = 403, description = "`FORBIDDEN`: outside the library roots"),
    (status = 404, description = "`NOT_FOUND`: no such file"),
    (status = 507, description = "`STORAGE_FULL`: nothing was saved, nothing older was lost")))]
pub(super) async fn mark_watched(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let asked: WatchedRequest = call.json().await?;
    let (path, wish) = asked.wish()?;
    let verdict = service.save_watched(&call.user()?.user_id, &path, wish).await?;
    answer(&call, verdict)
}

/// What was watched, last first
#[utoipa::path(get, path = "/api/stream/history",
    params(
        ("limit" = Option<usize>, Query, description = "Records of a page: 1 to 200, 20 unless given"),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the page before"),
        ("mediaType" = Option<String>, Query, description = "Only these: `video`, `audio`, `audiobook`, `recording`, `channel`, or another word that was saved"),
        ("status" = Option<String>, Query, description = "all, in_progress or completed"),
    ),
    responses((status = 200, description = "Each with `available`: whether the file is there", body = HistoryAnswer)))]
pub(super) async fn history(service: Arc<Service>, call: Call) -> Result<Response> {
    let user = &call.user()?.user_id;
    let limit = limit(&call)?;
    let page = service.progress.history(user, filter(&call)?, call.query("cursor")?, limit)?;
    let available = service.available(page.records.iter().map(|record| record.path.clone()).collect()).await;
    let listed = page.records.into_iter().zip(available);
    let history = listed.map(|(record, there)| WatchProgress::new(user, record, true).listed(there)).collect();
    Ok(reply::json(&HistoryAnswer { history, limit, total: page.total, next_cursor: page.next_cursor }))
}

/// What to go on with: the file behind the one watched to its end
#[utoipa::path(get, path = "/api/stream/next-up",
    params(("limit" = Option<usize>, Query, description = "Files at most: 1 to 200, 20 unless given")),
    responses((status = 200, description = "The folder watched last first", body = NextUpAnswer)))]
pub(super) async fn next_up(service: Arc<Service>, call: Call) -> Result<Response> {
    let user = &call.user()?.user_id;
    let limit = limit(&call)?;
    let found = service.next_up(user, limit).await?;
    let item = |next: crate::service::progress::NextUp| NextUpItem {
        media_path: next.path,
        title: next.title,
        after: WatchProgress::new(user, next.after, true),
        progress: next.begun.map(|record| WatchProgress::new(user, record, true)),
    };
    Ok(reply::json(&NextUpAnswer { next_up: found.into_iter().map(item).collect(), limit }))
}

fn answer(call: &Call, verdict: Verdict) -> Result<Response> {
    let (record, applied) = judge(call, verdict)?;
    let version = record.version;
    let mut response = reply::json(&WatchProgress::new(&call.user()?.user_id, record, applied));
    tag(&mut response, Some(version));
    Ok(response)
}

/// The record that stands, and whether the save is in it. Only who insists with `If-Match` is refused.
pub(super) fn judge(call: &Call, verdict: Verdict) -> Result<(Record, bool)> {
    match verdict {
        Verdict::Applied(record) => Ok((record, true)),
        Verdict::Stale(record) if call.headers.contains_key("if-match") => {
            Err(Error::new(Code::Conflict, format!("version {} stands", record.version))
                .with_details(serde_json::json!({"field": "version", "version": record.version})))
        }
        Verdict::Stale(record) => Ok((record, false)),
    }
}

/// The version an `If-Match` names; None without one and for `*`.
pub(super) fn if_match(call: &Call) -> Result<Option<u64>> {
    match call.header("if-match").map(str::trim) {
        None | Some("*") => Ok(None),
        Some(text) => text
            .trim_matches('"')
            .parse()
            .map(Some)
            .map_err(|_| Error::new(Code::BadRequest, "If-Match must be the version as a quoted number")),
    }
}

pub(super) fn tag(response: &mut Response, version: Option<u64>) {
    if let Some(value) = version.and_then(|version| HeaderValue::from_str(&format!("\"{version}\"")).ok()) {
        response.headers_mut().insert(ETAG, value);
    }
}

/// How many of a list: 20 unless asked, 200 at most.
pub(super) fn limit(call: &Call) -> Result<usize> {
    match call.query("limit")? {
        None => Ok(DEFAULT_LIMIT),
        Some(text) => match text.parse::<u64>() {
            Ok(limit) if limit > 0 => Ok(usize::try_from(limit).unwrap_or(MAX_LIMIT).min(MAX_LIMIT)),
            _ => Err(Error::field("limit", "must be a whole number from 1")),
        },
    }
}

pub(super) fn filter(call: &Call) -> Result<Filter> {
    let media_type = match call.query("mediaType")? {
        None | Some("") => None,
        Some(word) => Some(request::media_type(word)?),
    };
    let status = match call.query("status")? {
        None | Some("" | "all") => None,
        Some("in_progress") => Some(Status::InProgress),
        Some("completed") => Some(Status::Completed),
        Some(_) => return Err(Error::field("status", "must be one of all, in_progress, completed")),
    };
    Ok(Filter { media_type, status })
}
