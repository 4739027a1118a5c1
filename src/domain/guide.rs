//! A guide (EPG) entry.

use std::sync::Arc;

use crate::domain::channel::Channel;
use crate::domain::channel_clock::{ChannelClock, channel_ms_at};
use crate::domain::listing::{Listing, Listings};
use crate::domain::schedule::{Programme, ProgrammeCursor, ScheduleDefinition, ScheduleItem};
use crate::domain::time::{ChannelMs, WallMs};
use crate::error::{Error, Result};

/// How far in the future a guide may begin, a recording be requested, or a change of a channel take effect, ms. The schedule of
/// a far day takes long to compute.
pub const MAX_AHEAD_MS: i64 = 366 * DAY_MS;

const DAY_MS: i64 = 24 * 3_600_000;

/// Checks that a requested instant is at most [`MAX_AHEAD_MS`] in the future; a `VALIDATION_ERROR` names the field.
pub fn check_ahead(field: &str, at_ms: WallMs, now_ms: WallMs) -> Result<()> {
    if at_ms - now_ms > MAX_AHEAD_MS {
        let message = format!("must be at most {} days in the future", MAX_AHEAD_MS / DAY_MS);
        return Err(Error::invalid_field(field, message));
    }
    Ok(())
}

/// One entry of a channel's guide: a programme, and when it is on by wall-clock time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Airing {
    pub programme: Programme,
    pub start_ms: WallMs,
    pub end_ms: WallMs,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ProgrammeEntry<'a> {
    pub programme: Programme,
    /// None on external channels.
    pub item: Option<&'a ScheduleItem>,
    /// Its file; empty on external channels.
    pub path: &'a str,
    pub name: TitleParts<'a>,
    /// Its listing in an external guide.
    pub listing: Option<&'a Listing>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TitleParts<'a> {
    pub title: &'a str,
    pub subtitle: Option<&'a str>,
    pub season: Option<u32>,
    pub episode: Option<u32>,
    pub year: Option<u32>,
}

/// The entries of a guide in order. Where filler is hidden, each entry includes the filler after it.
#[derive(Clone, Debug)]
pub struct ProgrammeEntries {
    cursor: ProgrammeCursor,
    /// Read ahead; it begins the next entry.
    pending: Option<Programme>,
    show_filler: bool,
    /// Whether parts of a programme are entries of their own where filler is listed.
    lists_parts: bool,
    min_ms: i64,
    /// The last revision checked, and whether it hides short programmes.
    hides_short_in: Option<(usize, bool)>,
    to_ms: WallMs,
    /// The channel's clock, projected into the future.
    clock: Option<ChannelClock>,
    /// The listings of an external channel, and the index of the next one.
    listings: Option<(Arc<Listings>, usize)>,
}

impl Channel {
    pub fn entry_of(&self, programme: Programme) -> ProgrammeEntry<'_> {
        if let Some(listing) = self.listing(&programme) {
            let Listing { title, subtitle, season, episode, year, .. } = listing;
            let (season, episode, year) = (*season, *episode, *year);
            let name = TitleParts { title, subtitle: subtitle.as_deref(), season, episode, year };
            return ProgrammeEntry { programme, item: None, path: "", name, listing: Some(listing) };
        }
        let item = self.definition.item_of(&programme);
        let name = TitleParts::of_item(item);
        ProgrammeEntry { programme, item: Some(item), path: &item.path, name, listing: None }
    }

    /// A programme's listing in an external guide; None on scheduled channels.
    pub fn listing(&self, programme: &Programme) -> Option<&Listing> {
        self.listings.as_ref()?.all.get(programme.item_index)
    }

    /// Whether it is filler, between programmes or in a break.
    pub fn is_filler(&self, programme: &Programme) -> bool {
        self.external.is_none() && self.definition.is_filler(programme)
    }

    pub fn is_slate(&self, programme: &Programme) -> bool {
        self.external.is_none() && self.definition.is_slate(programme)
    }

    /// Entries on air between two wall-clock instants. For a channel with its own clock: the past as aired, and the future
    /// as if there were a viewer from now on.
    pub fn guide_entries(&self, from_ms: WallMs, to_ms: WallMs, now_ms: WallMs) -> impl Iterator<Item = Airing> {
        let mut entries = ProgrammeEntries::new(self, from_ms, to_ms, now_ms);
        std::iter::from_fn(move || entries.next_entry(&self.definition))
    }

    /// Programmes on air between two instants of channel time, never split into parts: each includes its breaks.
    pub fn whole_programmes(&self, from_ms: ChannelMs, to_ms: ChannelMs) -> impl Iterator<Item = Programme> {
        let mut entries = ProgrammeEntries::starting_at(self, from_ms, false);
        let scheduled = std::iter::from_fn(move || entries.next_scheduled(&self.definition));
        scheduled.take_while(move |programme| programme.start_ms < to_ms)
    }
}

