//! A channel: its settings, its stream settings and what it airs.

use std::sync::Arc;

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::domain::channel_clock::{ChannelClock, channel_ms_at};
use crate::domain::channel_rule::ItemRule;
use crate::domain::external::ExternalChannel;
use crate::domain::listing::Listings;
use crate::domain::plan::Corner;
use crate::domain::schedule::blocks::BlockGrid;
use crate::domain::schedule::{COPIED_TARGET_SECONDS, ScheduleDefinition, ScheduleMode};
use crate::domain::time::{ChannelMs, FrameRate, WallMs};
use crate::domain::video_class::VideoClasses;
use crate::error::{Error, Result};

pub const MAX_NUMBER: u32 = 99_999;

/// Shortest programme that gets a guide entry of its own, seconds: the default, and the highest value allowed.
const DEFAULT_MIN_GUIDE_SECONDS: u32 = 120;
const MAX_MIN_GUIDE_SECONDS: u32 = 24 * 3600;

const MAX_NAME_CHARS: usize = 100;

/// Maximum length of other texts, bytes.
const MAX_TEXT_BYTES: usize = 2048;

/// Maximum target duration of a channel, seconds: players start three of them before the live edge.
const MAX_TARGET_SECONDS: u64 = 6;

/// The settings of a channel that do not affect what it airs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChannelSettings {
    pub name: Box<str>,
    pub number: u32,
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub enabled: bool,
    /// Kept ready without viewers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always_on: bool,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub category: Box<str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub description: Box<str>,
    /// None for a generated logo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logo_url: Option<Box<str>>,
    /// IANA time zone name.
    pub timezone: Arc<str>,
    /// Whether guides list filler.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub show_filler: bool,
    /// Shorter programmes are merged into the guide entry before them, unless all are shorter.
    #[serde(rename = "least_seconds", default = "usual_least", skip_serializing_if = "is_usual_least")]
    pub min_guide_seconds: u32,
    /// Text on the slate; None for an image without text.
    #[serde(rename = "offline", default, skip_serializing_if = "Option::is_none")]
    pub slate_text: Option<Box<str>>,
    /// Path of the slate's background image; None for the default one.
    #[serde(rename = "offline_picture", default, skip_serializing_if = "Option::is_none")]
    pub slate_image: Option<Box<str>>,
}

impl Default for ChannelSettings {
    fn default() -> Self {
        Self::new(0, Arc::default())
    }
}

fn yes() -> bool {
    true
}

fn usual_least() -> u32 {
    DEFAULT_MIN_GUIDE_SECONDS
}

fn is_usual_least(seconds: &u32) -> bool {
    *seconds == DEFAULT_MIN_GUIDE_SECONDS
}

/// How the channel's stream is produced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OutputSettings {
    /// Maximum height in lines; None keeps the original size.
    #[serde(skip_serializing_if = "is_usual_height")]
    pub max_height: Option<u32>,
    /// Maximum bit rate of encoded video; None for the default of its size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_kbps: Option<u32>,
    /// Whether video that needs no change is copied.
    #[serde(rename = "copy", skip_serializing_if = "is_true")]
    pub copy_video: bool,
    /// Target duration of the channel's playlists, seconds. It never changes, so no item's segment may be longer.
    #[serde(rename = "target")]
    pub target_seconds: u64,
    /// Audio languages in order of preference.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub audio_languages: Vec<String>,
    /// Frame rate of all video; None keeps each item's own.
    #[serde(rename = "rate", skip_serializing_if = "Option::is_none")]
    pub frame_rate: Option<FrameRate>,
    /// Target loudness, LUFS; None leaves it unchanged.
    #[serde(rename = "level", skip_serializing_if = "Option::is_none")]
    pub loudness_lufs: Option<i16>,
    /// Languages of burned-in subtitles in order of preference.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subtitle_languages: Vec<String>,
    /// Watermark: an image of the library overlaid on all video.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watermark: Option<WatermarkSettings>,
}

