//! Channels created and changed: a request applied to the current settings.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::{ExternalChange, MAX_CHANNELS, SourceType, blocks, external, pace};
use crate::domain::channel::{RequestedItem, Channel, ChannelSettings, RequestedFiller, DEFAULT_MIN_GUIDE_SECONDS, OutputSettings, RequestedBlocks, WatermarkSettings};
use crate::domain::schedule::{ScheduleDefinition, MAX_CYCLE_PROGRAMMES, ScheduleMode, RevisionRequest, segmentation};
use crate::domain::time::FrameRate;
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::accounts::random;

/// How long aired programmes are kept: guides may go back a week, and one downloaded then is used for another.
const KEPT_MS: i64 = 14 * 24 * 3600 * 1000;

/// Settings of a new channel, or changes of an existing one. Absent values keep their current value or get a default.
#[derive(Clone, Debug, Default)]
pub struct Change {
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
    pub least_seconds: Option<u32>,
    pub offline: Option<Option<String>>,
    pub offline_picture: Option<Option<String>>,
    pub seed: Option<u64>,
    pub mode: Option<ScheduleMode>,
    /// Only for a new channel.
    pub start_at: Option<Timestamp>,
    pub asks: Option<Vec<RequestedItem>>,
    pub output: OutputChange,
    pub plan: Option<RequestedBlocks>,
    pub filler: Option<RequestedFiller>,
    pub source_type: Option<SourceType>,
    pub external: Option<ExternalChange>,
    /// Leaves out items that cannot be aired, if at least one can.
    pub skip_invalid: bool,
    pub apply: Apply,
}

/// Changes of the output settings.
#[derive(Clone, Debug, Default)]
pub struct OutputChange {
    pub max_height: Option<Option<u32>>,
    pub max_kbps: Option<Option<u32>>,
    pub copy: Option<bool>,
    pub audio_languages: Option<Vec<String>>,
    pub rate: Option<Option<FrameRate>>,
    pub level: Option<Option<i16>>,
    pub subtitle_languages: Option<Vec<String>>,
    pub watermark: Option<Option<WatermarkSettings>>,
}

