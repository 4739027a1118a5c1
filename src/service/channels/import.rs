//! Channels of an imported list: created, matched again, and disabled when the list no longer has them.

use std::collections::HashSet;
use std::future::ready;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use futures_util::{StreamExt, stream};
use jiff::tz::TimeZone;

use super::{Channels, Kept, MAX_CHANNELS, channel_key, external};
use crate::domain::channel::{Channel, ChannelSettings, DEFAULT_MIN_GUIDE_SECONDS, MAX_NUMBER};
use crate::domain::external::{ExternalChannel, ExternalStream, ImportedEntry, ExternalOrigin};
use crate::domain::listing::Listings;
use crate::domain::m3u::entry_matching::{EntryKey, match_entries};
use crate::domain::m3u::parse::{M3uEntry, SkippedEntries};
use crate::error::Result;
use crate::service::accounts::random;
use crate::store::{Batch, MAX_CHANGES, Tree};

const _: () = assert!(MAX_CHANNELS < MAX_CHANGES, "all channels of a source are removed in one batch");

/// Records written concurrently, so that they share disk syncs.
const TOGETHER: usize = 512;

/// An entry of a list as the channel it is or would become.
#[derive(Debug)]
pub struct Planned {
    /// Id 0 for a new one.
    pub channel: Channel,
    /// False if the list has no changes for it.
    pub changed: bool,
    pub groups: Vec<String>,
}

impl Channels {
    /// The channels of one source.
    pub fn of_source(&self, source: u32) -> Vec<Arc<Channel>> {
        let mut all = self.all();
        all.retain(|channel| channel.external.as_deref().and_then(ExternalChannel::source_id) == Some(source));
        all
    }

    /// Previews an import: the list's channels as they are or would become, and the channels that it no longer has. Nothing
    /// is stored.
    pub fn plan_import(
        &self,
        source: u32,
        number_from: Option<u32>,
        entries: &[M3uEntry],
        skips: &mut SkippedEntries,
    ) -> (Vec<Planned>, Vec<Arc<Channel>>) {
        let known = self.of_source(source);
        let imported = |channel: &Arc<Channel>| match channel.external.as_deref().map(|external| &external.origin) {
            Some(ExternalOrigin::Source { entry, .. }) => entry.clone(),
            _ => ImportedEntry::default(),
        };
        let said: Vec<ImportedEntry> = known.iter().map(imported).collect();
        let before = known.iter().zip(&said).filter_map(|(channel, said)| {
            let url = &channel.external.as_deref()?.stream.url;
            Some(EntryKey { tvg_id: &said.tvg_id, name: &said.name, url })
        });
        let before: Vec<EntryKey<'_>> = before.collect();
        let mut after: Vec<EntryKey<'_>> = Vec::with_capacity(entries.len());
        for M3uEntry { tvg_id, name, url, .. } in entries {
            after.push(EntryKey { tvg_id, name, url });
        }
        let found = match_entries(&before, &after);
        let all = self.all();
        let taken = all.iter().map(|channel| channel.settings.number).collect();
        let mut numbers = Numbers { taken, wishes: number_from.is_none(), from: number_from.unwrap_or(1) };
        let mut room = MAX_CHANNELS.saturating_sub(all.len());
        let zone: Arc<str> = TimeZone::system().iana_name().unwrap_or("UTC").into();
        let mut planned = Vec::with_capacity(entries.len());
        for (entry, found) in entries.iter().zip(&found) {
            if let Some(at) = found {
                planned.push(again(&known[*at], &said[*at], entry, source));
                continue;
            }
            let number = if room > 0 { numbers.take(entry.channel_number) } else { None };
            let Some(number) = number else {
                skips.add(entry.line, &entry.name, format!("the limit of {MAX_CHANNELS} channels is reached"));
                continue;
            };
            let face = ChannelSettings {
                name: entry.name.as_str().into(),
                number,
                enabled: true,
                always_on: false,
                category: category(entry).into(),
                description: Box::default(),
                logo_url: entry.logo_url.as_deref().map(Into::into),
                timezone: zone.clone(),
                show_filler: false,
                min_guide_seconds: DEFAULT_MIN_GUIDE_SECONDS,
                slate_text: None,
                slate_image: None,
            };
            match face.validate() {
                Ok(()) => room -= 1,
                Err(fault) => {
                    skips.add(entry.line, &entry.name, fault.message);
                    continue;
                }
            }
            let channel = external::draft(None, face, external_of(entry, source));
            planned.push(Planned { channel, changed: true, groups: entry.groups.clone() });
        }
        let seen: HashSet<usize> = found.into_iter().flatten().collect();
        let gone = known.iter().enumerate().filter(|(at, _)| !seen.contains(at)).map(|(_, channel)| channel.clone());
        (planned, gone.collect())
    }

