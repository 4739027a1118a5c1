//! A channel: what it is called and where it stands, beside what it airs.

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

/// What guides name, unless told otherwise, seconds at least; and what they may be told at most.
pub const LEAST_SECONDS: u32 = 120;
const MOST_LEAST_SECONDS: u32 = 24 * 3600;

/// Longest name, characters.
const MAX_NAME: usize = 100;

/// Longest text of the others, bytes.
const MAX_TEXT: usize = 2048;

/// The longest a channel's segments may be, seconds: players begin three of them behind the end.
pub const LONGEST_TARGET: u64 = 6;

/// What of a channel changes nothing of what it airs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Face {
    pub name: Box<str>,
    pub number: u32,
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub enabled: bool,
    /// Kept ready although nobody watches.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always_on: bool,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub category: Box<str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub description: Box<str>,
    /// None for a drawn one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logo_url: Option<Box<str>>,
    /// An IANA name.
    pub timezone: Arc<str>,
    /// Whether guides name what stands between programmes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub show_filler: bool,
    /// What is shorter belongs in guides to the programme before it, unless all is.
    #[serde(default = "usual_least", skip_serializing_if = "is_usual_least")]
    pub least_seconds: u32,
    /// What a slate says; None for a picture alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offline: Option<Box<str>>,
    /// The path of a picture that a slate shows; None for the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offline_picture: Option<Box<str>>,
}

fn yes() -> bool {
    true
}

fn usual_least() -> u32 {
    LEAST_SECONDS
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_usual_least(seconds: &u32) -> bool {
    *seconds == LEAST_SECONDS
}

/// What is made of what is aired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Output {
    /// Lines at most; None leaves pictures as large as they are.
    #[serde(skip_serializing_if = "is_usual_height")]
    pub max_height: Option<u32>,
    /// Of encoded pictures; None for the usual rate of their size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_kbps: Option<u32>,
    /// Whether pictures that need no change are copied.
    #[serde(skip_serializing_if = "is_true")]
    pub copy: bool,
    /// The target duration of the channel's playlists, seconds. It never changes: no item's segment may be longer.
    pub target: u64,
    /// Languages of sound, the best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub audio_languages: Vec<String>,
    /// One rate for all pictures; None leaves each its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<FrameRate>,
    /// How loud all sound is to be, LUFS; None leaves it as loud as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<i16>,
    /// Languages of subtitles drawn into the picture, the best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subtitle_languages: Vec<String>,
    /// A picture of the library laid over all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watermark: Option<Watermark>,
}

/// Lines of pictures, unless told otherwise.
const USUAL_HEIGHT: Option<u32> = Some(720);

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_usual_height(height: &Option<u32>) -> bool {
    *height == USUAL_HEIGHT
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_true(value: &bool) -> bool {
    *value
}

/// A picture in a corner of a channel's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watermark {
    pub path: String,
    pub corner: Corner,
    /// Percent, above zero.
    pub opacity: u8,
    /// Percent of the picture's width, 1 to 50.
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

/// Items as they were asked for: what a folder holds is looked up when a revision is made.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ask {
    pub path: Box<str>,
    /// Of a folder: with the folders in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recursive: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Box<str>>,
    /// 1 to 100.
    pub weight: u32,
}

/// What a channel by the clock is made of, as it was asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub grid: Grid,
    /// By name; slots of the grid name them by their place.
    pub sources: Vec<(String, Vec<Ask>)>,
}

/// What is aired between programmes and within them, as it was asked for.
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
    /// What most channels have: nothing, and all of them the same.
    pub fn none() -> Arc<Self> {
        static NONE: LazyLock<Arc<FillerAsk>> = LazyLock::new(Arc::default);
        NONE.clone()
    }
}

/// One channel with everything it aired of late, airs and will air. What many have alike they share, and what few have
/// is boxed: there may be thousands of them.
#[derive(Clone, Debug)]
pub struct Channel {
    /// Never used twice.
    pub id: u32,
    /// What players know it by, whatever becomes of its name and number.
    pub tvg_id: Box<str>,
    pub face: Face,
    pub asks: Arc<[Ask]>,
    pub output: Arc<Output>,
    /// Of a channel by the clock.
    pub plan: Option<Box<Plan>>,
    pub filler: Arc<FillerAsk>,
    /// Of a channel from elsewhere. It airs nothing of its own: its definition is empty.
    pub external: Option<Box<External>>,
    /// What a guide from elsewhere says of a channel from elsewhere; not part of its record.
    pub listings: Option<Arc<Listings>>,
    /// Its own clock, where it has one; not part of its record.
    pub pace: Option<Arc<Pace>>,
    pub seed: u64,
    pub mode: Mode,
    /// Grows by one with every change.
    pub version: u32,
    pub definition: Definition,
}

impl Channel {
    /// The channel's time at an instant, ms: the instant itself, unless it has a clock of its own.
    pub fn time(&self, instant_ms: i64) -> i64 {
        self.pace.as_ref().map_or(instant_ms, |pace| pace.at(instant_ms))
    }

    /// The last instant at which the channel's time was that, ms: when what began there did.
    pub fn instant(&self, time_ms: i64) -> i64 {
        self.pace.as_ref().map_or(time_ms, |pace| pace.left(time_ms))
    }

    /// Whether it airs only while somebody watches.
    pub fn on_demand(&self) -> bool {
        self.pace.as_ref().is_some_and(|pace| pace.waits())
    }
}

impl Face {
    /// Checks every field.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` naming the first field that cannot stand.
    pub fn check(&self) -> Result<()> {
        let characters = self.name.chars().count();
        if characters == 0 || characters > MAX_NAME || self.name.trim().is_empty() {
            return Err(Error::field("name", format!("must have 1 to {MAX_NAME} characters")));
        }
        let texts = [("name", &*self.name), ("category", &*self.category)];
        for (field, text) in texts {
            if text.chars().any(char::is_control) {
                return Err(Error::field(field, "must not hold control characters"));
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
            return Err(Error::field("logoUrl", "must be a path of this server or an http address"));
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

    /// A channel with three films of 40 minutes, from 2026-01-01 on.
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

    /// Thousands are held whole: what few have must not cost all.
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
