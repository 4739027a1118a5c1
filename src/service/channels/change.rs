//! Channels created and changed: a request applied to the current settings.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use serde_json::json;

use super::items::ItemSearch;
use super::{Channels, ExternalChange, MAX_CHANNELS, SourceType, blocks, clocks, external};
use crate::domain::channel::{
    Channel, ChannelSettings, MAX_NUMBER, OutputSettings, RequestedBlocks, RequestedFiller, RequestedItem,
    WatermarkSettings,
};
use crate::domain::channel_clock::channel_ms_at;
use crate::domain::guide::check_ahead;
use crate::domain::schedule::{MAX_CYCLE_PROGRAMMES, RevisionRequest, ScheduleDefinition, ScheduleMode, segmentation};
use crate::domain::time::{ChannelMs, FrameRate, WallMs};
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::accounts::random_bytes;

/// How long aired programmes are kept: guides may go back a week, and one downloaded then is used for another.
pub(super) const RETENTION_MS: i64 = 14 * 24 * 3600 * 1000;

/// Settings of a new channel, or changes of an existing one. Absent values keep their current value or get a default.
#[derive(Clone, Debug, Default)]
pub struct ChannelChange {
    pub name: Option<String>,
    pub number: Option<u32>,
    pub enabled: Option<bool>,
    pub always_on: Option<bool>,
    /// Whether the channel airs only while it has viewers.
    pub on_demand: Option<bool>,
    pub category: Option<String>,
    pub description: Option<String>,
    pub logo_url: Option<Option<String>>,
    pub timezone: Option<String>,
    pub show_filler: Option<bool>,
    pub min_guide_seconds: Option<u32>,
    pub slate_text: Option<Option<String>>,
    pub slate_image: Option<Option<String>>,
    pub seed: Option<u64>,
    pub mode: Option<ScheduleMode>,
    /// Only for a new channel.
    pub start_at: Option<Timestamp>,
    pub requested_items: Option<Vec<RequestedItem>>,
    pub output: OutputChange,
    pub requested_blocks: Option<RequestedBlocks>,
    pub requested_filler: Option<RequestedFiller>,
    pub source_type: Option<SourceType>,
    pub external: Option<ExternalChange>,
    /// Leaves out items that cannot be aired, if at least one can.
    pub skip_invalid: bool,
    pub apply: ChangeTime,
}

/// Changes of the output settings.
#[derive(Clone, Debug, Default)]
pub struct OutputChange {
    pub max_height: Option<Option<u32>>,
    pub max_kbps: Option<Option<u32>>,
    pub copy_video: Option<bool>,
    pub audio_languages: Option<Vec<String>>,
    pub frame_rate: Option<Option<FrameRate>>,
    pub loudness_lufs: Option<Option<i16>>,
    pub subtitle_languages: Option<Vec<String>>,
    pub watermark: Option<Option<WatermarkSettings>>,
}

/// When a change of the schedule takes effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChangeTime {
    /// At the end of the programme on air.
    #[default]
    Boundary,
    /// At once; this ends the current programme early.
    Now,
    /// At the end of the programme that is on air at that time.
    At(Timestamp),
}

impl Service {
    /// Creates a channel.
    ///
    /// # Errors
    /// `VALIDATION_ERROR`, `CONFLICT` for a number that is in use; those of opening its items; `UNPLAYABLE_MEDIA` with
    /// `details.items` for items that cannot be aired; `STORAGE_FULL`.
    pub async fn add_channel(&self, change: ChannelChange) -> Result<Arc<Channel>> {
        // The slow part runs before the lock that other changes wait for.
        let draft = self.draft_channel(None, &change).await?;
        let mut ids = self.channels.edit_lock.lock().await;
        if self.channels.all().len() >= MAX_CHANNELS {
            return Err(Error::new(Code::Conflict, format!("the limit of {MAX_CHANNELS} channels is reached")));
        }
        let number = self.channels.free_number(change.number, None)?;
        let instance = ids.instance.clone().unwrap_or_else(|| data_encoding::HEXLOWER.encode(&random_bytes::<4>()));
        let id = ids.last_id + 1;
        let tvg_id = format!("ch-{id}.{instance}").into();
        let settings = ChannelSettings { number, ..draft.settings.clone() };
        self.record_clearance(id, None, &draft, &change).await?;
        let channel = self.channels.store_channel(Channel { id, tvg_id, settings, ..draft }, None).await?;
        self.precompute_schedule(&channel).await;
        (ids.last_id, ids.instance) = (id, Some(instance));
        Ok(self.with_listings(channel).await)
    }

