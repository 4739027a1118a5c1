//! Albums, and books of several files: which audio files belong together.

use super::fold::fold;
use super::ids::AlbumId;
use super::names::is_disc_folder;
use super::{Facts, ItemKind};

/// The folder of an album, by that of one of its files: the one above, if that has a single disc (`CD1`).
pub fn album_folder(folder: &str) -> &str {
    match folder.rsplit_once('/') {
        Some((above, name)) if is_disc_folder(name) && !above.is_empty() => above,
        _ => folder,
    }
}

/// The title of the album of tracks that state none: the name of their folder.
pub fn folder_title(folder: &str) -> &str {
    let folder = album_folder(folder);
    folder.rsplit_once('/').map_or(folder, |(_, name)| name)
}

/// Whether an audio file is a whole book by its name.
pub fn is_whole_book(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, extension)| extension.eq_ignore_ascii_case("m4b"))
}

impl AlbumId {
    /// The album of a file of music, or the book of which an audio file is a part. Files are of one album if its title is the same and
    /// they are in one folder, or in the folders of its discs. Music without a title of an album is of that of its folder.
    pub fn of_file(folder: &str, name: &str, facts: &Facts) -> Option<Self> {
        let title = match facts.kind {
            ItemKind::Music => facts.album.as_deref().unwrap_or_else(|| folder_title(folder)),
            ItemKind::Audiobook if !is_whole_book(name) => facts.album.as_deref()?,
            _ => return None,
        };
        Some(Self::new(facts.kind, album_folder(folder), &fold(title)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Sources;
    use super::super::names::Names;
    use super::*;
    use crate::domain::library::kind_from_name;

    fn album(path: &str) -> Option<AlbumId> {
        let (folder, name) = path.rsplit_once('/').unwrap();
        let (root, rest) = path.split_once('/').unwrap();
        let names = Names::parse(root, rest, kind_from_name(name).unwrap());
        AlbumId::of_file(
            folder,
            name,
            &Facts::merge(&Sources { chosen_title: None, nfo: None, tags: None, names: &names }),
        )
    }

    #[test]
    fn files_of_one_album_or_book_belong_together() {
        for (one, other) in [
            ("Music/ABBA/Gold (1992)/01 - Dancing Queen.mp3", "Music/ABBA/Gold (1992)/02 - Waterloo.flac"),
            ("Music/ABBA/Gold/CD1/01 - A.mp3", "Music/ABBA/Gold/CD 2/01 - B.mp3"),
            ("Music/one.mp3", "Music/two.mp3"),
            ("Audiobooks/Verne/The Island/01.mp3", "Audiobooks/Verne/The Island/02.mp3"),
            ("Audiobooks/Verne/The Island/Disc 1/01.mp3", "Audiobooks/Verne/The Island/Disc 2/01.mp3"),
        ] {
            assert!(album(one).is_some() && album(one) == album(other), "{one}");
        }
        for (one, other) in [
            ("Music/ABBA/Gold/01 - A.mp3", "Music/Queen/Gold/01 - A.mp3"),
            ("Music/ABBA/Gold/01 - A.mp3", "Music/ABBA/Waterloo/01 - A.mp3"),
        ] {
            assert!(album(one).is_some() && album(one) != album(other), "{one}");
        }
        for alone in
            ["Audiobooks/Verne/The Island/The Island.m4b", "Audiobooks/Verne/The Island.mp3", "Movies/Gold.mkv"]
        {
            assert_eq!(album(alone), None, "{alone}");
        }
    }
}
