//! The channels there are: kept in memory, changed one at a time, on disk before anybody hears of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::domain::channel::{Ask, Channel, Face, FillerAsk, MAX_NUMBER, Output, Plan};
use crate::domain::external::External;
use crate::domain::schedule::{Definition, MAX_SLOTS, Mode, Revision, Wanted, cut};
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::accounts::random;
use crate::service::clock::Clock;
use crate::store::{Store, Tree};

mod blocks;
mod cuts;
mod external;
mod items;

use cuts::Cuts;
pub use external::{ExternalChange, SourceType};

/// Channels at most.
const MAX_CHANNELS: usize = 2000;

/// How long what was aired is remembered: a guide may look back a week, and one downloaded then another.
const KEPT_MS: i64 = 14 * 24 * 3600 * 1000;

/// All channels.
pub struct Channels {
    store: Store,
    clock: Clock,
    by_id: RwLock<BTreeMap<u32, Arc<Channel>>>,
    /// When one was changed last, unix ms; when they were read, before the first change.
    changed_ms: AtomicI64,
    cuts: Cuts,
    /// Held while one is changed. The highest id that was ever given out, and the name of this lineup.
    editing: tokio::sync::Mutex<Given>,
}

struct Given {
    id: u32,
    instance: Option<String>,
}

/// A channel's record; its revisions are records of their own, for they never change.
#[derive(Serialize, Deserialize)]
struct Kept {
    tvg_id: String,
    /// None once it is gone: an id is never used again.
    channel: Option<KeptChannel>,
}

#[derive(Serialize, Deserialize)]
struct KeptChannel {
    face: Face,
    asks: Vec<Ask>,
    #[serde(default)]
    output: Output,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    plan: Option<Plan>,
    #[serde(default)]
    filler: FillerAsk,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    external: Option<External>,
    seed: u64,
    mode: Mode,
    version: u32,
    /// Numbers of its revisions, by their start.
    revisions: Vec<u32>,
}

/// What a new channel is to be, or what is to change of one; what is left out stays, or is found.
#[derive(Clone, Debug, Default)]
pub struct Change {
    pub name: Option<String>,
    pub number: Option<u32>,
    pub enabled: Option<bool>,
    pub always_on: Option<bool>,
    pub category: Option<String>,
    pub description: Option<String>,
    pub logo_url: Option<Option<String>>,
    pub timezone: Option<String>,
    pub show_filler: Option<bool>,
    pub seed: Option<u64>,
    pub mode: Option<Mode>,
    /// Of a new channel.
    pub start_at: Option<Timestamp>,
    pub asks: Option<Vec<Ask>>,
    pub output: OutputChange,
    pub plan: Option<Plan>,
    pub filler: Option<FillerAsk>,
    pub source_type: Option<SourceType>,
    pub external: Option<ExternalChange>,
    /// Leaves out items that cannot be aired, as long as one can.
    pub skip_invalid: bool,
    pub apply: Apply,
}

/// What is to change of how it is aired.
#[derive(Clone, Debug, Default)]
pub struct OutputChange {
    pub max_height: Option<Option<u32>>,
    pub max_kbps: Option<Option<u32>>,
    pub copy: Option<bool>,
    pub audio_languages: Option<Vec<String>>,
}

/// When a change of what is aired begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Apply {
    /// At the end of the programme on air.
    #[default]
    Boundary,
    /// At once: the programme on air is cut.
    Now,
    /// At the end of the programme that is on then.
    At(Timestamp),
}

