//! Channels of an imported list: created, matched again, and disabled when the list no longer has them.

use std::collections::HashSet;
use std::future::ready;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use futures_util::{StreamExt, stream};
use jiff::tz::TimeZone;

use super::{ChannelRecord, Channels, MAX_CHANNELS, channel_key, external};
use crate::domain::channel::{Channel, ChannelSettings, MAX_NUMBER};
use crate::domain::external::{ExternalChannel, ExternalOrigin, ExternalStream, ImportedEntry};
use crate::domain::listing::Listings;
use crate::domain::m3u::entry_matching::{EntryKey, match_entries};
use crate::domain::m3u::parse::{M3uEntry, SkippedEntries};
use crate::error::Result;
use crate::service::accounts::random_bytes;
use crate::store::{Batch, MAX_BATCH_CHANGES, Tree};

const _: () = assert!(MAX_CHANNELS < MAX_BATCH_CHANGES, "all channels of a source are removed in one batch");

/// Records written concurrently, so that they share disk syncs.
const MAX_CONCURRENT_WRITES: usize = 512;

/// An entry of a list as the channel it is or would become.
#[derive(Debug)]
pub struct PlannedChannel {
    /// Id 0 for a new one.
    pub channel: Channel,
    /// False if the list has no changes for it.
    pub is_changed: bool,
    pub groups: Vec<String>,
}

impl Channels {
    /// The channels of one source.
    pub fn imported_from(&self, source: u32) -> Vec<Arc<Channel>> {
        let mut channels = self.all();
        channels.retain(|channel| channel.external.as_deref().and_then(ExternalChannel::source_id) == Some(source));
        channels
    }

    /// Previews an import: the list's channels as they are or would become, and the channels that it no longer has. Nothing
    /// is stored.
    pub fn plan_import(
        &self,
        source: u32,
        number_from: Option<u32>,
        entries: &[M3uEntry],
        skips: &mut SkippedEntries,
    ) -> (Vec<PlannedChannel>, Vec<Arc<Channel>>) {
        let channels = self.imported_from(source);
        let imported = |channel: &Arc<Channel>| match channel.external.as_deref().map(|external| &external.origin) {
            Some(ExternalOrigin::Source { entry, .. }) => entry.clone(),
            _ => ImportedEntry::default(),
        };
        let last_entries: Vec<ImportedEntry> = channels.iter().map(imported).collect();
        let keys_before = channels.iter().zip(&last_entries).filter_map(|(channel, last_entry)| {
            let url = &channel.external.as_deref()?.stream.url;
            Some(EntryKey { tvg_id: &last_entry.tvg_id, name: &last_entry.name, url })
        });
        let keys_before: Vec<EntryKey<'_>> = keys_before.collect();
        let mut keys_after: Vec<EntryKey<'_>> = Vec::with_capacity(entries.len());
        for M3uEntry { tvg_id, name, url, .. } in entries {
            keys_after.push(EntryKey { tvg_id, name, url });
        }
        let matches = match_entries(&keys_before, &keys_after);
        let all_channels = self.all();
        let used_numbers = all_channels.iter().map(|channel| channel.settings.number).collect();
        let mut numbers = ChannelNumbers {
            used: used_numbers,
            uses_list_numbers: number_from.is_none(),
            next_number: number_from.unwrap_or(1),
        };
        let mut free_channels = MAX_CHANNELS.saturating_sub(all_channels.len());
        let zone: Arc<str> = TimeZone::system().iana_name().unwrap_or("UTC").into();
        let mut planned = Vec::with_capacity(entries.len());
        for (entry, matched) in entries.iter().zip(&matches) {
            if let Some(index) = matched {
                planned.push(update_from_entry(&channels[*index], &last_entries[*index], entry, source));
                continue;
            }
            let number = if free_channels > 0 { numbers.allocate(entry.channel_number) } else { None };
            let Some(number) = number else {
                skips.add(entry.line, &entry.name, format!("the limit of {MAX_CHANNELS} channels is reached"));
                continue;
            };
            let settings = ChannelSettings {
                name: entry.name.as_str().into(),
                category: category(entry).into(),
                logo_url: entry.logo_url.as_deref().map(Into::into),
                ..ChannelSettings::new(number, zone.clone())
            };
            match settings.validate() {
                Ok(()) => free_channels -= 1,
                Err(fault) => {
                    skips.add(entry.line, &entry.name, fault.message);
                    continue;
                }
            }
            let channel = external::draft(None, settings, external_channel(entry, source));
            planned.push(PlannedChannel { channel, is_changed: true, groups: entry.groups.clone() });
        }
        let matched: HashSet<usize> = matches.into_iter().flatten().collect();
        let removed = channels.iter().enumerate().filter(|(n, _)| !matched.contains(n)).map(|(_, one)| one.clone());
        (planned, removed.collect())
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
        let mut ids = self.edit_lock.lock().await;
        let (planned, removed) = self.plan_import(source, number_from, entries, skips);
        let count = planned.len();
        let instance = ids.instance.get_or_insert_with(|| data_encoding::HEXLOWER.encode(&random_bytes::<4>())).clone();
        let mut changed = Vec::new();
        for PlannedChannel { mut channel, .. } in planned.into_iter().filter(|planned| planned.is_changed) {
            if channel.id == 0 {
                ids.last_id += 1;
                channel.id = ids.last_id;
                channel.tvg_id = format!("ch-{}.{instance}", channel.id).into();
            }
            changed.push(channel);
        }
        for channel in removed {
            let mut channel = (*channel).clone();
            if let Some(ExternalChannel { origin: ExternalOrigin::Source { entry, .. }, .. }) =
                channel.external.as_deref_mut()
                && channel.settings.enabled
            {
                (entry.is_gone, channel.settings.enabled) = (true, false);
                channel.version += 1;
                changed.push(channel);
            }
        }
        let writes = changed.into_iter().map(|channel| self.store_channel(channel, None));
        // All of them are completed, also after an error: a write dropped half-way is durable, but missing in memory.
        let results = stream::iter(writes).buffer_unordered(MAX_CONCURRENT_WRITES);
        results.fold(Ok(()), |all: Result<()>, result| ready(all.and(result.map(drop)))).await?;
        Ok(count)
    }

