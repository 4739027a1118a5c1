//! The texts of an item in guides, from its NFO file and the catalogue, frozen with the item.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use crate::domain::catalogue::ItemKind;
use crate::domain::nfo::{Nfo, NfoKind, Person, PersonKind};

/// Longest description, characters; an item is in memory as long as a channel airs it.
const MAX_DESCRIPTION_CHARS: usize = 1000;

/// Most categories.
const MAX_CATEGORIES: usize = 8;

/// Most people of each kind.
const MAX_DIRECTORS: usize = 3;
const MAX_WRITERS: usize = 3;
const MAX_ACTORS: usize = 8;

/// Longest rating, characters.
const MAX_RATING_CHARS: usize = 40;

/// Replaces what the name of the file says, field by field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemDescription {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subtitle: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub season: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub episode: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub year: Option<u32>,
    /// First release of a film; the day on which an episode was first aired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released_on: Option<Date>,
    /// The certificate, as written: `PG-13`, `FSK 12`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rating: Option<String>,
    /// Directors, writers and actors, each in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub people: Vec<Person>,
}

impl ItemDescription {
    /// Title, number and date as the library lists a film or episode; other items keep the name of their file.
    #[must_use]
    pub fn with_names(self, names: &ItemNames) -> Self {
        let year = names.year.or(self.year);
        let released_on = names.released_on.or(self.released_on);
        let title = Some(names.title.clone());
        match (names.kind, &names.series) {
            (ItemKind::Film, _) => Self { title, year, released_on, ..self },
            (ItemKind::Episode, Some(series)) => {
                let subtitle = title.filter(|_| !names.is_numbered()).or(self.subtitle);
                let (season, episode) = (names.season.or(self.season), names.episode.or(self.episode));
                Self { title: Some(series.clone()), subtitle, season, episode, year, released_on, ..self }
            }
            _ => self,
        }
    }

    /// Description, categories and year; with `names` also title, subtitle and number of the episode.
    pub fn from_nfo(nfo: Nfo, names: bool) -> Self {
        let Nfo { kind, title, show_title, season, episode, year, plot, mut genres, released_on, mpaa, people, .. } =
            nfo;
        genres.truncate(MAX_CATEGORIES);
        let description = plot.unwrap_or_default().chars().take(MAX_DESCRIPTION_CHARS).collect();
        let rating = mpaa.map(|rating| rating.chars().take(MAX_RATING_CHARS).collect());
        let people = bounded_people(people);
        let texts = Self { description, categories: genres, year, released_on, rating, people, ..Self::default() };
        if !names {
            return texts;
        }
        match kind {
            NfoKind::Episode => Self { title: show_title, subtitle: title, season, episode, ..texts },
            NfoKind::Movie | NfoKind::Show => Self { title, ..texts },
        }
    }
}

/// Title and numbers of an item as the library lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemNames {
    pub kind: ItemKind,
    pub title: String,
    pub series: Option<String>,
    pub season: Option<u32>,
    pub episode: Option<u32>,
    pub year: Option<u32>,
    pub released_on: Option<Date>,
}

impl ItemNames {
    /// Whether the title is only the number of an episode.
    fn is_numbered(&self) -> bool {
        let number = self.title.strip_prefix("Episode").or_else(|| self.title.strip_prefix("Episodes"));
        number.is_some_and(|number| number.chars().all(|c| c.is_ascii_digit() || c == ' ' || c == '-'))
    }
}

/// The first directors, writers and actors.
fn bounded_people(people: Vec<Person>) -> Vec<Person> {
    let limits =
        [(PersonKind::Director, MAX_DIRECTORS), (PersonKind::Writer, MAX_WRITERS), (PersonKind::Actor, MAX_ACTORS)];
    let of_kind = |(kind, limit)| people.iter().filter(move |person| person.kind == kind).take(limit).cloned();
    limits.into_iter().flat_map(of_kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(text: &str, names: bool) -> ItemDescription {
        ItemDescription::from_nfo(Nfo::parse(text.as_bytes()).unwrap().remove(0), names)
    }

    #[test]
    fn films_and_episodes_have_their_own_names() {
        let film = described("<movie><title>F</title><year>1999</year><plot>P</plot><genre>G</genre></movie>", true);
        let texts = ItemDescription {
            description: "P".into(),
            categories: vec!["G".into()],
            year: Some(1999),
            ..ItemDescription::default()
        };
        assert_eq!(film, ItemDescription { title: Some("F".into()), ..texts.clone() });
        assert_eq!(
            described("<movie><title>F</title><year>1999</year><plot>P</plot><genre>G</genre></movie>", false),
            texts
        );
        let episode = "<title>E</title><showtitle>S</showtitle><season>0</season><episode>3</episode>";
        let episode = described(&format!("<episodedetails>{episode}</episodedetails>"), true);
        assert_eq!((episode.title.as_deref(), episode.subtitle.as_deref()), (Some("S"), Some("E")));
        assert_eq!((episode.season, episode.episode), (Some(0), Some(3)));
    }

    #[test]
    fn the_library_names_films_and_episodes() {
        let names = ItemNames {
            kind: ItemKind::Episode,
            title: "Episode 5".into(),
            series: Some("Lost".into()),
            season: Some(1),
            episode: Some(5),
            year: None,
            released_on: None,
        };
        let named = ItemDescription::default().with_names(&names);
        assert_eq!((named.title.as_deref(), named.subtitle.as_deref()), (Some("Lost"), None));
        assert_eq!((named.season, named.episode), (Some(1), Some(5)));
        let named = named.with_names(&ItemNames { title: "Episode One".into(), ..names.clone() });
        assert_eq!(named.subtitle.as_deref(), Some("Episode One"));
        let film = ItemNames { kind: ItemKind::Film, title: "Alien".into(), year: Some(1979), ..names.clone() };
        let film = ItemDescription::default().with_names(&film);
        assert_eq!((film.title.as_deref(), film.year, film.episode), (Some("Alien"), Some(1979), None));
        let music = ItemNames { kind: ItemKind::Music, ..names };
        assert_eq!(ItemDescription::default().with_names(&music), ItemDescription::default());
    }

    #[test]
    fn the_description_is_short() {
        let genres: String = (0..16).map(|n| format!("<genre>{n}</genre>")).collect();
        let people: String = (0..20)
            .map(|n| format!("<actor><name>a{n}</name></actor><director>d{n}</director><credits>w{n}</credits>"))
            .collect();
        let film = described(&format!("<movie><plot>{}</plot>{genres}{people}</movie>", "é".repeat(3000)), true);
        assert_eq!(film.people.len(), MAX_DIRECTORS + MAX_WRITERS + MAX_ACTORS);
        assert_eq!((film.description.chars().count(), film.categories.len()), (MAX_DESCRIPTION_CHARS, MAX_CATEGORIES));
    }
}