/// When a change of the schedule takes effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Apply {
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
    pub async fn add_channel(&self, change: Change) -> Result<Arc<Channel>> {
        // The slow part runs before the lock that other changes wait for.
        let drafted = self.draft_channel(None, &change).await?;
        let mut given = self.channels.editing.lock().await;
        if self.channels.all().len() >= MAX_CHANNELS {
            return Err(Error::new(Code::Conflict, format!("the limit of {MAX_CHANNELS} channels is reached")));
        }
        let number = self.channels.free_number(change.number, None)?;
        let instance = given.instance.clone().unwrap_or_else(|| data_encoding::HEXLOWER.encode(&random::<4>()));
        let id = given.id + 1;
        let tvg_id = format!("ch-{id}.{instance}").into();
        let face = ChannelSettings { number, ..drafted.settings.clone() };
        self.note_clearance(id, None, &drafted, &change).await?;
        let channel = self.channels.keep(Channel { id, tvg_id, settings, ..drafted }, None).await?;
        self.catch_up(&channel).await;
        (given.id, given.instance) = (id, Some(instance));
        Ok(self.with_listings(channel).await)
    }

    /// Changes a channel. Past programmes and the current one stay as they are, unless the change says otherwise.
    ///
    /// # Errors
    /// `CHANNEL_NOT_FOUND`, and those of [`Self::add_channel`].
    pub async fn change_channel(&self, id: u32, change: Change) -> Result<Arc<Channel>> {
        let _editing = self.channels.editing.lock().await;
        let before = self.channels.get(id)?;
        let after = self.draft_channel(Some(&before), &change).await?;
        self.channels.free_number(Some(after.settings.number), Some(id))?;
        self.note_clearance(id, Some(&before), &after, &change).await?;
        let channel = self.channels.keep(after, Some(&before)).await?;
        self.rights.tell();
        self.recordings.look_again();
        Ok(self.with_listings(channel).await)
    }

    /// Computes the schedule of a `blocks` channel since it began, which may be years, so that no later request has to wait
    /// for that, even after a restart.
    async fn catch_up(&self, channel: &Arc<Channel>) {
        if channel.mode == ScheduleMode::Blocks {
            let (channel, now_ms) = (channel.clone(), self.clock.now().as_millisecond());
            // If this fails, the first request computes it.
            let _ = tokio::task::spawn_blocking(move || channel.definition.programme_at(now_ms)).await;
            self.channels.keep_marks().await;
        }
    }

    /// A new channel (id 0) or a changed one, without storing it.
    ///
    /// # Errors
    /// As [`Self::add_channel`], except for a number that is in use.
    pub async fn draft_channel(&self, before: Option<&Channel>, asked: &Change) -> Result<Channel> {
        let change = asked.clone();
        let face = match before {
            Some(before) => before.settings.clone(),
            None => ChannelSettings {
                name: Box::default(),
                number: self.channels.free_number(None, None)?,
                enabled: true,
                always_on: false,
                category: Box::default(),
                description: Box::default(),
                logo_url: None,
                timezone: TimeZone::system().iana_name().unwrap_or("UTC").into(),
                show_filler: false,
                min_guide_seconds: DEFAULT_MIN_GUIDE_SECONDS,
                slate_text: None,
                slate_image: None,
            },
        };
        let text = |text: Option<String>| text.map(String::into_boxed_str);
        let face = ChannelSettings {
            name: change.name.map_or(face.name, Into::into),
            number: change.number.unwrap_or(face.number),
            enabled: change.enabled.unwrap_or(face.enabled),
            always_on: change.always_on.unwrap_or(face.always_on),
            category: change.category.map_or(face.category, Into::into),
            description: change.description.map_or(face.description, Into::into),
            logo_url: change.logo_url.map_or(face.logo_url, text),
            timezone: change.timezone.map_or(face.timezone, Into::into),
            show_filler: change.show_filler.unwrap_or(face.show_filler),
            min_guide_seconds: change.least_seconds.unwrap_or(face.min_guide_seconds),
            slate_text: change.offline.map_or(face.slate_text, text),
            slate_image: change.offline_picture.map_or(face.slate_image, text),
        };
        face.validate()?;
        if let Some(Some(path)) = &asked.offline_picture {
            self.check_picture("offline.imageUrl", path).await?;
        }
        if let Some(Some(watermark)) = &asked.output.watermark {
            self.check_picture("watermark.imageUrl", &watermark.path).await?;
        }
        let now = self.clock.now().as_millisecond();
        let waits = change.on_demand.unwrap_or(before.is_some_and(Channel::is_on_demand));
        if let Some(external) = external::asked(before, asked, now)? {
            if change.on_demand == Some(true) {
                return Err(Error::field("onDemand", "is only for library channels"));
            }
            return Ok(external::draft(before, face, external));
        }
        let mode = change.mode.or(before.map(|before| before.mode)).unwrap_or_default();
        check_clock(before, waits, &face, mode)?;
        // 53 bits: every JSON reader keeps integers of that size exactly.
        let fresh = || u64::from_le_bytes(random::<8>()) >> 11;
        let seed = change.seed.or(before.map(|before| before.seed)).unwrap_or_else(fresh);
        let asks = change.asks.as_deref().map(Arc::from);
        let asks: Arc<[RequestedItem]> = asks.or_else(|| before.map(|before| before.requested_items.clone())).unwrap_or_default();
        let mut output = before.map_or_else(OutputSettings::default, |before| (*before.output).clone());
        change.output.clone().apply(&mut output);
        let cut_by = |output: &OutputSettings| {
            let draws = (output.watermark.is_some(), output.subtitle_languages.clone());
            (output.max_height, output.copy_video, output.frame_rate, draws)
        };
        let remade = before.is_some_and(|before| cut_by(&before.output) != cut_by(&output));
        let (plan, filler) = blocks::asked(before, change.plan.map(Box::new), change.filler, mode)?;
        let by_clock = mode == ScheduleMode::Blocks;
        let touched = remade
            || change.asks.is_some()
            || before.is_none_or(|before| {
                let moved = by_clock && before.settings.timezone != face.timezone;
                moved
                    || (before.mode, before.seed) != (mode, seed)
                    || (&before.requested_blocks, &before.requested_filler) != (&plan, &filler)
            });
        let mut definition = before.map_or_else(ScheduleDefinition::default, |before| before.definition.clone());
        if touched {
            // Items of a `blocks` channel cannot be reused.
            let same = before.filter(|before| {
                let kept = before.requested_filler.mid == filler.mid;
                kept && change.asks.is_none() && !remade && before.mode != ScheduleMode::Blocks
            });
            let (items, mid, blocks) = match (&plan, same) {
                (Some(plan), _) => {
                    let (items, blocks) =
                        self.block_items(plan, &filler, &face.timezone, &output, change.skip_invalid).await?;
                    (items, 0, Some(Arc::new(blocks)))
                }
                (None, Some(same)) => {
                    let last = same.definition.revisions.last();
                    last.map(|last| (last.items.clone(), last.mid_roll_count, None)).unwrap_or_default()
                }
                (None, None) => {
                    let (items, mid) = self.cycle_items(&asks, &filler, &output, change.skip_invalid).await?;
                    (items, mid, None)
                }
            };
            if before.is_none() {
                // As short as the first items allow, because players begin three target durations before the end.
                let usual = self.config.segment_seconds.round() as u64;
                let longest = items.iter().map(|item| segmentation::longest_segment_seconds(&item.segmentation.grid())).max();
                output.target_seconds = longest.unwrap_or(usual).max(usual);
            }
            let wanted = RevisionRequest { seed, mode, items, mid_roll_count: mid, blocks };
            check_slots(&wanted)?;
            definition = match before {
                None => {
                    let start = change.start_at.map_or(now - now.rem_euclid(60_000), Timestamp::as_millisecond);
                    ScheduleDefinition::new(start, wanted)
                }
                Some(_) if definition.has_content(&wanted) => definition,
                Some(_) => {
                    // The future of a channel clock that may pause is the one guides show.
                    let ahead = before.and_then(|before| before.clock.as_ref()).map(|pace| pace.projected(now));
                    let time = |instant: i64| ahead.as_ref().map_or(instant, |pace| pace.channel_ms_at(instant));
                    let is = time(now);
                    let at = match change.apply {
                        Apply::Now => is,
                        Apply::Boundary => definition.programme_bounds(is).map_or(is, |(_, end)| end),
                        Apply::At(at) => {
                            let at = time(at.as_millisecond().max(now));
                            definition.programme_bounds(at).map_or(at, |(start, end)| if start == at { at } else { end })
                        }
                    };
                    definition.with_revision(at, wanted).without_revisions_before(time(now - KEPT_MS))
                }
            };
        }
        let (id, tvg_id, version) =
            before.map_or((0, Box::default(), 1), |before| (before.id, before.tvg_id.clone(), before.version + 1));
        let external = None;
        let listings = None;
        let channel = Channel {
            id,
            tvg_id,
            settings,
            requested_items,
            output: Arc::new(output),
            requested_blocks: plan,
            requested_filler: filler,
            external,
            listings,
            clock: None,
            seed,
            mode,
            version,
            definition,
        };
        let pace = pace::drafted(before, &channel, waits, now);
        Ok(Channel { clock, ..channel })
    }
}