/// Default maximum height, lines.
const DEFAULT_MAX_HEIGHT: Option<u32> = Some(720);

fn is_usual_height(height: &Option<u32>) -> bool {
    *height == DEFAULT_MAX_HEIGHT
}

fn is_true(value: &bool) -> bool {
    *value
}

/// An image overlaid in a corner of a channel's video.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatermarkSettings {
    pub path: String,
    pub corner: Corner,
    /// Percent, above zero.
    #[serde(rename = "opacity")]
    pub opacity_percent: u8,
    /// Percent of the video's width, 1 to 50.
    #[serde(rename = "width")]
    pub width_percent: u8,
}

impl Default for OutputSettings {
    fn default() -> Self {
        Self {
            max_height: DEFAULT_MAX_HEIGHT,
            max_kbps: None,
            copy_video: true,
            target_seconds: MAX_TARGET_SECONDS,
            audio_languages: Vec::new(),
            frame_rate: None,
            loudness_lufs: None,
            subtitle_languages: Vec::new(),
            watermark: None,
        }
    }
}

/// Items as requested.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RequestedItem {
    #[serde(flatten)]
    pub source: ItemSource,
    /// For a folder: include its subfolders.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recursive: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Box<str>>,
    /// 1 to 100.
    pub weight: u32,
}

/// Where requested items come from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ItemSource {
    /// A file, or a folder, whose content is listed when an administrator changes the channel, and with its rules.
    Path(Box<str>),
    /// Found again after each change of the library.
    Rule(Box<ItemRule>),
}

impl RequestedItem {
    /// A file, or the files of a folder without its subfolders.
    pub fn from_path(path: impl Into<Box<str>>) -> Self {
        Self { source: ItemSource::Path(path.into()), recursive: false, title: None, weight: 1 }
    }

    /// The requested path; None for a rule.
    pub fn path(&self) -> Option<&str> {
        match &self.source {
            ItemSource::Path(path) => Some(path),
            ItemSource::Rule(_) => None,
        }
    }

    pub fn rule(&self) -> Option<&ItemRule> {
        match &self.source {
            ItemSource::Path(_) => None,
            ItemSource::Rule(rule) => Some(rule),
        }
    }
}

/// The requested content of a channel with a block schedule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestedBlocks {
    pub grid: BlockGrid,
    /// By name; the grid's slots refer to them by index.
    pub sources: Vec<(String, Vec<RequestedItem>)>,
}

/// The requested filler between and within programmes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestedFiller {
    pub pre: Vec<RequestedItem>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mid: Vec<RequestedItem>,
    pub post: Vec<RequestedItem>,
    pub tail: Vec<RequestedItem>,
    pub fallback: Vec<RequestedItem>,
    pub cooldown_ms: i64,
}

/// A channel with its schedule. There may be thousands, so common values are shared and rare ones boxed.
#[derive(Clone, Debug, Default)]
pub struct Channel {
    /// Never used twice.
    pub id: u32,
    /// The id players know it by; it stays when name and number change.
    pub tvg_id: Box<str>,
    pub settings: ChannelSettings,
    pub requested_items: Arc<[RequestedItem]>,
    pub output: Arc<OutputSettings>,
    /// Only with a block schedule.
    pub requested_blocks: Option<Box<RequestedBlocks>>,
    pub requested_filler: Arc<RequestedFiller>,
    /// Only for an external channel, which has no schedule of its own: its definition is empty.
    pub external: Option<Box<ExternalChannel>>,
    /// The external guide's listings; only for an external channel. Not part of its record.
    pub listings: Option<Arc<Listings>>,
    /// Its own clock, if it has one; not part of its record.
    pub clock: Option<Arc<ChannelClock>>,
    pub seed: u64,
    pub mode: ScheduleMode,
    /// Increases by one with every change.
    pub version: u32,
    /// The classes of video that its definition copies for a client; none in the channel itself. Not part of its record.
    pub copies: VideoClasses,
    pub definition: ScheduleDefinition,
}

