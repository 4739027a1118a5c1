//! The airings of a channel that can be recorded, from its own schedule or an imported guide. Such a channel has no clock of
//! its own, so wall-clock time is channel time.

use crate::domain::catalogue::ItemId;
use crate::domain::channel::Channel;
use crate::domain::listing::Listing;
use crate::domain::live_window::CATCHUP_MS;
use crate::domain::recording::GuideAiring;
use crate::domain::schedule::segmentation::Segmentation;
use crate::domain::schedule::{Programme, ScheduleItem};
use crate::domain::time::{ChannelMs, WallMs};

/// How far ahead entries may be requested, ms.
const MAX_ENTRY_AHEAD_MS: i64 = 14 * 24 * 3_600_000;

/// How much earlier a moved programme is searched for, ms.
const MAX_MOVED_BACK_MS: i64 = 6 * 3_600_000;

/// Most programmes of one guide that are searched: a week of five minutes each.
const MAX_PROGRAMMES: usize = 2016;

/// Programmes examined to find out whether a channel is encoded.
const ENCODE_CHECK_PROGRAMMES: usize = 64;

/// Programmes between two instants, without filler.
pub(super) fn between(channel: &Channel, from_ms: i64, to_ms: i64) -> Vec<GuideAiring> {
    let (from_ms, to_ms) = (channel_ms(from_ms), channel_ms(to_ms));
    let mut earlier_items = channel.definition.items_aired_before(from_ms, to_ms);
    let without_filler = channel
        .whole_programmes(from_ms, to_ms)
        .filter(|programme| !channel.is_filler(programme) && !channel.is_slate(programme));
    without_filler
        .take(MAX_PROGRAMMES)
        .map(|programme| {
            let is_new = match channel.listing(&programme) {
                Some(listing) => !listing.is_repeat,
                None => {
                    let item = channel.definition.item_of(&programme);
                    earlier_items.as_mut().is_some_and(|shown| shown.insert(item.id))
                }
            };
            to_airing(channel, programme, is_new)
        })
        .collect()
}

/// The programme with this id in the present guide, if it still starts at that instant.
pub(super) fn current_airing(channel: &Channel, entry: &str, start_ms: i64) -> Option<GuideAiring> {
    let start_ms = channel_ms(start_ms);
    let is_requested = |one: &Programme| one.start_ms == start_ms && entry_id(channel, one) == entry;
    let listed = channel.whole_programmes(start_ms, start_ms + 1).next().filter(is_requested);
    // A shortened programme may be too short for the guide to list.
    let is_whole = |one: &Programme| one.part_index.is_none() && is_requested(one);
    let found = listed.or_else(|| channel.definition.programme_at(start_ms).filter(is_whole));
    found.map(|programme| to_airing(channel, programme, false))
}

/// The programme on air, if it airs this item and began before an instant: a later one is another airing of the same item.
pub(super) fn airing_on_air(channel: &Channel, item: &str, now_ms: i64, before_ms: i64) -> Option<GuideAiring> {
    let programme = channel.whole_programmes(channel_ms(now_ms), channel_ms(now_ms + 1)).next()?;
    let airing = to_airing(channel, programme, false);
    (airing.content_key == item && airing.start_ms <= now_ms && airing.start_ms < before_ms).then_some(airing)
}

/// The future programme airing the same item whose start is nearest to an instant. A file that was renamed or moved is the same item.
pub(super) fn nearest_airing(channel: &Channel, item: &str, start_ms: i64, now_ms: i64) -> Option<GuideAiring> {
    let (start_ms, now_ms) = (channel_ms(start_ms), channel_ms(now_ms));
    let known_items = channel.definition.item_lists();
    let contents: Vec<ItemId> = known_items
        .iter()
        .flat_map(|list| list.iter())
        .filter(|known| known.path == item)
        .filter_map(|known| known.content)
        .collect();
    let is_same_item = |one: &ScheduleItem| one.path == item || one.content.is_some_and(|id| contents.contains(&id));
    let is_same = |one: &Programme| {
        channel.listing(one).is_none() && is_same_item(channel.definition.item_of(one)) && one.start_ms >= now_ms
    };
    let mut after = channel
        .whole_programmes(start_ms.max(now_ms), now_ms + MAX_ENTRY_AHEAD_MS)
        .take(MAX_PROGRAMMES)
        .filter(is_same);
    let earlier = channel.whole_programmes((start_ms - MAX_MOVED_BACK_MS).max(now_ms), start_ms).filter(is_same).last();
    let candidates = earlier.into_iter().chain(after.next());
    let nearest = candidates.min_by_key(|programme| (programme.start_ms - start_ms).abs());
    nearest.map(|programme| to_airing(channel, programme, false))
}

