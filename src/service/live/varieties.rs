//! The varieties of channels in fMP4: the channel as its clients see it whose codecs are copied. They follow from the channel
//! alone; those in use are kept.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::ProgrammeKey;
use crate::domain::channel::Channel;
use crate::domain::video_class::VideoClasses;
use crate::service::Service;

/// Varieties that are kept at most. One with many items takes as much memory as the channel's own list of them.
const MAX_KEPT: usize = 64;

/// Channels and varieties of which the last request is remembered at most.
const MAX_REQUESTS: usize = 4096;

/// A variety is watched until this long after its last request: three target durations.
const WATCHED_FOR: Duration = Duration::from_secs(30);

/// A channel and a variety of it.
type VarietyKey = (u32, VideoClasses);

/// The varieties that are in use.
#[derive(Default)]
pub struct Varieties {
    kept: Mutex<HashMap<VarietyKey, Arc<Channel>>>,
    requested_at: Mutex<HashMap<VarietyKey, Instant>>,
}

/// The variety of a channel in which items of these classes are copied: the channel itself without any.
pub fn variety_of(service: &Service, channel: &Arc<Channel>, copies: VideoClasses) -> Arc<Channel> {
    if copies.is_empty() || channel.external.is_some() {
        return channel.clone();
    }
    let mut kept = lock(&service.live_channels.varieties.kept);
    let key = (channel.id, copies);
    if let Some(variety) = kept.get(&key).filter(|variety| variety.version == channel.version) {
        return variety.clone();
    }
    if kept.len() >= MAX_KEPT {
        kept.clear();
    }
    let variety = Arc::new(channel.with_copies(copies));
    kept.insert(key, variety.clone());
    variety
}

/// The variety for a client that decodes these classes. While an item on air can be shown by its encode only, because its file
/// changed, that is the channel itself.
pub fn variety_for(service: &Service, channel: &Arc<Channel>, decoded: VideoClasses) -> Arc<Channel> {
    let copies = decoded.common(channel.copyable_classes());
    let variety = variety_of(service, channel, copies);
    let current = variety.definition.programme_at(variety.channel_ms_at(service.clock.now_ms()));
    let is_broken = current.is_some_and(|current| {
        let key = ProgrammeKey::new(&variety, &current, String::new());
        service.live_channels.existing_programme(&key).is_some_and(|active| active.is_broken())
    });
    if is_broken { channel.clone() } else { variety }
}

/// Records a request of a variety.
pub(super) fn record_request(service: &Service, variety: &Channel) {
    let mut requested_at = lock(&service.live_channels.varieties.requested_at);
    if requested_at.len() >= MAX_REQUESTS {
        requested_at.retain(|_, at| at.elapsed() < WATCHED_FOR);
    }
    if requested_at.len() < MAX_REQUESTS {
        requested_at.insert((variety.id, variety.copies), Instant::now());
    }
}

/// The varieties of a channel that are prepared for its viewers: those requested of late, and the channel itself without any
/// or if it is kept ready.
pub(super) fn watched_varieties(service: &Service, channel: &Arc<Channel>, is_kept_ready: bool) -> Vec<Arc<Channel>> {
    let mut watched: Vec<VideoClasses> = {
        let mut requested_at = lock(&service.live_channels.varieties.requested_at);
        requested_at.retain(|_, at| at.elapsed() < WATCHED_FOR);
        requested_at.keys().filter(|(id, _)| *id == channel.id).map(|(_, copies)| *copies).collect()
    };
    if watched.is_empty() || is_kept_ready && !watched.iter().any(|copies| copies.is_empty()) {
        watched.push(VideoClasses::default());
    }
    watched.into_iter().map(|copies| variety_of(service, channel, copies)).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
