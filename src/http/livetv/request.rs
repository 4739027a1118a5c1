//! Bodies of channels to make or to change, checked.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::clock::{FillerRequest, ScheduleRequest};
use super::output::{self, LanguagesRequest, OutputRequest};
use crate::domain::channel::Ask;
use crate::domain::schedule::Mode;
use crate::error::{Code, Error, Result};
use crate::service::channels::{Apply, Change};

const MODES: [(&str, Mode); 5] = [
    ("sequential", Mode::Sequential),
    ("shuffle", Mode::Shuffle),
    ("shuffleInOrder", Mode::ShuffleInOrder),
    ("random", Mode::Random),
    ("weighted", Mode::Weighted),
];

/// Items of one request at most; a folder is one.
const MAX_ITEMS: usize = 5000;

const MAX_TITLE_BYTES: usize = 512;

/// What every JSON reader keeps whole.
const MAX_SEED: u64 = (1 << 53) - 1;

/// A channel; what is absent stays as it is, or is found. A new one needs `name` and `items`.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChannelRequest {
    /// 1 to 100 characters.
    name: Option<String>,
    /// 1 to 99999; the lowest that is free for a new one.
    number: Option<u32>,
    /// `virtual`: made out of the library. Nothing else is built yet.
    source_type: Option<String>,
    /// `sequential`, `shuffle` (when absent), `shuffleInOrder`, `random`, `weighted` or `blocks`.
    schedule_mode: Option<String>,
    always_on: Option<bool>,
    category: Option<String>,
    /// Null for a drawn one.
    #[serde(default, deserialize_with = "told")]
    #[schema(value_type = Option<String>)]
    logo_url: Option<Option<String>>,
    enabled: Option<bool>,
    /// An IANA name; the server's own when absent.
    timezone: Option<String>,
    /// Decides the order; drawn when absent.
    seed: Option<u64>,
    /// When the first programme of a new channel starts; now, floored to the minute, when absent.
    start_at: Option<String>,
    items: Option<Vec<ItemRequest>>,
    guide: Option<GuideRequest>,
    output: Option<OutputRequest>,
    languages: Option<LanguagesRequest>,
    schedule: Option<ScheduleRequest>,
    filler: Option<FillerRequest>,
    /// Not built yet: refused unless empty. So are all below.
    offline: Option<Value>,
    watermark: Option<Value>,
    on_demand: Option<Value>,
    provenance: Option<Value>,
    rights: Option<Value>,
    attestation: Option<Value>,
    source: Option<Value>,
}

/// A file, or a folder for the files in it.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ItemRequest {
    /// Absolute, inside a library root.
    path: String,
    /// Of a file; its name when absent.
    title: Option<String>,
    /// 1 (when absent) to 100: how often it comes, for `weighted`.
    weight: Option<u32>,
    /// With the folders in it. False when absent.
    recursive: Option<bool>,
    /// `name`, the only one: as a person expects it.
    order: Option<String>,
}

/// What the guide says.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GuideRequest {
    /// Of the channel.
    description: Option<String>,
    /// Whether it names what stands between programmes; false when absent.
    show_filler: Option<bool>,
    /// Not built yet: refused unless empty.
    min_programme_seconds: Option<Value>,
}

pub fn mode_name(mode: Mode) -> &'static str {
    MODES.iter().find(|(_, known)| *known == mode).map_or("blocks", |(name, _)| name)
}

impl ChannelRequest {
    /// A channel to make.
    pub fn creation(mut self, skip_invalid: bool) -> Result<Change> {
        let start_at = self.start_at.take();
        let change = self.change(skip_invalid, Apply::default())?;
        if change.name.is_none() {
            return Err(Error::field("name", "is missing"));
        }
        if change.asks.is_none() && change.plan.is_none() && change.mode != Some(Mode::Blocks) {
            return Err(Error::field("items", "is missing"));
        }
        Ok(Change { start_at: start_at.as_deref().map(start).transpose()?, ..change })
    }

    /// A channel to change.
    pub fn change(self, skip_invalid: bool, apply: Apply) -> Result<Change> {
        self.check_source()?;
        if self.start_at.is_some() {
            return Err(Error::field("startAt", "can only be said of a new channel"));
        }
        let guide = self.guide;
        let least = guide.as_ref().and_then(|guide| guide.min_programme_seconds.clone());
        let unbuilt = [
            ("offline", &self.offline),
            ("watermark", &self.watermark),
            ("onDemand", &self.on_demand),
            ("guide.minProgrammeSeconds", &least),
        ];
        if let Some((field, _)) = unbuilt.iter().find(|(_, value)| value.as_ref().is_some_and(says_something)) {
            return Err(Error::field(field, "is not in this version"));
        }
        let output = output::change(self.output, self.languages)?;
        if self.items.as_ref().is_some_and(Vec::is_empty) {
            return Err(Error::field("items", format!("must be 1 to {MAX_ITEMS}")));
        }
        if self.seed.is_some_and(|seed| seed > MAX_SEED) {
            return Err(Error::field("seed", format!("must be an integer from 0 to {MAX_SEED}")));
        }
        Ok(Change {
            name: self.name,
            number: self.number,
            enabled: self.enabled,
            always_on: self.always_on,
            category: self.category,
            show_filler: guide.as_ref().and_then(|guide| guide.show_filler),
            description: guide.and_then(|guide| guide.description),
            logo_url: self.logo_url,
            timezone: self.timezone,
            seed: self.seed,
            mode: self.schedule_mode.as_deref().map(mode).transpose()?,
            start_at: None,
            asks: self.items.map(|items| asks("items", items)).transpose()?,
            plan: self.schedule.map(ScheduleRequest::plan).transpose()?,
            filler: self.filler.map(FillerRequest::ask).transpose()?,
            output,
            skip_invalid,
            apply,
        })
    }

