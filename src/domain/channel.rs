//! A channel: its settings, its stream settings and what it airs.

use std::sync::{Arc, LazyLock};

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::domain::external::External;
use crate::domain::listing::Listings;
use crate::domain::pace::Pace;
use crate::domain::plan::Corner;
use crate::domain::schedule::blocks::Grid;
use crate::domain::schedule::{Definition, Mode};
use crate::domain::time::FrameRate;
use crate::error::{Error, Result};

/// Highest channel number.
pub const MAX_NUMBER: u32 = 99_999;

/// Shortest programme that gets a guide entry of its own, seconds: the default, and the highest value allowed.
pub const LEAST_SECONDS: u32 = 120;
const MOST_LEAST_SECONDS: u32 = 24 * 3600;

/// Maximum length of a name, characters.
const MAX_NAME: usize = 100;

/// Maximum length of other texts, bytes.
const MAX_TEXT: usize = 2048;

/// Maximum target duration of a channel, seconds: players start three of them before the live edge.
pub const LONGEST_TARGET: u64 = 6;

/// The settings of a channel that do not affect what it airs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Face {
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
    pub least_seconds: u32,
    /// Text on the slate; None for an image without text.
    #[serde(rename = "offline", default, skip_serializing_if = "Option::is_none")]
    pub offline: Option<Box<str>>,
    /// Path of the slate's background image; None for the default one.
    #[serde(rename = "offline_picture", default, skip_serializing_if = "Option::is_none")]
    pub offline_picture: Option<Box<str>>,
}

fn yes() -> bool {
    true
}

fn usual_least() -> u32 {
    LEAST_SECONDS
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
fn is_usual_least(seconds: &u32) -> bool {
    *seconds == LEAST_SECONDS
}

/// How the channel's stream is produced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Output {
    /// Maximum height in lines; None keeps the original size.
    #[serde(skip_serializing_if = "is_usual_height")]
    pub max_height: Option<u32>,
    /// Maximum bit rate of encoded video; None for the default of its size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_kbps: Option<u32>,
    /// Whether video that needs no change is copied.
    #[serde(rename = "copy", skip_serializing_if = "is_true")]
    pub copy: bool,
    /// Target duration of the channel's playlists, seconds. It never changes, so no item's segment may be longer.
    #[serde(rename = "target")]
    pub target: u64,
    /// Audio languages in order of preference.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub audio_languages: Vec<String>,
    /// Frame rate of all video; None keeps each item's own.
    #[serde(rename = "rate", skip_serializing_if = "Option::is_none")]
    pub rate: Option<FrameRate>,
    /// Target loudness, LUFS; None leaves it unchanged.
    #[serde(rename = "level", skip_serializing_if = "Option::is_none")]
    pub level: Option<i16>,
    /// Languages of burned-in subtitles in order of preference.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subtitle_languages: Vec<String>,
    /// Watermark: an image of the library overlaid on all video.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watermark: Option<Watermark>,
}

/// Default maximum height, lines.
const USUAL_HEIGHT: Option<u32> = Some(720);

#[allow(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
fn is_usual_height(height: &Option<u32>) -> bool {
    *height == USUAL_HEIGHT
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
fn is_true(value: &bool) -> bool {
    *value
}

/// An image overlaid in a corner of a channel's video.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watermark {
    pub path: String,
    pub corner: Corner,
    /// Percent, above zero.
    #[serde(rename = "opacity")]
    pub opacity: u8,
    /// Percent of the video's width, 1 to 50.
    #[serde(rename = "width")]
    pub width: u8,
}

impl Default for Output {
    fn default() -> Self {
        Self {
            max_height: USUAL_HEIGHT,
            max_kbps: None,
            copy: true,
            target: LONGEST_TARGET,
            audio_languages: Vec::new(),
            rate: None,
            level: None,
            subtitle_languages: Vec::new(),
            watermark: None,
        }
    }
}

/// Items as requested. A folder's content is listed when a revision is made.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ask {
    pub path: Box<str>,
    /// For a folder: include its subfolders.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recursive: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Box<str>>,
    /// 1 to 100.
    pub weight: u32,
}

