//! One item in memory, and as it is listed.

use std::sync::Arc;

use crate::domain::catalogue::fold::fold;
use crate::domain::catalogue::{Facts, ItemKind};
use crate::domain::progress::ProgressRecord;
use jiff::civil::Date;

/// Genres and people of an item by which it is found. Its details have all.
pub(super) const MAX_GENRES: usize = 16;
pub(super) const MAX_PEOPLE: usize = 32;

/// Longest key by which items are sorted, bytes.
const MAX_SORT_KEY_BYTES: usize = 160;

/// Identity of an item by content: that of watch progress, so it survives renames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemId(u128);

impl ItemId {
    /// By a fingerprint, `f_` and 32 hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        parse_hex(text.strip_prefix("f_")?).map(Self)
    }
}

impl std::fmt::Display for ItemId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "f_{:032x}", self.0)
    }
}

/// Identity of a series: its name, and the year in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeriesId(u128);

impl SeriesId {
    pub(super) fn new(name: &str, year: Option<u32>) -> Self {
        let year = year.map_or(String::new(), |year| year.to_string());
        let hash = blake3::hash(format!("{} {year}", fold(name)).as_bytes());
        Self(u128::from_be_bytes(hash.as_bytes()[..16].try_into().expect("16 of 32 bytes")))
    }

    /// `s_` and 32 hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        parse_hex(text.strip_prefix("s_")?).map(Self)
    }
}

impl std::fmt::Display for SeriesId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "s_{:032x}", self.0)
    }
}

fn parse_hex(text: &str) -> Option<u128> {
    let is_hex = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_hex.then(|| u128::from_str_radix(text, 16).ok())?
}

/// One file of the library in memory.
pub(super) struct IndexedItem {
    pub id: ItemId,
    pub folder: Arc<str>,
    /// Its name in the folder.
    pub name: Box<str>,
    pub size_bytes: u64,
    pub modified_ns: i64,
    pub added_ms: i64,
    pub nfo_stamp: u64,
    pub is_probed: bool,
    pub duration_seconds: Option<f64>,
    pub kind: ItemKind,
    pub title: Box<str>,
    pub sort_title: Box<str>,
    /// Items by title: episodes by series and number, music by artist, album and number.
    pub sort_key: Box<str>,
    pub year: Option<u32>,
    pub series: Option<(SeriesId, Box<str>)>,
    pub season: Option<u32>,
    pub episode: Option<u32>,
    pub last_episode: Option<u32>,
    pub artist: Option<Box<str>>,
    pub album: Option<Box<str>>,
    pub disc: Option<u32>,
    pub track: Option<u32>,
    pub released_on: Option<Date>,
    /// Numbers of pooled texts.
    pub genres: Box<[u32]>,
    pub people: Box<[u32]>,
    /// Another file has the same content and stands for both.
    pub is_copy: bool,
}

impl IndexedItem {
    pub(super) fn path(&self) -> String {
        join_path(&self.folder, &self.name)
    }

    /// The text by which it is found, beside its title and people.
    pub(super) fn context(&self) -> String {
        let series = self.series.as_ref().map(|(_, name)| name);
        let parts = [series, self.artist.as_ref(), self.album.as_ref()];
        parts.into_iter().flatten().map(|part| &**part).collect::<Vec<_>>().join(" ")
    }
}

pub(super) fn join_path(folder: &str, name: &str) -> String {
    format!("{}/{name}", folder.trim_end_matches('/'))
}

/// The key by which items are sorted by title: folded, with numbers of equal length.
pub(super) fn sort_key(facts: &Facts) -> Box<str> {
    let number = |number: Option<u32>| number.map_or("~".to_owned(), |number| format!("{number:08}"));
    let title = pad_numbers(&fold(&facts.sort_title));
    let group = |name: &Option<String>| {
        let name = name.as_deref().unwrap_or("");
        pad_numbers(&fold(crate::domain::catalogue::sort_title(name)))
    };
    let key = match facts.kind {
        ItemKind::Episode => {
            let day = facts.released_on.map(|day| day.to_string()).unwrap_or_default();
            format!("{}\t{}\t{}\t{day}\t{title}", group(&facts.series), number(facts.season), number(facts.episode))
        }
        ItemKind::Music | ItemKind::Audiobook => {
            let (disc, track) = (number(facts.disc), number(facts.track));
            format!("{}\t{}\t{disc}\t{track}\t{title}", group(&facts.artist), group(&facts.album))
        }
        _ => title,
    };
    let mut end = key.len().min(MAX_SORT_KEY_BYTES);
    while !key.is_char_boundary(end) {
        end -= 1;
    }
    key[..end].into()
}

fn pad_numbers(text: &str) -> String {
    let is_number = |word: &&str| word.len() < 8 && !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let words = text.split(' ').map(|word| if is_number(&word) { format!("{word:0>8}") } else { word.to_owned() });
    words.collect::<Vec<_>>().join(" ")
}

/// An item in a list, with the user's progress.
#[derive(Clone, Debug)]
pub struct ListedItem {
    pub id: ItemId,
    pub kind: ItemKind,
    pub path: String,
    pub title: String,
    pub sort_title: String,
    pub year: Option<u32>,
    pub series: Option<(SeriesId, String)>,
    pub season: Option<u32>,
    pub episode: Option<u32>,
    pub last_episode: Option<u32>,
    pub artist: Option<String>,
    pub album: Option<String>,
    pub disc: Option<u32>,
    pub track: Option<u32>,
    pub released_on: Option<Date>,
    pub genres: Vec<String>,
    /// None until it was probed.
    pub duration_seconds: Option<f64>,
    pub size_bytes: u64,
    pub added_ms: i64,
    pub progress: Option<ProgressRecord>,
}
