//! The airings of a channel that can be recorded, from its own schedule or an imported guide.

use crate::domain::channel::Channel;
use crate::domain::guide::ProgrammeEntry;
use crate::domain::listing::Listing;
use crate::domain::live_window::CATCHUP_MS;
use crate::domain::recording::GuideAiring;
use crate::domain::schedule::Programme;
use crate::domain::schedule::segmentation::Segmentation;

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
    let mut earlier_items = channel.definition.items_aired_before(from_ms, to_ms);
    let without_filler = channel.whole_programmes(from_ms, to_ms).filter(|entry| {
        let programme = &entry.programme;
        !channel.is_filler(programme) && !channel.is_slate(programme)
    });
    without_filler
        .take(MAX_PROGRAMMES)
        .map(|entry| {
            let is_new = match entry.listing {
                Some(listing) => !listing.is_repeat,
                None => earlier_items.as_mut().zip(entry.item).is_some_and(|(shown, item)| shown.insert(item.id)),
            };
            to_airing(channel, &entry, is_new)
        })
        .collect()
}

/// The programme with this id in the present guide, if it still starts at that instant.
pub(super) fn current_airing(channel: &Channel, entry: &str, start_ms: i64) -> Option<GuideAiring> {
    let is_requested = |one: &ProgrammeEntry| one.programme.start_ms == start_ms && entry_id(channel, one) == entry;
    let listed = channel.whole_programmes(start_ms, start_ms + 1).next().filter(is_requested);
    // A shortened programme may be too short for the guide to list.
    let found = listed.or_else(|| {
        let programme = channel.definition.programme_at(start_ms).filter(|programme| programme.part_index.is_none());
        programme.map(|programme| channel.entry_of(programme)).filter(is_requested)
    });
    found.map(|found_entry| to_airing(channel, &found_entry, false))
}

/// The programme on air, if it airs this item and began before an instant: a later one is another airing of the same item.
pub(super) fn airing_on_air(channel: &Channel, item: &str, now_ms: i64, before_ms: i64) -> Option<GuideAiring> {
    let entry = channel.whole_programmes(now_ms, now_ms + 1).next()?;
    let airing = to_airing(channel, &entry, false);
    (airing.content_key == item && airing.start_ms <= now_ms && airing.start_ms < before_ms).then_some(airing)
}

/// The future programme airing the same item whose start is nearest to an instant.
pub(super) fn nearest_airing(channel: &Channel, item: &str, start_ms: i64, now_ms: i64) -> Option<GuideAiring> {
    let is_same = |one: &ProgrammeEntry| one.item.is_some() && one.path == item && one.programme.start_ms >= now_ms;
    let mut after = channel
        .whole_programmes(start_ms.max(now_ms), now_ms + MAX_ENTRY_AHEAD_MS)
        .take(MAX_PROGRAMMES)
        .filter(is_same);
    let earlier = channel.whole_programmes((start_ms - MAX_MOVED_BACK_MS).max(now_ms), start_ms).filter(is_same).last();
    let candidates = earlier.into_iter().chain(after.next());
    let nearest_entry = candidates.min_by_key(|entry| (entry.programme.start_ms - start_ms).abs());
    nearest_entry.map(|entry| to_airing(channel, &entry, false))
}

/// The programme with this id in the guide.
pub(super) fn find_airing(channel: &Channel, entry: &str, now_ms: i64) -> Option<GuideAiring> {
    let (id, _) = entry.split_once('-')?;
    if id.parse() != Ok(channel.id) {
        return None;
    }
    let found = channel
        .guide_entries(now_ms - CATCHUP_MS, now_ms + MAX_ENTRY_AHEAD_MS, now_ms)
        .find(|found| entry_id(channel, found) == entry);
    // A request for a part of a programme, or for a break in it, means the whole programme.
    let is_part = |programme: &Programme| programme.continues_programme || programme.part_index.is_some();
    let whole_programme = found.map(|found| match found.programme.start_ms {
        start if is_part(&found.programme) => channel.whole_programmes(start, start + 1).next().unwrap_or(found),
        _ => found,
    });
    whole_programme.map(|whole| to_airing(channel, &whole, false))
}

/// The programme that fills most of a span.
pub(super) fn main_airing(channel: &Channel, from_ms: i64, to_ms: i64) -> Option<GuideAiring> {
    let shared_ms = |entry: &ProgrammeEntry| entry.programme.end_ms.min(to_ms) - entry.programme.start_ms.max(from_ms);
    // The first of several equal ones; `max_by_key` would return the last.
    let candidates = channel.whole_programmes(from_ms, to_ms).take(ENCODE_CHECK_PROGRAMMES * 8);
    let found = candidates.min_by_key(|entry| -shared_ms(entry))?;
    Some(to_airing(channel, &found, false))
}

/// Whether any programme between two instants must be encoded.
pub(super) fn needs_encoding(channel: &Channel, from_ms: i64, to_ms: i64) -> bool {
    // An external channel has no schedule: it is copied, or encoded only if a slot is free.
    let mut programmes = channel.definition.programmes_between(from_ms, to_ms).take(ENCODE_CHECK_PROGRAMMES);
    programmes.any(|programme| matches!(channel.definition.item_of(&programme).segmentation, Segmentation::Frames(_)))
}

fn entry_id(channel: &Channel, entry: &ProgrammeEntry) -> String {
    format!("{}-{}", channel.id, entry.programme.ordinal)
}

fn to_airing(channel: &Channel, entry: &ProgrammeEntry, is_new: bool) -> GuideAiring {
    GuideAiring {
        guide_entry_id: Some(entry_id(channel, entry)),
        title: entry.name.title.to_owned(),
        subtitle: entry.name.subtitle.map(str::to_owned),
        season: entry.name.season,
        episode: entry.name.episode,
        start_ms: entry.programme.start_ms,
        end_ms: entry.programme.end_ms,
        content_key: entry.listing.map_or_else(|| entry.path.to_owned(), Listing::content_key),
        is_new,
    }
}