/// The requested content of a channel with a block schedule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub grid: Grid,
    /// By name; the grid's slots refer to them by index.
    pub sources: Vec<(String, Vec<Ask>)>,
}

/// The requested filler between and within programmes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FillerAsk {
    pub pre: Vec<Ask>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mid: Vec<Ask>,
    pub post: Vec<Ask>,
    pub tail: Vec<Ask>,
    pub fallback: Vec<Ask>,
    pub cooldown_ms: i64,
}

impl FillerAsk {
    /// No filler; one value shared by all channels, because most have none.
    pub fn none() -> Arc<Self> {
        static NONE: LazyLock<Arc<FillerAsk>> = LazyLock::new(Arc::default);
        NONE.clone()
    }
}

/// A channel with its schedule. There may be thousands, so common values are shared and rare ones boxed.
#[derive(Clone, Debug)]
pub struct Channel {
    /// Never used twice.
    pub id: u32,
    /// The id players know it by; it stays when name and number change.
    pub tvg_id: Box<str>,
    pub face: Face,
    pub asks: Arc<[Ask]>,
    pub output: Arc<Output>,
    /// Only with a block schedule.
    pub plan: Option<Box<Plan>>,
    pub filler: Arc<FillerAsk>,
    /// Only for an external channel, which has no schedule of its own: its definition is empty.
    pub external: Option<Box<External>>,
    /// The external guide's listings of an external channel; not part of its record.
    pub listings: Option<Arc<Listings>>,
    /// Its own clock, if it has one; not part of its record.
    pub pace: Option<Arc<Pace>>,
    pub seed: u64,
    pub mode: Mode,
    /// Increases by one with every change.
    pub version: u32,
    pub definition: Definition,
}

impl Channel {
    /// Channel time at a wall-clock instant, ms: the instant itself, unless the channel has its own clock.
    pub fn time(&self, instant_ms: i64) -> i64 {
        self.pace.as_ref().map_or(instant_ms, |pace| pace.at(instant_ms))
    }

    /// The last wall-clock instant with this channel time, ms: when something that starts at that time was aired.
    pub fn instant(&self, time_ms: i64) -> i64 {
        self.pace.as_ref().map_or(time_ms, |pace| pace.left(time_ms))
    }

    /// Whether it airs only while it has viewers.
    pub fn on_demand(&self) -> bool {
        self.pace.as_ref().is_some_and(|pace| pace.waits())
    }
}

impl Face {
    /// Checks every field.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` naming the first invalid field.
    pub fn check(&self) -> Result<()> {
        let characters = self.name.chars().count();
        if characters == 0 || characters > MAX_NAME || self.name.trim().is_empty() {
            return Err(Error::field("name", format!("must have 1 to {MAX_NAME} characters")));
        }
        let texts = [("name", &*self.name), ("category", &*self.category)];
        for (field, text) in texts {
            if text.chars().any(char::is_control) {
                return Err(Error::field(field, "must not contain control characters"));
            }
        }
        let logo = self.logo_url.as_deref().unwrap_or("/");
        for (field, text) in [("category", &*self.category), ("description", &*self.description), ("logoUrl", logo)] {
            if text.len() > MAX_TEXT {
                return Err(Error::field(field, format!("must not be longer than {MAX_TEXT} bytes")));
            }
        }
        if !(logo.starts_with('/') || logo.starts_with("https://") || logo.starts_with("http://"))
            || logo.chars().any(|c| c.is_control() || c.is_whitespace())
        {
            return Err(Error::field("logoUrl", "must be a path on this server or an http(s) address"));
        }
        if !(1..=MAX_NUMBER).contains(&self.number) {
            return Err(Error::field("number", format!("must be an integer from 1 to {MAX_NUMBER}")));
        }
        if self.offline.as_ref().is_some_and(|message| {
            message.chars().count() > MAX_NAME || message.chars().any(char::is_control) || message.trim().is_empty()
        }) {
            let message = format!("must have 1 to {MAX_NAME} characters, none of them a control character");
            return Err(Error::field("offline.message", message));
        }
        if self.least_seconds > MOST_LEAST_SECONDS {
            let message = format!("must be an integer from 0 to {MOST_LEAST_SECONDS}");
            return Err(Error::field("guide.minProgrammeSeconds", message));
        }
        match TimeZone::get(&self.timezone) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::field("timezone", "must be an IANA name, e.g. Europe/Berlin")),
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::domain::schedule::cut::{Look, steps};
    use crate::domain::schedule::{Item, Wanted, itemize};