    /// Applies a list to the channels of its source; returns the number of channels in it.
    ///
    /// # Errors
    /// `STORAGE_FULL`: then some channels may be updated and others not.
    pub async fn import(
        &self,
        source: u32,
        number_from: Option<u32>,
        entries: &[M3uEntry],
        skips: &mut SkippedEntries,
    ) -> Result<usize> {
        let mut given = self.editing.lock().await;
        let (planned, gone) = self.plan_import(source, number_from, entries, skips);
        let count = planned.len();
        let instance = given.instance.get_or_insert_with(|| data_encoding::HEXLOWER.encode(&random::<4>())).clone();
        let mut changed = Vec::new();
        for Planned { mut channel, .. } in planned.into_iter().filter(|planned| planned.changed) {
            if channel.id == 0 {
                given.id += 1;
                channel.id = given.id;
                channel.tvg_id = format!("ch-{}.{instance}", channel.id).into();
            }
            changed.push(channel);
        }
        for channel in gone {
            let mut channel = (*channel).clone();
            if let Some(ExternalChannel { origin: ExternalOrigin::Source { entry, .. }, .. }) = channel.external.as_deref_mut()
                && channel.settings.enabled
            {
                (entry.is_gone, channel.settings.enabled) = (true, false);
                channel.version += 1;
                changed.push(channel);
            }
        }
        let writes = changed.into_iter().map(|channel| self.keep(channel, None));
        // All of them are completed, also after an error: a write dropped half-way is durable, but missing in memory.
        let kept = stream::iter(writes).buffer_unordered(TOGETHER);
        kept.fold(Ok(()), |all: Result<()>, kept| ready(all.and(kept.map(drop)))).await?;
        Ok(count)
    }

    /// Sets the programmes of external channels. A channel whose settings changed after its programmes were found keeps its
    /// present ones: the change maps the guides again.
    pub fn show(&self, mapped: Vec<(Arc<Channel>, Option<Arc<Listings>>)>) {
        let mut all = self.by_id.write().unwrap_or_else(PoisonError::into_inner);
        for (before, listings) in mapped {
            let Some(channel) = all.get_mut(&before.id) else { continue };
            let stamp = |listings: &Option<Arc<Listings>>| listings.as_ref().map(|listings| listings.content_hash);
            if channel.external == before.external && stamp(&listings) != stamp(&channel.listings) {
                *channel = Arc::new(Channel { listings, ..(**channel).clone() });
                self.changed_ms.store(self.clock.now().as_millisecond(), Ordering::Relaxed);
            }
        }
    }

    /// Removes all channels of a source together with what `batch` changes; their ids are never used again.
    ///
    /// # Errors
    /// `STORAGE_FULL`: then nothing was changed.
    pub async fn remove_imported(&self, source: u32, mut batch: Batch) -> Result<()> {
        let _editing = self.editing.lock().await;
        let removed = self.of_source(source);
        for channel in &removed {
            let gone = Kept { tvg_id: channel.tvg_id.clone(), channel: None };
            batch.put(Tree::Channels, &channel_key(channel.id), &gone)?;
        }
        self.store.write(batch).await?;
        for channel in removed {
            self.by_id.write().unwrap_or_else(PoisonError::into_inner).remove(&channel.id);
            self.present.forget(channel.id);
            self.past.forget(channel.id);
        }
        self.changed_ms.store(self.clock.now().as_millisecond(), Ordering::Relaxed);
        Ok(())
    }
}

/// The first group of an entry is the channel's category.
fn category(entry: &M3uEntry) -> &str {
    entry.groups.first().map_or("", String::as_str)
}

fn external_of(entry: &M3uEntry, source: u32) -> ExternalChannel {
    ExternalChannel {
        stream: ExternalStream { url: entry.url.clone(), failover: Vec::new(), user_agent: entry.user_agent.clone() },
        guide_channel: None,
        origin: ExternalOrigin::Source {
            id: source,
            entry: ImportedEntry {
                tvg_id: entry.tvg_id.clone(),
                name: entry.name.clone(),
                category: category(entry).to_owned(),
                logo: entry.logo_url.clone(),
                shift_ms: entry.guide_shift_ms,
                is_gone: false,
            },
        },
    }
}

/// Updates a channel from its entry. Fields that were changed by hand keep their value.
fn again(channel: &Channel, said: &ImportedEntry, entry: &M3uEntry, source: u32) -> Planned {
    let mut external = external_of(entry, source);
    external.guide_channel = channel.external.as_deref().and_then(|external| external.guide_channel.clone());
    let mut face = channel.settings.clone();
    if *face.name == *said.name {
        face.name = entry.name.as_str().into();
    }
    if *face.category == *said.category {
        face.category = category(entry).into();
    }
    if face.logo_url.as_deref() == said.logo.as_deref() {
        face.logo_url = entry.logo_url.as_deref().map(Into::into);
    }
    face.enabled |= said.is_gone;
    let face = if face.validate().is_ok() { face } else { channel.settings.clone() };
    let changed = channel.settings != face || channel.external.as_deref() != Some(&external);
    let channel = if changed { external::draft(Some(channel), face, external) } else { channel.clone() };
    Planned { channel, changed, groups: entry.groups.clone() }
}

/// Allocates free channel numbers.
struct Numbers {
    taken: HashSet<u32>,
    /// Whether the numbers in the list are used.
    wishes: bool,
    /// Every lower number is in use.
    from: u32,
}

impl Numbers {
    fn take(&mut self, wished: Option<u32>) -> Option<u32> {
        let wished = wished.filter(|wished| self.wishes && !self.taken.contains(wished));
        let number = match wished {
            Some(wished) => wished,
            None => {
                let number = (self.from..=MAX_NUMBER).find(|number| !self.taken.contains(number))?;
                self.from = number + 1;
                number
            }
        };
        self.taken.insert(number);
        Some(number)
    }
}