impl Channels {
    /// Reads all channels.
    ///
    /// # Errors
    /// `INTERNAL` for a record that cannot be read.
    pub fn open(store: Store, clock: Clock) -> Result<Self> {
        let mut given = Given { id: 0, instance: None };
        let mut by_id = BTreeMap::new();
        let cuts = Cuts::default();
        for (key, kept) in store.scan::<Kept>(Tree::Channels)? {
            let id: u32 = key.parse().map_err(|_| Error::internal(format!("record channels/{key} has no id")))?;
            given.id = given.id.max(id);
            given.instance = kept.tvg_id.rsplit_once('.').map(|(_, instance)| instance.to_owned());
            let Some(KeptChannel { face, asks, output, plan, filler, external, seed, mode, version, revisions }) =
                kept.channel
            else {
                continue;
            };
            let read = |number: &u32| {
                let key = revision_key(id, *number);
                let revision = store.get::<Revision>(Tree::Revisions, &key)?;
                let mut revision =
                    revision.ok_or_else(|| Error::internal(format!("record revisions/{key} is missing")))?;
                cuts.find(&store, &mut revision.items)?;
                Ok(revision)
            };
            let definition = Definition { revisions: revisions.iter().map(read).collect::<Result<_>>()? };
            let channel = Channel {
                id,
                tvg_id: kept.tvg_id,
                face,
                asks,
                output,
                plan,
                filler,
                external,
                seed,
                mode,
                version,
                definition,
            };
            by_id.insert(id, Arc::new(channel));
        }
        let changed_ms = clock.now().as_millisecond().into();
        let (by_id, editing) = (RwLock::new(by_id), tokio::sync::Mutex::new(given));
        Ok(Self { store, clock, by_id, changed_ms, cuts, editing })
    }

    /// All channels, by number.
    pub fn all(&self) -> Vec<Arc<Channel>> {
        let mut all: Vec<_> = self.by_id.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        all.sort_by_key(|channel| channel.face.number);
        all
    }

    /// When one of them was changed last, unix ms.
    pub fn changed_ms(&self) -> i64 {
        self.changed_ms.load(Ordering::Relaxed)
    }

    /// # Errors
    /// `CHANNEL_NOT_FOUND`.
    pub fn get(&self, id: u32) -> Result<Arc<Channel>> {
        let found = self.by_id.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        found.ok_or_else(|| Error::new(Code::ChannelNotFound, format!("there is no channel {id}")))
    }

    /// Removes a channel; its id is never used again.
    ///
    /// # Errors
    /// `CHANNEL_NOT_FOUND`; `STORAGE_FULL`.
    pub async fn remove(&self, id: u32) -> Result<()> {
        let _editing = self.editing.lock().await;
        let channel = self.get(id)?;
        let gone = Kept { tvg_id: channel.tvg_id.clone(), channel: None };
        self.store.put(Tree::Channels, &channel_key(id), &gone).await?;
        self.by_id.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
        self.changed_ms.store(self.clock.now().as_millisecond(), Ordering::Relaxed);
        self.forget(id, channel.definition.revisions.iter().map(|revision| revision.number)).await;
        Ok(())
    }

    fn free_number(&self, wanted: Option<u32>, own: Option<u32>) -> Result<u32> {
        let all = self.all();
        let taken = |number: u32| all.iter().find(|other| other.face.number == number && Some(other.id) != own);
        match wanted {
            Some(number) => match taken(number) {
                None => Ok(number),
                Some(other) => {
                    Err(Error::new(Code::Conflict, format!("number {number} is taken by {}", other.face.name))
                        .with_details(json!({"field": "number", "channelId": other.id})))
                }
            },
            None => (1..=MAX_NUMBER)
                .find(|number| taken(*number).is_none())
                .ok_or_else(|| Error::new(Code::Conflict, "every channel number is taken")),
        }
    }

    /// Writes a channel down: new revisions first, so that what is named is there.
    async fn keep(&self, mut channel: Channel, before: Option<&Channel>) -> Result<Arc<Channel>> {
        let known: Vec<u32> = before.map_or_else(Vec::new, |before| numbers(&before.definition));
        for revision in &mut channel.definition.revisions {
            if !known.contains(&revision.number) {
                self.cuts.keep(&self.store, &mut revision.items).await?;
                let revision = &*revision;
                self.store.put(Tree::Revisions, &revision_key(channel.id, revision.number), revision).await?;
            }
        }
        let Channel { face, asks, output, plan, filler, external, seed, mode, version, .. } = channel.clone();
        let revisions = numbers(&channel.definition);
        let dropped: Vec<u32> = known.into_iter().filter(|number| !revisions.contains(number)).collect();
        let kept = KeptChannel { face, asks, output, plan, filler, external, seed, mode, version, revisions };
        let kept = Kept { tvg_id: channel.tvg_id.clone(), channel: Some(kept) };
        self.store.put(Tree::Channels, &channel_key(channel.id), &kept).await?;
        let channel = Arc::new(channel);
        self.by_id.write().unwrap_or_else(PoisonError::into_inner).insert(channel.id, channel.clone());
        self.changed_ms.store(self.clock.now().as_millisecond(), Ordering::Relaxed);
        self.forget(channel.id, dropped.into_iter()).await;
        Ok(channel)
    }

