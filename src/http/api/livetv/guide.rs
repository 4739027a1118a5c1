//! `GET /api/livetv/epg` and `/api/livetv/now`: the guide (EPG) as JSON, and the current and next programme of a channel.

use std::ops::Range;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue};
use jiff::Timestamp;
use jiff::civil::Date;

use crate::domain::access::{Principal, Role};
use crate::domain::channel::Channel;
use crate::domain::channel_clock::channel_ms_at;
use crate::domain::guide::{Airing, ProgrammeEntries, check_ahead};
use crate::domain::live_window::CATCHUP_MS;
use crate::domain::schedule::NoveltyMarks;
use crate::domain::time::{WallMs, format_ms, format_timestamp, round_to_ms};
use crate::http::api::prelude::*;
use crate::http::conditional::{PreconditionResult, Validators};
use crate::http::text_stream;

mod artwork;
mod entry;

pub use artwork::GuideArtwork;
pub use entry::GuideEntry;

const HOUR_MS: i64 = 3_600_000;

/// Longest span of one guide.
const MAX_SPAN_MS: i64 = 14 * 24 * HOUR_MS;

/// The guide of a range of time.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "OpenAPI only: the response is streamed")]
pub struct GuideAnswer {
    #[schema(format = DateTime)]
    from: String,
    #[schema(format = DateTime)]
    to: String,
    #[schema(format = DateTime)]
    generated_at: String,
    entries: Vec<GuideEntry<'static>>,
}

/// The current and the next programme of a channel.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NowAnswer<'a> {
    channel_id: u32,
    #[schema(format = DateTime)]
    server_time: String,
    /// Null before the channel's first programme.
    current: Option<OnAir<'a>>,
    next: Option<GuideEntry<'a>>,
}

/// The current programme and the position in its file.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OnAir<'a> {
    entry: GuideEntry<'a>,
    media_path: &'a str,
    /// Position in the file, without the filler of earlier breaks.
    offset_seconds: f64,
    /// Time until its end or its next break.
    remaining_seconds: f64,
    /// True for an on-demand channel that is paused: it has no viewers and resumes here with the next one.
    #[serde(rename = "stands")]
    is_paused: bool,
    direct_url: String,
}

/// Guide (EPG) of one or more channels
#[utoipa::path(get, path = "/api/livetv/epg", params(
    ("channelId" = Option<u32>, Query, description = "Only this channel"),
    ("channelIds" = Option<String>, Query, description = "Only these channels: ids, separated by commas; `channelId` is added to them"),
    ("from" = Option<String>, Query, description = "ISO 8601, at most a year in the future; default: an hour ago"),
    ("to" = Option<String>, Query, description = "ISO 8601; default: 24 h after `from`, at most 14 days after it"),
    ("If-None-Match" = Option<String>, Header, description = "ETag of the cached guide")), responses(
    (status = 200, description = "By channel number, then by start; programmes that overlap the range are listed with their full times", body = GuideAnswer),
    (status = 304, description = "The cached guide is still valid")))]
pub async fn epg(service: Arc<Service>, call: Call) -> Result<Response> {
    let now = service.clock.now();
    let from = call.query("from").map(|text| parse_time_ms("from", text)).transpose()?;
    let now_ms = WallMs::from(now);
    let from = from.unwrap_or(now_ms - HOUR_MS);
    check_ahead("from", from, now_ms)?;
    let to = call.query("to").map(|text| parse_time_ms("to", text)).transpose()?.unwrap_or(from + 24 * HOUR_MS);
    if to <= from {
        return Err(Error::invalid_field("to", "must be later than from"));
    }
    if to - from > MAX_SPAN_MS {
        return Err(Error::invalid_field("to", "must be at most 14 days after from"));
    }
    let channels = requested_channels(&service, &call)?;
    let artwork = GuideArtwork::new(&service, call.user()?);
    let etag = build_etag(&service, &channels, artwork.grant(), from..to, now_ms);
    let mut response = match (Validators { etag: &etag, modified: None }).evaluate(&call.headers) {
        PreconditionResult::NotModified => reply::not_modified(),
        PreconditionResult::Proceed | PreconditionResult::Failed => {
            let chunks = guide_chunks(service, channels, artwork, from..to, now);
            let mut response = text_stream::streamed_response(chunks);
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    // Weak: `generatedAt` differs in every response.
    headers.insert(ETAG, HeaderValue::try_from(format!("W/{etag}")).map_err(Error::internal)?);
    Ok(response)
}

/// Current programme, for players that play the file itself
#[utoipa::path(get, path = "/api/livetv/now", params(("channelId" = u32, Query, description = "Channel id")), responses(
    (status = 200, description = "With the position in the file", body = NowAnswer),
    (status = 404, description = "`CHANNEL_NOT_FOUND`")))]
