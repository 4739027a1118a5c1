//! The schedule of a channel in `blocks` mode in request and response bodies: layers of blocks, sources, filler.

use std::collections::BTreeMap;

use super::item_request::{ItemRequest, validate_items};
use super::schedule_mode::{mode_name, parse_order};
use crate::domain::channel::{RequestedBlocks, RequestedFiller, RequestedItem};
use crate::domain::schedule::blocks::{Block, BlockGrid, BlockLayer, BlockSlot, DAY_MINUTES};
use crate::http::api::prelude::*;

const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// Default start of the broadcast day, minutes after midnight.
const DEFAULT_DAY_START_MINUTES: u16 = 5 * 60;

/// Default time before a filler item may repeat, seconds.
const DEFAULT_COOLDOWN_SECONDS: f64 = 1800.0;

const MAX_LAYERS: usize = 64;
const MAX_BLOCKS: usize = 96;
const MAX_SLOTS: usize = 64;
const MAX_SOURCES: usize = 64;
const MAX_NAME_BYTES: usize = 64;

/// The daily schedule of a channel in `blocks` mode.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleRequest {
    /// Start of the broadcast day, `HH:MM`; default `05:00`.
    day_start: Option<String>,
    /// Programmes start at multiples of this many minutes, 0 to 60. 0 (default): each starts when the one before ends.
    pad_to_minutes: Option<u16>,
    /// Highest priority first. Time that a layer leaves free is filled by the layers after it.
    #[serde(default)]
    layers: Vec<LayerRequest>,
    /// Lists of items by name; slots refer to these names.
    #[serde(default)]
    sources: BTreeMap<String, Vec<ItemRequest>>,
}

/// Blocks, and the days on which they apply.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct LayerRequest {
    /// Every day when absent.
    when: Option<WhenRequest>,
    blocks: Vec<BlockRequest>,
}

/// The days on which a layer applies.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct WhenRequest {
    /// First day of the season, `MM-DD`.
    from: Option<String>,
    /// Last day of the season, `MM-DD`; a season may span the turn of the year.
    to: Option<String>,
    /// `mon` to `sun`; default: all.
    weekdays: Option<Vec<String>>,
}

/// A block that starts at a time of day.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct BlockRequest {
    /// Start, `HH:MM` in the channel's time zone.
    at: String,
    /// Latest end, `HH:MM`; the block is filled up to it. Without it, the block ends when its slot counts are used up, or
    /// at the next block.
    until: Option<String>,
    slots: Vec<SlotRequest>,
}

/// Items that a block airs.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct SlotRequest {
    /// A key of `sources`.
    source: String,
    /// A `scheduleMode` other than `blocks`; default `shuffle`.
    order: Option<String>,
    /// Number of items, 1 to 1000; default: as many as fit.
    count: Option<u32>,
}

/// Filler: aired between programmes (`blocks` mode) and in breaks within them (any mode).
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FillerRequest {
    /// One of these airs before each programme.
    #[serde(default)]
    pre: Vec<ItemRequest>,
    /// One of these airs in each break of a programme, in any mode. Breaks are at chapters of the file, at least 10 minutes
    /// apart and never in the first or last 5 minutes. In a file without chapters they are where the video is black and the audio
    /// silent, once the server has searched it.
    #[serde(default)]
    mid: Vec<ItemRequest>,
    /// One of these airs after each programme.
    #[serde(default)]
    post: Vec<ItemRequest>,
    /// As many of these air as fit before the next programme.
    #[serde(default)]
    tail: Vec<ItemRequest>,
    /// These fill the remaining time; the last one is cut off if necessary.
    #[serde(default)]
    fallback: Vec<ItemRequest>,
    /// Time before an item of `tail` may repeat, 0 to 86400; default 1800.
    cooldown_seconds: Option<f64>,
}

