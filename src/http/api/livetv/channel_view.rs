//! The JSON form of a channel.

use jiff::Timestamp;

use super::block_schedule::{FillerRequest, ScheduleRequest};
use super::guide::{GuideArtwork, GuideEntry};
use super::output::WatermarkRequest;
use super::rights::{AttestationView, FeedView, ProvenanceView, RightsView};
use super::rule_request::RuleRequest;
use super::schedule_mode::mode_name;
use crate::domain::channel::{Channel, RequestedFiller, RequestedItem};
use crate::domain::external::ExternalChannel;
use crate::domain::live_window::CATCHUP_DAYS;
use crate::domain::time::{WallMs, format_timestamp};
use crate::http::api::prelude::*;
use crate::service::live;

/// A channel.
#[derive(Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Channel)]
pub struct ChannelView<'a> {
    id: u32,
    name: String,
    number: u32,
    /// `virtual`: scheduled from the library; `external` and `m3u-import`: relays of an external stream.
    source_type: &'static str,
    /// `sequential`, `shuffle`, `shuffleInOrder`, `random`, `weighted` or `blocks`.
    schedule_mode: &'static str,
    always_on: bool,
    /// The channel pauses while it has no viewers. Its guide shows the future as if it were watched from now on.
    on_demand: bool,
    category: String,
    logo_url: String,
    enabled: bool,
    /// Its id in guides and playlists; never changes.
    tvg_id: String,
    description: String,
    timezone: String,
    /// Start of the first programme that is still stored.
    #[schema(format = DateTime)]
    epoch: Option<String>,
    /// Increases with every change of the schedule.
    revision: u32,
    /// Increases with every change of the channel.
    version: u32,
    /// `idle`: no viewers; `warm`: no viewers, but ready to play; `starting`; `live`; `error`: the current programme cannot
    /// be played, a slate airs instead.
    state: &'static str,
    viewers: usize,
    watch_url: String,
    /// Length of the catch-up window in days; 0 for external channels.
    catchup_days: u32,
    now: Option<GuideEntry<'a>>,
    next: Option<GuideEntry<'a>>,
    /// Where an external channel comes from; null for others.
    provenance: Option<ProvenanceView>,
    /// The legal basis for showing it; admins only.
    #[serde(skip_serializing_if = "Option::is_none")]
    rights: Option<RightsView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attestation: Option<AttestationView>,
    /// Its stream; admins only.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<FeedView>,
    /// The source it was imported from; admins only.
    #[serde(skip_serializing_if = "Option::is_none")]
    source_id: Option<u32>,
    /// Id of the guide channel whose programmes are listed, if set by hand; admins only.
    #[serde(skip_serializing_if = "Option::is_none")]
    xmltv_id: Option<String>,
    /// Seed of the programme order; admins only.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    /// The requested items; admins only.
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<Vec<ItemView>>,
    /// Daily schedule in `blocks` mode; admins only.
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule: Option<ScheduleRequest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    filler: Option<FillerRequest>,
    /// The image in a corner of its video; admins only.
    #[serde(skip_serializing_if = "Option::is_none")]
    watermark: Option<WatermarkRequest>,
    /// Number of files in the current schedule; admins only.
    #[serde(skip_serializing_if = "Option::is_none")]
    item_count: Option<usize>,
}

/// A file or folder of a channel.
#[derive(Serialize, ToSchema)]
#[schema(as = ChannelItem)]
pub struct ItemView {
    /// Absent for a rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// Absent for a path.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<RuleRequest>,
    recursive: bool,
    title: Option<String>,
    weight: u32,
}

