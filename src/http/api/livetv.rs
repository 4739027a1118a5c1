//! `/api/livetv/channels`: list, create, change and delete channels.

use crate::domain::access::{Principal, Role};
use crate::domain::channel::Channel;
use crate::domain::time::WallMs;
use crate::http::api::prelude::*;
use crate::service::channels::ChangeTime;
use crate::service::live;

pub mod audit;
mod block_schedule;
mod channel_view;
mod decoded_video;
pub mod export;
pub mod guide;
mod item_request;
mod links;
pub mod logo;
mod output;
mod request;
pub(super) mod rights;
mod rule_request;
mod schedule_mode;
pub mod segments;
pub mod sources;
pub mod tokens;
pub mod tuner;
mod view_query;
pub mod warm;
pub mod watch;

use channel_view::ChannelView;
use guide::{GuideArtwork, GuideEntry};
use request::ChannelRequest;

/// Largest body of a channel request, bytes.
pub(super) const MAX_BODY_BYTES: u64 = 1 << 20;

/// Length of a preview, and the most programmes it shows.
const PREVIEW_MS: i64 = 24 * 3600 * 1000;
const MAX_PREVIEW_ENTRIES: usize = 500;

/// All channels.
#[derive(Serialize, ToSchema)]
pub(super) struct ChannelsAnswer<'a> {
    channels: Vec<ChannelView<'a>>,
}

/// One channel.
#[derive(Serialize, ToSchema)]
pub(super) struct ChannelAnswer<'a> {
    channel: ChannelView<'a>,
}

/// A deleted channel.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChannelGone {
    channel_id: u32,
    deleted: bool,
}

/// A channel as the request would make it, and the guide of its first or next day.
#[derive(Serialize, ToSchema)]
pub(super) struct PreviewAnswer<'a> {
    channel: ChannelView<'a>,
    entries: Vec<GuideEntry<'a>>,
}

/// All channels, by number
#[utoipa::path(get, path = "/api/livetv/channels", params(
    ("enabled" = Option<String>, Query, description = "`true`, `false` or `all`; default `all`. Only admins see disabled channels"),
    ("category" = Option<String>, Query, description = "Only channels of this category")), responses(
    (status = 200, description = "Each channel with its current and next programme", body = ChannelsAnswer)))]
pub async fn channels(service: Arc<Service>, call: Call) -> Result<Response> {
    let is_admin = call.user()?.role == Role::Admin;
    let choices = [("true", Some(true)), ("false", Some(false)), ("all", None)];
    let enabled = parse_choice("enabled", call.query("enabled").unwrap_or("all"), &choices)?;
    let category = call.query("category");
    let now = service.clock.now();
    let mut visible = service.channels.all();
    visible.retain(|channel| {
        (is_admin || channel.settings.enabled)
            && enabled.is_none_or(|enabled| channel.settings.enabled == enabled)
            && category.is_none_or(|category| *channel.settings.category == *category)
    });
    let mut artwork = GuideArtwork::new(&service, call.user()?);
    let views = visible.iter().map(|channel| {
        let view = ChannelView::new(&service, channel, now).with_state(&service, channel);
        let view = view.with_artwork(&service, &mut artwork);
        if is_admin { view.with_rights(&service, channel) } else { view }
    });
    Ok(reply::json(&ChannelsAnswer { channels: views.collect() }))
}

/// One channel
#[utoipa::path(get, path = "/api/livetv/channels/{id}", params(("id" = u32, Path, description = "Channel id")), responses(
    (status = 200, description = "For admins, with the items it is made of", body = ChannelAnswer)))]
pub async fn channel(service: Arc<Service>, call: Call) -> Result<Response> {
    let channel = find_visible_channel(&service, &call, parse_channel_id(&call)?)?;
    let view = ChannelView::new(&service, &channel, service.clock.now()).with_state(&service, &channel);
    let mut view = view.with_artwork(&service, &mut GuideArtwork::new(&service, call.user()?));
    if call.user()?.role == Role::Admin {
        view = view.with_items(&service, &channel);
    }
    Ok(reply::json(&ChannelAnswer { channel: view }))
}

