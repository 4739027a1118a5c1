//! Music and audiobooks: artist, album and track, from folders and file name.

use super::folders::{Category, Folders, disc_number};
use super::scan::{number_at, skip};
use super::title_text::TitleText;
use super::{ItemKind, Names, file_stem, fold, readable};

/// Words for a part of a book, in lower case and folded.
const PART_WORDS: [&str; 8] = ["chapter", "kapitel", "part", "teil", "track", "cd", "disc", "file"];

pub(super) fn parse(folders: &Folders<'_>, file: &str) -> Names {
    let extension = file.rsplit_once('.').map_or("", |(_, extension)| extension);
    let is_book = extension.eq_ignore_ascii_case("m4b") || folders.category == Some(Category::Audiobooks);
    if is_book { book(folders, file_stem(file)) } else { music(folders, file_stem(file)) }
}

fn music(folders: &Folders<'_>, stem: &str) -> Names {
    let named = named_folders(folders);
    let disc = folders.named.iter().rev().find_map(|folder| disc_number(folder));
    let album = named.last().map(|folder| album_of(folder));
    let outside = named.len().checked_sub(2).map(|at| readable(named[at]));
    let (file_disc, track, rest) = track_number(stem);
    // `Artist - Album - 01 - Title`, `Artist - 01 - Title`, `Artist - Title`
    let mut parts: Vec<&str> = rest.split(" - ").map(str::trim).filter(|part| !part.is_empty()).collect();
    let mut track = track;
    if track.is_none()
        && let Some(at) = parts.iter().position(|part| is_track(part)).filter(|at| *at > 0 && *at + 1 < parts.len())
    {
        track = parts[at].parse().ok();
        parts.remove(at);
    }
    let title = parts.last().map_or_else(|| readable(rest), |title| readable(title));
    let (folder_artist, folder_album, year) = match album {
        Some((artist, album, year)) => (artist, Some(album), year),
        None => (None, None, None),
    };
    let file_artist = (parts.len() >= 2).then(|| readable(parts[0]));
    let file_album = (parts.len() >= 3).then(|| readable(parts[1]));
    // `Artist/Title.mp3`: one folder without a number in the file is an artist.
    let is_artist_only = named.len() == 1 && folder_artist.is_none() && year.is_none() && track.is_none();
    let (artist, album) = match (is_artist_only, file_artist) {
        (true, Some(artist)) if folder_album.as_ref().is_some_and(|folder| fold(folder) != fold(&artist)) => {
            (Some(artist), folder_album)
        }
        (true, _) => (folder_album, file_album),
        (false, file_artist) => (folder_artist.or(outside).or(file_artist), folder_album.or(file_album)),
    };
    Names { year, artist, album, disc: disc.or(file_disc), track, ..Names::new(ItemKind::Music, title) }
}

fn book(folders: &Folders<'_>, stem: &str) -> Names {
    let named = named_folders(folders);
    let (_, track, rest) = track_number(stem);
    let disc = folders.named.iter().rev().find_map(|folder| disc_number(folder));
    let has_part_name = fold(rest)
        .split(' ')
        .all(|word| word.is_empty() || PART_WORDS.contains(&word) || word.bytes().all(|byte| byte.is_ascii_digit()));
    let (author, album, year) = match &*named {
        [] => (None, None, None),
        [only] => {
            let (author, title, year) = album_of(only);
            match author {
                Some(author) => (Some(author), Some(title), year),
                // `Author/Title.m4b` or `Title/01.mp3`
                None if track.is_none() && !has_part_name && fold(&title) != fold(&readable(rest)) => {
                    (Some(title), None, None)
                }
                None => (None, Some(title), year),
            }
        }
        [author, .., last] => {
            let (_, title, year) = album_of(last);
            (Some(readable(author)), Some(title), year)
        }
    };
    let parts: Vec<&str> = rest.split(" - ").map(str::trim).filter(|part| !part.is_empty()).collect();
    let file_author = (author.is_none() && album.is_none() && parts.len() >= 2).then(|| readable(parts[0]));
    let is_author = |part: &str| author.as_ref().is_some_and(|author| fold(author) == fold(part));
    let own = match &*parts {
        [first, title @ ..] if !title.is_empty() && (file_author.is_some() || is_author(first)) => title.join(" - "),
        _ => rest.to_owned(),
    };
    let own = TitleText::parse(&own);
    let number = if track.is_none() && has_part_name { first_number(rest) } else { track };
    let title = if has_part_name { readable(stem) } else { own.title };
    Names {
        year: year.or(own.year),
        artist: author.or(file_author),
        album,
        disc,
        track: number,
        ..Names::new(ItemKind::Audiobook, title)
    }
}

/// The folders that have names of works: without discs.
fn named_folders<'a>(folders: &Folders<'a>) -> Vec<&'a str> {
    folders.named.iter().filter(|folder| disc_number(folder).is_none()).copied().collect()
}

/// Artist, title and year of an album by its folder: `Album (1992)`, `1992 - Album`, `Artist - Album [FLAC]`.
fn album_of(folder: &str) -> (Option<String>, String, Option<u32>) {
    let leading_year = folder.split_once(" - ").and_then(|(year, album)| {
        let year = year.trim().trim_matches(['(', ')', '[', ']']);
        let (number, end) = number_at(year.as_bytes(), 0, 4..=4)?;
        (end == year.len() && (1900..2100).contains(&number)).then_some((number, album))
    });
    if let Some((year, album)) = leading_year {
        return (None, TitleText::parse(album).title, Some(year));
    }
    let TitleText { title, year, .. } = TitleText::parse(folder);
    // `001 - Title` has the number of a volume.
    let is_artist = |name: &str| !name.bytes().all(|byte| byte.is_ascii_digit());
    match title.split_once(" - ").filter(|(name, _)| is_artist(name)) {
        Some((artist, album)) => {
            let own_year = album.split_once(" - ").and_then(|(year, rest)| Some((year.trim().parse().ok()?, rest)));
            let own_year = own_year.filter(|(year, _): &(u32, &str)| (1900..2100).contains(year));
            let (year, album) = own_year.map_or((year, album), |(year, album)| (Some(year), album));
            (Some(artist.trim().to_owned()), album.trim().to_owned(), year)
        }
        None => (None, title, year),
    }
}

/// Disc and track at the start of a name, and the rest: `01 - Title`, `1-01 Title`, `01. Title`, `01 Title`.
fn track_number(stem: &str) -> (Option<u32>, Option<u32>, &str) {
    let text = stem.as_bytes();
    let Some((first, end)) = number_at(text, 0, 1..=3) else { return (None, None, stem) };
    let second = text.get(end).filter(|byte| matches!(byte, b'-' | b'.')).and_then(|_| number_at(text, end + 1, 2..=2));
    let (disc, track, end) = match second {
        Some((track, end)) if first < 30 => (Some(first), track, end),
        _ => (None, first, end),
    };
    let rest = skip(text, end, b" .-_)", 4);
    // `99 Luftballons` in a folder of an artist has no number, but `99 - Luftballons` has one.
    let is_plain_number = rest == end && end < text.len();
    let is_long = end - usize::from(disc.is_some()) < 2 && rest == end + 1 && text.get(end) == Some(&b' ');
    if is_plain_number || is_long || rest == text.len() && end > 3 {
        return (None, None, stem);
    }
    (disc, Some(track), if rest == text.len() { stem } else { &stem[rest..] })
}

fn is_track(part: &str) -> bool {
    (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
}

fn first_number(text: &str) -> Option<u32> {
    let digits: String = text.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    digits.parse().ok().filter(|number| *number < 10_000)
}