pub async fn now(service: Arc<Service>, call: Call) -> Result<Response> {
    let id = call.query("channelId").ok_or_else(|| Error::invalid_field("channelId", "is missing"))?;
    let channel = super::find_visible_channel(&service, &call, parse_id("channelId", id)?)?;
    Ok(now_response(&service, call.user()?, &channel))
}

/// Responds with the current and next programme of a channel.
pub fn now_response(service: &Service, principal: &Principal, channel: &Channel) -> Response {
    let mut artwork = GuideArtwork::new(service, principal);
    let now = service.clock.now();
    let now_ms = WallMs::from(now);
    let mut guide = channel.guide_entries(now_ms, WallMs::MAX, now_ms).peekable();
    let entry = guide.next_if(|entry| entry.start_ms <= now_ms);
    let addresses = ResourceUrls::from_config(&service.config);
    let mut to_entry =
        |entry: &Airing| GuideEntry::new(channel, entry, now, addresses).with_artwork(&mut artwork, service);
    let next = guide.next().map(|entry| to_entry(&entry));
    let channel_ms = channel.channel_ms_at(now_ms);
    // The file on air may be filler that the guide counts as part of the entry.
    let on_air = match channel.external {
        Some(_) => entry.map(|entry| entry.programme),
        None => channel.definition.programme_at(channel_ms),
    };
    let on_air = on_air.map(|programme| channel.entry_of(programme));
    let direct_url = |path: &str| match channel.external {
        Some(_) => addresses.live_playlist(channel.id),
        None => addresses.media_file(path),
    };
    let current = entry.zip(on_air).map(|(entry, file_entry)| OnAir {
        media_path: file_entry.path,
        offset_seconds: to_seconds(channel_ms - file_entry.programme.start_ms + file_entry.item_offset_ms()),
        remaining_seconds: to_seconds(file_entry.programme.end_ms - channel_ms),
        is_paused: channel.clock.as_ref().is_some_and(|clock| clock.is_paused_at(now_ms)),
        direct_url: direct_url(file_entry.path),
        entry: to_entry(&entry),
    });
    reply::json(&NowAnswer { channel_id: channel.id, server_time: format_timestamp(now), current, next })
}

/// The visible channels that the query names; all enabled ones if it names none.
fn requested_channels(service: &Service, call: &Call) -> Result<Vec<Arc<Channel>>> {
    let mut ids: Option<Vec<u32>> = None;
    for field in ["channelId", "channelIds"] {
        if let Some(list) = call.query(field) {
            ids.get_or_insert_default().extend(parse_ids(field, list)?);
        }
    }
    let is_admin = call.user()?.role == Role::Admin;
    let mut channels = service.channels.all();
    channels.retain(|channel| match &ids {
        None => channel.settings.enabled,
        Some(ids) => ids.contains(&channel.id) && (is_admin || channel.settings.enabled),
    });
    Ok(channels)
}

/// Parses channel ids separated by commas.
pub fn parse_ids(field: &str, list: &str) -> Result<Vec<u32>> {
    list.split(',').map(str::trim).filter(|text| !text.is_empty()).map(|text| parse_id(field, text)).collect()
}

/// Parses a channel id. A number beyond the range becomes `u32::MAX`, which no channel has.
pub fn parse_id(field: &str, text: &str) -> Result<u32> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Error::invalid_field(field, "must be a channel id"));
    }
    Ok(text.parse().unwrap_or(u32::MAX))
}