/// Create a channel from the library or from an external stream
#[utoipa::path(post, path = "/api/livetv/channels", request_body = ChannelRequest, params(
    ("skipInvalid" = Option<bool>, Query, description = "Skip items that cannot be aired instead of rejecting the request")), responses(
    (status = 201, description = "Created", body = ChannelAnswer),
    (status = 400, description = "`VALIDATION_ERROR`, `INVALID_PATH`"),
    (status = 403, description = "`FORBIDDEN`: a path is outside the library roots, or the user is not an admin"),
    (status = 404, description = "`NOT_FOUND`: an item does not exist"),
    (status = 409, description = "`CONFLICT`: another channel has this number"),
    (status = 422, description = "`UNPLAYABLE_MEDIA`: `details.items` cannot be aired; `RIGHTS_BASIS_REQUIRED`"),
    (status = 503, description = "`PROBE_TIMED_OUT`: `details.items` are not probed yet; try again")))]
pub async fn add(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let request: ChannelRequest = call.json().await?;
    let urls = ResourceUrls::from_config(&service.config);
    let change = request.into_new_channel(parse_skip_invalid(&call)?, &call.user()?.username, urls)?;
    let channel = live::save_channel(&service, None, change).await?;
    let view = ChannelView::new(&service, &channel, service.clock.now()).with_items(&service, &channel);
    let location = urls.external_path(format_args!("/api/livetv/channels/{}", channel.id));
    reply::created(&ChannelAnswer { channel: view }, Some(location))
}

/// Change a channel
///
/// The current programme and past programmes do not change. A new order applies after the current programme, unless
/// `applyAt` selects another time.
#[utoipa::path(patch, path = "/api/livetv/channels/{id}", request_body = ChannelRequest, params(
    ("id" = u32, Path, description = "Channel id"),
    ("applyAt" = Option<String>, Query, description = "`boundary` (default): at the end of the current programme; `now`; or an instant: at the end of the programme that is on at that time"),
    ("skipInvalid" = Option<bool>, Query, description = "Skip items that cannot be aired instead of rejecting the request")), responses(
    (status = 200, description = "Changed", body = ChannelAnswer),
    (status = 404, description = "`CHANNEL_NOT_FOUND`; `NOT_FOUND`: an item does not exist"),
    (status = 409, description = "`CONFLICT`: another channel has this number"),
    (status = 422, description = "`UNPLAYABLE_MEDIA`: `details.items` cannot be aired; `RIGHTS_BASIS_REQUIRED`"),
    (status = 503, description = "`PROBE_TIMED_OUT`: `details.items` are not probed yet; try again")))]
pub async fn change(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let id = parse_channel_id(&call)?;
    let request: ChannelRequest = call.json().await?;
    let urls = ResourceUrls::from_config(&service.config);
    let change =
        request.into_change(parse_skip_invalid(&call)?, parse_apply_at(&call)?, &call.user()?.username, urls)?;
    let channel = live::save_channel(&service, Some(id), change).await?;
    let view = ChannelView::new(&service, &channel, service.clock.now()).with_state(&service, &channel);
    Ok(reply::json(&ChannelAnswer { channel: view.with_items(&service, &channel) }))
}

/// Delete a channel; its id is never reused
#[utoipa::path(delete, path = "/api/livetv/channels/{id}", params(("id" = u32, Path, description = "Channel id")), responses(
    (status = 200, description = "Deleted", body = ChannelGone)))]
pub async fn remove(service: Arc<Service>, call: Call) -> Result<Response> {
    let channel_id = parse_channel_id(&call)?;
    service.remove_channel(channel_id, &call.user()?.username).await?;
    Ok(reply::json(&ChannelGone { channel_id, deleted: true }))
}

/// Skip to the next programme of an on-demand channel
///
/// The skip takes effect at once for all viewers; without viewers, the next programme starts with the next viewer. Media
/// playlists continue without a break: aired segments stay listed, and the sequence numbers of later ones follow on.
#[utoipa::path(post, path = "/api/livetv/channels/{id}/skip", params(("id" = u32, Path, description = "Channel id")), responses(
    (status = 200, description = "The programme that is on after the skip", body = guide::NowAnswer),
    (status = 409, description = "`CONFLICT`: the channel is not `onDemand`, or has not started yet")))]
pub async fn skip(service: Arc<Service>, call: Call) -> Result<Response> {
    let channel = live::skip(&service, parse_channel_id(&call)?).await?;
    Ok(guide::now_response(&service, call.user()?, &channel))
}

