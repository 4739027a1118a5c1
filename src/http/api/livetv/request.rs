//! Request bodies that create or change channels.

use jiff::Timestamp;

use super::block_schedule::{FillerRequest, ScheduleRequest};
use super::item_request::{ItemRequest, MAX_ITEMS, validate_items};
use super::output::{self, LanguagesRequest, OutputRequest, WatermarkRequest};
use super::rights::{self, ClaimRequest, FeedRequest, deserialize_nullable};
use super::schedule_mode::parse_mode;
use crate::domain::external::GuideChannelId;
use crate::domain::schedule::ScheduleMode;
use crate::http::api::prelude::*;
use crate::service::channels::{ChangeTime, ChannelChange, ExternalChange, SourceType};

/// Largest integer that every JSON parser represents exactly.
const MAX_SEED: u64 = (1 << 53) - 1;

/// A channel. Absent fields keep their value, or get a default in a new channel. A new channel needs `name` and `items`
/// (or, with `scheduleMode` `blocks`, `schedule`).
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChannelRequest {
    /// 1 to 100 characters.
    name: Option<String>,
    /// 1 to 99999; default for a new channel: the lowest free number.
    number: Option<u32>,
    /// `virtual` (default): scheduled from the library. `external` and `m3u-import` relay an external stream and need
    /// `source`, `provenance`, `rights` and `attestation`.
    source_type: Option<String>,
    /// `sequential`, `shuffle` (default), `shuffleInOrder`, `random`, `weighted` or `blocks`.
    schedule_mode: Option<String>,
    always_on: Option<bool>,
    category: Option<String>,
    /// Null for the generated logo.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    logo_url: Option<Option<String>>,
    enabled: Option<bool>,
    /// IANA time zone name; default: the server's.
    timezone: Option<String>,
    /// Seed of the programme order, 0 to 2^53 - 1; default: random.
    seed: Option<u64>,
    /// Start of the first programme of a new channel, in the years 2000 to 2099; default: now, rounded down to the minute.
    start_at: Option<String>,
    items: Option<Vec<ItemRequest>>,
    guide: Option<GuideRequest>,
    output: Option<OutputRequest>,
    languages: Option<LanguagesRequest>,
    schedule: Option<ScheduleRequest>,
    filler: Option<FillerRequest>,
    offline: Option<OfflineRequest>,
    /// Null for no watermark.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    watermark: Option<Option<WatermarkRequest>>,
    /// The channel pauses while it has no viewers. Excludes `alwaysOn`, `scheduleMode` `blocks` and external channels.
    on_demand: Option<bool>,
    #[serde(flatten)]
    claim: ClaimRequest,
    /// The stream of an external channel.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    source: Option<Option<FeedRequest>>,
}

/// The slate, aired when nothing can be played.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OfflineRequest {
    /// Text on the slate, 1 to 100 characters; null for no text.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    message: Option<Option<String>>,
    /// Path of a PNG or JPEG inside a library root to show as the slate; null for the built-in image.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    image_url: Option<Option<String>>,
}

/// Guide settings of a channel.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GuideRequest {
    /// Description of the channel.
    description: Option<String>,
    /// Whether the guide lists filler between programmes; default false.
    show_filler: Option<bool>,
    /// External channels only: id of the imported guide channel (XMLTV) whose programmes are listed; null (default) for the
    /// `tvg-id` of its playlist.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    xmltv_id: Option<Option<String>>,
    /// Source of that guide; null (default) for the first source with such a channel.
    xmltv_source_id: Option<u32>,
    /// Shorter programmes are merged into the guide entry before them, unless all programmes are shorter. Default 120; 0
    /// merges none.
    min_programme_seconds: Option<u32>,
}

impl ChannelRequest {
    pub fn into_new_channel(mut self, skip_invalid: bool, username: &str, urls: ResourceUrls) -> Result<ChannelChange> {
        let start_at = self.start_at.take();
        let change = self.into_change(skip_invalid, ChangeTime::default(), username, urls)?;
        if change.name.is_none() {
            return Err(Error::invalid_field("name", "is missing"));
        }
        let from_library = matches!(change.source_type, None | Some(SourceType::Virtual));
        let has_blocks = change.requested_blocks.is_some() || change.mode == Some(ScheduleMode::Blocks);
        if from_library && change.requested_items.is_none() && !has_blocks {
            return Err(Error::invalid_field("items", "is missing"));
        }
        Ok(ChannelChange { start_at: start_at.as_deref().map(parse_start).transpose()?, ..change })
    }

