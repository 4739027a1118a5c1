//! What a guide says of a programme.

use crate::domain::channel::Channel;
use crate::domain::schedule::{Cursor, Definition, Item, Programme};

/// One entry of a channel's guide.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry<'a> {
    pub programme: Programme,
    pub item: &'a Item,
    pub name: Name<'a>,
}

/// What a title says of what it names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Name<'a> {
    pub title: &'a str,
    pub subtitle: Option<&'a str>,
    pub season: Option<u32>,
    pub episode: Option<u32>,
    pub year: Option<u32>,
}

/// Entries of a guide, one after the other: programmes, and where filler is hidden, each with the filler behind it.
#[derive(Clone, Debug)]
pub struct Entries {
    cursor: Cursor,
    /// Taken already, belongs to the next entry.
    ahead: Option<Programme>,
    show_filler: bool,
    to_ms: i64,
}

impl Channel {
    pub fn entry(&self, programme: Programme) -> Entry<'_> {
        let item = self.definition.item(&programme);
        Entry { programme, item, name: Name::read(&item.title, &item.path) }
    }

    /// Entries that are on between two instants.
    pub fn guide(&self, from_ms: i64, to_ms: i64) -> impl Iterator<Item = Entry<'_>> {
        let mut entries = Entries::new(self, from_ms, to_ms);
        std::iter::from_fn(move || entries.next(&self.definition)).map(|programme| self.entry(programme))
    }
}

impl Entries {
    /// Those that are on between two instants.
    pub fn new(channel: &Channel, from_ms: i64, to_ms: i64) -> Self {
        let definition = &channel.definition;
        let first = definition.revisions.first().map_or(i64::MAX, |revision| revision.start_ms);
        let show_filler = channel.face.show_filler;
        let mut cursor = Cursor::at(definition, from_ms.max(first));
        // What is on may be filler of an entry that began before.
        while let Some(programme) = cursor.clone().next(definition)
            && !(show_filler || programme.leads)
            && programme.start_ms > first
        {
            cursor = Cursor::at(definition, programme.start_ms - 1);
        }
        Self { cursor, ahead: None, show_filler, to_ms }
    }

    /// Takes the next entry.
    pub fn next(&mut self, definition: &Definition) -> Option<Programme> {
        let mut entry = self.ahead.take().or_else(|| self.cursor.next(definition))?;
        if entry.start_ms >= self.to_ms {
            return None;
        }
        if self.show_filler || definition.revisions[entry.revision].blocks.is_none() {
            return Some(entry);
        }
        while let Some(next) = self.cursor.next(definition) {
            if next.leads {
                self.ahead = Some(next);
                break;
            }
            entry.end_ms = next.end_ms;
        }
        Some(entry)
    }
}

impl<'a> Name<'a> {
    /// Reads `Show S01E02 Title`, `Title (2020)` and what is neither. A show without a name is called as its folder.
    pub fn read(text: &'a str, path: &'a str) -> Self {
        let Some((start, end, season, episode)) = marker(text) else {
            let (title, year) = year(text);
            return Self { title, year, ..Self::default() };
        };
        let folders = path.rsplit('/').skip(1);
        let folder = || folders.clone().find(|part| !part.is_empty() && !is_season(part)).unwrap_or(text);
        let before = trimmed(&text[..start]);
        let (title, year) = year(if before.is_empty() { folder() } else { before });
        let subtitle = Some(trimmed(&text[end..])).filter(|subtitle| !subtitle.is_empty());
        Self { title, subtitle, season: Some(season), episode: Some(episode), year }
    }
}

fn trimmed(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || "-._".contains(c))
}

/// `S01E02`, at the beginning of a word: where it stands, and what it says.
fn marker(text: &str) -> Option<(usize, usize, u32, u32)> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take(4).take_while(|byte| byte.is_ascii_digit()).count();
    (0..bytes.len()).find_map(|start| {
        let begins = start == 0 || !bytes[start - 1].is_ascii_alphanumeric();
        if !begins || !bytes[start].eq_ignore_ascii_case(&b's') {
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

/// A title without the year behind it.
fn year(text: &str) -> (&str, Option<u32>) {
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
    fn titles_say_what_they_name() {
        fn read<'a>(text: &'a str, path: &'a str) -> (&'a str, &'a str, Option<(u32, u32)>, Option<u32>) {
            let Name { title, subtitle, season, episode, year } = Name::read(text, path);
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