/// Parses an instant with any offset, or a date as its midnight in UTC.
fn parse_time_ms(field: &str, text: &str) -> Result<WallMs> {
    let day = || Some(text.parse::<Date>().ok()?.at(0, 0, 0, 0).to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp());
    let midnight = (text.len() == "2026-01-01".len()).then(day).flatten();
    // An unencoded `+` of an offset is decoded to a space.
    let instant = midnight.or_else(|| text.replace(' ', "+").parse::<Timestamp>().ok());
    let instant =
        instant.ok_or_else(|| Error::invalid_field(field, "must be an instant, e.g. 2026-01-01T20:15:00Z"))?;
    let (first, last) = (-62_000_000_000_000, 250_000_000_000_000);
    Ok(WallMs(instant.as_millisecond().clamp(first, last)))
}

/// Hashes everything the entries depend on: channel versions, the range, the programmes on air, artwork and its grant.
fn build_etag(
    service: &Service,
    channels: &[Arc<Channel>],
    grant: &str,
    range_ms: Range<WallMs>,
    now_ms: WallMs,
) -> String {
    let Range { start: from, end: to } = range_ms;
    let mut hasher = blake3::Hasher::new();
    hasher.update(&from.0.to_le_bytes()).update(&to.0.to_le_bytes());
    hasher.update(grant.as_bytes()).update(&service.catalogue.artwork_stamp().to_le_bytes());
    for channel in channels {
        let current = service.channels.current_programme(channel, now_ms);
        let mut on_air = current.map_or(u64::MAX, |programme| programme.ordinal);
        if let Some(listings) = &channel.listings {
            on_air = listings.content_hash ^ listings.first_ending_after(now_ms) as u64;
        }
        hasher.update(channel.tvg_id.as_bytes()).update(&channel.version.to_le_bytes()).update(&on_air.to_le_bytes());
        if let Some(clock) = &channel.clock {
            hasher.update(&clock.guide_hash(now_ms).to_le_bytes());
        }
        // `catchupUrl` disappears when a programme leaves the catch-up window.
        if from < now_ms - CATCHUP_MS {
            let oldest = service.channels.oldest_programme(channel, now_ms).map_or(0, |old| old.ordinal);
            hasher.update(&oldest.to_le_bytes());
        }
    }
    format!("\"g-{}\"", &hasher.finalize().to_hex()[..24])
}

fn to_seconds(ms: i64) -> f64 {
    round_to_ms(ms as f64 / 1000.0)
}

fn guide_chunks(
    service: Arc<Service>,
    channels: Vec<Arc<Channel>>,
    mut artwork: GuideArtwork,
    range_ms: Range<WallMs>,
    now: Timestamp,
) -> impl Iterator<Item = Bytes> + Send + Sync + 'static {
    let Range { start: from, end: to } = range_ms;
    let mut channels = channels.into_iter();
    // The channel being written and its remaining entries.
    let mut current: Option<(Arc<Channel>, ProgrammeEntries, NoveltyMarks)> = None;
    let (mut is_head_written, mut is_first_entry) = (false, true);
    text_stream::chunks(move |text| {
        if !is_head_written {
            let (from, to, now) = (format_ms(from.0), format_ms(to.0), format_timestamp(now));
            let head = format!("{{\"from\":\"{from}\",\"to\":\"{to}\",\"generatedAt\":\"{now}\",\"entries\":[");
            text.extend_from_slice(head.as_bytes());
            is_head_written = true;
        }
        let Some((channel, entries, novelty)) = &mut current else {
            current = channels.next().map(|channel| {
                let entries = ProgrammeEntries::new(&channel, from, to, now.into());
                let clock = channel.clock.as_ref().map(|clock| clock.projected(now.into()));
                let channel_ms = |wall_ms| channel_ms_at(clock.as_ref(), wall_ms);
                let novelty = NoveltyMarks::new(&channel.definition, channel_ms(from), channel_ms(to));
                (channel, entries, novelty)
            });
            if current.is_none() {
                text.extend_from_slice(b"]}");
            }
            return current.is_some();
        };
        let Some(airing) = entries.next_entry(&channel.definition) else {
            current = None;
            return true;
        };
        if !std::mem::take(&mut is_first_entry) {
            text.push(b',');
        }
        let addresses = ResourceUrls::from_config(&service.config);
        let entry = GuideEntry::new(channel, &airing, now, addresses).with_artwork(&mut artwork, &service);
        let entry = match channel.external {
            Some(_) => entry,
            None => entry.with_novelty(novelty.is_new(&channel.definition, &airing.programme)),
        };
        serde_json::to_writer(text, &entry).expect("a guide entry is plain data, and writing to memory cannot fail");
        true
    })
}