/// Checks whether `onDemand` fits the other settings. A channel that was ever `onDemand` keeps a clock of its own.
fn check_clock(before: Option<&Channel>, waits: bool, face: &ChannelSettings, mode: ScheduleMode) -> Result<()> {
    match (waits, mode) {
        (true, ScheduleMode::Blocks) => Err(Error::field("onDemand", "cannot be combined with scheduleMode blocks")),
        (true, _) if face.always_on => Err(Error::field("onDemand", "cannot be combined with alwaysOn")),
        (false, ScheduleMode::Blocks) if before.is_some_and(|before| before.clock.is_some()) => Err(Error::field(
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
        output.copy_video = self.copy.unwrap_or(output.copy_video);
        output.frame_rate = self.rate.unwrap_or(output.frame_rate);
        output.loudness_lufs = self.level.unwrap_or(output.loudness_lufs);
        output.watermark = self.watermark.unwrap_or(output.watermark.take());
        if let Some(languages) = self.audio_languages {
            output.audio_languages = languages;
        }
        if let Some(languages) = self.subtitle_languages {
            output.subtitle_languages = languages;
        }
    }
}

fn check_slots(wanted: &RevisionRequest) -> Result<()> {
    let slots = match &wanted.blocks {
        Some(blocks) => blocks.longest_cycle(&wanted.items),
        None => ScheduleDefinition::new(0, wanted.clone()).revisions[0].programmes_per_cycle(),
    };
    match slots as usize > MAX_CYCLE_PROGRAMMES {
        true => Err(Error::field("items", format!("exceed {MAX_CYCLE_PROGRAMMES} programmes a cycle, with their weights"))),
        false => Ok(()),
    }
}
