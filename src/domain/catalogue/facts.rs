//! The fields of an item, merged from their sources.

use jiff::civil::Date;

use super::names::{Names, is_plain_title};
use super::{ItemKind, sort_title};
use crate::domain::m3u::parse::clean_text;
use crate::domain::media::Tags;
use crate::domain::nfo::{Nfo, NfoKind};

/// Longest title and name, characters.
pub const MAX_TITLE_CHARS: usize = 300;

/// The sources of an item's fields, strongest first.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// The title that a user chose.
    pub chosen_title: Option<&'a str>,
    /// The NFO file beside the file.
    pub nfo: Option<&'a Nfo>,
    /// Tags in the file.
    pub tags: Option<&'a Tags>,
    pub names: &'a Names,
}

/// The fields of an item by which it is listed, sorted and found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub kind: ItemKind,
    /// An episode without a title has its number: `Episode 5`.
    pub title: String,
    /// The title without its article, or as the NFO file states it.
    pub sort_title: String,
    pub year: Option<u32>,
    pub series: Option<String>,
    pub season: Option<u32>,
    pub episode: Option<u32>,
    pub last_episode: Option<u32>,
    pub artist: Option<String>,
    pub album: Option<String>,
    pub disc: Option<u32>,
    pub track: Option<u32>,
    pub released_on: Option<Date>,
    pub genres: Vec<String>,
    /// Names of people, each once.
    pub people: Vec<String>,
}

impl Facts {
    /// Takes each field from the strongest source that has it: the user, the NFO file, tags, names.
    pub fn merge(sources: &Sources<'_>) -> Self {
        let Sources { chosen_title, nfo, names, .. } = *sources;
        let kind = match (nfo.map(|nfo| nfo.kind), names.kind) {
            (_, ItemKind::Extra) | (None | Some(NfoKind::Show), _) => names.kind,
            (Some(NfoKind::Movie), _) => ItemKind::Film,
            (Some(NfoKind::Episode), _) => ItemKind::Episode,
        };
        let tags = sources.tags.map(|tags| UsableTags::of(tags, kind)).unwrap_or_default();
        let is_episode = kind == ItemKind::Episode;
        let of_nfo = |field: fn(&Nfo) -> Option<u32>| nfo.and_then(field);
        let nfo_title = nfo.and_then(|nfo| nfo.title.clone());
        let released_on = nfo.and_then(|nfo| nfo.released_on).or(names.aired_on);
        let season = of_nfo(|nfo| nfo.season).or(names.season).filter(|_| is_episode);
        let nfo_episode = of_nfo(|nfo| nfo.episode);
        let episode = nfo_episode.or(names.episode).filter(|_| is_episode);
        let last_episode = of_nfo(|nfo| nfo.last_episode).or(names.last_episode);
        let named = Some(clean_text(&names.title, MAX_TITLE_CHARS)).filter(|title| !title.is_empty());
        let chosen = chosen_title.map(str::to_owned);
        let title = chosen.or(nfo_title).or(tags.title).or(named);
        let title = title.unwrap_or_else(|| number_title(episode, last_episode, released_on));
        let stated_sort_title = nfo.filter(|_| chosen_title.is_none()).and_then(|nfo| nfo.sort_title.clone());
        Self {
            kind,
            sort_title: stated_sort_title.unwrap_or_else(|| sort_title(&title).to_owned()),
            title,
            year: of_nfo(|nfo| nfo.year).or(tags.year).or(names.year),
            series: nfo.and_then(|nfo| nfo.show_title.clone()).or_else(|| names.series.clone()).filter(|_| is_episode),
            season,
            episode,
            last_episode: last_episode.filter(|last| episode.is_some_and(|first| first < *last)),
            artist: tags.artist.or_else(|| names.artist.clone()),
            album: tags.album.or_else(|| names.album.clone()),
            disc: names.disc,
            track: names.track,
            released_on,
            genres: nfo.map(|nfo| nfo.genres.clone()).unwrap_or_default(),
            people: nfo.map(people_names).unwrap_or_default(),
        }
    }
}

/// Tags that say something. Titles of films and episodes are often those of a release.
#[derive(Default)]
struct UsableTags {
    title: Option<String>,
    artist: Option<String>,
    album: Option<String>,
    year: Option<u32>,
}