/// The programme with this id in the guide.
pub(super) fn find_airing(channel: &Channel, entry: &str, now_ms: i64) -> Option<GuideAiring> {
    let (id, _) = entry.split_once('-')?;
    if id.parse() != Ok(channel.id) {
        return None;
    }
    let now_ms = WallMs(now_ms);
    let found = channel
        .guide_entries(now_ms - CATCHUP_MS, now_ms + MAX_ENTRY_AHEAD_MS, now_ms)
        .map(|airing| airing.programme)
        .find(|programme| entry_id(channel, programme) == entry)?;
    // A request for a part of a programme, or for a break in it, means the whole programme.
    let is_part = found.continues_programme || found.part_index.is_some();
    let whole = || channel.whole_programmes(found.start_ms, found.start_ms + 1).next();
    let programme = if is_part { whole().unwrap_or(found) } else { found };
    Some(to_airing(channel, programme, false))
}

/// The programme that fills most of a span.
pub(super) fn main_airing(channel: &Channel, from_ms: i64, to_ms: i64) -> Option<GuideAiring> {
    let (from_ms, to_ms) = (channel_ms(from_ms), channel_ms(to_ms));
    let shared_ms = |programme: &Programme| programme.end_ms.min(to_ms) - programme.start_ms.max(from_ms);
    // The first of several equal ones; `max_by_key` would return the last.
    let candidates = channel.whole_programmes(from_ms, to_ms).take(ENCODE_CHECK_PROGRAMMES * 8);
    let found = candidates.min_by_key(|programme| -shared_ms(programme))?;
    Some(to_airing(channel, found, false))
}

/// Whether any programme between two instants must be encoded.
pub(super) fn needs_encoding(channel: &Channel, from_ms: i64, to_ms: i64) -> bool {
    // An external channel has no schedule: it is copied, or encoded only if a slot is free.
    let programmes = channel.definition.programmes_between(channel_ms(from_ms), channel_ms(to_ms));
    let mut programmes = programmes.take(ENCODE_CHECK_PROGRAMMES);
    programmes.any(|programme| matches!(channel.definition.item_of(&programme).segmentation, Segmentation::Frames(_)))
}

fn channel_ms(wall_ms: i64) -> ChannelMs {
    ChannelMs::without_clock(WallMs(wall_ms))
}

fn entry_id(channel: &Channel, programme: &Programme) -> String {
    format!("{}-{}", channel.id, programme.ordinal)
}

fn to_airing(channel: &Channel, programme: Programme, is_new: bool) -> GuideAiring {
    let entry = channel.entry_of(programme);
    GuideAiring {
        guide_entry_id: Some(entry_id(channel, &programme)),
        title: entry.name.title.to_owned(),
        subtitle: entry.name.subtitle.map(str::to_owned),
        season: entry.name.season,
        episode: entry.name.episode,
        start_ms: WallMs::without_clock(programme.start_ms).0,
        end_ms: WallMs::without_clock(programme.end_ms).0,
        content_key: entry.listing.map_or_else(|| entry.path.to_owned(), Listing::content_key),
        is_new,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::channel::tests::channel;
    use crate::domain::schedule::ScheduleRevision;

    #[test]
    fn a_renamed_file_is_the_same_item() {
        let mut channel = channel(1);
        let first = channel.definition.revisions[0].clone();
        let content = ItemId::parse("f_00000000000000000000000000000abc");
        // Three films of 40 minutes; the second one is renamed and airs first from the second revision on.
        let with_content = |item: &Arc<ScheduleItem>, path: &str| {
            Arc::new(ScheduleItem { content, path: path.into(), ..(**item).clone() })
        };
        let film = &first.items[1];
        let start_ms = first.start_ms + 6 * 3_600_000;
        let before = [first.items[0].clone(), with_content(film, &film.path), first.items[2].clone()];
        let after = [with_content(film, "/lib/Renamed.mkv"), first.items[0].clone(), first.items[2].clone()];
        let second = ScheduleRevision { number: 2, start_ms, first_ordinal: 9, items: after.into(), ..first.clone() };
        channel.definition.revisions = [ScheduleRevision { items: before.into(), ..first.clone() }, second].into();
        let expected_ms = WallMs::without_clock(start_ms).0;
        let found = nearest_airing(&channel, &film.path, expected_ms + 40 * 60_000, expected_ms - 1).unwrap();
        assert_eq!((found.content_key.as_str(), found.start_ms), ("/lib/Renamed.mkv", expected_ms));
        assert!(nearest_airing(&channel, "/lib/Other.mkv", expected_ms, expected_ms).is_none());
    }
}
