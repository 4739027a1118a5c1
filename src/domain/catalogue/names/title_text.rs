//! A title and its year in the name of a file or folder.

use super::release_words::{is_strong, is_weak};

/// Years that a word may be without parentheses. A later number belongs to the title.
const BARE_YEARS: std::ops::RangeInclusive<u32> = 1900..=2035;

/// A title, and what else its text has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TitleText {
    pub title: String,
    pub year: Option<u32>,
    /// The year is in parentheses, or words of a release follow: the text names one film.
    pub is_marked: bool,
}

impl TitleText {
    pub(super) fn parse(text: &str) -> Self {
        let text = without_groups(text, '{', '}');
        let text = strip_leading_bracket(&text);
        if let Some((at, year)) = year_in_parentheses(text) {
            let before = readable(&without_groups(&text[..at], '[', ']'));
            let title = if before.is_empty() { Self::of_words(&text[at + 6..]).title } else { before };
            return Self { title: title_in_order(&title), year: Some(year), is_marked: true };
        }
        let bare = without_groups(text, '[', ']');
        let found = Self::of_words(&bare);
        let title = if found.title.is_empty() { readable(text) } else { found.title };
        Self { title: title_in_order(&title), ..found }
    }

    /// Without parentheses: the words before those of a release, and the year before them.
    fn of_words(text: &str) -> Self {
        let words = split_words(text);
        let strong = words.iter().skip(1).position(|word| is_strong(word)).map(|at| at + 1);
        let mut end = strong.unwrap_or(words.len());
        let year_at = (1..end).rev().find(|at| bare_year(words[*at]).is_some());
        let year_at = year_at.filter(|at| strong.is_some() || words[at + 1..end].iter().all(|word| is_weak(word)));
        if let Some(at) = year_at {
            let year = bare_year(words[at]);
            return Self { title: join_words(&words[..at]), year, is_marked: strong.is_some() };
        }
        if strong.is_some() {
            while end > 1 && is_weak(words[end - 1]) {
                end -= 1;
            }
        }
        Self { title: join_words(&words[..end]), year: None, is_marked: strong.is_some() }
    }
}

/// The text in a form for people: dots and underscores of names without spaces become spaces.
pub(super) fn readable(text: &str) -> String {
    join_words(&split_words(text))
}

fn split_words(text: &str) -> Vec<&str> {
    let has_spaces = text.trim().contains(' ');
    let is_separator = |c: char| c == ' ' || c == '_' || c == '.' && !has_spaces;
    text.split(is_separator).filter(|word| !word.is_empty()).collect()
}

/// Joins words with spaces, and single letters in a row with dots: `S.W.A.T`.
fn join_words(words: &[&str]) -> String {
    let is_letter = |word: &str| word.len() == 1 && word.as_bytes()[0].is_ascii_uppercase();
    let mut joined = String::new();
    for (at, word) in words.iter().enumerate() {
        if at > 0 {
            let run_start = words[..at].iter().rposition(|word| !is_letter(word)).map_or(0, |before| before + 1);
            let run_end = words[at..].iter().position(|word| !is_letter(word)).map_or(words.len(), |len| at + len);
            let is_run = is_letter(word) && run_start < at && run_end - run_start >= 3;
            joined.push(if is_run { '.' } else { ' ' });
        }
        joined.push_str(word);
    }
    let trimmed = joined.trim_matches([' ', '-', '.', ',', '_', '[', '–', '+']);
    trimmed.trim_end_matches([' ', '(', '-']).to_owned()
}

/// `Matrix, The` becomes `The Matrix`.
fn title_in_order(title: &str) -> String {
    match title.rsplit_once(", ") {
        Some((rest, article)) if ["The", "A", "An", "Der", "Die", "Das", "Le", "La", "Les"].contains(&article) => {
            format!("{article} {rest}")
        }
        _ => title.to_owned(),
    }
}

/// The position and value of the last year in parentheses or brackets.
fn year_in_parentheses(text: &str) -> Option<(usize, u32)> {
    let bytes = text.as_bytes();
    (0..bytes.len().saturating_sub(5)).rev().find_map(|at| {
        let is_pair = matches!((bytes[at], bytes[at + 5]), (b'(', b')') | (b'[', b']'));
        let year = parse_year(bytes.get(at + 1..at + 5)?).filter(|year| is_pair && (1870..2100).contains(year))?;
        Some((at, year))
    })
}

fn bare_year(word: &str) -> Option<u32> {
    parse_year(word.trim_matches(['(', ')', '[', ']', ',', '-']).as_bytes()).filter(|year| BARE_YEARS.contains(year))
}

fn parse_year(digits: &[u8]) -> Option<u32> {
    let is_year = digits.len() == 4 && digits.iter().all(u8::is_ascii_digit);
    is_year.then(|| digits.iter().fold(0, |year, digit| year * 10 + u32::from(digit - b'0')))
}

/// The text without `[…]` or `{…}`. A group without its end stays.
fn without_groups(text: &str, open: char, close: char) -> String {
    let (mut kept, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((start, length)) = rest.find(open).and_then(|start| Some((start, rest[start..].find(close)?))) {
        kept.push_str(&rest[..start]);
        kept.push(' ');
        rest = &rest[start + length + 1..];
    }
    kept.push_str(rest);
    // A space where there was a group must not hide that dots separate the words.
    if text.contains(' ') { kept } else { kept.replace(' ', ".") }
}

/// `[Group] Title` without the group, unless that is a year.
fn strip_leading_bracket(text: &str) -> &str {
    let text = text.trim_start();
    let group = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    match group {
        Some((group, rest)) if parse_year(group.as_bytes()).is_none() && !rest.trim().is_empty() => {
            rest.trim_start_matches([' ', '_', '.', '-'])
        }
        _ => text,
    }
}
