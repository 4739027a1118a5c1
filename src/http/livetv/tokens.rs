//! `/api/livetv/tokens` and `/api/livetv/sign`: live TV for players that cannot sign in.

use std::sync::Arc;

use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderValue, REFERRER_POLICY};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use warp::reply::Response;

use super::asked::Unix;
use super::links::base;
use crate::domain::account::StreamToken;
use crate::domain::channel::Channel;
use crate::domain::signing::{Link, MAX_LIFE_SECONDS};
use crate::domain::time::instant;
use crate::error::{Error, Result};
use crate::http::call::Call;
use crate::http::reply;
use crate::service::Service;

/// Life of a signed address, seconds: unless requested otherwise, and at least.
const TTL_SECONDS: i64 = 43_200;
const MIN_TTL_SECONDS: i64 = 60;

/// A device that is to watch.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenRequest {
    /// What the device is called.
    name: Option<String>,
    /// The channels it may watch; null (when absent) for all.
    channel_ids: Option<Vec<u32>>,
    /// Until when; null (when absent) for as long as it is not revoked.
    expires_at: Option<String>,
}

/// A stream token, without its secret.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StreamToken)]
pub struct TokenView {
    id: String,
    name: String,
    channel_ids: Option<Vec<u32>>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    last_used_at: Option<String>,
    #[schema(format = DateTime)]
    expires_at: Option<String>,
}

/// A user's stream tokens.
#[derive(Serialize, ToSchema)]
pub struct TokensAnswer {
    tokens: Vec<TokenView>,
}

/// A stream token that was made.
#[derive(Serialize, ToSchema)]
pub struct TokenAnswer {
    token: TokenView,
    /// What is put on addresses as `token`. Shown this once.
    secret: String,
}

/// A stream token that was revoked.
#[derive(Serialize, ToSchema)]
pub struct TokenGone {
    id: String,
    deleted: bool,
}

/// What to sign an address for: either `channelId` or `resource`.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignRequest {
    channel_id: Option<u32>,
    /// The whole lineup: `m3u`, whose links are signed too and end with it, or its guide, `xmltv`.
    resource: Option<ListName>,
    /// 60 to 604800; 43200 when absent.
    ttl_seconds: Option<i64>,
    /// Of a channel: from the start of what is on.
    from_start: Option<bool>,
}

/// What of the lineup is signed.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ListName {
    M3u,
    Xmltv,
}

/// A signed address, and what it was made of.
#[derive(Serialize, ToSchema)]
pub struct SignedAnswer {
    url: String,
    token: String,
    exp: String,
    sig: String,
}

/// One's own stream tokens
#[utoipa::path(get, path = "/api/livetv/tokens",
    responses((status = 200, description = "The oldest first, without their secrets", body = TokensAnswer)))]
pub async fn tokens(service: Arc<Service>, call: Call) -> Result<Response> {
    Ok(reply::json(&TokensAnswer::new(service.accounts.stream_tokens(&call.user()?.user_id))))
}

/// Make a stream token for one device
#[utoipa::path(post, path = "/api/livetv/tokens", request_body = TokenRequest,
    responses(
        (status = 201, description = "Made; its secret is shown this once", body = TokenAnswer),
        (status = 400, description = "`VALIDATION_ERROR`"),
        (status = 409, description = "`CONFLICT`: there are too many")))]
pub async fn add(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let user_id = call.user()?.user_id.clone();
    let asked: TokenRequest = call.json().await?;
    let instant = |text: &str| text.parse().map_err(|_| Error::field("expiresAt", "must be an instant"));
    let expires_at = asked.expires_at.as_deref().map(instant).transpose()?;
    let name = asked.name.unwrap_or_default();
    let (token, secret) = service.accounts.add_stream_token(&user_id, &name, asked.channel_ids, expires_at).await?;
    let answer = TokenAnswer { token: TokenView::new(token), secret };
    Ok(secretive(reply::json_with(StatusCode::CREATED, &answer)))
}

