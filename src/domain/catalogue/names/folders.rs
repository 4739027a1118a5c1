//! The folders of a file: categories, seasons, discs, and the rest, which have names of works.

use super::episode_number::SEASON_WORDS;
use super::fold;
use super::scan::{is_word_end, is_word_start, number_at, skip, word_at};

/// The content of a folder, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Category {
    Films,
    Series,
    Music,
    Audiobooks,
    HomeVideos,
    /// A name that is no title, such as `Downloads`.
    Unsorted,
}

const CATEGORIES: &[(Category, &[&str])] = &[
    (
        Category::Films,
        &["movies", "movie", "films", "film", "filme", "spielfilme", "kinofilme", "peliculas", "documentaries"],
    ),
    (
        Category::Series,
        &[
            "tv",
            "tv shows",
            "tvshows",
            "tv series",
            "shows",
            "series",
            "serien",
            "serie",
            "tv serien",
            "fernsehserien",
            "anime",
            "animes",
            "cartoons",
            "sitcoms",
            "docuseries",
            "kinderserien",
        ],
    ),
    (Category::Music, &["music", "musik", "musique", "musica", "songs", "mp3", "flac", "music videos", "musikvideos"]),
    (
        Category::Audiobooks,
        &["audiobooks", "audiobook", "audio books", "horbucher", "hoerbuecher", "horbuch", "horspiele", "hoerspiele"],
    ),
    (
        Category::HomeVideos,
        &[
            "home videos",
            "home movies",
            "homevideos",
            "camera",
            "camera roll",
            "dcim",
            "camcorder",
            "family videos",
            "familienvideos",
            "private videos",
            "eigene videos",
            "photos",
            "fotos",
            "bilder",
            "pictures",
            "camera uploads",
        ],
    ),
    (
        Category::Unsorted,
        &[
            "media",
            "medien",
            "video",
            "videos",
            "downloads",
            "download",
            "library",
            "mediathek",
            "complete",
            "completed",
            "torrents",
            "usenet",
            "recordings",
            "aufnahmen",
            "incoming",
            "share",
            "data",
            "storage",
            "nas",
            "new",
            "neu",
            "sorted",
            "unsorted",
            "misc",
            "temp",
            "tmp",
            "public",
        ],
    ),
];

/// Words beside the name of a category: `Movies 4K`, `Kids TV`.
const QUALIFIERS: &[&str] = &[
    "my", "our", "hd", "uhd", "4k", "3d", "kids", "kinder", "english", "german", "deutsch", "deutsche", "all", "alle",
    "new", "neue", "old", "alte", "and", "und",
];

/// The folders between the root and a file.
pub(super) struct Folders<'a> {
    /// The category of the innermost folder that has one; the root's otherwise.
    pub category: Option<Category>,
    /// The root's name, unless it is a category.
    root: Option<&'a str>,
    /// Folders below the category, outermost first.
    pub named: Vec<&'a str>,
}

impl<'a> Folders<'a> {
    pub(super) fn new(root: &'a str, folders: &'a str) -> Self {
        let all: Vec<&str> = folders.split('/').filter(|folder| !folder.is_empty()).collect();
        let root_category = category(root);
        let innermost = all.iter().rposition(|folder| category(folder).is_some());
        let own = innermost.and_then(|at| category(all[at]));
        let specific = |category: &Category| *category != Category::Unsorted;
        let outer = || all.iter().rev().filter_map(|folder| category(folder)).chain(root_category).find(specific);
        Self {
            category: own.filter(specific).or_else(outer).or(own).or(root_category),
            root: (root_category.is_none() && innermost.is_none()).then_some(root),
            named: all[innermost.map_or(0, |at| at + 1)..].to_vec(),
        }
    }

