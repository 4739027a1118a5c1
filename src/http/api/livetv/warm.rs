//! `/api/livetv/warm`: channels prepared before their first viewer.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use warp::reply::Response;

use crate::domain::channel::Channel;
use crate::domain::time::format_timestamp;
use crate::error::{Code, Error, Result};
use crate::http::call::Call;
use crate::http::reply;
use crate::service::live;
use crate::service::{Service, ingest};

const DEFAULT_TTL_SECONDS: u64 = 300;
const MAX_TTL_SECONDS: u64 = 3600;

/// The channels to warm; all enabled channels when the body is absent.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WarmRequest {
    channel_ids: Option<Vec<u32>>,
    /// How long to keep them ready, seconds: 1 to 3600; default 300.
    ttl_seconds: Option<u64>,
}

/// Channels that are kept ready to play.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WarmAnswer {
    accepted: usize,
    channels: Vec<Warmth>,
    #[schema(format = DateTime)]
    expires_at: Option<String>,
}

/// Readiness of a channel.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Warmth {
    channel_id: u32,
    /// `warm`, `warming` or `skipped`.
    state: &'static str,
    /// Why it was skipped: `limit` (no free encode slot or connection), `disabled` (or its rights were withdrawn) or
    /// `unsupported` (no such channel).
    reason: Option<&'static str>,
}

/// Warm channels, so that they start without delay
#[utoipa::path(post, path = "/api/livetv/warm", request_body = Option<WarmRequest>,
    responses((status = 202, description = "Started, as far as encode slots allow", body = WarmAnswer)))]
pub async fn warm(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let body = call.body().await?;
    let request: WarmRequest = match body.trim_ascii().is_empty() {
        true => WarmRequest::default(),
        false => call.parse(&body)?,
    };
    let ttl = request.ttl_seconds.unwrap_or(DEFAULT_TTL_SECONDS);
    if !(1..=MAX_TTL_SECONDS).contains(&ttl) {
        return Err(Error::invalid_field("ttlSeconds", format!("must be an integer from 1 to {MAX_TTL_SECONDS}")));
    }
    let all = service.channels.all();
    let requested_ids: Option<HashSet<u32>> = request.channel_ids.map(|ids| ids.into_iter().collect());
    let requested = all.iter().filter(|channel| match &requested_ids {
        None => channel.settings.enabled,
        Some(ids) => ids.contains(&channel.id),
    });
    let mut room = live::free_warm_slots(&service);
    let mut channels = Vec::new();
    for channel in requested {
        channels.push(warm_channel(&service, channel, &mut room, Duration::from_secs(ttl)));
    }
    let unknown = requested_ids.iter().flatten().filter(|id| all.iter().all(|channel| channel.id != **id));
    channels.extend(unknown.map(|id| Warmth { channel_id: *id, state: "skipped", reason: Some("unsupported") }));
    live::start_maintenance(&service);
    let accepted = channels.iter().filter(|channel| channel.reason.is_none()).count();
    let expires_at = Some(format_timestamp(service.clock.now() + Duration::from_secs(ttl)));
    Ok(reply::json_with(StatusCode::ACCEPTED, &WarmAnswer { accepted, channels, expires_at }))
}

fn warm_channel(service: &Arc<Service>, channel: &Arc<Channel>, room: &mut usize, ttl: Duration) -> Warmth {
    let readiness = |state, reason| Warmth { channel_id: channel.id, state, reason };
    if !channel.settings.enabled {
        return readiness("skipped", Some("disabled"));
    }
    if let Err(error) = ingest::start_ingest(service, channel) {
        return readiness("skipped", Some(if error.code == Code::ServerBusy { "limit" } else { "disabled" }));
    }
    let is_ready = live::is_ready(service, channel);
    // A channel that is already kept warm holds its slot.
    if !live::is_kept_ready(service, channel) && live::needs_slot_to_warm(service, channel) {
        if *room == 0 {
            return readiness("skipped", Some("limit"));
        }
        *room -= 1;
    }
    service.viewers.keep_warm(channel.id, ttl);
    readiness(if is_ready { "warm" } else { "warming" }, None)
}

/// List warm channels
#[utoipa::path(get, path = "/api/livetv/warm",
    responses((status = 200, description = "All channels that are kept warm", body = WarmAnswer)))]
pub async fn warmth(service: Arc<Service>, _call: Call) -> Result<Response> {
    let warm = service.viewers.warm_channels();
    let is_kept_warm = |channel: &Arc<Channel>| live::is_kept_by(&warm, channel);
    let readiness = |channel: Arc<Channel>| {
        let is_ready = live::is_ready(&service, &channel);
        Warmth { channel_id: channel.id, state: if is_ready { "warm" } else { "warming" }, reason: None }
    };
    let channels: Vec<Warmth> = service.channels.all().into_iter().filter(is_kept_warm).map(readiness).collect();
    Ok(reply::json(&WarmAnswer { accepted: channels.len(), channels, expires_at: None }))
}
