//! `/api/livetv/tokens` and `/api/livetv/sign`: live TV for players that cannot sign in.

use http::StatusCode;

use super::links::base_url;
use super::view_query::UnixSecondsText;
use crate::domain::account::StreamToken;
use crate::domain::channel::Channel;
use crate::domain::signing::{MAX_LIFE_SECONDS, SignedParameters};
use crate::domain::time::{WallMs, format_timestamp};
use crate::http::api::prelude::*;
use crate::http::reply::secretive;

/// Lifetime of a signed URL, seconds: default and minimum.
const TTL_SECONDS: i64 = 43_200;
const MIN_TTL_SECONDS: i64 = 60;

/// A new stream token for one device.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenRequest {
    /// Name of the device.
    name: Option<String>,
    /// Channels the token is valid for; null (default) for all.
    channel_ids: Option<Vec<u32>>,
    /// Expiry, an instant; null (default) for no expiry.
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

/// A new stream token.
#[derive(Serialize, ToSchema)]
pub struct TokenAnswer {
    token: TokenView,
    /// The value of the query parameter `token`. Shown only once.
    secret: String,
}

/// A stream token that was revoked.
#[derive(Serialize, ToSchema)]
pub struct TokenGone {
    pub id: String,
    pub deleted: bool,
}

/// A URL to sign: of either `channelId` or `resource`.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignRequest {
    channel_id: Option<u32>,
    /// `m3u`: the playlist of all channels, whose links are signed too and expire with it; `xmltv`: the guide.
    resource: Option<ListName>,
    /// Lifetime in seconds, 60 to 604800; default 43200.
    ttl_seconds: Option<i64>,
    /// Channels only: start at the beginning of the current programme.
    from_start: Option<bool>,
}

/// A resource of the lineup that can be signed.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ListName {
    M3u,
    Xmltv,
}

/// A signed URL and its signature parameters.
#[derive(Serialize, ToSchema)]
pub struct SignedAnswer {
    url: String,
    token: String,
    exp: String,
    sig: String,
}

/// List your stream tokens
#[utoipa::path(get, path = "/api/livetv/tokens", responses(
    (status = 200, description = "Oldest first, without their secrets", body = TokensAnswer)))]
pub async fn tokens(service: Arc<Service>, call: Call) -> Result<Response> {
    Ok(reply::json(&TokensAnswer::new(service.accounts.stream_tokens(&call.user()?.user_id))))
}

/// Create a stream token for one device
#[utoipa::path(post, path = "/api/livetv/tokens", request_body = TokenRequest, responses(
    (status = 201, description = "Created; the secret is shown only once", body = TokenAnswer),
    (status = 400, description = "`VALIDATION_ERROR`"),
    (status = 409, description = "`CONFLICT`: the user has too many stream tokens")))]
pub async fn add(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let request: TokenRequest = call.json().await?;
    let parse = |text: &str| text.parse().map_err(|_| Error::invalid_field("expiresAt", "must be an ISO 8601 instant"));
    let expires_at = request.expires_at.as_deref().map(parse).transpose()?;
    let name = request.name.unwrap_or_default();
    let (by, accounts) = (call.user()?, &service.accounts);
    let added = accounts.add_stream_token(Some(by), &by.user_id, &name, request.channel_ids, expires_at);
    let (token, secret) = added.await?;
    let answer = TokenAnswer { token: TokenView::new(token), secret };
    Ok(secretive(reply::json_with(StatusCode::CREATED, &answer)))
}

/// Revoke a stream token and all URLs signed with it
#[utoipa::path(delete, path = "/api/livetv/tokens/{id}", params(("id" = String, Path, description = "Token id")), responses(
    (status = 200, description = "Revoked", body = TokenGone),
    (status = 404, description = "`NOT_FOUND`: you have no such token")))]
pub async fn revoke(service: Arc<Service>, call: Call) -> Result<Response> {
    let id = call.params[0].clone();
    service.accounts.revoke_stream_token(&call.user()?.user_id, &id).await?;
    Ok(reply::json(&TokenGone { id, deleted: true }))
}

/// Sign the URL of a channel, of the playlist of all channels, or of their guide
#[utoipa::path(post, path = "/api/livetv/sign", request_body = SignRequest, responses(
    (status = 200, description = "The URL works without other credentials until it expires or the login that signed it ends", body = SignedAnswer),
    (status = 400, description = "`VALIDATION_ERROR`"),
    (status = 404, description = "`CHANNEL_NOT_FOUND`")))]
pub async fn sign(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let request: SignRequest = call.json().await?;
    let (resource, suffix) = match (request.channel_id, request.resource) {
        (Some(id), None) => {
            super::find_visible_channel(&service, &call, id)?;
            (format!("livetv/watch/{id}"), "/live.m3u8")
        }
        (None, Some(ListName::M3u)) => ("livetv/m3u".to_owned(), ""),
        (None, Some(ListName::Xmltv)) => ("livetv/xmltv".to_owned(), ""),
        (None, None) => return Err(Error::invalid_field("channelId", "is required, or resource instead")),
        (Some(_), Some(_)) => return Err(Error::invalid_field("resource", "must be absent when channelId is given")),
    };
    check_integer("ttlSeconds", request.ttl_seconds, MIN_TTL_SECONDS..=MAX_LIFE_SECONDS)?;
    let start_query = match request.from_start {
        Some(true) if request.resource.is_some() => {
            return Err(Error::invalid_field("fromStart", "is only valid with channelId"));
        }
        Some(true) => {
            // A player reloads the playlist and has no session in which the server could keep the start. Without `at`, the
            // playlist would start over with the next programme.
            let channel = request.channel_id.map(|id| service.channels.get(id)).transpose()?;
            let start_ms = channel.and_then(|channel| current_programme_start_ms(&service, &channel));
            let at = start_ms.map(|start_ms| format!("&at={}", UnixSecondsText(start_ms)));
            format!("&fromStart=1{}", at.unwrap_or_default())
        }
        _ => String::new(),
    };
    let exp = service.clock.now().as_second() + request.ttl_seconds.unwrap_or(TTL_SECONDS);
    let SignedParameters { token, exp, sig } = service.accounts.sign_link(call.user()?, &resource, exp);
    let base = base_url(&service, &call)?;
    let url = format!("{base}/api/{resource}{suffix}?token={token}&exp={exp}&sig={sig}{start_query}");
    Ok(secretive(reply::json(&SignedAnswer { url, token, exp, sig })))
}

/// Start of the current programme; None before the first programme and for external channels.
fn current_programme_start_ms(service: &Service, channel: &Channel) -> Option<WallMs> {
    let now_ms = service.clock.now_ms();
    channel.definition.programme_bounds(channel.channel_ms_at(now_ms)).map(|(start_ms, _)| channel.wall_ms_at(start_ms))
}

impl TokensAnswer {
    pub fn new(tokens: Vec<StreamToken>) -> Self {
        Self { tokens: tokens.into_iter().map(TokenView::new).collect() }
    }
}

impl TokenView {
    fn new(token: StreamToken) -> Self {
        let StreamToken { id, name, channels: channel_ids, .. } = token;
        let [last_used_at, expires_at] = [token.last_used_at, token.expires_at].map(|at| at.map(format_timestamp));
        Self { id, name, channel_ids, created_at: format_timestamp(token.created_at), last_used_at, expires_at }
    }
}