impl ScheduleRequest {
    pub fn into_plan(self) -> Result<RequestedBlocks> {
        let invalid = |field: &str, message: String| Error::invalid_field(&format!("schedule.{field}"), message);
        let day_start =
            self.day_start.as_deref().map(|text| parse_time_of_day("schedule.dayStart", text)).transpose()?;
        check_integer("schedule.padToMinutes", self.pad_to_minutes, 0..=60)?;
        if self.sources.is_empty() || self.sources.len() > MAX_SOURCES {
            return Err(invalid("sources", format!("must have 1 to {MAX_SOURCES} entries")));
        }
        if self.layers.is_empty() || self.layers.len() > MAX_LAYERS {
            return Err(invalid("layers", format!("must have 1 to {MAX_LAYERS} entries")));
        }
        let mut sources = Vec::new();
        for (name, items) in self.sources {
            let field = format!("schedule.sources.{name}");
            if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
                return Err(invalid("sources", format!("names must be 1 to {MAX_NAME_BYTES} printable bytes")));
            }
            if items.is_empty() {
                return Err(Error::invalid_field(&field, "must not be empty"));
            }
            sources.push((name, validate_items(&field, items)?));
        }
        let mut grid = BlockGrid {
            day_start_minutes: day_start.unwrap_or(DEFAULT_DAY_START_MINUTES),
            pad_minutes: self.pad_to_minutes.unwrap_or(0),
            layers: Vec::new(),
        };
        for (n, layer) in self.layers.into_iter().enumerate() {
            grid.layers.push(layer.into_layer(&format!("schedule.layers[{n}]"), grid.day_start_minutes, &sources)?);
        }
        Ok(RequestedBlocks { grid, sources })
    }

    pub fn from_plan(plan: &RequestedBlocks) -> Self {
        let slot = |slot: &BlockSlot| SlotRequest {
            source: plan.sources[slot.source as usize].0.clone(),
            order: Some(mode_name(slot.order).to_owned()),
            count: slot.count,
        };
        let block = |block: &Block| BlockRequest {
            at: format_time_of_day(block.start_minutes),
            until: block.end_minutes.map(format_time_of_day),
            slots: block.slots.iter().map(slot).collect(),
        };
        let layer = |layer: &BlockLayer| {
            let selected_days = WEEKDAYS.iter().enumerate().filter(|(n, _)| layer.weekdays & (1 << n) != 0);
            let weekdays: Vec<String> = selected_days.map(|(_, name)| (*name).to_owned()).collect();
            let day = |(month, day): (u8, u8)| format!("{month:02}-{day:02}");
            let when = WhenRequest {
                from: layer.season.map(|(first, _)| day(first)),
                to: layer.season.map(|(_, last)| day(last)),
                weekdays: Some(weekdays).filter(|weekdays| !weekdays.is_empty()),
            };
            let applies_always = layer.season.is_none() && layer.weekdays == 0;
            LayerRequest { when: (!applies_always).then_some(when), blocks: layer.blocks.iter().map(block).collect() }
        };
        Self {
            day_start: Some(format_time_of_day(plan.grid.day_start_minutes)),
            pad_to_minutes: Some(plan.grid.pad_minutes),
            layers: plan.grid.layers.iter().map(layer).collect(),
            sources: plan.sources.iter().map(|(name, items)| (name.clone(), item_requests(items))).collect(),
        }
    }
}

impl LayerRequest {
    fn into_layer(self, field: &str, day_start: u16, sources: &[(String, Vec<RequestedItem>)]) -> Result<BlockLayer> {
        let invalid = |name: &str, message: &str| Error::invalid_field(&format!("{field}.{name}"), message);
        if self.blocks.is_empty() || self.blocks.len() > MAX_BLOCKS {
            return Err(invalid("blocks", &format!("must have 1 to {MAX_BLOCKS} entries")));
        }
        let (mut season, mut weekdays) = (None, 0);
        if let Some(when) = self.when {
            season = match (&when.from, &when.to) {
                (None, None) => None,
                (Some(from), Some(to)) => Some((
                    parse_day_of_year(&format!("{field}.when.from"), from)?,
                    parse_day_of_year(&format!("{field}.when.to"), to)?,
                )),
                _ => return Err(invalid("when", "must have either both from and to, or neither")),
            };
            for name in when.weekdays.iter().flatten() {
                let day = WEEKDAYS.iter().position(|weekday| weekday == name);
                let unknown = || invalid("when.weekdays", "must be mon, tue, wed, thu, fri, sat or sun");
                weekdays |= 1 << day.ok_or_else(unknown)?;
            }
        }
        let mut blocks: Vec<Block> = Vec::new();
        for (n, block) in self.blocks.into_iter().enumerate() {
            let field = format!("{field}.blocks[{n}]");
            let block = block.into_block(&field, day_start, sources)?;
            if blocks.iter().any(|other| other.start_minutes == block.start_minutes) {
                return Err(Error::invalid_field(&format!("{field}.at"), "must be unique within the layer"));
            }
            blocks.push(block);
        }
        Ok(BlockLayer { season, weekdays, blocks })
    }
}

