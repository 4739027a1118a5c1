//! Episodes: the series, the number and the title, from folders and file name.

use super::folders::{Category, Folders, season_of};
use super::release_words::{is_strong, is_weak};
use super::scan::{is_word_end, is_word_start, number_at, skip};
use super::title_text::TitleText;
use super::{EpisodeNumber, ItemKind, Names, fold, readable};

pub(super) fn episode(folders: &Folders<'_>, stem: &str, number: EpisodeNumber) -> Names {
    let before = TitleText::parse(&stem[..number.range.start]);
    let season = number.season.or_else(|| folders.season().map(|(_, season)| season));
    let (series, series_year) = series_title(folders, &before);
    Names {
        series,
        series_year,
        season,
        episode: number.episode,
        last_episode: number.last_episode,
        aired_on: number.aired_on,
        ..Names::new(ItemKind::Episode, episode_title(&stem[number.range.end..]))
    }
}

/// A file without a number in the folder of a season.
pub(super) fn special(folders: &Folders<'_>, stem: &str) -> Names {
    let (series, series_year) = series_title(folders, &TitleText::default());
    let title = TitleText::parse(stem).title;
    let season = folders.season().map(|(_, season)| season);
    Names { series, series_year, season, ..Names::new(ItemKind::Episode, title) }
}

/// Whether a file with a date is an episode of a daily show.
pub(super) fn is_daily_show(folders: &Folders<'_>, stem: &str, number: &EpisodeNumber) -> bool {
    let before = &stem[..number.range.start];
    let is_scene_name = !stem.contains(' ') && before.contains('.') && number.range.start > 0;
    let folder = folders.nearest().map(|folder| TitleText::parse(folder).title);
    let is_folder = folder.is_some_and(|folder| !before.trim().is_empty() && is_same(&folder, before));
    folders.category == Some(Category::Series) || folders.season().is_some() || is_scene_name || is_folder
}

/// A number without a word or letter for it, where the folders make an episode likely: `Title - 05`, `01 - Pilot`, `101`.
pub(super) fn unmarked_number(folders: &Folders<'_>, stem: &str) -> Option<EpisodeNumber> {
    let season = folders.season().map(|(_, season)| season);
    let is_release_group = stem.trim_start().starts_with('[');
    let is_series = folders.category == Some(Category::Series);
    if season.is_none() && !is_series && !is_release_group {
        return None;
    }
    let absolute = dashed(stem).filter(|_| season.is_none());
    if absolute.is_some() {
        return absolute;
    }
    let found = dashed(stem).or_else(|| leading(stem).filter(|_| season.is_some() || is_series));
    let found = found.or_else(|| last_word(stem)).or_else(|| season.and_then(|season| attached(stem, season)))?;
    let number = found.episode?;
    let split = match season {
        Some(season) if season > 0 && number / 100 == season && number % 100 > 0 => Some((season, number % 100)),
        // `show.101.hdtv` without a folder of the season
        None if (101..2000).contains(&number) && is_scene_suffix(&stem[found.range.end..]) => {
            Some((number / 100, number % 100))
        }
        _ => None,
    };
    Some(match split.filter(|(_, episode)| *episode > 0) {
        Some((season, episode)) => EpisodeNumber { season: Some(season), episode: Some(episode), ..found },
        None => found,
    })
}

/// The series by folder and by the text before the number, and the year in its name.
fn series_title(folders: &Folders<'_>, before: &TitleText) -> (Option<String>, Option<u32>) {
    let named = |text: TitleText| (Some(text.title).filter(|title| !title.is_empty()), text.year);
    if let Some(folder) = folders.series() {
        return named(folder_title(folder));
    }
    let folder = folders.nearest().map(folder_title).filter(|folder| !folder.title.is_empty());
    match folder {
        Some(folder) if before.title.is_empty() || is_same(&folder.title, &before.title) => named(folder),
        _ => named(before.clone()),
    }
}

/// The title of a folder: of a series, of a season (`Lost.S01.1080p`) or of one episode (`Lost.S01E02.1080p`).
fn folder_title(folder: &str) -> TitleText {
    let before = match (EpisodeNumber::find(folder).filter(|number| number.season.is_some()), season_of(folder)) {
        (Some(number), _) => &folder[..number.range.start],
        (None, Some((_, before))) => before,
        (None, None) => folder,
    };
    TitleText::parse(before)
}

