//! `GET /api/events`: notifications as server-sent events (SSE).

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use warp::Reply;

use super::audiobook::BookProgress;
use super::livetv::guide::GuideEntry;
use super::progress::WatchProgress;
use crate::domain::access::Principal;
use crate::domain::progress::ProgressRecord;
use crate::http::api::prelude::*;
use crate::service::events::{EventContent, Listener, ServerEvent};
use crate::service::live;

/// Interval of keep-alive comments, so that proxies and clients do not close an idle stream.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Events buffered for a slow client, and how long it may read nothing before it is disconnected.
const MAX_BUFFERED_EVENTS: usize = 16;
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Event stream (SSE): `progress.updated`, `progress.deleted`, `library.changed`, `channel.state`, `programme.changed`,
/// `recording.state`; `resync` tells a client that it missed events
///
/// `library.changed` has `folders` whose files changed, or `itemIds` of items in the catalogue that changed (null if there are more
/// than 100).
#[utoipa::path(get, path = "/api/events", params(
    ("Last-Event-ID" = Option<String>, Header, description = "The last `id` received: events after it are sent first")), responses(
    (status = 200, description = "Server-sent events, with a keep-alive comment every 15 s", body = String, content_type = "text/event-stream"),
    (status = 503, description = "`SERVER_BUSY`: too many event streams are open")))]
pub async fn events(service: Arc<Service>, call: Call) -> Result<Response> {
    let run_id = service.events.run_id.clone();
    let user = call.user()?.user_id.clone();
    let last = call.header("last-event-id");
    let (after, is_foreign) = match last.map(|id| id.strip_prefix(&*run_id).and_then(|rest| rest.strip_prefix('-'))) {
        None => (None, false),
        Some(rest) => rest.and_then(|n| n.parse().ok()).map_or((None, true), |n| (Some(n), false)),
    };
    let listener = service.events.subscribe(&user, after);
    let mut listener = listener.ok_or_else(|| {
        Error::new(Code::ServerBusy, "too many event streams are open; retry in 30 s").with_retry_after(30)
    })?;
    live::publish_programmes(&service);
    let (out, mut receiver) = mpsc::channel(MAX_BUFFERED_EVENTS);
    let first_text =
        if is_foreign || listener.has_gap { ": listening\n\nevent: resync\ndata: {}\n\n" } else { ": listening\n\n" };
    let token = call.header("authorization").and_then(|value| Some(value.split_once(' ')?.1.trim().to_owned()));
    tokio::spawn(async move {
        let mut text = first_text.to_owned();
        // The stream ends when the login is revoked.
        while let Some(principal) = token.as_deref().and_then(|token| service.accounts.authenticate(token).ok()) {
            let sent = tokio::time::timeout(STALL_TIMEOUT, out.send(Ok::<_, std::io::Error>(Bytes::from(text)))).await;
            if !matches!(sent, Ok(Ok(()))) {
                return;
            }
            text = tokio::select! {
                next = next_text(&service, &principal, &mut listener, &run_id) => match next {
                    Some(next) => next,
                    None => return,
                },
                () = out.closed() => return,
            };
        }
    });
    let body = stream::poll_fn(move |context| receiver.poll_recv(context));
    let mut response = warp::reply::stream(body).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// The next event or keep-alive comment; None when the server stops.
async fn next_text(service: &Service, user: &Principal, listener: &mut Listener, run_id: &str) -> Option<String> {
    if let Some(event) = listener.missed.pop_front() {
        return Some(format_event(service, user, &event, run_id));
    }
    let deadline = tokio::time::sleep(KEEP_ALIVE_INTERVAL);
    tokio::pin!(deadline);
    loop {
        let received = tokio::select! {
            event = listener.receiver.recv() => event,
            () = &mut deadline => return Some(": still here\n\n".to_owned()),
        };
        match received {
            Ok(event) if event.is_for(&listener.user_id) => return Some(format_event(service, user, &event, run_id)),
            Ok(_) => {}
            Err(RecvError::Lagged(_)) => return Some("event: resync\ndata: {}\n\n".to_owned()),
            Err(RecvError::Closed) => return None,
        }
    }
}

fn format_event(service: &Service, principal: &Principal, event: &ServerEvent, run_id: &str) -> String {
    let user = event.user_id.as_deref().unwrap_or_default();
    let (name, data) = match &event.content {
        EventContent::Progress(record) if record.is_reset => (
            "progress.deleted",
            json!({"mediaPath": record.path, "mediaId": record.media_id, "version": record.version}),
        ),
        EventContent::Progress(record) if record.book.is_some() => {
            ("progress.updated", json!({"audiobook": BookProgress::new(ProgressRecord::clone(record), true)}))
        }
        EventContent::Progress(record) => {
            ("progress.updated", json!({"progress": WatchProgress::new(user, ProgressRecord::clone(record), true)}))
        }
        EventContent::Channel { id, state, viewers } => {
            ("channel.state", json!({"channelId": id, "state": state.as_str(), "viewers": viewers}))
        }
        EventContent::Programme { channel, entry } => {
            let start = Timestamp::from_millisecond(entry.start_ms.0).unwrap_or_default();
            let entry = GuideEntry::new(channel, entry, start, ResourceUrls::from_config(&service.config));
            ("programme.changed", json!({"channelId": channel.id, "entry": entry}))
        }
        EventContent::Library { folders } => {
            let paths = service.library.visible_paths(&principal.visibility);
            let seen: Vec<&String> = folders.iter().filter(|folder| paths.contains(folder)).collect();
            ("library.changed", json!({"folders": seen}))
        }
        EventContent::Items { item_ids } => ("library.changed", json!({"folders": [], "itemIds": item_ids})),
        EventContent::Recording { id, title, state } => {
            ("recording.state", json!({"id": id, "title": title, "state": state.as_str()}))
        }
    };
    // Compact JSON contains no line breaks, so `data` is a single line.
    format!("id: {run_id}-{}\nevent: {name}\ndata: {data}\n\n", event.id)
}