    /// A channel with three films of 40 minutes that starts on 2026-01-01.
    pub fn channel(id: u32) -> Channel {
        let item = |title: &str| Item {
            id: 0,
            path: format!("/lib/{title}.mkv"),
            title: title.into(),
            duration_ms: 2_400_000,
            weight: 1,
            cut: steps(2400.0),
            look: Look::default(),
            breaks: Box::default(),
        };
        let items: Vec<Item> = ["A (1999)", "Show S01E02 - B & C", "D"].map(item).into();
        let items = itemize(items);
        Channel {
            id,
            tvg_id: format!("ch-{id}.home").into(),
            face: Face { name: format!("Channel {id}").into(), number: id, ..face() },
            output: Arc::default(),
            asks: Arc::default(),
            plan: None,
            filler: FillerAsk::none(),
            external: None,
            listings: None,
            pace: None,
            seed: 1,
            mode: Mode::Sequential,
            version: 1,
            definition: Definition::new(
                1_767_225_600_000,
                Wanted { seed: 1, mode: Mode::Sequential, items, mid: 0, blocks: None },
            ),
        }
    }

    fn face() -> Face {
        Face {
            name: "80s Action".into(),
            number: 12,
            enabled: true,
            always_on: false,
            category: Box::default(),
            description: Box::default(),
            logo_url: None,
            timezone: "Europe/Berlin".into(),
            show_filler: false,
            least_seconds: LEAST_SECONDS,
            offline: None,
            offline_picture: None,
        }
    }

    /// Thousands of channels are in memory, so a feature few of them use must cost the others almost nothing.
    #[test]
    fn a_channel_that_has_nothing_special_is_small() {
        let sizes = [size_of::<Channel>(), size_of::<crate::domain::schedule::Revision>(), size_of::<Ask>()];
        assert!(sizes.iter().zip([248, 120, 40]).all(|(size, most)| *size <= most), "{sizes:?} bytes");
        assert!(Arc::ptr_eq(&FillerAsk::none(), &FillerAsk::none()));
    }

    #[test]
    fn what_cannot_stand_is_named() {
        assert!(face().check().is_ok());
        assert!(
            Face { name: "ö".repeat(100).into(), logo_url: Some("/assets/12.png".into()), ..face() }.check().is_ok()
        );
        let wrong = [
            ("name", Face { name: "".into(), ..face() }),
            ("name", Face { name: " ".into(), ..face() }),
            ("name", Face { name: "a\nb".into(), ..face() }),
            ("name", Face { name: "ö".repeat(101).into(), ..face() }),
            ("number", Face { number: 0, ..face() }),
            ("number", Face { number: 100_000, ..face() }),
            ("category", Face { category: "a\u{7}".into(), ..face() }),
            ("description", Face { description: "a".repeat(2049).into(), ..face() }),
            ("logoUrl", Face { logo_url: Some("javascript:alert(1)".into()), ..face() }),
            ("logoUrl", Face { logo_url: Some("/a b".into()), ..face() }),
            ("offline.message", Face { offline: Some("a\nb".into()), ..face() }),
            ("guide.minProgrammeSeconds", Face { least_seconds: 86_401, ..face() }),
            ("timezone", Face { timezone: "Mars/Olympus".into(), ..face() }),
        ];
        for (field, face) in wrong {
            let fault = face.check().unwrap_err();
            assert_eq!(fault.details.unwrap()["fields"][0]["field"], field, "{}", fault.message);
        }
    }
}