/// Preview a new channel without saving it
#[utoipa::path(post, path = "/api/livetv/channels/preview", request_body = ChannelRequest, params(
    ("skipInvalid" = Option<bool>, Query, description = "Skip items that cannot be aired instead of rejecting the request")), responses(
    (status = 200, description = "The channel and the guide of its first day", body = PreviewAnswer),
    (status = 422, description = "`UNPLAYABLE_MEDIA`: `details.items` cannot be aired"),
    (status = 503, description = "`PROBE_TIMED_OUT`: `details.items` are not probed yet; try again")))]
pub async fn preview(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let request: ChannelRequest = call.json().await?;
    let urls = ResourceUrls::from_config(&service.config);
    let change = request.into_new_channel(parse_skip_invalid(&call)?, &call.user()?.username, urls)?;
    let channel = service.draft_channel(None, &change).await?;
    Ok(preview_response(&service, call.user()?, &channel))
}

/// Preview a change of a channel without saving it
#[utoipa::path(post, path = "/api/livetv/channels/{id}/preview", request_body = ChannelRequest, params(
    ("id" = u32, Path, description = "Channel id"),
    ("applyAt" = Option<String>, Query, description = "As in the `PATCH` request"),
    ("skipInvalid" = Option<bool>, Query, description = "Skip items that cannot be aired instead of rejecting the request")), responses(
    (status = 200, description = "The channel and the guide of the next day", body = PreviewAnswer)))]
pub async fn preview_change(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let id = parse_channel_id(&call)?;
    let request: ChannelRequest = call.json().await?;
    let urls = ResourceUrls::from_config(&service.config);
    let change =
        request.into_change(parse_skip_invalid(&call)?, parse_apply_at(&call)?, &call.user()?.username, urls)?;
    let current = service.channels.get(id)?;
    let channel = service.draft_channel(Some(&current), &change).await?;
    Ok(preview_response(&service, call.user()?, &channel))
}

fn preview_response(service: &Service, principal: &Principal, channel: &Channel) -> Response {
    let now = service.clock.now();
    let now_ms = WallMs::from(now);
    let start = channel.definition.revisions.first().map_or(now_ms, |first| channel.wall_ms_at(first.start_ms));
    let from = now_ms.max(start);
    let entries = channel.guide_entries(from, from + PREVIEW_MS, now_ms).take(MAX_PREVIEW_ENTRIES);
    let urls = ResourceUrls::from_config(&service.config);
    let mut artwork = GuideArtwork::new(service, principal);
    let entries =
        entries.map(|entry| GuideEntry::new(channel, &entry, now, urls).with_artwork(&mut artwork, service)).collect();
    let channel = ChannelView::new(service, channel, now).with_items(service, channel);
    reply::json(&PreviewAnswer { channel, entries })
}

fn parse_channel_id(call: &Call) -> Result<u32> {
    let text = &call.params[0];
    text.parse().map_err(|_| Error::new(Code::ChannelNotFound, "the channel id must be a number"))
}

/// The channel, if the user may see it.
fn find_visible_channel(service: &Service, call: &Call, id: u32) -> Result<Arc<Channel>> {
    let channel = service.channels.get(id)?;
    let user = call.user()?;
    match user.may_watch(id) && (channel.settings.enabled || user.role == Role::Admin) {
        true => Ok(channel),
        false => Err(Error::new(Code::ChannelNotFound, format!("there is no channel {id}"))),
    }
}

fn parse_skip_invalid(call: &Call) -> Result<bool> {
    match call.query("skipInvalid") {
        None | Some("false" | "0") => Ok(false),
        Some("true" | "1") => Ok(true),
        Some(_) => Err(Error::invalid_field("skipInvalid", "must be true or false")),
    }
}

fn parse_apply_at(call: &Call) -> Result<ChangeTime> {
    match call.query("applyAt") {
        None | Some("boundary") => Ok(ChangeTime::Boundary),
        Some("now") => Ok(ChangeTime::Now),
        Some(text) => text
            .parse()
            .map(ChangeTime::At)
            .map_err(|_| Error::invalid_field("applyAt", "must be now, boundary or an ISO 8601 instant")),
    }
}