    /// External channels say first by what right they are shown (contract section 9).
    fn check_source(&self) -> Result<()> {
        let kind = match self.source_type.as_deref() {
            None | Some("virtual") => return Ok(()),
            Some(kind @ ("external" | "m3u-import")) => kind,
            Some(_) => return Err(Error::field("sourceType", "must be virtual")),
        };
        let text = |value: &Option<Value>, field: &str, least: usize| {
            value
                .as_ref()
                .and_then(|value| value[field].as_str())
                .is_some_and(|text| text.trim().chars().count() >= least)
        };
        let bases = ["own-content", "public-domain", "licensed", "provider-subscription", "other"];
        let basis = self.rights.as_ref().and_then(|rights| rights["basis"].as_str());
        let told = [
            ("provenance.sourceName", text(&self.provenance, "sourceName", 1)),
            ("provenance.sourceUrl", text(&self.provenance, "sourceUrl", 1)),
            ("provenance.importedAt", text(&self.provenance, "importedAt", 1)),
            ("rights.basis", basis.is_some_and(|basis| bases.contains(&basis))),
            ("rights.statement", text(&self.rights, "statement", 20)),
            ("attestation.authorized", self.attestation.as_ref().is_some_and(|given| given["authorized"] == true)),
            ("source.url", text(&self.source, "url", 1)),
        ];
        let missing: Vec<&str> = told.iter().filter(|(_, told)| !told).map(|(field, _)| *field).collect();
        if missing.is_empty() {
            return Err(Error::field("sourceType", format!("{kind} channels are not in this version")));
        }
        Err(Error::new(
            Code::RightsBasisRequired,
            "an external channel needs provenance, a rights basis and an attestation",
        )
        .with_details(json!({"missing": missing})))
    }
}

/// A list of items, each checked.
pub fn asks(field: &str, items: Vec<ItemRequest>) -> Result<Vec<Ask>> {
    if items.len() > MAX_ITEMS {
        return Err(Error::field(field, format!("must be at most {MAX_ITEMS}")));
    }
    items.into_iter().enumerate().map(|(index, item)| item.ask(&format!("{field}[{index}]"))).collect()
}

impl ItemRequest {
    pub fn of(ask: &Ask) -> Self {
        Self {
            path: ask.path.clone(),
            title: ask.title.clone(),
            weight: Some(ask.weight),
            recursive: Some(ask.recursive),
            order: None,
        }
    }

    fn ask(self, within: &str) -> Result<Ask> {
        let wrong = |field: &str, message: String| Err(Error::field(&format!("{within}.{field}"), message));
        let weight = self.weight.unwrap_or(1);
        if !(1..=100).contains(&weight) {
            return wrong("weight", "must be an integer from 1 to 100".to_owned());
        }
        if let Some(title) = &self.title
            && (title.trim().is_empty() || title.len() > MAX_TITLE_BYTES || title.chars().any(char::is_control))
        {
            return wrong("title", format!("must be 1 to {MAX_TITLE_BYTES} bytes without control characters"));
        }
        if self.order.is_some_and(|order| order != "name") {
            return wrong("order", "must be name".to_owned());
        }
        Ok(Ask { path: self.path, recursive: self.recursive.unwrap_or(false), title: self.title, weight })
    }
}

fn mode(name: &str) -> Result<Mode> {
    if name == "blocks" {
        return Ok(Mode::Blocks);
    }
    let names = MODES.map(|(name, _)| name).join(", ");
    order(name).ok_or_else(|| Error::field("scheduleMode", format!("must be one of {names}, blocks")))
}

/// An order that items can be aired in.
pub fn order(name: &str) -> Option<Mode> {
    MODES.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode)
}

/// The first programme's start: any instant of this century that a guide can be asked for.
fn start(text: &str) -> Result<Timestamp> {
    let (first, last) = (946_684_800_000, 4_102_444_800_000);
    let instant: Option<Timestamp> = text.parse().ok();
    instant.filter(|instant| (first..last).contains(&instant.as_millisecond())).ok_or_else(|| {
        Error::field("startAt", "must be an instant of the years 2000 to 2099, e.g. 2026-01-01T00:00:00Z")
    })
}

/// Tells null from absence.
fn told<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(from).map(Some)
}

fn says_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(list) => list.iter().any(says_something),
        Value::Object(fields) => fields.values().any(says_something),
        Value::String(text) => !text.is_empty(),
        Value::Bool(true) | Value::Number(_) => true,
    }
}
