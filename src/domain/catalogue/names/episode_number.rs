//! Season, episode and date in a file name.

use std::ops::Range;

use jiff::civil::Date;

use super::scan::{is_word_end, is_word_start, number_at, skip, word_at};

/// Bytes between the parts of a number.
const SEPARATORS: &[u8] = b" ._-";

/// Words for a season in names of files and folders, in lower case.
pub(super) const SEASON_WORDS: &[&str] =
    &["season", "staffel", "saison", "temporada", "stagione", "seizoen", "series", "sesong", "säsong"];

const EPISODE_WORDS: &[&str] = &["episode", "episodio", "épisode", "folge", "aflevering", "avsnitt", "ep"];

/// Most episodes of one file.
const MAX_EPISODES: u32 = 40;

/// A number in a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EpisodeNumber {
    /// Where it is in the name, bytes.
    pub range: Range<usize>,
    pub season: Option<u32>,
    pub episode: Option<u32>,
    /// The last episode of several.
    pub last_episode: Option<u32>,
    pub aired_on: Option<Date>,
}

impl EpisodeNumber {
    /// The first number that is marked as one: `S01E02`, `1x02`, `Season 1 Episode 2`, `Folge 2`.
    pub(super) fn find(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        let text = lower.as_bytes();
        let find = |parse: fn(&[u8], usize) -> Option<Self>| {
            (0..text.len()).filter(|at| is_word_start(text, *at)).find_map(|at| parse(text, at))
        };
        find(season_and_episode).or_else(|| find(cross)).or_else(|| find(in_words)).or_else(|| find(episode_alone))
    }

    /// The first date of a day: `2024-05-06`, `2024.05.06`, `24.12.2019`.
    pub(super) fn find_date(name: &str) -> Option<Self> {
        let text = name.as_bytes();
        (0..text.len()).filter(|at| is_word_start(text, *at)).find_map(|at| date(text, at))
    }
}

/// `S01E02`, and further episodes: `S01E02E03`, `S01E02-E03`, `S01E02-03`, `S01E02-S01E03`.
fn season_and_episode(text: &[u8], at: usize) -> Option<EpisodeNumber> {
    let (season, end) = number_at(text, word_at(text, at, &["s"])?, 1..=4)?;
    let (episode, end) = number_at(text, word_at(text, skip(text, end, SEPARATORS, 3), &["e", "ep"])?, 1..=4)?;
    let (last_episode, end) = further_episodes(text, end, season, episode);
    Some(EpisodeNumber { range: at..end, season: Some(season), episode: Some(episode), last_episode, aired_on: None })
}

/// The last of the episodes that follow, and where they end.
fn further_episodes(text: &[u8], mut end: usize, season: u32, first: u32) -> (Option<u32>, usize) {
    let mut last = None;
    loop {
        let start = skip(text, end, b" ._-+&", 3);
        let is_range = &text[end..start] == b"-";
        let after_season = word_at(text, start, &["s"]).and_then(|at| number_at(text, at, 1..=4));
        let marked = match after_season {
            Some((number, at)) if number == season => skip(text, at, SEPARATORS, 1),
            _ => start,
        };
        let number = match word_at(text, marked, &["e", "ep", "x"]) {
            Some(at) => number_at(text, at, 1..=4),
            None if is_range => number_at(text, start, 1..=3),
            None => None,
        };
        let previous = last.unwrap_or(first);
        match number.filter(|(number, at)| (previous + 1..first + MAX_EPISODES).contains(number) && is_end(text, *at)) {
            Some((number, at)) => (last, end) = (Some(number), at),
            None => return (last, end),
        }
    }
}

/// Whether a number may end here. The `p` of `720p` belongs to it, the `e` of `e02e03` and the `v` of `05v2` do not.
fn is_end(text: &[u8], at: usize) -> bool {
    is_word_end(text, at) || matches!(text[at], b'e' | b'v' | b'x' | b's')
}

