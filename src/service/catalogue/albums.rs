//! Albums of music, and their tracks.

use super::audio_groups::{AudioSummary, track_order};
use super::item::{IndexedItem, ListedItem};
use super::page::{Page, parse_cursor};
use super::query::is_below;
use super::view::IndexView;
use crate::domain::access::Principal;
use crate::domain::catalogue::album::{album_folder, folder_title};
use crate::domain::catalogue::fold::fold;
use crate::domain::catalogue::{AlbumId, AlbumSortKey, ItemKind};
use crate::error::{Code, Error, Result};
use crate::service::Service;

/// Which albums a list has. All conditions apply.
#[derive(Clone, Debug, Default)]
pub struct AlbumFilter {
    /// Of a track.
    pub artist: Option<String>,
    /// Of a track.
    pub genre: Option<String>,
    /// At or below this path.
    pub folder: Option<String>,
}

/// An album in a list.
#[derive(Clone, Debug)]
pub struct ListedAlbum {
    pub id: AlbumId,
    /// Its folder; above those of its discs.
    pub folder: String,
    pub disc_count: usize,
    pub summary: AudioSummary,
}

/// An album with its tracks by disc and number.
pub struct AlbumDetails {
    pub album: ListedAlbum,
    pub tracks: Vec<ListedItem>,
}

impl Service {
    /// A page of albums.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` for an invalid cursor.
    pub fn list_albums(
        &self,
        user: &Principal,
        filter: &AlbumFilter,
        key: AlbumSortKey,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<ListedAlbum>> {
        let after = cursor.map(|cursor| parse_cursor(cursor, AlbumId::parse)).transpose()?;
        let (paths, index) = (self.library.visible_paths(&user.visibility), self.catalogue.read_index());
        let index = index.seen_in(&paths);
        let genres = filter.genre.as_ref().map(|genre| index.genres().find_folded(genre));
        let artist = filter.artist.as_deref().map(fold);
        let matches = |files: &[&IndexedItem]| {
            let is_by = |item: &&IndexedItem| item.artist().map(|artist| fold(artist)) == artist;
            let is_of = |item: &&IndexedItem| genres.iter().flatten().any(|genre| item.genres().contains(genre));
            filter.folder.as_ref().is_none_or(|folder| is_below(album_folder(&files[0].folder), folder))
                && (artist.is_none() || files.iter().any(is_by))
                && (genres.is_none() || files.iter().any(is_of))
        };
        let groups = index.audio_groups(ItemKind::Music).into_iter().filter(|(_, files)| matches(files));
        let albums = groups.filter_map(|(id, files)| {
            let (album, _) = index.album(id, files)?;
            Some(((album.summary.sort_text(key), id), album))
        });
        Ok(Page::cut(albums.collect(), after.as_ref(), limit))
    }

    /// An album with its tracks and the user's progress.
    ///
    /// # Errors
    /// `NOT_FOUND`; `INTERNAL` for a record of progress that cannot be read.
    pub fn album_details(&self, user: &Principal, id: AlbumId) -> Result<AlbumDetails> {
        let (album, mut tracks) = {
            let (paths, index) = (self.library.visible_paths(&user.visibility), self.catalogue.read_index());
            let index = index.seen_in(&paths);
            let files = index.audio_groups(ItemKind::Music).remove(&id);
            let missing = || Error::new(Code::NotFound, "there is no such album in the library");
            let (album, files) = files.and_then(|files| index.album(id, files)).ok_or_else(missing)?;
            (album, files.into_iter().map(|item| index.to_listed(item)).collect::<Vec<_>>())
        };
        self.add_progress(&user.user_id, &mut tracks)?;
        Ok(AlbumDetails { album, tracks })
    }
}

impl IndexView<'_> {
    /// An album, and its tracks in their order; None without tracks.
    pub(super) fn album<'a>(
        &self,
        id: AlbumId,
        mut files: Vec<&'a IndexedItem>,
    ) -> Option<(ListedAlbum, Vec<&'a IndexedItem>)> {
        files.sort_by(|a, b| track_order(a, b));
        let first = files.first()?;
        let title = match first.album() {
            Some(album) => album,
            None => folder_title(&first.folder),
        };
        let mut discs: Vec<Option<u32>> = files.iter().map(|item| item.disc()).collect();
        discs.sort_unstable();
        discs.dedup();
        let album = ListedAlbum {
            id,
            folder: album_folder(&first.folder).to_owned(),
            disc_count: discs.len(),
            summary: self.summarize_audio(title, &files)?,
        };
        Some((album, files))
    }
}
