//! Artists of music, and authors of audiobooks.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::artwork::ArtworkVersions;
use super::item::{IndexedItem, ItemId};
use super::page::{Page, parse_cursor};
use super::view::IndexView;
use crate::domain::access::Principal;
use crate::domain::catalogue::artwork::ArtworkKind;
use crate::domain::catalogue::fold::fold;
use crate::domain::catalogue::{AlbumId, ArtistSortKey, ItemKind, sort_title};
use crate::error::Result;
use crate::service::Service;

/// An artist in a list.
#[derive(Clone, Debug)]
pub struct ListedArtist {
    /// As most of the files have it.
    pub name: String,
    /// Albums, or books of several files, with a file of the artist.
    pub album_count: usize,
    pub file_count: usize,
    /// When the newest file was added, ms since 1970.
    pub added_ms: i64,
    /// The newest file that has a cover, otherwise the newest one, and the kinds of artwork that it has.
    pub artwork: (ItemId, ArtworkVersions),
}

/// The files of one artist.
#[derive(Default)]
struct ArtistFiles<'a> {
    /// The ways in which the name is written, and how many files have each.
    names: Vec<(&'a str, usize)>,
    albums: HashSet<AlbumId>,
    files: Vec<&'a IndexedItem>,
}

impl Service {
    /// A page of the artists of music, or of the authors of audiobooks. Names that differ in case or diacritics are of one artist.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` for an invalid cursor.
    pub fn list_artists(
        &self,
        user: &Principal,
        kind: ItemKind,
        key: ArtistSortKey,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<ListedArtist>> {
        let after = cursor.map(|cursor| parse_cursor(cursor, |id| Some(id.to_owned()))).transpose()?;
        let (paths, index) = (self.library.visible_paths(&user.visibility), self.catalogue.read_index());
        let index = index.seen_in(&paths);
        let artists = index.artists(kind).into_iter().map(|(folded, artist)| {
            let text = match key {
                ArtistSortKey::Name => fold(sort_title(artist.name())),
                ArtistSortKey::Added => format!("{:020}", i64::MAX - artist.added_ms().max(0)),
            };
            // A cursor divides id and text by a space.
            ((text, folded.replace(' ', "_")), artist)
        });
        let page = Page::cut(artists.collect(), after.as_ref(), limit);
        Ok(page.map(|artist| index.to_listed_artist(&artist)))
    }
}

impl<'a> IndexView<'a> {
    /// All artists of a kind by their folded names.
    fn artists(self, kind: ItemKind) -> HashMap<String, ArtistFiles<'a>> {
        let mut by_name: HashMap<&str, Vec<&'a IndexedItem>> = HashMap::new();
        for item in self.files().filter(|item| item.kind == kind && self.stands(item)) {
            if let Some(name) = item.artist() {
                by_name.entry(name).or_default().push(item);
            }
        }
        let mut artists: HashMap<String, ArtistFiles<'a>> = HashMap::new();
        for (name, files) in by_name {
            let artist = artists.entry(fold(name)).or_default();
            artist.names.push((name, files.len()));
            artist.albums.extend(files.iter().filter_map(|item| item.album_id()));
            artist.files.extend(files);
        }
        artists.remove("");
        artists
    }

    fn to_listed_artist(self, artist: &ArtistFiles<'_>) -> ListedArtist {
        let mut newest_first = artist.files.clone();
        newest_first.sort_unstable_by_key(|item| (Reverse(item.added_ms), item.id));
        let with_artwork = |item: &&IndexedItem| (item.id, self.artwork_versions(item));
        let has_poster =
            |(_, versions): &(ItemId, ArtworkVersions)| versions.iter().any(|(kind, _)| *kind == ArtworkKind::Poster);
        // Never without files.
        let newest = newest_first[0];
        ListedArtist {
            name: artist.name().to_owned(),
            album_count: artist.albums.len(),
            file_count: artist.files.len(),
            added_ms: newest.added_ms,
            artwork: newest_first.iter().map(with_artwork).find(has_poster).unwrap_or_else(|| with_artwork(&newest)),
        }
    }
}

impl ArtistFiles<'_> {
    /// The name that most files have; of several, the first one.
    fn name(&self) -> &str {
        let most = self.names.iter().max_by_key(|(name, count)| (*count, Reverse(*name)));
        most.map_or("", |(name, _)| name)
    }

    fn added_ms(&self) -> i64 {
        self.files.iter().map(|item| item.added_ms).max().unwrap_or(0)
    }
}