/// `1x02`, `1x02-03`, `1x02x03`, `1x02-1x03`.
fn cross(text: &[u8], at: usize) -> Option<EpisodeNumber> {
    let pair = |at: usize| {
        let (season, end) = number_at(text, at, 1..=2)?;
        let (episode, end) = number_at(text, word_at(text, end, &["x"])?, 2..=3)?;
        Some((season, episode, end))
    };
    let (season, episode, mut end) = pair(at)?;
    let mut last_episode = None;
    while let Some((number, after)) = {
        let start = skip(text, end, b" -", 3);
        let same_season = pair(start).filter(|(other, ..)| *other == season).map(|(_, number, end)| (number, end));
        let marked = || number_at(text, word_at(text, start, &["x"])?, 2..=3);
        let bare = || number_at(text, start, 2..=3).filter(|_| &text[end..start] == b"-");
        let next = same_season.or_else(marked).or_else(bare);
        next.filter(|(number, at)| (episode + 1..episode + MAX_EPISODES).contains(number) && is_end(text, *at))
    } {
        (last_episode, end) = (Some(number), after);
    }
    is_word_end(text, end).then_some(EpisodeNumber {
        range: at..end,
        season: Some(season),
        episode: Some(episode),
        last_episode,
        aired_on: None,
    })
}

/// `Season 1 Episode 2`, `Staffel 1 - Folge 2`.
fn in_words(text: &[u8], at: usize) -> Option<EpisodeNumber> {
    let (season, end) = number_at(text, skip(text, word_at(text, at, SEASON_WORDS)?, SEPARATORS, 2), 1..=4)?;
    let episode = skip(text, end, b" ._-,:", 4);
    let (number, end) = episode_in_words(text, episode)?;
    Some(EpisodeNumber { range: at..end, season: Some(season), episode: Some(number), ..EpisodeNumber::default() })
}

/// `Episode 2`, `Folge 2`, `Ep. 2`, `E02`.
fn episode_alone(text: &[u8], at: usize) -> Option<EpisodeNumber> {
    let short = || number_at(text, word_at(text, at, &["e"])?, 2..=4);
    let (number, end) = episode_in_words(text, at).or_else(short).filter(|(_, end)| is_end(text, *end))?;
    let (last_episode, end) = further_episodes(text, end, 0, number);
    Some(EpisodeNumber { range: at..end, episode: Some(number), last_episode, ..EpisodeNumber::default() })
}

fn episode_in_words(text: &[u8], at: usize) -> Option<(u32, usize)> {
    number_at(text, skip(text, word_at(text, at, EPISODE_WORDS)?, b" ._-#", 2), 1..=4)
}

fn date(text: &[u8], at: usize) -> Option<EpisodeNumber> {
    let parts = |digits: [usize; 3]| {
        let (first, end) = number_at(text, at, digits[0]..=digits[0])?;
        let separator = text.get(end).filter(|byte| SEPARATORS.contains(byte))?;
        let (second, end) = number_at(text, end + 1, digits[1]..=digits[1])?;
        text.get(end).filter(|byte| *byte == separator)?;
        let (third, end) = number_at(text, end + 1, digits[2]..=digits[2])?;
        is_word_end(text, end).then_some((first, second, third, end))
    };
    let year_first = || parts([4, 2, 2]);
    let day_first = || parts([2, 2, 4]).map(|(day, month, year, end)| (year, month, day, end));
    let (year, month, day, end) = year_first().or_else(day_first)?;
    Some(EpisodeNumber { range: at..end, aired_on: Some(valid_date(year, month, day)?), ..EpisodeNumber::default() })
}

/// A day from 1900 to 2099.
pub(super) fn valid_date(year: u32, month: u32, day: u32) -> Option<Date> {
    let year = i16::try_from(year).ok().filter(|year| (1900..2100).contains(year))?;
    Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
}