    /// Removes revisions nobody names; one that stays behind does no harm.
    async fn forget(&self, id: u32, numbers: impl Iterator<Item = u32>) {
        for number in numbers {
            if let Err(fault) = self.store.delete(Tree::Revisions, &revision_key(id, number)).await {
                tracing::warn!(channel.id = id, %fault, "an old revision could not be removed");
            }
        }
    }
}

impl Service {
    /// Makes a channel.
    ///
    /// # Errors
    /// `VALIDATION_ERROR`, `CONFLICT` for a number that is taken; those of opening its items; `UNPLAYABLE_MEDIA` with
    /// `details.items` for items that cannot be aired; `STORAGE_FULL`.
    pub async fn add_channel(&self, change: Change) -> Result<Arc<Channel>> {
        // What takes long is done before others have to wait.
        let drafted = self.draft_channel(None, &change).await?;
        let mut given = self.channels.editing.lock().await;
        if self.channels.all().len() >= MAX_CHANNELS {
            return Err(Error::new(Code::Conflict, format!("there are {MAX_CHANNELS} channels, no more fit")));
        }
        let number = self.channels.free_number(change.number, None)?;
        let instance = given.instance.clone().unwrap_or_else(|| data_encoding::HEXLOWER.encode(&random::<4>()));
        let id = given.id + 1;
        let tvg_id = format!("ch-{id}.{instance}");
        let face = Face { number, ..drafted.face.clone() };
        self.note_clearance(id, None, &drafted, &change).await?;
        let channel = self.channels.keep(Channel { id, tvg_id, face, ..drafted }, None).await?;
        (given.id, given.instance) = (id, Some(instance));
        Ok(channel)
    }

    /// Changes a channel. What is on air and what was on air stay as they are, unless the change says otherwise.
    ///
    /// # Errors
    /// `CHANNEL_NOT_FOUND`, and those of [`Self::add_channel`].
    pub async fn change_channel(&self, id: u32, change: Change) -> Result<Arc<Channel>> {
        let _editing = self.channels.editing.lock().await;
        let before = self.channels.get(id)?;
        let after = self.draft_channel(Some(&before), &change).await?;
        self.channels.free_number(Some(after.face.number), Some(id))?;
        self.note_clearance(id, Some(&before), &after, &change).await?;
        self.channels.keep(after, Some(&before)).await
    }