    /// Changes a channel. Past programmes and the current one stay as they are, unless the change says otherwise.
    ///
    /// # Errors
    /// `CHANNEL_NOT_FOUND`, and those of [`Self::add_channel`].
    pub async fn change_channel(&self, id: u32, change: ChannelChange) -> Result<Arc<Channel>> {
        let _editing = self.channels.edit_lock.lock().await;
        let current = self.channels.get(id)?;
        let changed = self.draft_channel(Some(&current), &change).await?;
        self.channels.free_number(Some(changed.settings.number), Some(id))?;
        self.record_clearance(id, Some(&current), &changed, &change).await?;
        let channel = self.channels.store_channel(changed, Some(&current)).await?;
        self.rights_changes.notify();
        self.channels.guide_changed.notify_one();
        Ok(self.with_listings(channel).await)
    }

    /// Computes the schedule of a `blocks` channel since it began, which may be years, so that no later request has to wait
    /// for that, even after a restart.
    pub(super) async fn precompute_schedule(&self, channel: &Arc<Channel>) {
        if channel.mode == ScheduleMode::Blocks {
            let (channel, now_ms) = (channel.clone(), ChannelMs::without_clock(self.clock.now_ms()));
            // If this fails, the first request computes it.
            let _ = tokio::task::spawn_blocking(move || channel.definition.programme_at(now_ms)).await;
            self.channels.store_checkpoints().await;
        }
    }