impl<'a> ChannelView<'a> {
    pub fn new(service: &'a Service, channel: &'a Channel, now: Timestamp) -> Self {
        let (now_ms, addresses) = (now.into(), ResourceUrls::from_config(&service.config));
        let guide = channel.guide_entries(now_ms, WallMs::MAX, now_ms);
        let mut guide = guide.map(|entry| GuideEntry::new(channel, &entry, now, addresses)).peekable();
        // Before the first programme, only `next` is set.
        let current = guide.next_if(GuideEntry::is_live);
        let next = guide.next();
        let settings = channel.settings.clone();
        let first = channel.definition.revisions.first();
        let epoch = first.and_then(|first| Timestamp::from_millisecond(first.start_ms.0).ok()).map(format_timestamp);
        Self {
            id: channel.id,
            name: settings.name.into(),
            number: settings.number,
            source_type: channel.external.as_deref().map_or("virtual", ExternalChannel::source_type),
            schedule_mode: mode_name(channel.mode),
            always_on: settings.always_on,
            on_demand: channel.is_on_demand(),
            category: settings.category.into(),
            logo_url: addresses.logo(channel),
            enabled: settings.enabled,
            tvg_id: channel.tvg_id.to_string(),
            description: settings.description.into(),
            timezone: settings.timezone.to_string(),
            epoch,
            revision: channel.definition.revisions.last().map_or(0, |last| last.number),
            version: channel.version,
            state: "idle",
            watch_url: addresses.watch(channel.id),
            catchup_days: if channel.external.is_some() { 0 } else { CATCHUP_DAYS },
            now: current,
            next,
            ..Self::default()
        }
    }

    pub fn with_state(mut self, service: &Service, channel: &Channel) -> Self {
        self.state = live::channel_state(service, channel).as_str();
        self.viewers = service.viewers.viewer_count(channel.id);
        let clearance = service.clearance(channel).ok().flatten();
        self.provenance = clearance.map(|clearance| ProvenanceView::for_users(&clearance.provenance));
        self
    }

    /// Adds addresses of the images of its programmes.
    pub fn with_artwork(mut self, service: &Service, artwork: &mut GuideArtwork) -> Self {
        self.now = self.now.map(|entry| entry.with_artwork(artwork, service));
        self.next = self.next.map(|entry| entry.with_artwork(artwork, service));
        self
    }

    /// Adds the fields that only admins see: the configured logo URL, rights and stream of an external channel.
    pub fn with_rights(mut self, service: &Service, channel: &Channel) -> Self {
        if let Some(url) = ResourceUrls::from_config(&service.config).configured_logo(channel) {
            self.logo_url = url;
        }
        let Some(external) = &channel.external else { return self };
        let clearance = service.clearance(channel).ok().flatten();
        Self {
            provenance: clearance.as_ref().map(|clearance| ProvenanceView::new(&clearance.provenance)),
            rights: clearance.as_ref().map(RightsView::new),
            attestation: clearance.as_ref().map(AttestationView::new),
            source: Some(FeedView::new(&external.stream)),
            source_id: external.source_id(),
            xmltv_id: external.guide_channel.as_ref().map(|guide| guide.id.clone()),
            ..self
        }
    }

    pub fn with_items(self, service: &Service, channel: &Channel) -> Self {
        let mut view = self.with_rights(service, channel);
        if channel.external.is_some() {
            return view;
        }
        let item_view = |item: &RequestedItem| ItemView {
            path: item.path().map(str::to_owned),
            rule: item.rule().map(RuleRequest::from_rule),
            recursive: item.recursive,
            title: item.title.as_deref().map(str::to_owned),
            weight: item.weight,
        };
        view.seed = Some(channel.seed);
        view.items = Some(channel.requested_items.iter().map(item_view).collect());
        view.schedule = channel.requested_blocks.as_deref().map(ScheduleRequest::from_plan);
        let has_filler = channel.requested_blocks.is_some() || *channel.requested_filler != RequestedFiller::default();
        view.filler = has_filler.then(|| FillerRequest::from_filler(&channel.requested_filler));
        view.watermark = channel.output.watermark.as_ref().map(WatermarkRequest::from_settings);
        view.item_count = channel.definition.revisions.last().map(|last| last.items.len());
        view
    }
}