/// Whether two names are of the same series: one begins with the other.
fn is_same(a: &str, b: &str) -> bool {
    let (a, b) = (fold(a), fold(b));
    !a.is_empty() && !b.is_empty() && (a.starts_with(&b) || b.starts_with(&a))
}

/// The title after the number, without the words of a release.
fn episode_title(after: &str) -> String {
    let text = after.as_bytes();
    // `05v2`: a second version.
    let version = if text.first().is_some_and(|byte| byte | 32 == b'v') { number_at(text, 1, 1..=1) } else { None };
    let after = version.map_or(after, |(_, end)| &after[end..]);
    let has_spaces = after.trim().contains(' ');
    let is_separator = |c: char| c == ' ' || c == '_' || c == '.' && !has_spaces;
    let (mut kept, mut depth, mut follows_group) = (String::new(), 0_usize, false);
    for c in after.chars() {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => (depth, follows_group) = (depth.saturating_sub(1), true),
            // `[x264]-GRP`
            '-' if depth == 0 && follows_group => break,
            c if depth == 0 => {
                kept.push(c);
                follows_group = false;
            }
            _ => {}
        }
    }
    let words: Vec<&str> = kept.split(is_separator).filter(|word| !word.is_empty()).collect();
    let mut end = words.iter().position(|word| is_strong(word)).unwrap_or(words.len());
    if end < words.len() {
        while end > 0 && is_weak(words[end - 1]) {
            end -= 1;
        }
    }
    readable(&words[..end].join(" "))
}

/// Whether words of a release follow.
fn is_scene_suffix(after: &str) -> bool {
    after.split(['.', ' ', '_', '-']).any(is_strong)
}

/// `Title - 05`, `Title_-_05_[1080p]`.
fn dashed(stem: &str) -> Option<EpisodeNumber> {
    let text = stem.as_bytes();
    (1..text.len()).find_map(|at| {
        let is_dash = text[at] == b'-' && matches!(text[at - 1], b' ' | b'_') && at > 1;
        let start = skip(text, at + 1, b" _", 1);
        if !is_dash || start == at + 1 {
            return None;
        }
        numbered(text, start, 1..=4)
    })
}

/// `01 - Pilot`, `01. Pilot`, `1`.
fn leading(stem: &str) -> Option<EpisodeNumber> {
    numbered(stem.as_bytes(), 0, 1..=3)
}

/// The last word before those of a release: `show.101.hdtv`, `[Group] Title 05 [1080p]`.
fn last_word(stem: &str) -> Option<EpisodeNumber> {
    let text = stem.as_bytes();
    let starts = (1..text.len()).filter(|at| is_word_start(text, *at) && text[at - 1] != b'-');
    starts.filter_map(|at| numbered(text, at, 2..=4)).find(|found| {
        let rest = stem[found.range.end..].trim_start_matches([' ', '.', '_']);
        let next = rest.split([' ', '.', '_']).next().unwrap_or("");
        next.is_empty() || rest.starts_with(['[', '(']) || is_strong(next)
    })
}

/// A number of three digits at the end of a word that begins with the season: `got101`.
fn attached(stem: &str, season: u32) -> Option<EpisodeNumber> {
    let digits = stem.bytes().rev().take_while(u8::is_ascii_digit).count();
    let at = stem.len() - digits;
    let (number, end) = number_at(stem.as_bytes(), at, 3..=3)?;
    let is_episode = at > 0 && number / 100 == season;
    is_episode.then(|| EpisodeNumber { range: at..end, episode: Some(number), ..EpisodeNumber::default() })
}

/// A number that is a word, and neither a year nor a size.
fn numbered(text: &[u8], at: usize, digits: std::ops::RangeInclusive<usize>) -> Option<EpisodeNumber> {
    let (number, end) = number_at(text, at, digits)?;
    let is_version = text.get(end).is_some_and(|byte| byte | 32 == b'v') && number_at(text, end + 1, 1..=1).is_some();
    let is_year = (1900..2036).contains(&number);
    let is_word = (is_word_end(text, end) || is_version) && !is_year;
    is_word.then(|| EpisodeNumber { range: at..end, episode: Some(number), ..EpisodeNumber::default() })
}