    /// A new channel (id 0) or a changed one, without storing it.
    ///
    /// # Errors
    /// As [`Self::add_channel`], except for a number that is in use.
    pub async fn draft_channel(&self, old: Option<&Channel>, requested: &ChannelChange) -> Result<Channel> {
        let change = requested.clone();
        let settings = match old {
            Some(old) => old.settings.clone(),
            None => {
                let timezone = TimeZone::system().iana_name().unwrap_or("UTC").into();
                ChannelSettings::new(self.channels.free_number(None, None)?, timezone)
            }
        };
        let text = |text: Option<String>| text.map(String::into_boxed_str);
        let settings = ChannelSettings {
            name: change.name.map_or(settings.name, Into::into),
            number: change.number.unwrap_or(settings.number),
            enabled: change.enabled.unwrap_or(settings.enabled),
            always_on: change.always_on.unwrap_or(settings.always_on),
            category: change.category.map_or(settings.category, Into::into),
            description: change.description.map_or(settings.description, Into::into),
            logo_url: change.logo_url.map_or(settings.logo_url, text),
            timezone: change.timezone.map_or(settings.timezone, Into::into),
            show_filler: change.show_filler.unwrap_or(settings.show_filler),
            min_guide_seconds: change.min_guide_seconds.unwrap_or(settings.min_guide_seconds),
            slate_text: change.slate_text.map_or(settings.slate_text, text),
            slate_image: change.slate_image.map_or(settings.slate_image, text),
        };
        settings.validate()?;
        if let Some(Some(path)) = &requested.slate_image {
            self.library.check_image("offline.imageUrl", path).await?;
        }
        if let Some(Some(watermark)) = &requested.output.watermark {
            self.library.check_image("watermark.imageUrl", &watermark.path).await?;
        }
        let now = self.clock.now_ms();
        if let ChangeTime::At(at) = change.apply {
            check_ahead("applyAt", at.into(), now)?;
        }
        let is_on_demand = change.on_demand.unwrap_or(old.is_some_and(Channel::is_on_demand));
        if let Some(external) = external::resolve_external(old, requested, now.0)? {
            if change.on_demand == Some(true) {
                return Err(Error::invalid_field("onDemand", "is only for library channels"));
            }
            return Ok(external::draft(old, settings, external));
        }
        let mode = change.mode.or(old.map(|old| old.mode)).unwrap_or_default();
        check_on_demand(old, is_on_demand, &settings, mode)?;
        // 53 bits: every JSON reader keeps integers of that size exactly.
        let random_seed = || u64::from_le_bytes(random_bytes::<8>()) >> 11;
        let seed = change.seed.or(old.map(|old| old.seed)).unwrap_or_else(random_seed);
        let requested_items = change.requested_items.as_deref().map(Arc::from);
        let requested_items: Arc<[RequestedItem]> =
            requested_items.or_else(|| old.map(|old| old.requested_items.clone())).unwrap_or_default();
        let mut output = old.map_or_else(OutputSettings::default, |old| (*old.output).clone());
        change.output.clone().apply(&mut output);
        let segmentation_inputs = |output: &OutputSettings| {
            let burned_in = (output.watermark.is_some(), output.subtitle_languages.clone());
            (output.max_height, output.copy_video, output.frame_rate, burned_in)
        };
        let resegments = old.is_some_and(|old| segmentation_inputs(&old.output) != segmentation_inputs(&output));
        let (plan, filler) =
            blocks::resolve_schedule(old, change.requested_blocks.map(Box::new), change.requested_filler, mode)?;
        let is_blocks = mode == ScheduleMode::Blocks;
        let changes_schedule = resegments
            || change.requested_items.is_some()
            || old.is_none_or(|old| {
                let has_new_zone = is_blocks && old.settings.timezone != settings.timezone;
                has_new_zone
                    || (old.mode, old.seed) != (mode, seed)
                    || (&old.requested_blocks, &old.requested_filler) != (&plan, &filler)
            });
        let mut definition = old.map_or_else(ScheduleDefinition::default, |old| old.definition.clone());
        if changes_schedule {
            // Items of a `blocks` channel cannot be reused.
            let reusable = old.filter(|old| {
                let has_same_mid_rolls = old.requested_filler.mid == filler.mid;
                has_same_mid_rolls
                    && change.requested_items.is_none()
                    && !resegments
                    && old.mode != ScheduleMode::Blocks
            });
            let search = ItemSearch::for_change(old, &output, change.skip_invalid);
            let (items, mid, blocks) = match (&plan, reusable) {
                (Some(plan), _) => {
                    let (items, blocks) = self.block_items(plan, &filler, &settings.timezone, &search).await?;
                    (items, 0, Some(Arc::new(blocks)))
                }
                (None, Some(same)) => {
                    let last = same.definition.revisions.last();
                    last.map(|last| (last.items.clone(), last.mid_roll_count, None)).unwrap_or_default()
                }
                (None, None) => {
                    let (items, mid) = self.cycle_items(&requested_items, &filler, &search).await?;
                    (items, mid, None)
                }
            };
            if old.is_none() {
                // As short as the first items allow, because players begin three target durations before the end.
                let default_target = self.config.segment_seconds.round() as u64;
                let longest_segment =
                    items.iter().map(|item| segmentation::longest_segment_seconds(&item.segmentation.grid())).max();
                output.target_seconds = longest_segment.unwrap_or(default_target).max(default_target);
            }
            let request = RevisionRequest { seed, mode, items, mid_roll_count: mid, blocks };
            check_cycle_length(&request)?;
            definition = match old {
                None => {
                    let start_ms = change.start_at.map_or(now - now.0.rem_euclid(60_000), WallMs::from);
                    ScheduleDefinition::new(ChannelMs::without_clock(start_ms), request)
                }
                Some(_) if definition.has_content(&request) => definition,
                Some(_) => {
                    // The future of a channel clock that may pause is the one guides show.
                    let projected_clock = old.and_then(|old| old.clock.as_ref()).map(|clock| clock.projected(now));
                    let channel_ms_at = |at| channel_ms_at(projected_clock.as_ref(), at);
                    let current_ms = channel_ms_at(now);
                    let at_ms = match change.apply {
                        ChangeTime::Now => current_ms,
                        ChangeTime::Boundary => {
                            definition.programme_bounds(current_ms).map_or(current_ms, |(_, end)| end)
                        }
                        ChangeTime::At(at) => {
                            let at_ms = channel_ms_at(now.max(at.into()));
                            definition
                                .programme_bounds(at_ms)
                                .map_or(at_ms, |(start_ms, end)| if start_ms == at_ms { at_ms } else { end })
                        }
                    };
                    definition.with_revision(at_ms, request).without_revisions_before(channel_ms_at(now - RETENTION_MS))
                }
            };
        }
        let (id, tvg_id, version) =
            old.map_or((0, Box::default(), 1), |old| (old.id, old.tvg_id.clone(), old.version + 1));
        let channel = Channel {
            id,
            tvg_id,
            settings,
            requested_items,
            output: Arc::new(output),
            requested_blocks: plan,
            requested_filler: filler,
            seed,
            mode,
            version,
            definition,
            ..Channel::default()
        };
        let clock = clocks::clock_after_change(old, &channel, is_on_demand, now);
        Ok(Channel { clock, ..channel })
    }
}