    /// The folder of the file, or of its disc folder.
    pub(super) fn nearest(&self) -> Option<&'a str> {
        self.named.iter().rev().find(|folder| !is_disc(folder)).copied()
    }

    /// Whether the file is in the structure of a DVD or Blu-ray.
    pub(super) fn is_disc(&self) -> bool {
        self.named.last().is_some_and(|folder| ["video_ts", "bdmv", "stream"].contains(&&*folder.to_ascii_lowercase()))
    }

    /// The season of the innermost season folder, and where it is in `named`.
    pub(super) fn season(&self) -> Option<(usize, u32)> {
        let found = self.named.iter().enumerate().rev().find_map(|(at, folder)| Some((at, season_of(folder)?.0)));
        // `TV/Show/2`
        let plain = || {
            let at = self.named.len().checked_sub(1).filter(|at| *at > 0 && self.category == Some(Category::Series))?;
            let (number, end) = number_at(self.named[at].as_bytes(), 0, 1..=4)?;
            (end == self.named[at].len()).then_some((at, number))
        };
        found.or_else(plain)
    }

    /// The folder that has the name of the series: outside of the season folder, or its own beginning (`Lost Season 1`).
    pub(super) fn series(&self) -> Option<&'a str> {
        let (at, _) = self.season()?;
        let outside = self.named[..at].iter().rev().find(|folder| season_of(folder).is_none()).copied();
        let own = || season_of(self.named[at]).map(|(_, before)| before).filter(|before| !before.trim().is_empty());
        outside.or_else(own).or(self.root)
    }
}

pub(super) fn category(name: &str) -> Option<Category> {
    let folded = fold(name);
    let is_qualifier = |word: &&str| QUALIFIERS.contains(word);
    let words: Vec<&str> = folded.split(' ').filter(|word| !is_qualifier(word)).collect();
    let essence = if words.is_empty() { folded.clone() } else { words.join(" ") };
    let find = |text: &str| CATEGORIES.iter().find(|(_, names)| names.contains(&text)).map(|(category, _)| *category);
    find(&folded).or_else(|| find(&essence))
}

/// The season that a folder has, and the text before it.
pub(super) fn season_of(name: &str) -> Option<(u32, &str)> {
    let lower = name.trim().to_lowercase();
    if ["specials", "special", "season 0", "season 00", "specials (season 0)"].contains(&lower.as_str()) {
        return Some((0, ""));
    }
    let name = name.trim();
    let lower = name.to_ascii_lowercase();
    let text = lower.as_bytes();
    // `1. Staffel`, `2nd Season`
    if let Some((number, end)) = number_at(text, 0, 1..=2) {
        let end = word_at(text, end, &["st", "nd", "rd", "th", "."]).unwrap_or(end);
        if word_at(text, skip(text, end, b" ", 1), SEASON_WORDS).is_some_and(|end| is_word_end(text, end)) {
            return Some((number, ""));
        }
    }
    let season_at = |at: usize| {
        if let Some(end) = word_at(text, at, SEASON_WORDS) {
            let (number, end) = number_at(text, skip(text, end, b" ._-", 2), 1..=4)?;
            let is_year = number >= 1900 && !lower[at..].starts_with("series");
            return (is_word_end(text, end) && (number < 100 || is_year)).then_some(number);
        }
        let (number, end) = number_at(text, word_at(text, at, &["s"])?, 1..=4)?;
        (is_word_end(text, end) && !(100..1900).contains(&number)).then_some(number)
    };
    let at = (0..text.len()).filter(|at| is_word_start(text, *at)).find(|at| season_at(*at).is_some())?;
    Some((season_at(at)?, &name[..at]))
}

/// `CD1`, `Disc 2`, `VIDEO_TS`.
pub(super) fn is_disc(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    ["video_ts", "bdmv", "stream"].contains(&lower.as_str()) || disc_number(&lower).is_some()
}

/// The number of a disc folder.
pub(super) fn disc_number(name: &str) -> Option<u32> {
    let lower = name.to_ascii_lowercase();
    let text = lower.as_bytes();
    let end = word_at(text, 0, &["cd", "disc", "disk", "dvd"])?;
    let (number, end) = number_at(text, skip(text, end, b" _-.", 1), 1..=2)?;
    (end == text.len() || lower[end..].starts_with([' ', '-', ':'])).then_some(number)
}