impl BlockRequest {
    fn into_block(self, field: &str, day_start: u16, sources: &[(String, Vec<RequestedItem>)]) -> Result<Block> {
        let at = parse_time_of_day(&format!("{field}.at"), &self.at)?;
        let until = self.until.as_deref().map(|text| parse_time_of_day(&format!("{field}.until"), text)).transpose()?;
        // Minutes into the broadcast day. 0 as `until` means the end of that day.
        let minutes_into_day = |minutes: u16| (minutes + DAY_MINUTES - day_start) % DAY_MINUTES;
        if until.is_some_and(|until| minutes_into_day(until) != 0 && minutes_into_day(until) <= minutes_into_day(at)) {
            return Err(Error::invalid_field(&format!("{field}.until"), "must be after at within the broadcast day"));
        }
        if self.slots.is_empty() || self.slots.len() > MAX_SLOTS {
            return Err(Error::invalid_field(&format!("{field}.slots"), format!("must have 1 to {MAX_SLOTS} entries")));
        }
        let mut slots = Vec::new();
        for (n, slot) in self.slots.into_iter().enumerate() {
            let field = format!("{field}.slots[{n}]");
            let source = sources.iter().position(|(name, _)| *name == slot.source);
            let invalid = |name: &str, message: &str| Error::invalid_field(&format!("{field}.{name}"), message);
            let source = source.ok_or_else(|| invalid("source", "must be a key of schedule.sources"))?;
            let order = parse_order(slot.order.as_deref().unwrap_or("shuffle"));
            let order = order.ok_or_else(|| invalid("order", "must be a scheduleMode other than blocks"))?;
            check_integer(&format!("{field}.count"), slot.count, 1..=1000)?;
            slots.push(BlockSlot { source: source as u32, order, count: slot.count });
        }
        Ok(Block { start_minutes: at, end_minutes: until, slots })
    }
}

impl FillerRequest {
    pub fn into_filler(self) -> Result<RequestedFiller> {
        let cooldown = self.cooldown_seconds.unwrap_or(DEFAULT_COOLDOWN_SECONDS);
        if !(0.0..=86_400.0).contains(&cooldown) {
            return Err(Error::invalid_field("filler.cooldownSeconds", "must be a number from 0 to 86400"));
        }
        let mut filler = RequestedFiller {
            pre: validate_items("filler.pre", self.pre)?,
            mid: validate_items("filler.mid", self.mid)?,
            post: validate_items("filler.post", self.post)?,
            tail: validate_items("filler.tail", self.tail)?,
            fallback: validate_items("filler.fallback", self.fallback)?,
            cooldown_ms: 0,
        };
        if filler != RequestedFiller::default() {
            filler.cooldown_ms = (cooldown * 1000.0) as i64;
        }
        Ok(filler)
    }

    pub fn from_filler(filler: &RequestedFiller) -> Self {
        Self {
            pre: item_requests(&filler.pre),
            mid: item_requests(&filler.mid),
            post: item_requests(&filler.post),
            tail: item_requests(&filler.tail),
            fallback: item_requests(&filler.fallback),
            cooldown_seconds: Some(filler.cooldown_ms as f64 / 1000.0),
        }
    }
}

fn item_requests(requested_items: &[RequestedItem]) -> Vec<ItemRequest> {
    requested_items.iter().map(ItemRequest::from_item).collect()
}

/// Parses `HH:MM` to minutes after midnight.
fn parse_time_of_day(field: &str, text: &str) -> Result<u16> {
    let parts = text.split_once(':').filter(|(hour, minute)| hour.len() == 2 && minute.len() == 2);
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<u16>().ok()).flatten();
    let time = parts.and_then(|(hour, minute)| Some((number(hour)?, number(minute)?)));
    match time {
        Some((hour, minute)) if hour < 24 && minute < 60 => Ok(hour * 60 + minute),
        _ => Err(Error::invalid_field(field, "must be a time of day as HH:MM, e.g. 20:15")),
    }
}

fn format_time_of_day(minutes: u16) -> String {
    format!("{:02}:{:02}", minutes / 60, minutes % 60)
}

/// Parses `MM-DD` to month and day.
fn parse_day_of_year(field: &str, text: &str) -> Result<(u8, u8)> {
    let invalid = || Error::invalid_field(field, "must be a day of the year as MM-DD, e.g. 12-24");
    // 2024 is a leap year, so 02-29 is valid.
    let date: jiff::civil::Date = format!("2024-{text}").parse().map_err(|_| invalid())?;
    match text.len() {
        5 => Ok((date.month() as u8, date.day() as u8)),
        _ => Err(invalid()),
    }
}
