//! The texts of an item in guides, from its NFO file, frozen with the item.

use serde::{Deserialize, Serialize};

use crate::domain::nfo::{Nfo, NfoKind};

/// Longest description, characters; an item is in memory as long as a channel airs it.
const MAX_DESCRIPTION_CHARS: usize = 1000;

/// Most categories.
const MAX_CATEGORIES: usize = 8;

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
}

impl ItemDescription {
    /// Description, categories and year; with `names` also title, subtitle and number of the episode.
    pub fn from_nfo(nfo: Nfo, names: bool) -> Self {
        let Nfo { kind, title, show_title, season, episode, year, plot, mut genres, .. } = nfo;
        genres.truncate(MAX_CATEGORIES);
        let description = plot.unwrap_or_default().chars().take(MAX_DESCRIPTION_CHARS).collect();
        let texts = Self { description, categories: genres, year, ..Self::default() };
        if !names {
            return texts;
        }
        match kind {
            NfoKind::Episode => Self { title: show_title, subtitle: title, season, episode, ..texts },
            NfoKind::Movie | NfoKind::Show => Self { title, ..texts },
        }
    }
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
    fn the_description_is_short() {
        let genres: String = (0..16).map(|n| format!("<genre>{n}</genre>")).collect();
        let film = described(&format!("<movie><plot>{}</plot>{genres}</movie>", "é".repeat(3000)), true);
        assert_eq!((film.description.chars().count(), film.categories.len()), (MAX_DESCRIPTION_CHARS, MAX_CATEGORIES));
    }
}