impl Channels {
    /// The requested number, or the lowest free one.
    ///
    /// # Errors
    /// `CONFLICT` for a number that another channel has.
    pub(super) fn free_number(&self, requested: Option<u32>, own_id: Option<u32>) -> Result<u32> {
        let channels = self.all();
        let used_by = |number: u32| channels.iter().find(|one| one.settings.number == number && Some(one.id) != own_id);
        match requested {
            Some(number) => match used_by(number) {
                None => Ok(number),
                Some(other) => {
                    Err(Error::new(Code::Conflict, format!("number {number} is used by {}", other.settings.name))
                        .with_details(json!({"field": "number", "channelId": other.id})))
                }
            },
            None => (1..=MAX_NUMBER)
                .find(|number| used_by(*number).is_none())
                .ok_or_else(|| Error::new(Code::Conflict, "all channel numbers are in use")),
        }
    }
}

/// Checks whether `onDemand` fits the other settings. A channel that was ever `onDemand` keeps a clock of its own.
fn check_on_demand(old: Option<&Channel>, is_on_demand: bool, new: &ChannelSettings, mode: ScheduleMode) -> Result<()> {
    match (is_on_demand, mode) {
        (true, ScheduleMode::Blocks) => {
            Err(Error::invalid_field("onDemand", "cannot be combined with scheduleMode blocks"))
        }
        (true, _) if new.always_on => Err(Error::invalid_field("onDemand", "cannot be combined with alwaysOn")),
        (false, ScheduleMode::Blocks) if old.is_some_and(|old| old.clock.is_some()) => Err(Error::invalid_field(
            "scheduleMode",
            "cannot be blocks, because this channel's clock was paused while it was onDemand",
        )),
        _ => Ok(()),
    }
}

impl OutputChange {
    fn apply(self, output: &mut OutputSettings) {
        output.max_height = self.max_height.unwrap_or(output.max_height);
        output.max_kbps = self.max_kbps.unwrap_or(output.max_kbps);
        output.copy_video = self.copy_video.unwrap_or(output.copy_video);
        output.frame_rate = self.frame_rate.unwrap_or(output.frame_rate);
        output.loudness_lufs = self.loudness_lufs.unwrap_or(output.loudness_lufs);
        output.watermark = self.watermark.unwrap_or(output.watermark.take());
        if let Some(languages) = self.audio_languages {
            output.audio_languages = languages;
        }
        if let Some(languages) = self.subtitle_languages {
            output.subtitle_languages = languages;
        }
    }
}

pub(super) fn check_cycle_length(request: &RevisionRequest) -> Result<()> {
    let programme_count = match &request.blocks {
        Some(blocks) => blocks.longest_cycle(&request.items),
        None => ScheduleDefinition::new(ChannelMs(0), request.clone()).revisions[0].programmes_per_cycle(),
    };
    if programme_count as usize > MAX_CYCLE_PROGRAMMES {
        let message = format!("exceed {MAX_CYCLE_PROGRAMMES} programmes a cycle, with their weights");
        return Err(Error::invalid_field("items", message));
    }
    Ok(())
}
