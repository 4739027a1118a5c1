//! A record by its element: which fields of Kodi's schema are read, and how.

use jiff::civil::Date;

use super::element::Element;
use super::{Nfo, NfoKind, Person, Rating, UniqueId};

/// The elements that are records.
pub(super) const ROOTS: [(&str, NfoKind); 3] =
    [("movie", NfoKind::Movie), ("tvshow", NfoKind::Show), ("episodedetails", NfoKind::Episode)];

/// Longest texts, characters.
pub(super) const MAX_TITLE_CHARS: usize = 300;
pub(super) const MAX_PLOT_CHARS: usize = 4000;
pub(super) const MAX_NAME_CHARS: usize = 100;
pub(super) const MAX_SOURCE_CHARS: usize = 32;

/// Longest lists.
pub(super) const MAX_GENRES: usize = 16;
pub(super) const MAX_TAGS: usize = 32;
pub(super) const MAX_UNIQUE_IDS: usize = 16;

/// Longest runtime: a week.
const MAX_RUNTIME_MINUTES: u32 = 7 * 24 * 60;

/// Largest number of a season or episode. Some shows number episodes by date.
const MAX_NUMBER: u32 = 99_999_999;

pub(super) fn kind_of(element: &Element) -> Option<NfoKind> {
    ROOTS.iter().find(|(name, _)| *name == element.name).map(|(_, kind)| *kind)
}

/// The entries of a list in one element: older versions of Kodi write `Drama / Comedy`.
pub(super) fn split_list(element: &Element) -> impl Iterator<Item = String> {
    let text = element.own_text(MAX_TITLE_CHARS).unwrap_or_default();
    let entries: Vec<String> = text
        .split(" / ")
        .map(|entry| entry.trim().chars().take(MAX_NAME_CHARS).collect::<String>().trim_end().to_owned())
        .filter(|entry| !entry.is_empty())
        .collect();
    entries.into_iter()
}

impl Nfo {
    /// The record of an element; None if the element is not one.
    pub(super) fn from_element(element: &Element) -> Option<Self> {
        let kind = kind_of(element)?;
        let text = |name: &str| element.child_text(name, MAX_TITLE_CHARS);
        let short_text = |name: &str| element.child_text(name, MAX_NAME_CHARS);
        let plot = |name: &str| element.child_text(name, MAX_PLOT_CHARS);
        // The files of shows have the number of episodes there.
        let number = |name: &str| {
            (kind == NfoKind::Episode).then(|| element.child_number(name).filter(|number| *number <= MAX_NUMBER))?
        };
        let released_on = ["premiered", "aired", "releasedate"].into_iter().find_map(|name| parse_date(element, name));
        let year = element.child_number("year").filter(|year| (1870..2200).contains(year));
        Some(Self {
            kind,
            title: text("title"),
            original_title: text("originaltitle"),
            sort_title: text("sorttitle"),
            show_title: if kind == NfoKind::Episode { text("showtitle") } else { None },
            year: year.or_else(|| released_on.and_then(|date| u32::try_from(date.year()).ok())),
            season: number("season"),
            episode: number("episode"),
            last_episode: None,
            plot: plot("plot").or_else(|| plot("outline")),
            tagline: text("tagline"),
            genres: list(element, "genre", MAX_GENRES),
            people: Person::of_record(element),
            ratings: Rating::of_record(element),
            mpaa: short_text("mpaa").or_else(|| short_text("certification")),
            studio: short_text("studio"),
            released_on,
            runtime_minutes: element.child_number("runtime").filter(|time| (1..=MAX_RUNTIME_MINUTES).contains(time)),
            unique_ids: unique_ids(element),
            tags: list(element, "tag", MAX_TAGS),
            set: element
                .children_named("set")
                .find_map(|set| set.child_text("name", MAX_NAME_CHARS).or_else(|| set.own_text(MAX_NAME_CHARS))),
        })
    }
}

fn list(record: &Element, name: &str, max_entries: usize) -> Vec<String> {
    let mut entries = Vec::new();
    for entry in record.children_named(name).flat_map(split_list) {
        if entries.len() >= max_entries {
            break;
        }
        if !entries.contains(&entry) {
            entries.push(entry);
        }
    }
    entries
}

/// A date as `YYYY-MM-DD`, within the years that [`Nfo::year`] may have.
fn parse_date(record: &Element, name: &str) -> Option<Date> {
    let text = record.child_text(name, 30)?;
    let date: Date = text.get(..10)?.parse().ok()?;
    (1870..2200).contains(&date.year()).then_some(date)
}

fn unique_ids(record: &Element) -> Vec<UniqueId> {
    let named = record.children_named("uniqueid").map(|id| (id.attribute("type").unwrap_or("default"), id));
    let older = ["imdbid", "tmdbid", "tvdbid"]
        .into_iter()
        .flat_map(|name| record.children_named(name).map(move |id| (name.strip_suffix("id").unwrap_or(name), id)));
    // The element `id` has an id of IMDb in files of films, of other databases otherwise.
    let unnamed = record.children_named("id").filter(|id| id.text.trim().starts_with("tt")).map(|id| ("imdb", id));
    let mut ids: Vec<UniqueId> = Vec::new();
    for (source, id) in named.chain(older).chain(unnamed) {
        let source: String = source.trim().to_lowercase().chars().take(MAX_SOURCE_CHARS).collect();
        let Some(id) = id.own_text(MAX_NAME_CHARS).filter(|_| ids.len() < MAX_UNIQUE_IDS) else { continue };
        if !ids.iter().any(|other| other.source == source) {
            ids.push(UniqueId { source, id });
        }
    }
    ids
}
