//! The languages and layouts of an item's tracks, frozen with the item, and those that a lineup offers.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ScheduleItem;
use crate::domain::audio_layout::AudioLayout;
use crate::domain::media::TrackLanguage;

/// Most languages of an item that are frozen with it, of each kind. Discs have some ten.
const MAX_ITEM_LANGUAGES: usize = 16;

/// Most languages that a channel offers, of each kind. Every one of them that a viewer chooses is an encode of audio.
const MAX_OFFERED: usize = 3;

/// The languages of an item's audio tracks, that of its default track first, and of its text subtitles; and whether it has 5.1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemLanguages {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audio: Vec<TrackLanguage>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub text: Vec<TrackLanguage>,
    /// An audio track has six channels or more.
    #[serde(rename = "surround", default, skip_serializing_if = "crate::domain::is_default")]
    pub has_surround: bool,
}

impl ItemLanguages {
    /// Each language once, in order. None without any and without 5.1.
    pub fn from_tracks(
        audio: impl Iterator<Item = TrackLanguage>,
        text: impl Iterator<Item = TrackLanguage>,
        has_surround: bool,
    ) -> Option<Self> {
        let languages = Self { audio: distinct(audio), text: distinct(text), has_surround };
        (languages != Self::default()).then_some(languages)
    }
}

fn distinct(all: impl Iterator<Item = TrackLanguage>) -> Vec<TrackLanguage> {
    let mut languages = Vec::new();
    for language in all.filter(|language| !language.is_undetermined()) {
        if languages.len() < MAX_ITEM_LANGUAGES && !languages.contains(&language) {
            languages.push(language);
        }
    }
    languages
}

/// The languages that a channel in fMP4 offers: those of its items, the preferred ones first, then the most frequent ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineupLanguages {
    /// One at least: the undetermined one stands for the default track of every item.
    pub audio: Vec<TrackLanguage>,
    pub text: Vec<TrackLanguage>,
    /// An item has 5.1.
    pub has_surround: bool,
}

impl LineupLanguages {
    /// `preferred_audio` and `preferred_text` are the channel's, in order of preference and in any code.
    pub fn of_items<'a>(
        items: impl Iterator<Item = &'a ScheduleItem> + Clone,
        preferred_audio: &[String],
        preferred_text: &[String],
    ) -> Self {
        let languages = items.filter_map(|item| item.languages.as_deref());
        let mut audio = most_frequent(languages.clone().map(|languages| &*languages.audio), preferred_audio);
        let has_surround = languages.clone().any(|languages| languages.has_surround);
        let text = most_frequent(languages.map(|languages| &*languages.text), preferred_text);
        if audio.is_empty() {
            audio.push(TrackLanguage::undetermined());
        }
        Self { audio, text, has_surround }
    }

    /// Whether viewers can choose among tracks.
    pub fn has_choice(&self) -> bool {
        self.audio.len() > 1 || !self.text.is_empty()
    }

    /// The layouts to offer to a client that plays at most so many channels; None leaves the choice to the client.
    pub fn layouts(&self, max_channels: Option<u32>) -> &'static [AudioLayout] {
        match max_channels {
            _ if !self.has_surround => &[AudioLayout::Stereo],
            None => &[AudioLayout::Stereo, AudioLayout::Surround],
            Some(most) if most >= AudioLayout::Surround.channel_count() => &[AudioLayout::Surround],
            Some(_) => &[AudioLayout::Stereo],
        }
    }
}

/// Of languages that are equally frequent, the one that is more often an item's first comes first, then by the alphabet.
fn most_frequent<'a>(lists: impl Iterator<Item = &'a [TrackLanguage]>, preferred: &[String]) -> Vec<TrackLanguage> {
    let mut counts: BTreeMap<&TrackLanguage, (usize, usize)> = BTreeMap::new();
    for list in lists {
        for (position, language) in list.iter().enumerate() {
            let (items, first) = counts.entry(language).or_default();
            *items += 1;
            *first += usize::from(position == 0);
        }
    }
    let rank = |language: &TrackLanguage| {
        preferred.iter().position(|requested| language.matches(Some(requested))).unwrap_or(usize::MAX)
    };
    let mut ranked: Vec<_> = counts.into_iter().collect();
    ranked.sort_by_key(|(language, count)| (rank(language), Reverse(*count)));
    ranked.into_iter().take(MAX_OFFERED).map(|(language, _)| language.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(text: &str) -> impl Iterator<Item = TrackLanguage> {
        text.split(' ').filter_map(TrackLanguage::from_text)
    }

    fn item(audio: &str, text: &str) -> ScheduleItem {
        let languages = ItemLanguages::from_tracks(tags(audio), tags(text), false).map(Box::new);
        ScheduleItem { languages, ..ScheduleItem::default() }
    }

    fn offered(items: &[ScheduleItem], preferred: &[&str]) -> (String, String) {
        let preferred: Vec<String> = preferred.iter().map(|&language| language.to_owned()).collect();
        let LineupLanguages { audio, text, .. } = LineupLanguages::of_items(items.iter(), &preferred, &[]);
        let join = |list: Vec<TrackLanguage>| list.iter().map(TrackLanguage::as_str).collect::<Vec<_>>().join(" ");
        (join(audio), join(text))
    }

    #[test]
    fn the_most_frequent_languages_are_offered() {
        let items =
            [item("de en fr", "de"), item("en", "en de"), item("ger ita", ""), item("und", ""), item("ita fr", "")];
        assert_eq!(offered(&items, &[]), ("de en it".into(), "de en".into()));
        assert_eq!(offered(&items, &["fre", "spa"]), ("fr de en".into(), "de en".into()));
        assert_eq!(offered(&items[3..4], &["de"]), ("und".into(), String::new()));
        assert_eq!(items[3].languages, None);
    }

    #[test]
    fn layouts_follow_the_lineup_and_the_client() {
        let surround = ItemLanguages::from_tracks(tags(""), tags(""), true).unwrap();
        assert_eq!(serde_json::to_string(&surround).unwrap(), r#"{"surround":true}"#);
        let surround = ScheduleItem { languages: Some(Box::new(surround)), ..ScheduleItem::default() };
        let layouts = |items: &[ScheduleItem], max_channels| {
            LineupLanguages::of_items(items.iter(), &[], &[]).layouts(max_channels)
        };
        let mixed = [item("de", ""), surround];
        assert_eq!(layouts(&mixed, None), [AudioLayout::Stereo, AudioLayout::Surround]);
        assert_eq!(layouts(&mixed, Some(8)), [AudioLayout::Surround]);
        assert_eq!(layouts(&mixed, Some(5)), [AudioLayout::Stereo]);
        assert_eq!(layouts(&mixed[..1], None), [AudioLayout::Stereo]);
        assert_eq!(layouts(&mixed[..1], Some(6)), [AudioLayout::Stereo]);
    }

    #[test]
    fn the_languages_of_an_item_are_distinct_and_few() {
        let languages = ItemLanguages::from_tracks(tags("eng en deu und ger"), tags(""), false).unwrap();
        assert_eq!(serde_json::to_string(&languages).unwrap(), r#"{"audio":["en","de"]}"#);
        let letters = b'a'..=b'z';
        let many = letters.map(|letter| TrackLanguage::from_text(&format!("q{}", letter as char)).unwrap());
        assert_eq!(ItemLanguages::from_tracks(many, tags(""), false).unwrap().audio.len(), MAX_ITEM_LANGUAGES);
    }
}
