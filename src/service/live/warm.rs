//! Channels that are kept ready without viewers: always, or on request for a while.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::{Audience, is_current_encoded, is_ready, start_maintenance};
use crate::domain::channel::Channel;
use crate::error::{Code, Result};
use crate::service::channels::ChannelChange;
use crate::service::{Service, ingest};

/// Readiness of a channel that was to be warmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    Warm,
    Warming,
    /// No encode slot or connection is free.
    LimitReached,
    /// Disabled, or its rights were withdrawn.
    Disabled,
    UnknownChannel,
}

/// Keeps channels ready for a while, as far as encode slots and connections allow: these, or all enabled ones.
pub fn warm(service: &Arc<Service>, ids: Option<&HashSet<u32>>, ttl: Duration) -> Vec<(u32, Readiness)> {
    let all = service.channels.all();
    let mut free_slots = free_warm_slots(service);
    let mut warmed = Vec::new();
    for channel in &all {
        if ids.map_or(channel.settings.enabled, |ids| ids.contains(&channel.id)) {
            warmed.push((channel.id, warm_channel(service, channel, &mut free_slots, ttl)));
        }
    }
    let unknown = ids.into_iter().flatten().filter(|id| all.iter().all(|channel| channel.id != **id));
    warmed.extend(unknown.map(|id| (*id, Readiness::UnknownChannel)));
    start_maintenance(service);
    warmed
}

fn warm_channel(service: &Arc<Service>, channel: &Channel, free_slots: &mut usize, ttl: Duration) -> Readiness {
    if !channel.settings.enabled {
        return Readiness::Disabled;
    }
    if let Err(error) = ingest::start_ingest(service, channel) {
        return if error.code == Code::ServerBusy { Readiness::LimitReached } else { Readiness::Disabled };
    }
    let readiness = readiness(service, channel);
    // A channel that is already kept warm holds its slot.
    if !is_kept_ready(service, channel) && needs_slot_to_warm(service, channel) {
        if *free_slots == 0 {
            return Readiness::LimitReached;
        }
        *free_slots -= 1;
    }
    service.viewers.keep_warm(channel.id, ttl);
    readiness
}

fn readiness(service: &Service, channel: &Channel) -> Readiness {
    if is_ready(service, channel) { Readiness::Warm } else { Readiness::Warming }
}

/// The channels that are kept ready, and whether they are.
pub fn warm_channels(service: &Service) -> Vec<(u32, Readiness)> {
    let warm = service.viewers.warm_channels();
    let mut channels = service.channels.all();
    channels.retain(|channel| is_kept_by(&warm, channel));
    channels.iter().map(|channel| (channel.id, readiness(service, channel))).collect()
}

/// Creates a channel, or changes the one with this id. One that is always on is kept ready from then on.
///
/// # Errors
/// Those of [`Service::add_channel`] and [`Service::change_channel`].
pub async fn save_channel(service: &Arc<Service>, id: Option<u32>, change: ChannelChange) -> Result<Arc<Channel>> {
    let channel = match id {
        Some(id) => service.change_channel(id, change).await?,
        None => service.add_channel(change).await?,
    };
    if channel.settings.always_on {
        start_maintenance(service);
    }
    Ok(channel)
}

/// How many more encoded channels `POST /api/livetv/warm` could keep ready: one for each encode slot in which no viewer has a
/// share. Channels that are kept ready already count; channels that were just left do not, because they give way.
pub(super) fn free_warm_slots(service: &Service) -> usize {
    let live_channels = &service.live_channels;
    let slots = service.renditions.encode_slots();
    let channels = service.channels.all();
    let channel_by_id = |id: u32| channels.iter().find(|channel| channel.id == id);
    let is_needed = |id: u32| {
        service.viewers.has_present_viewer(id)
            || channel_by_id(id).is_some_and(|channel| is_kept_ready(service, channel))
    };
    let admitted: Vec<Audience> = live_channels.admissions().keys().cloned().collect();
    let leaving = admitted.iter().filter(|(id, reader)| reader.is_empty() && !is_needed(*id)).count();
    let is_admitted = |channel: &Channel| admitted.iter().any(|(id, reader)| *id == channel.id && reader.is_empty());
    let will_begin = |channel: &&Arc<Channel>| {
        is_kept_ready(service, channel) && !is_admitted(channel) && needs_slot_to_warm(service, channel)
    };
    let used_slots = slots.viewer_count().saturating_sub(leaving) + channels.iter().filter(will_begin).count();
    slots.slot_count().saturating_sub(used_slots)
}

/// Whether a channel is kept ready even without viewers.
fn is_kept_ready(service: &Service, channel: &Channel) -> bool {
    is_kept_by(&service.viewers.warm_channels(), channel)
}

/// Whether a channel is kept ready even without viewers, when these channels are warm.
pub(super) fn is_kept_by(warm: &HashSet<u32>, channel: &Channel) -> bool {
    channel.settings.enabled && (channel.settings.always_on || warm.contains(&channel.id))
}

/// Whether keeping a channel ready needs encode slots beyond those of its viewers.
pub(super) fn needs_slot_to_warm(service: &Service, channel: &Channel) -> bool {
    is_current_encoded(service, channel) && !service.viewers.has_present_viewer(channel.id)
}