impl ProgrammeEntry<'_> {
    /// Position in its item where it begins, ms; above zero for the part after a break.
    pub fn item_offset_ms(&self) -> i64 {
        self.item.map_or(0, |item| item.part(self.programme.part_index).from_ms)
    }
}

impl ProgrammeEntries {
    /// Entries on air between two wall-clock instants.
    pub fn new(channel: &Channel, from_ms: WallMs, to_ms: WallMs, now_ms: WallMs) -> Self {
        let clock = channel.clock.as_ref().map(|clock| clock.projected(now_ms));
        // There are no records from before that time.
        let from_ms = clock.as_ref().map_or(from_ms, |clock| from_ms.max(clock.recorded_since_ms()));
        let from_ms = channel_ms_at(clock.as_ref(), from_ms);
        Self { to_ms, clock, ..Self::starting_at(channel, from_ms, true) }
    }

    /// Entries from an instant of channel time on, without end.
    fn starting_at(channel: &Channel, from_ms: ChannelMs, parts: bool) -> Self {
        let definition = &channel.definition;
        let listings = channel.listings.as_ref().map(|listings| {
            // An external channel has no clock of its own.
            (listings.clone(), listings.first_ending_after(WallMs::without_clock(from_ms)))
        });
        let first = definition.revisions.first().map_or(ChannelMs::MAX, |revision| revision.start_ms);
        let mut entries = Self {
            cursor: ProgrammeCursor::starting_at(definition, from_ms.max(first)),
            pending: None,
            show_filler: channel.settings.show_filler,
            lists_parts: parts,
            min_ms: i64::from(channel.settings.min_guide_seconds) * 1000,
            hides_short_in: None,
            to_ms: WallMs::MAX,
            clock: None,
            listings,
        };
        // The current programme may belong to an entry that began earlier.
        while let Some(programme) = entries.cursor.clone().next_programme(definition)
            && programme.start_ms > first
            && !entries.begins_entry(definition, &programme)
        {
            match programme.continues_programme {
                true => entries.cursor.rewind_to_start(definition),
                false => entries.cursor = ProgrammeCursor::starting_at(definition, programme.start_ms - 1),
            }
        }
        entries
    }

    pub fn next_entry(&mut self, definition: &ScheduleDefinition) -> Option<Airing> {
        loop {
            let programme = self.next_scheduled(definition)?;
            let wall_ms = |at| self.clock.as_ref().map_or(WallMs::without_clock(at), |clock| clock.first_wall_ms(at));
            // A programme during which the clock was paused is one entry; one that was skipped before it began has no entry.
            let (start_ms, end_ms) = (wall_ms(programme.start_ms), wall_ms(programme.end_ms));
            if start_ms >= self.to_ms {
                return None;
            }
            if start_ms < end_ms {
                return Some(Airing { programme, start_ms, end_ms });
            }
        }
    }