    /// What a channel would be: a new one (id 0) or a changed one. Nothing is kept.
    ///
    /// # Errors
    /// As [`Self::add_channel`], a number that is taken aside.
    pub async fn draft_channel(&self, before: Option<&Channel>, asked: &Change) -> Result<Channel> {
        let change = asked.clone();
        let face = match before {
            Some(before) => before.face.clone(),
            None => Face {
                name: String::new(),
                number: self.channels.free_number(None, None)?,
                enabled: true,
                always_on: false,
                category: String::new(),
                description: String::new(),
                logo_url: None,
                timezone: TimeZone::system().iana_name().unwrap_or("UTC").to_owned(),
                show_filler: false,
            },
        };
        let face = Face {
            name: change.name.unwrap_or(face.name),
            number: change.number.unwrap_or(face.number),
            enabled: change.enabled.unwrap_or(face.enabled),
            always_on: change.always_on.unwrap_or(face.always_on),
            category: change.category.unwrap_or(face.category),
            description: change.description.unwrap_or(face.description),
            logo_url: change.logo_url.unwrap_or(face.logo_url),
            timezone: change.timezone.unwrap_or(face.timezone),
            show_filler: change.show_filler.unwrap_or(face.show_filler),
        };
        face.check()?;
        let now = self.clock.now().as_millisecond();
        if let Some(external) = external::asked(before, asked, now)? {
            return Ok(external::draft(before, face, external));
        }
        let mode = change.mode.or(before.map(|before| before.mode)).unwrap_or(Mode::Shuffle);
        // 53 bits: what every JSON reader keeps whole.
        let fresh = || u64::from_le_bytes(random::<8>()) >> 11;
        let seed = change.seed.or(before.map(|before| before.seed)).unwrap_or_else(fresh);
        let asks = change.asks.clone().or_else(|| before.map(|before| before.asks.clone())).unwrap_or_default();
        let mut output = before.map_or_else(Output::default, |before| before.output.clone());
        change.output.clone().apply(&mut output);
        let remade = before
            .is_some_and(|before| (before.output.max_height, before.output.copy) != (output.max_height, output.copy));
        let (plan, filler) = blocks::asked(before, change.plan, change.filler, mode)?;
        let by_clock = mode == Mode::Blocks;
        let touched = remade
            || change.asks.is_some()
            || before.is_none_or(|before| {
                let moved = by_clock && before.face.timezone != face.timezone;
                moved
                    || (before.mode, before.seed) != (mode, seed)
                    || (&before.plan, &before.filler) != (&plan, &filler)
            });
        let mut definition = before.map_or_else(Definition::default, |before| before.definition.clone());
        if touched {
            // The items of another kind of channel are others.
            let same = before.filter(|before| change.asks.is_none() && !remade && before.mode != Mode::Blocks);
            let (items, blocks) = match (&plan, same) {
                (Some(plan), _) => {
                    let (items, blocks) =
                        self.block_items(plan, &filler, &face.timezone, &output, change.skip_invalid).await?;
                    (items, Some(blocks))
                }
                (None, Some(same)) => {
                    (same.definition.revisions.last().map(|last| last.items.clone()).unwrap_or_default(), None)
                }
                (None, None) => (self.channel_items(&asks, &output, change.skip_invalid).await?, None),
            };
            if before.is_none() {
                // As short as the first items allow: players begin three of them behind the end.
                let usual = self.config.segment_seconds.round() as u64;
                let longest = items.iter().map(|item| cut::longest(&item.cut.grid())).max();
                output.target = longest.unwrap_or(usual).max(usual);
            }
            let wanted = Wanted { seed, mode, items, blocks };
            check_slots(&wanted)?;
            definition = match before {
                None => {
                    let start = change.start_at.map_or(now - now.rem_euclid(60_000), Timestamp::as_millisecond);
                    Definition::new(start, wanted)
                }
                Some(_) if definition.airs(&wanted) => definition,
                Some(_) => {
                    let at = match change.apply {
                        Apply::Now => now,
                        Apply::Boundary => definition.programme(now).map_or(now, |on| on.end_ms),
                        Apply::At(at) => {
                            let at = at.as_millisecond().max(now);
                            definition.programme(at).map_or(at, |on| if on.start_ms == at { at } else { on.end_ms })
                        }
                    };
                    definition.revised(at, wanted).without_before(now - KEPT_MS)
                }
            };
        }
        let (id, tvg_id, version) =
            before.map_or((0, String::new(), 1), |before| (before.id, before.tvg_id.clone(), before.version + 1));
        let external = None;
        Ok(Channel { id, tvg_id, face, asks, output, plan, filler, external, seed, mode, version, definition })
    }
}

impl OutputChange {
    fn apply(self, output: &mut Output) {
        output.max_height = self.max_height.unwrap_or(output.max_height);
        output.max_kbps = self.max_kbps.unwrap_or(output.max_kbps);
        output.copy = self.copy.unwrap_or(output.copy);
        if let Some(languages) = self.audio_languages {
            output.audio_languages = languages;
        }
    }
}

fn check_slots(wanted: &Wanted) -> Result<()> {
    let slots = match &wanted.blocks {
        Some(blocks) => blocks.slots(&wanted.items),
        None => Definition::new(0, wanted.clone()).revisions[0].slots(),
    };
    match slots as usize > MAX_SLOTS {
        true => {
            Err(Error::field("items", format!("weights and items come to more than {MAX_SLOTS} programmes a cycle")))
        }
        false => Ok(()),
    }
}

fn numbers(definition: &Definition) -> Vec<u32> {
    definition.revisions.iter().map(|revision| revision.number).collect()
}

fn channel_key(id: u32) -> String {
    format!("{id:010}")
}

fn revision_key(id: u32, number: u32) -> String {
    format!("{id:010}/{number:010}")
}