/// Revoke a stream token, and every address signed with it
#[utoipa::path(delete, path = "/api/livetv/tokens/{id}", params(("id" = String, Path, description = "As listed")),
    responses(
        (status = 200, description = "Revoked", body = TokenGone),
        (status = 404, description = "`NOT_FOUND`: it is none of one's own")))]
pub async fn revoke(service: Arc<Service>, call: Call) -> Result<Response> {
    let id = call.params[0].clone();
    service.accounts.revoke_stream_token(&call.user()?.user_id, &id).await?;
    Ok(reply::json(&TokenGone::new(id)))
}

/// Sign the address of a channel, of the playlist of all channels, or of their guide
#[utoipa::path(post, path = "/api/livetv/sign", request_body = SignRequest,
    responses(
        (status = 200, description = "It works without a token, until it ends or the login it was made with does", body = SignedAnswer),
        (status = 400, description = "`VALIDATION_ERROR`"),
        (status = 404, description = "`CHANNEL_NOT_FOUND`")))]
pub async fn sign(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let request: SignRequest = call.json().await?;
    let (resource, file) = match (request.channel_id, request.resource) {
        (Some(id), None) => {
            super::seen(&service, &call, id)?;
            (format!("livetv/watch/{id}"), "/live.m3u8")
        }
        (None, Some(ListName::M3u)) => ("livetv/m3u".to_owned(), ""),
        (None, Some(ListName::Xmltv)) => ("livetv/xmltv".to_owned(), ""),
        (None, None) => return Err(Error::field("channelId", "is missing, and so is resource")),
        (Some(_), Some(_)) => return Err(Error::field("resource", "must be absent where channelId is given")),
    };
    let ttl = request.ttl_seconds.unwrap_or(TTL_SECONDS);
    if !(MIN_TTL_SECONDS..=MAX_LIFE_SECONDS).contains(&ttl) {
        let message = format!("must be an integer from {MIN_TTL_SECONDS} to {MAX_LIFE_SECONDS}");
        return Err(Error::field("ttlSeconds", message));
    }
    let start = match request.from_start {
        Some(true) if request.resource.is_some() => return Err(Error::field("fromStart", "is only for a channel")),
        Some(true) => {
            // A player reads its list again and again, and has no session by which the start could be kept for it: without
            // the instant the list would begin anew with the next programme.
            let channel = request.channel_id.map(|id| service.channels.get(id)).transpose()?;
            let start_ms = channel.and_then(|channel| start_of_what_is_on(&service, &channel));
            start_ms.map_or_else(|| "&fromStart=1".to_owned(), |start_ms| format!("&fromStart=1&at={}", Unix(start_ms)))
        }
        _ => String::new(),
    };
    let exp = service.clock.now().as_second() + ttl;
    let Link { token, exp, sig } = service.accounts.sign_link(call.user()?, &resource, exp);
    let base = base(&service, &call)?;
    let url = format!("{base}/api/{resource}{file}?token={token}&exp={exp}&sig={sig}{start}");
    Ok(secretive(reply::json(&SignedAnswer { url, token, exp, sig })))
}

/// When the programme began that is on; None before a channel's first, and of an external one. Unix ms.
fn start_of_what_is_on(service: &Service, channel: &Channel) -> Option<i64> {
    let now_ms = service.clock.now().as_millisecond();
    channel.definition.whole(channel.time(now_ms)).map(|(start_ms, _)| channel.instant(start_ms))
}

fn secretive(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

impl TokensAnswer {
    pub fn new(tokens: Vec<StreamToken>) -> Self {
        Self { tokens: tokens.into_iter().map(TokenView::new).collect() }
    }
}

impl TokenGone {
    pub fn new(id: String) -> Self {
        Self { id, deleted: true }
    }
}

impl TokenView {
    fn new(token: StreamToken) -> Self {
        Self {
            id: token.id,
            name: token.name,
            channel_ids: token.channels,
            created_at: instant(token.created_at),
            last_used_at: token.last_used_at.map(instant),
            expires_at: token.expires_at.map(instant),
        }
    }
}
