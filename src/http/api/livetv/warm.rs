//! `/api/livetv/warm`: channels prepared before their first viewer.

use std::collections::HashSet;
use std::time::Duration;

use http::StatusCode;

use crate::domain::time::format_timestamp;
use crate::http::api::prelude::*;
use crate::service::live::{self, Readiness};

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
#[utoipa::path(post, path = "/api/livetv/warm", request_body = Option<WarmRequest>, responses(
    (status = 202, description = "Started, as far as encode slots allow", body = WarmAnswer)))]
pub async fn warm(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let body = call.body().await?;
    let request = if body.trim_ascii().is_empty() { WarmRequest::default() } else { call.parse(&body)? };
    check_integer("ttlSeconds", request.ttl_seconds, 1..=MAX_TTL_SECONDS)?;
    let ttl = request.ttl_seconds.unwrap_or(DEFAULT_TTL_SECONDS);
    let ids: Option<HashSet<u32>> = request.channel_ids.map(|ids| ids.into_iter().collect());
    let warmed = live::warm(&service, ids.as_ref(), Duration::from_secs(ttl));
    let channels: Vec<Warmth> = warmed.into_iter().map(Warmth::new).collect();
    let accepted = channels.iter().filter(|channel| channel.reason.is_none()).count();
    let expires_at = Some(format_timestamp(service.clock.now() + Duration::from_secs(ttl)));
    Ok(reply::json_with(StatusCode::ACCEPTED, &WarmAnswer { accepted, channels, expires_at }))
}

impl Warmth {
    fn new((channel_id, readiness): (u32, Readiness)) -> Self {
        let (state, reason) = match readiness {
            Readiness::Warm => ("warm", None),
            Readiness::Warming => ("warming", None),
            Readiness::LimitReached => ("skipped", Some("limit")),
            Readiness::Disabled => ("skipped", Some("disabled")),
            Readiness::UnknownChannel => ("skipped", Some("unsupported")),
        };
        Self { channel_id, state, reason }
    }
}

/// List warm channels
#[utoipa::path(get, path = "/api/livetv/warm", responses(
    (status = 200, description = "All channels that are kept warm", body = WarmAnswer)))]
pub async fn warmth(service: Arc<Service>, _call: Call) -> Result<Response> {
    let channels: Vec<Warmth> = live::warm_channels(&service).into_iter().map(Warmth::new).collect();
    Ok(reply::json(&WarmAnswer { accepted: channels.len(), channels, expires_at: None }))
}