    /// Takes the next entry as scheduled, in channel time.
    fn next_scheduled(&mut self, definition: &ScheduleDefinition) -> Option<Programme> {
        if let Some((listings, next)) = &mut self.listings {
            let listing = listings.all.get(*next)?;
            *next += 1;
            return Some(external_programme(listing, *next - 1));
        }
        let mut entry = self.pending.take().or_else(|| self.cursor.next_programme(definition))?;
        let revision = &definition.revisions[entry.revision_index];
        let is_one_entry = match self.show_filler {
            true => self.lists_parts || !revision.has_mid_roll(),
            false => revision.blocks.is_none() && revision.mid_roll_count == 0,
        };
        if is_one_entry && !self.hides_short(definition, entry.revision_index) {
            return Some(entry);
        }
        while let Some(next) = self.cursor.next_programme(definition) {
            if self.begins_entry(definition, &next) {
                self.pending = Some(next);
                break;
            }
            entry.end_ms = next.end_ms;
        }
        Some(entry)
    }

    fn begins_entry(&mut self, definition: &ScheduleDefinition, programme: &Programme) -> bool {
        if !(self.show_filler || programme.begins_guide_entry) {
            return false;
        }
        if programme.continues_programme {
            return self.lists_parts;
        }
        // This is only the first part of a programme with breaks.
        if programme.part_index.is_some() && definition.item_of(programme).duration_ms >= self.min_ms {
            return true;
        }
        programme.end_ms - programme.start_ms >= self.min_ms
            || programme.start_ms == definition.revisions[programme.revision_index].start_ms
            || definition.is_filler(programme)
            || !self.hides_short(definition, programme.revision_index)
    }

    /// Whether a revision's short programmes are hidden; not if all are short.
    fn hides_short(&mut self, definition: &ScheduleDefinition, revision: usize) -> bool {
        if let Some((checked, hides)) = self.hides_short_in
            && checked == revision
        {
            return hides;
        }
        let is_short = |item: &Arc<ScheduleItem>| item.duration_ms < self.min_ms;
        let content = definition.revisions[revision].programme_items();
        let hides = content.iter().any(is_short) && !content.iter().all(is_short);
        self.hides_short_in = Some((revision, hides));
        hides
    }
}

/// A programme of an external guide. Its ordinal is its start in unix seconds, so it stays the same when the guide is read
/// again. External channels have no clock of their own.
fn external_programme(listing: &Listing, item: usize) -> Programme {
    Programme {
        item_index: item,
        ordinal: u64::try_from(listing.start_ms / 1000).unwrap_or(0),
        start_ms: ChannelMs::without_clock(WallMs(listing.start_ms)),
        end_ms: ChannelMs::without_clock(WallMs(listing.end_ms)),
        begins_guide_entry: true,
        ..Programme::default()
    }
}

impl<'a> TitleParts<'a> {
    /// The name of an item: its description's, otherwise its title's.
    pub fn of_item(item: &'a ScheduleItem) -> Self {
        let parsed = Self::parse(&item.title, &item.path);
        let Some(description) = &item.description else { return parsed };
        Self {
            title: description.title.as_deref().unwrap_or(parsed.title),
            subtitle: description.subtitle.as_deref().or(parsed.subtitle),
            season: description.season.or(parsed.season),
            episode: description.episode.or(parsed.episode),
            year: description.year.or(parsed.year),
        }
    }

    /// Parses `Show S01E02 Title`, `Title (2020)` and plain titles. A show without a name takes the name of its folder.
    pub fn parse(text: &'a str, path: &'a str) -> Self {
        let Some((start, end, season, episode)) = find_episode_marker(text) else {
            let (title, year) = split_year(text);
            return Self { title, year, ..Self::default() };
        };
        let folders = path.rsplit('/').skip(1);
        let folder = || folders.clone().find(|part| !part.is_empty() && !is_season(part)).unwrap_or(text);
        let before = trim_punctuation(&text[..start]);
        let (title, year) = split_year(if before.is_empty() { folder() } else { before });
        let subtitle = Some(trim_punctuation(&text[end..])).filter(|subtitle| !subtitle.is_empty());
        Self { title, subtitle, season: Some(season), episode: Some(episode), year }
    }
}

fn trim_punctuation(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || "-._".contains(c))
}