impl UsableTags {
    fn of(tags: &Tags, kind: ItemKind) -> Self {
        let is_audio = matches!(kind, ItemKind::Music | ItemKind::Audiobook);
        let text = |tag: &Option<String>| {
            tag.as_deref().map(|text| clean_text(text, MAX_TITLE_CHARS)).filter(|text| !text.is_empty())
        };
        let year = tags.date.as_deref().and_then(|date| date.get(..4)?.parse().ok());
        Self {
            title: text(&tags.title).filter(|title| is_audio || is_plain_title(title)),
            artist: text(&tags.artist).filter(|_| is_audio),
            album: text(&tags.album).filter(|_| is_audio),
            year: year.filter(|year| (1870..2200).contains(year) && is_audio),
        }
    }
}

fn number_title(episode: Option<u32>, last: Option<u32>, released_on: Option<Date>) -> String {
    match (episode, last, released_on) {
        (Some(first), Some(last), _) => format!("Episodes {first}-{last}"),
        (Some(number), None, _) => format!("Episode {number}"),
        (None, _, Some(day)) => day.to_string(),
        (None, _, None) => "Episode".to_owned(),
    }
}

fn people_names(nfo: &Nfo) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for person in &nfo.people {
        if !names.contains(&person.name) {
            names.push(person.name.clone());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::sniff::MediaKind;

    fn film() -> Nfo {
        let text =
            "<movie><title>The Matrix</title><sorttitle>Matrix 1</sorttitle><year>1999</year><genre>Action</genre>
            <director>Lana W.</director><actor><name>Keanu</name></actor><credits>Lana W.</credits></movie>";
        Nfo::parse(text.as_bytes()).unwrap().remove(0)
    }

    #[test]
    fn the_strongest_source_of_each_field_wins() {
        let names = Names::parse("Movies", "matrix (2003).mkv", MediaKind::Video);
        let nfo = film();
        let tags = Tags { title: Some("Matrix Tag".into()), ..Tags::default() };
        let sources = Sources { chosen_title: None, nfo: None, tags: None, names: &names };
        let title = |sources: Sources<'_>| {
            let facts = Facts::merge(&sources);
            (facts.title, facts.sort_title, facts.year)
        };
        assert_eq!(title(sources), ("matrix".into(), "matrix".into(), Some(2003)));
        let sources = Sources { tags: Some(&tags), ..sources };
        assert_eq!(title(sources), ("Matrix Tag".into(), "Matrix Tag".into(), Some(2003)));
        let sources = Sources { nfo: Some(&nfo), ..sources };
        assert_eq!(title(sources), ("The Matrix".into(), "Matrix 1".into(), Some(1999)));
        let sources = Sources { chosen_title: Some("The One"), ..sources };
        assert_eq!(title(sources), ("The One".into(), "One".into(), Some(1999)));
        assert_eq!(Facts::merge(&sources).people, ["Lana W.", "Keanu"]);
    }

    #[test]
    fn tags_with_the_name_of_a_release_are_no_title() {
        let names = Names::parse("TV", "Lost/Season 1/Lost S01E02.mkv", MediaKind::Video);
        for title in ["Lost.S01E02.1080p.WEB", "Lost - S01E02", "www.site.com", "   "] {
            let tags = Tags { title: Some(title.into()), artist: Some("Group".into()), ..Tags::default() };
            let facts = Facts::merge(&Sources { chosen_title: None, nfo: None, tags: Some(&tags), names: &names });
            assert_eq!((&*facts.title, facts.artist), ("Episode 2", None), "{title}");
        }
    }

    #[test]
    fn music_has_its_tags() {
        let names = Names::parse("Music", "ABBA/Gold/01 - Dancing Queen.mp3", MediaKind::Audio);
        let tags = Tags {
            title: Some("Dancing Queen (Live)".into()),
            album: Some("Live".into()),
            date: Some("1986-05-01".into()),
            ..Tags::default()
        };
        let facts = Facts::merge(&Sources { chosen_title: None, nfo: None, tags: Some(&tags), names: &names });
        assert_eq!((&*facts.title, facts.year, facts.track), ("Dancing Queen (Live)", Some(1986), Some(1)));
        assert_eq!((facts.artist.as_deref(), facts.album.as_deref()), (Some("ABBA"), Some("Live")));
    }
}