    /// Sets the programmes of external channels. A channel whose settings changed after its programmes were found keeps its
    /// present ones: the change maps the guides again.
    pub fn set_listings(&self, mapped: Vec<(Arc<Channel>, Option<Arc<Listings>>)>) {
        let mut channels = self.by_id.write().unwrap_or_else(PoisonError::into_inner);
        for (before, listings) in mapped {
            let Some(channel) = channels.get_mut(&before.id) else { continue };
            let hash = |listings: &Option<Arc<Listings>>| listings.as_ref().map(|listings| listings.content_hash);
            if channel.external == before.external && hash(&listings) != hash(&channel.listings) {
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
        let _editing = self.edit_lock.lock().await;
        let removed = self.imported_from(source);
        for channel in &removed {
            let deleted_record = ChannelRecord { tvg_id: channel.tvg_id.clone(), channel: None };
            batch.put(Tree::Channels, &channel_key(channel.id), &deleted_record)?;
        }
        self.store.write(batch).await?;
        for channel in removed {
            self.by_id.write().unwrap_or_else(PoisonError::into_inner).remove(&channel.id);
            self.current_programmes.remove(channel.id);
            self.oldest_programmes.remove(channel.id);
        }
        self.changed_ms.store(self.clock.now().as_millisecond(), Ordering::Relaxed);
        Ok(())
    }
}

/// The first group of an entry is the channel's category.
fn category(entry: &M3uEntry) -> &str {
    entry.groups.first().map_or("", String::as_str)
}

fn external_channel(entry: &M3uEntry, source: u32) -> ExternalChannel {
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
fn update_from_entry(channel: &Channel, last_entry: &ImportedEntry, entry: &M3uEntry, source: u32) -> PlannedChannel {
    let mut external = external_channel(entry, source);
    external.guide_channel = channel.external.as_deref().and_then(|external| external.guide_channel.clone());
    let mut settings = channel.settings.clone();
    if *settings.name == *last_entry.name {
        settings.name = entry.name.as_str().into();
    }
    if *settings.category == *last_entry.category {
        settings.category = category(entry).into();
    }
    if settings.logo_url.as_deref() == last_entry.logo.as_deref() {
        settings.logo_url = entry.logo_url.as_deref().map(Into::into);
    }
    settings.enabled |= last_entry.is_gone;
    let settings = if settings.validate().is_ok() { settings } else { channel.settings.clone() };
    let is_changed = channel.settings != settings || channel.external.as_deref() != Some(&external);
    let channel = if is_changed { external::draft(Some(channel), settings, external) } else { channel.clone() };
    PlannedChannel { channel, is_changed, groups: entry.groups.clone() }
}

/// Allocates free channel numbers.
struct ChannelNumbers {
    used: HashSet<u32>,
    uses_list_numbers: bool,
    /// Every lower number is in use.
    next_number: u32,
}

impl ChannelNumbers {
    fn allocate(&mut self, requested: Option<u32>) -> Option<u32> {
        let requested = requested.filter(|requested| self.uses_list_numbers && !self.used.contains(requested));
        let number = match requested {
            Some(requested) => requested,
            None => {
                let number = (self.next_number..=MAX_NUMBER).find(|number| !self.used.contains(number))?;
                self.next_number = number + 1;
                number
            }
        };
        self.used.insert(number);
        Some(number)
    }
}
