//! A channel as it is sent.

use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::clock::{FillerRequest, ScheduleRequest};
use super::guide::GuideEntry;
use super::request;
use crate::domain::channel::{Ask, Channel};
use crate::domain::lineup;
use crate::domain::time::instant;
use crate::service::{Service, onair};

/// A channel.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Channel)]
pub struct ChannelView {
    id: u32,
    name: String,
    number: u32,
    /// `virtual`: made out of the library.
    source_type: &'static str,
    /// `sequential`, `shuffle`, `shuffleInOrder`, `random`, `weighted` or `blocks`.
    schedule_mode: &'static str,
    always_on: bool,
    category: String,
    logo_url: String,
    enabled: bool,
    /// What guides and playlists know it by; stays whatever is changed.
    tvg_id: String,
    description: String,
    timezone: String,
    /// When its first programme started, of those that are remembered.
    #[schema(format = DateTime)]
    epoch: Option<String>,
    /// Grows with every change of what is aired.
    revision: u32,
    /// Grows with every change.
    version: u32,
    /// `idle`: nobody watches; `warm`: ready although nobody does; `starting`; `live`.
    state: &'static str,
    viewers: usize,
    watch_url: String,
    now: Option<GuideEntry>,
    next: Option<GuideEntry>,
    /// Where an external channel comes from; null for one made out of the library.
    provenance: Option<String>,
    /// What decides the order; for admins.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    /// What it is made of, as asked for; for admins.
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<Vec<ItemView>>,
    /// Of `blocks`: its day by the clock; for admins.
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule: Option<ScheduleRequest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    filler: Option<FillerRequest>,
    /// Files it airs; for admins.
    #[serde(skip_serializing_if = "Option::is_none")]
    item_count: Option<usize>,
}

/// A file or a folder a channel is made of.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ChannelItem)]
pub struct ItemView {
    path: String,
    recursive: bool,
    title: Option<String>,
    weight: u32,
}

impl ChannelView {
    pub fn new(channel: &Channel, now: Timestamp) -> Self {
        let at = now.as_millisecond();
        let mut guide = channel.guide(at, i64::MAX).map(|entry| GuideEntry::new(channel, &entry, now)).peekable();
        // Before the first programme nothing is on, but something comes.
        let on = guide.next_if(GuideEntry::is_live);
        let next = guide.next();
        let face = channel.face.clone();
        let first = channel.definition.revisions.first();
        let epoch = first.and_then(|first| Timestamp::from_millisecond(first.start_ms).ok()).map(instant);
        Self {
            id: channel.id,
            name: face.name,
            number: face.number,
            source_type: "virtual",
            schedule_mode: request::mode_name(channel.mode),
            always_on: face.always_on,
            category: face.category,
            logo_url: logo_url(channel),
            enabled: face.enabled,
            tvg_id: channel.tvg_id.clone(),
            description: face.description,
            timezone: face.timezone,
            epoch,
            revision: channel.definition.revisions.last().map_or(0, |last| last.number),
            version: channel.version,
            state: "idle",
            viewers: 0,
            watch_url: format!("/api/livetv/watch/{}", channel.id),
            now: on,
            next,
            provenance: None,
            seed: None,
            items: None,
            schedule: None,
            filler: None,
            item_count: None,
        }
    }

    pub fn with_state(mut self, service: &Service, channel: &Channel) -> Self {
        self.state = onair::state(service, channel).as_str();
        self.viewers = service.onair.viewers().count(channel.id);
        self
    }

    pub fn with_items(mut self, channel: &Channel) -> Self {
        let item = |ask: &Ask| ItemView {
            path: ask.path.clone(),
            recursive: ask.recursive,
            title: ask.title.clone(),
            weight: ask.weight,
        };
        self.seed = Some(channel.seed);
        self.items = Some(channel.asks.iter().map(item).collect());
        self.schedule = channel.plan.as_ref().map(ScheduleRequest::of);
        self.filler = channel.plan.as_ref().map(|_| FillerRequest::of(&channel.filler));
        self.item_count = channel.definition.revisions.last().map(|last| last.items.len());
        self
    }
}

pub fn logo_url(channel: &Channel) -> String {
    lineup::logo(channel).into_owned()
}