    pub fn into_change(
        mut self,
        skip_invalid: bool,
        apply: ChangeTime,
        username: &str,
        urls: ResourceUrls,
    ) -> Result<ChannelChange> {
        let external = self.take_external_change(username)?;
        let source_type = self.source_type.as_deref().map(parse_source_type).transpose()?;
        if self.start_at.is_some() {
            return Err(Error::invalid_field("startAt", "can only be set when a channel is created"));
        }
        let guide = self.guide;
        let mut output = output::output_change(self.output, self.languages)?;
        let to_settings = |sent: Option<WatermarkRequest>| sent.map_or(Ok(None), WatermarkRequest::into_settings);
        output.watermark = self.watermark.map(to_settings).transpose()?;
        let (message, image_path) = self.offline.map_or((None, None), |offline| (offline.message, offline.image_url));
        let mode = self.schedule_mode.as_deref().map(parse_mode).transpose()?;
        // A channel without items of its own is received with an empty list, and perhaps sent back with it.
        let items = self.items.filter(|items| mode != Some(ScheduleMode::Blocks) || !items.is_empty());
        if items.as_ref().is_some_and(Vec::is_empty) {
            return Err(Error::invalid_field("items", format!("must have 1 to {MAX_ITEMS} entries")));
        }
        check_integer("seed", self.seed, 0..=MAX_SEED)?;
        Ok(ChannelChange {
            name: self.name,
            number: self.number,
            enabled: self.enabled,
            always_on: self.always_on,
            on_demand: self.on_demand,
            category: self.category,
            show_filler: guide.as_ref().and_then(|guide| guide.show_filler),
            min_guide_seconds: guide.as_ref().and_then(|guide| guide.min_programme_seconds),
            description: guide.and_then(|guide| guide.description),
            logo_url: self.logo_url.and_then(|url| url.map_or(Some(None), |url| urls.requested_logo(&url))),
            slate_text: message,
            slate_image: image_path,
            timezone: self.timezone,
            seed: self.seed,
            mode,
            start_at: None,
            requested_items: items.map(|items| validate_items("items", items)).transpose()?,
            requested_blocks: self.schedule.map(ScheduleRequest::into_plan).transpose()?,
            requested_filler: self.filler.map(FillerRequest::into_filler).transpose()?,
            source_type,
            external,
            output,
            skip_invalid,
            apply,
        })
    }

    /// Changes of the external stream and its rights; None if the request has neither.
    fn take_external_change(&mut self, username: &str) -> Result<Option<ExternalChange>> {
        let (claim, feed) = (std::mem::take(&mut self.claim), self.source.take());
        let source = self.guide.as_ref().and_then(|guide| guide.xmltv_source_id);
        let id = self.guide.as_mut().and_then(|guide| guide.xmltv_id.take());
        if id.iter().flatten().any(|id| id.is_empty() || id.len() > 1200 || id.chars().any(char::is_control)) {
            return Err(Error::invalid_field("guide.xmltvId", "must be an XMLTV channel id of 1 to 1200 bytes"));
        }
        let guide = id.map(|id| id.map(|id| GuideChannelId { source, id }));
        if claim.is_empty() && feed.is_none() && guide.is_none() {
            return Ok(None);
        }
        let feed = feed.flatten().unwrap_or_default();
        feed.validate()?;
        Ok(Some(ExternalChange {
            failover: feed.failover_addresses()?,
            url: feed.url.as_deref().map(|url| rights::parse_stream_address("source.url", url)).transpose()?,
            user_agent: feed.user_agent,
            guide_channel: guide,
            claim: claim.into_claim()?,
            user_id: username.to_owned(),
        }))
    }
}

/// Parses the start of the first programme: an instant of the years 2000 to 2099.
fn parse_start(text: &str) -> Result<Timestamp> {
    let (first, last) = (946_684_800_000, 4_102_444_800_000);
    let instant: Option<Timestamp> = text.parse().ok();
    instant.filter(|instant| (first..last).contains(&instant.as_millisecond())).ok_or_else(|| {
        Error::invalid_field("startAt", "must be an instant of the years 2000 to 2099, e.g. 2026-01-01T00:00:00Z")
    })
}

fn parse_source_type(name: &str) -> Result<SourceType> {
    let types =
        [("virtual", SourceType::Virtual), ("external", SourceType::External), ("m3u-import", SourceType::Import)];
    parse_choice("sourceType", name, &types)
}