impl Channel {
    /// The address of its logo: the configured one, otherwise the icon in its guide.
    pub fn logo_url(&self) -> Option<&str> {
        let icon = || self.listings.as_ref().and_then(|listings| listings.icon_url.as_deref());
        self.settings.logo_url.as_deref().or_else(icon)
    }

    /// Channel time at a wall-clock instant: the instant itself, unless the channel has its own clock.
    pub fn channel_ms_at(&self, wall_ms: WallMs) -> ChannelMs {
        channel_ms_at(self.clock.as_deref(), wall_ms)
    }

    /// The last wall-clock instant with this channel time: when something that starts at that time was aired.
    pub fn wall_ms_at(&self, channel_ms: ChannelMs) -> WallMs {
        self.clock.as_ref().map_or(WallMs::without_clock(channel_ms), |clock| clock.last_wall_ms(channel_ms))
    }

    /// Target duration of its playlists, seconds.
    pub fn target_seconds(&self) -> u64 {
        if self.copies.is_empty() { self.output.target_seconds } else { COPIED_TARGET_SECONDS }
    }

    /// The classes of video that it has copies of, for clients that decode them. A channel with a clock of its own has none,
    /// because skips are counted in the segments of encoded items.
    pub fn copyable_classes(&self) -> VideoClasses {
        match self.clock {
            Some(_) => VideoClasses::default(),
            None => self.definition.copyable_classes(),
        }
    }

    /// The variety of the channel in which items of these classes are copied.
    #[must_use]
    pub fn with_copies(&self, copies: VideoClasses) -> Self {
        Self { copies, definition: self.definition.with_copies(copies), ..self.clone() }
    }

    /// Whether it airs only while it has viewers.
    pub fn is_on_demand(&self) -> bool {
        self.clock.as_ref().is_some_and(|clock| clock.is_on_demand())
    }
}

impl ChannelSettings {
    /// The settings of a new channel that has no name yet.
    pub fn new(number: u32, timezone: Arc<str>) -> Self {
        Self {
            name: Box::default(),
            number,
            enabled: true,
            always_on: false,
            category: Box::default(),
            description: Box::default(),
            logo_url: None,
            timezone,
            show_filler: false,
            min_guide_seconds: DEFAULT_MIN_GUIDE_SECONDS,
            slate_text: None,
            slate_image: None,
        }
    }

