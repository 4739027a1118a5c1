//! The channels a viewer is likely to zap to: those before and after theirs. People zap in bursts, so these are made ready for
//! a while after each change of channel, in encode slots that are free otherwise.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::admission::release_left_channels;
use super::maintenance::can_join_at_once;
use super::warm::{free_warm_slots, needs_slot_to_warm};
use crate::domain::channel::Channel;
use crate::service::Service;
use crate::service::channels::NewView;

/// How long the neighbours of a channel are kept ready after a viewer began to watch it.
const BURST: Duration = Duration::from_secs(60);

/// Channels that are kept ready this way at most. Copied ones take no encode slot, but open files.
const MAX_CHANNELS: usize = 8;

/// The channels to keep ready for viewers who may zap to them, as far as encode slots are free. None while a channel that is
/// watched is not ready itself. `channels` is ordered by number; `is_kept_ready` says which are kept ready anyway.
pub(super) fn likely_zaps(
    service: &Service,
    channels: &[Arc<Channel>],
    is_kept_ready: impl Fn(&Channel) -> bool,
) -> HashSet<u32> {
    let new_views = service.viewers.new_views(BURST);
    if new_views.is_empty() {
        return HashSet::new();
    }
    let watched = service.viewers.channels_with_present_viewer();
    let is_virtual = |channel: &Channel| channel.external.is_none();
    let waits = |channel: &Arc<Channel>| {
        watched.contains(&channel.id) && is_virtual(channel) && !can_join_at_once(service, channel)
    };
    if channels.iter().any(waits) {
        return HashSet::new();
    }
    let enabled: Vec<&Arc<Channel>> = channels.iter().filter(|channel| channel.settings.enabled).collect();
    let ids: Vec<u32> = enabled.iter().map(|channel| channel.id).collect();
    let mut free_slots = free_warm_slots(service);
    let (mut chosen, mut needs_slot) = (HashSet::new(), false);
    for channel in neighbours(&ids, &new_views).into_iter().map(|index| enabled[index]) {
        if chosen.len() == MAX_CHANNELS
            || watched.contains(&channel.id)
            || !is_virtual(channel)
            || is_kept_ready(channel)
            || chosen.contains(&channel.id)
        {
            continue;
        }
        if needs_slot_to_warm(service, channel) {
            if free_slots == 0 {
                continue;
            }
            free_slots -= 1;
            needs_slot |= service.live_channels.admission(&(channel.id, String::new())).is_none();
        }
        chosen.insert(channel.id);
    }
    if needs_slot {
        release_left_channels(service, |id| {
            chosen.contains(&id) || channels.iter().any(|channel| channel.id == id && is_kept_ready(channel))
        });
    }
    chosen
}

/// The positions of the channels before and after those where viewers arrived, likelier ones first: a viewer who came from one
/// side probably continues to the other.
fn neighbours(ids: &[u32], new_views: &[NewView]) -> Vec<usize> {
    let position = |id: u32| ids.iter().position(|one| *one == id);
    let pairs = new_views.iter().filter_map(|new_view| {
        let here = position(new_view.channel)?;
        // After the last channel, players continue with the first.
        let (after, before) = ((here + 1) % ids.len(), (here + ids.len() - 1) % ids.len());
        let came_from_after = new_view.previous_channel.and_then(position) == Some(after) && after != before;
        Some(if came_from_after { (before, after) } else { (after, before) })
    });
    let (likely, unlikely): (Vec<usize>, Vec<usize>) = pairs.unzip();
    likely.into_iter().chain(unlikely).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_channel_in_the_viewers_direction_comes_first() {
        let new_view = |channel, previous_channel| NewView { channel, previous_channel };
        let ids = [10, 20, 30, 40];
        for (new_views, expected) in [
            (vec![new_view(20, None)], vec![2, 0]),
            (vec![new_view(20, Some(10))], vec![2, 0]),
            (vec![new_view(20, Some(30))], vec![0, 2]),
            (vec![new_view(20, Some(40))], vec![2, 0]),
            (vec![new_view(40, Some(30))], vec![0, 2]),
            (vec![new_view(10, Some(20))], vec![3, 1]),
            (vec![new_view(20, Some(30)), new_view(40, None), new_view(99, None)], vec![0, 0, 2, 2]),
        ] {
            assert_eq!(neighbours(&ids, &new_views), expected, "{new_views:?}");
        }
        assert_eq!(neighbours(&[10], &[new_view(10, None)]), [0, 0]);
        assert_eq!(neighbours(&[10, 20], &[new_view(10, Some(20))]), [1, 1]);
        assert!(neighbours(&[], &[new_view(10, None)]).is_empty());
    }
}
