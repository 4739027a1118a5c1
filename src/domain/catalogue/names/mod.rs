//! Kind, titles and numbers of a media file, from the names of its folders and of itself.

use jiff::civil::Date;

use super::ItemKind;
use super::fold::fold;
use crate::domain::library::file_stem;
use crate::domain::sniff::MediaKind;

mod audio;
mod episode_number;
mod extra;
mod folders;
mod home_video;
mod release_words;
mod scan;
mod series;
mod title_text;

use episode_number::EpisodeNumber;
use folders::{Category, Folders};
use title_text::{TitleText, readable};

/// The season that the name of a folder states; None for any other folder.
pub fn season_of_folder(name: &str) -> Option<u32> {
    folders::season_of(name).map(|(season, _)| season)
}

/// Whether the name of a folder is that of one disc of several: `CD1`.
pub fn is_disc_folder(name: &str) -> bool {
    folders::disc_number(name).is_some()
}

/// The names of a file, interpreted. Texts are as long as the names at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    pub kind: ItemKind,
    /// Empty for an episode that has only a number.
    pub title: String,
    /// Of a film or an album.
    pub year: Option<u32>,
    /// The series of an episode.
    pub series: Option<String>,
    /// The year in the name of a series, which tells it from another one of that name.
    pub series_year: Option<u32>,
    /// 0 has the specials.
    pub season: Option<u32>,
    /// In the season; in the whole series without a `season`.
    pub episode: Option<u32>,
    pub last_episode: Option<u32>,
    /// The day in the name of a daily show or a home video.
    pub aired_on: Option<Date>,
    /// Of music; the author of an audiobook.
    pub artist: Option<String>,
    /// Of music; the book of an audiobook with several files.
    pub album: Option<String>,
    pub disc: Option<u32>,
    pub track: Option<u32>,
}

impl Names {
    fn new(kind: ItemKind, title: String) -> Self {
        Self {
            kind,
            title,
            year: None,
            series: None,
            series_year: None,
            season: None,
            episode: None,
            last_episode: None,
            aired_on: None,
            artist: None,
            album: None,
            disc: None,
            track: None,
        }
    }

    /// Interprets the path of a media file relative to its root. `root` is the name of the root folder, which may state a
    /// category (`Movies`).
    pub fn parse(root: &str, relative_path: &str, media: MediaKind) -> Self {
        let (folders, file) = relative_path.rsplit_once('/').unwrap_or(("", relative_path));
        let folders = Folders::new(root, folders);
        let mut names = match media {
            MediaKind::Audio => audio::parse(&folders, file),
            MediaKind::Video => parse_video(&folders, file_stem(file)),
        };
        if names.title.is_empty() && names.kind != ItemKind::Episode {
            file_stem(file).trim().clone_into(&mut names.title);
        }
        names
    }
}

fn parse_video(folders: &Folders<'_>, stem: &str) -> Names {
    if let Some(title) = extra::title(folders, stem) {
        return Names::new(ItemKind::Extra, title);
    }
    let has_year = || folders.category != Some(Category::Series) && TitleText::parse(stem).year.is_some();
    if let Some(number) = EpisodeNumber::find(stem) {
        // Films have numbers as well: `Star Wars Episode 1 (1999)`, `10x10 (2018)`.
        let is_certain = number.season.is_some() && number.range.start > 0 || folders.season().is_some();
        let is_film = folders.category == Some(Category::Films) && number.season.is_none();
        if is_certain || !is_film && !has_year() {
            return series::episode(folders, stem, number);
        }
    }
    if folders.category == Some(Category::HomeVideos) {
        return home_video::parse(stem);
    }
    if let Some(number) = EpisodeNumber::find_date(stem) {
        return match series::is_daily_show(folders, stem, &number) {
            true => series::episode(folders, stem, number),
            false => home_video::parse(stem),
        };
    }
    if home_video::is_camera_name(stem) {
        return home_video::parse(stem);
    }
    if folders.category == Some(Category::Music) {
        return audio::parse(folders, &format!("{stem}.mkv"));
    }
    if folders.category != Some(Category::Films)
        && let Some(number) = series::unmarked_number(folders, stem)
    {
        return series::episode(folders, stem, number);
    }
    match folders.season() {
        Some(_) => series::special(folders, stem),
        None => film(folders, stem),
    }
}

/// Whether a text may be a title: it has no words of a release, no number of an episode and is no address.
pub fn is_plain_title(text: &str) -> bool {
    let is_address = text.contains("www.") || text.contains("://");
    !is_address && EpisodeNumber::find(text).is_none() && !TitleText::parse(text).is_marked
}

/// A film is named by its file, or by its folder if that says more.
fn film(folders: &Folders<'_>, stem: &str) -> Names {
    let file = TitleText::parse(without_part(stem));
    let folder = folders.nearest().map(TitleText::parse);
    let is_disc_file = folders.is_disc() || extra::is_disc_file(stem);
    let named = match folder {
        Some(folder) if is_disc_file => folder,
        Some(folder) if folder.year.is_some() && folder.is_marked && file.year.is_none() => folder,
        _ => file,
    };
    Names { year: named.year, ..Names::new(ItemKind::Film, named.title) }
}

/// A file name without the number of its part: `-cd1`, ` disc 2`, `.part1`.
fn without_part(stem: &str) -> &str {
    let trimmed = stem.trim_end_matches(|c: char| c.is_ascii_digit());
    if trimmed.len() == stem.len() || stem.len() - trimmed.len() > 2 {
        return stem;
    }
    let lower = trimmed.to_ascii_lowercase();
    for word in ["cd", "disc", "disk", "dvd", "part", "pt", "cd ", "disc ", "disk "] {
        // `Kill Bill Part 2` is a title: a part must not be a word of its own after a space.
        let Some(rest) = lower.strip_suffix(word) else { continue };
        let may_follow: &[char] = if word.starts_with('p') { &['-', '.', '_'] } else { &['-', '.', '_', ' '] };
        if rest.ends_with(may_follow) {
            return trimmed[..rest.len()].trim_end_matches([' ', '-', '.', '_']);
        }
    }
    stem
}

#[cfg(test)]
mod tests;