    /// Checks every field; a `VALIDATION_ERROR` names the first invalid one.
    pub fn validate(&self) -> Result<()> {
        let check = |is_valid: bool, field: &str, message: &str| {
            if is_valid { Ok(()) } else { Err(Error::invalid_field(field, message)) }
        };
        let has_length = |text: &str| text.chars().count() <= MAX_NAME_CHARS && !text.trim().is_empty();
        let is_one_line = |text: &str| !text.chars().any(char::is_control);
        check(has_length(&self.name), "name", &format!("must have 1 to {MAX_NAME_CHARS} characters"))?;
        check(is_one_line(&self.name), "name", "must not contain control characters")?;
        check(is_one_line(&self.category), "category", "must not contain control characters")?;
        let logo = self.logo_url.as_deref().unwrap_or("/");
        for (field, text) in [("category", &*self.category), ("description", &*self.description), ("logoUrl", logo)] {
            check(text.len() <= MAX_TEXT_BYTES, field, &format!("must not be longer than {MAX_TEXT_BYTES} bytes"))?;
        }
        let is_address = ["/", "https://", "http://"].iter().any(|start| logo.starts_with(start))
            && !logo.chars().any(|c| c.is_control() || c.is_whitespace());
        check(is_address, "logoUrl", "must be a path on this server or an http(s) address")?;
        let is_number = (1..=MAX_NUMBER).contains(&self.number);
        check(is_number, "number", &format!("must be an integer from 1 to {MAX_NUMBER}"))?;
        let is_slate_text = self.slate_text.as_deref().is_none_or(|text| has_length(text) && is_one_line(text));
        let message = format!("must have 1 to {MAX_NAME_CHARS} characters, none of them a control character");
        check(is_slate_text, "offline.message", &message)?;
        let message = format!("must be an integer from 0 to {MAX_MIN_GUIDE_SECONDS}");
        check(self.min_guide_seconds <= MAX_MIN_GUIDE_SECONDS, "guide.minProgrammeSeconds", &message)?;
        check(TimeZone::get(&self.timezone).is_ok(), "timezone", "must be an IANA name, e.g. Europe/Berlin")
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::domain::schedule::segmentation::audio_segmentation;
    use crate::domain::schedule::tests::{plain_request, schedule_item};
    use crate::domain::schedule::{ScheduleItem, assign_ids};

    /// A channel with three films of 40 minutes that starts on 2026-01-01.
    pub fn channel(id: u32) -> Channel {
        let item = |title: &str| ScheduleItem {
            title: title.into(),
            ..schedule_item(&format!("/lib/{title}.mkv"), 2_400_000, audio_segmentation(2400.0))
        };
        let items = assign_ids(["A (1999)", "Show S01E02 - B & C", "D"].map(item).into());
        Channel {
            id,
            tvg_id: format!("ch-{id}.home").into(),
            settings: ChannelSettings { name: format!("Channel {id}").into(), number: id, ..settings() },
            seed: 1,
            mode: ScheduleMode::Sequential,
            version: 1,
            definition: ScheduleDefinition::new(
                ChannelMs(1_767_225_600_000),
                plain_request(1, ScheduleMode::Sequential, items),
            ),
            ..Channel::default()
        }
    }

    fn settings() -> ChannelSettings {
        ChannelSettings { name: "80s Action".into(), ..ChannelSettings::new(12, "Europe/Berlin".into()) }
    }

    /// Thousands of channels are in memory, so a feature few of them use must cost the others almost nothing.
    #[test]
    fn a_channel_that_has_nothing_special_is_small() {
        let sizes =
            [size_of::<Channel>(), size_of::<crate::domain::schedule::ScheduleRevision>(), size_of::<RequestedItem>()];
        assert!(sizes.iter().zip([248, 128, 40]).all(|(size, most)| *size <= most), "{sizes:?} bytes");
    }

    #[test]
    fn invalid_fields_are_named() {
        assert!(settings().validate().is_ok());
        let (name, logo_url) = ("ö".repeat(100).into(), Some("/assets/12.png".into()));
        assert!(ChannelSettings { name, logo_url, ..settings() }.validate().is_ok());
        let wrong = [
            ("name", ChannelSettings { name: "".into(), ..settings() }),
            ("name", ChannelSettings { name: " ".into(), ..settings() }),
            ("name", ChannelSettings { name: "a\nb".into(), ..settings() }),
            ("name", ChannelSettings { name: "ö".repeat(101).into(), ..settings() }),
            ("number", ChannelSettings { number: 0, ..settings() }),
            ("number", ChannelSettings { number: 100_000, ..settings() }),
            ("category", ChannelSettings { category: "a\u{7}".into(), ..settings() }),
            ("description", ChannelSettings { description: "a".repeat(2049).into(), ..settings() }),
            ("logoUrl", ChannelSettings { logo_url: Some("javascript:alert(1)".into()), ..settings() }),
            ("logoUrl", ChannelSettings { logo_url: Some("/a b".into()), ..settings() }),
            ("offline.message", ChannelSettings { slate_text: Some("a\nb".into()), ..settings() }),
            ("guide.minProgrammeSeconds", ChannelSettings { min_guide_seconds: 86_401, ..settings() }),
            ("timezone", ChannelSettings { timezone: "Mars/Olympus".into(), ..settings() }),
        ];
        for (field, settings) in wrong {
            let fault = settings.validate().unwrap_err();
            assert_eq!(fault.details.unwrap()["fields"][0]["field"], field, "{}", fault.message);
        }
    }
}