/// Finds `S01E02` at the start of a word: its start, its end, season and episode.
fn find_episode_marker(text: &str) -> Option<(usize, usize, u32, u32)> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take(4).take_while(|byte| byte.is_ascii_digit()).count();
    (0..bytes.len()).find_map(|start| {
        let is_word_start = start == 0 || !bytes[start - 1].is_ascii_alphanumeric();
        if !is_word_start || !bytes[start].eq_ignore_ascii_case(&b's') {
            return None;
        }
        let season = digits(start + 1);
        let middle = start + 1 + season;
        if season == 0 || !bytes.get(middle)?.eq_ignore_ascii_case(&b'e') {
            return None;
        }
        let episode = digits(middle + 1);
        let end = middle + 1 + episode;
        Some((start, end, text[start + 1..middle].parse().ok()?, text[middle + 1..end].parse().ok()?))
    })
}

fn is_season(folder: &str) -> bool {
    let folder = folder.to_ascii_lowercase();
    let rest = ["season", "staffel", "series"].iter().find_map(|word| folder.strip_prefix(word));
    rest.is_some_and(|rest| !rest.trim().is_empty() && rest.trim().bytes().all(|byte| byte.is_ascii_digit()))
        || folder == "specials"
}

/// Splits the year in parentheses off a title.
fn split_year(text: &str) -> (&str, Option<u32>) {
    let split = text.trim_end().strip_suffix(')').and_then(|rest| rest.rsplit_once('('));
    match split.map(|(title, digits)| (title.trim(), digits.len(), digits.parse::<u32>())) {
        Some((title, 4, Ok(year))) if !title.is_empty() && (1870..2200).contains(&year) => (title, Some(year)),
        _ => (text.trim(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_programmes_join_the_entry_before_unless_all_are_short() {
        let mut channel = crate::domain::channel::tests::channel(1);
        let start = WallMs::without_clock(channel.definition.revisions[0].start_ms);
        for item in &mut Arc::make_mut(&mut channel.definition.revisions[0].items)[1..] {
            let item = Arc::make_mut(item);
            (item.duration_ms, item.segmentation) =
                (60_000, crate::domain::schedule::segmentation::audio_segmentation(60.0));
        }
        let ranges = |channel: &Channel, from: i64, to: i64| -> Vec<(i64, i64)> {
            let entries = channel.guide_entries(start + from, start + to, start);
            entries.map(|entry| (entry.start_ms - start, entry.end_ms - start)).collect()
        };
        let whole = 2_400_000 + 2 * 60_000;
        assert_eq!(ranges(&channel, 0, 2 * whole), [(0, whole), (whole, 2 * whole)]);
        assert_eq!(ranges(&channel, whole - 1, whole), [(0, whole)], "also from its middle");
        channel.settings.min_guide_seconds = 60;
        assert_eq!(ranges(&channel, 0, whole).len(), 3);
        channel.settings.min_guide_seconds = 3600;
        assert_eq!(ranges(&channel, 0, whole).len(), 3, "all are short");
    }

    #[test]
    fn titles_are_parsed() {
        fn read<'a>(text: &'a str, path: &'a str) -> (&'a str, &'a str, Option<(u32, u32)>, Option<u32>) {
            let TitleParts { title, subtitle, season, episode, year } = TitleParts::parse(text, path);
            (title, subtitle.unwrap_or_default(), season.zip(episode), year)
        }
        let name = |title, subtitle, episode, year| (title, subtitle, episode, year);
        let path = "/lib/The Show (1999)/Season 2/x.mkv";
        assert_eq!(read("Example (2020)", path), name("Example", "", None, Some(2020)));
        assert_eq!(read("Show S01E02 - The Door", path), name("Show", "The Door", Some((1, 2)), None));
        assert_eq!(read("Show.s1e2", path), name("Show", "", Some((1, 2)), None));
        assert_eq!(read("S02E10", path), name("The Show", "", Some((2, 10)), Some(1999)));
        for plain in ["2001", "(2020)", "S1 E", "Pants01e02", "Ünï (20x0)", "Se7en", "S", "s01e", "日本 (12345)"] {
            assert_eq!(read(plain, path), name(plain, "", None, None), "{plain}");
        }
    }
}
