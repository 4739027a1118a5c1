//! Preferences of a user that apply on each of their devices: languages, also per series, and favourite channels.

use serde::{Deserialize, Serialize};

/// Series whose languages are kept; the one changed least recently is dropped first.
const MAX_SERIES: usize = 200;

/// Favourite channels that are kept; the oldest is dropped first.
const MAX_FAVOURITES: usize = 500;

/// Longest name of a series, bytes.
pub const MAX_SERIES_NAME_BYTES: usize = 1024;

/// Longest language tag, bytes (RFC 5646, section 4.4.1).
const MAX_TAG_BYTES: usize = 35;

/// The choice of no subtitles.
const OFF: &str = "off";

/// The chosen languages, as language tags. None where nothing was chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Languages {
    pub audio: Option<String>,
    /// A language tag, or `off`.
    pub subtitle: Option<String>,
}

/// The languages chosen in one series.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesLanguages {
    /// The name that clients give the series, such as its folder.
    pub series: String,
    #[serde(flatten)]
    pub languages: Languages,
}

/// The preferences of one user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preferences {
    pub languages: Languages,
    /// Changed least recently first.
    pub series: Vec<SeriesLanguages>,
    /// Ids of channels, the oldest favourite first.
    pub favourites: Vec<u32>,
}

/// A change of languages: an absent one stays, `Some(None)` returns to no choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LanguagesChange {
    pub audio: Option<Option<String>>,
    pub subtitle: Option<Option<String>>,
}

/// A change of preferences. It names what changes, so that changes of two devices do not undo each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreferencesChange {
    pub languages: LanguagesChange,
    /// A series, and its languages.
    pub series: Option<(String, LanguagesChange)>,
    pub added_favourites: Vec<u32>,
    pub removed_favourites: Vec<u32>,
}

impl Languages {
    fn apply(&mut self, change: LanguagesChange) {
        self.audio = change.audio.unwrap_or(self.audio.take());
        self.subtitle = change.subtitle.unwrap_or(self.subtitle.take());
    }
}

impl Preferences {
    /// Applies a change, within the bounds of the record.
    pub fn apply(&mut self, change: PreferencesChange) {
        self.languages.apply(change.languages);
        if let Some((series, languages)) = change.series {
            self.apply_series(series, languages);
        }
        let replaced = [change.removed_favourites, change.added_favourites.clone()].concat();
        self.favourites.retain(|id| !replaced.contains(id));
        for id in change.added_favourites {
            if !self.favourites.contains(&id) {
                self.favourites.push(id);
            }
        }
        drop_oldest(&mut self.favourites, MAX_FAVOURITES);
    }

    /// Applies a change to one series, which becomes the newest. One without a choice is removed.
    fn apply_series(&mut self, series: String, change: LanguagesChange) {
        let known = self.series.iter().position(|one| one.series == series);
        let mut languages = known.map(|index| self.series.remove(index).languages).unwrap_or_default();
        languages.apply(change);
        if languages != Languages::default() {
            self.series.push(SeriesLanguages { series, languages });
        }
        drop_oldest(&mut self.series, MAX_SERIES);
    }
}

/// Whether a text has the form of a language tag.
pub fn is_language_tag(text: &str) -> bool {
    let is_subtag = |part: &str| (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    text.len() <= MAX_TAG_BYTES && text.split('-').all(is_subtag)
}

/// Whether a text is a choice of subtitles: a language tag or `off`.
pub fn is_subtitle_choice(text: &str) -> bool {
    text == OFF || is_language_tag(text)
}

fn drop_oldest<T>(list: &mut Vec<T>, max: usize) {
    list.drain(..list.len().saturating_sub(max));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn audio(tag: Option<&str>) -> LanguagesChange {
        LanguagesChange { audio: Some(tag.map(str::to_owned)), subtitle: None }
    }

    fn in_series(series: &str, languages: LanguagesChange) -> PreferencesChange {
        PreferencesChange { series: Some((series.to_owned(), languages)), ..PreferencesChange::default() }
    }

    #[test]
    fn a_change_leaves_the_rest_as_it_is() {
        let mut preferences = Preferences::default();
        preferences.apply(PreferencesChange { languages: audio(Some("de")), ..PreferencesChange::default() });
        preferences.apply(in_series("a", audio(Some("ja"))));
        let off = LanguagesChange { audio: None, subtitle: Some(Some("off".into())) };
        preferences.apply(in_series("a", off));
        let expected = Languages { audio: Some("ja".into()), subtitle: Some("off".into()) };
        assert_eq!((preferences.languages.audio.as_deref(), &preferences.series[0].languages), (Some("de"), &expected));
        let none = LanguagesChange { audio: Some(None), subtitle: Some(None) };
        preferences.apply(in_series("a", none));
        assert_eq!((preferences.series.len(), preferences.languages.audio.as_deref()), (0, Some("de")));
    }

    #[test]
    fn the_series_changed_least_recently_is_dropped() {
        let mut preferences = Preferences::default();
        for n in 0..MAX_SERIES {
            preferences.apply(in_series(&n.to_string(), audio(Some("de"))));
        }
        preferences.apply(in_series("0", audio(Some("en"))));
        preferences.apply(in_series("new", audio(Some("de"))));
        let names: Vec<&str> = preferences.series.iter().map(|one| &*one.series).collect();
        assert_eq!((names.len(), names.contains(&"1"), names.contains(&"0")), (MAX_SERIES, false, true));
    }

    #[test]
    fn favourites_are_added_once_and_removed() {
        let mut preferences = Preferences::default();
        let change = |added: Vec<u32>, removed: Vec<u32>| PreferencesChange {
            added_favourites: added,
            removed_favourites: removed,
            ..PreferencesChange::default()
        };
        preferences.apply(change(vec![1, 2, 2], vec![]));
        preferences.apply(change(vec![1], vec![]));
        assert_eq!(preferences.favourites, [2, 1]);
        preferences.apply(change(vec![], vec![2, 9]));
        assert_eq!(preferences.favourites, [1]);
        preferences.apply(change((0..2000).collect(), vec![]));
        assert_eq!((preferences.favourites.len(), preferences.favourites.last()), (MAX_FAVOURITES, Some(&1999)));
    }

    #[test]
    fn tags_have_the_form_of_tags() {
        for (text, is_tag) in
            [("de", true), ("pt-BR", true), ("zh-Hant-TW", true), ("", false), ("de_DE", false), ("x-", false)]
        {
            assert_eq!(is_language_tag(text), is_tag, "{text:?}");
        }
        assert!(is_subtitle_choice("off") && is_subtitle_choice("en") && !is_subtitle_choice("no subtitles"));
        assert!(!is_language_tag(&["abc"; 10].join("-")));
    }
}
