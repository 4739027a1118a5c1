//! Audio files that belong together: the tracks of an album, and the parts of a book.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::artwork::ArtworkVersions;
use super::item::{IndexedItem, ItemId};
use super::view::IndexView;
use crate::domain::catalogue::artwork::ArtworkKind;
use crate::domain::catalogue::fold::fold;
use crate::domain::catalogue::{AlbumId, AlbumSortKey, ItemKind, sort_title};
use crate::domain::library::compare_natural;

/// The summary of the files of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct AudioSummary {
    pub title: String,
    /// Of all files; None if they have several.
    pub artist: Option<String>,
    pub year: Option<u32>,
    pub file_count: usize,
    /// None until all files were probed.
    pub duration_seconds: Option<f64>,
    /// When the newest file was added, ms since 1970.
    pub added_ms: i64,
    /// The file whose artwork is shown, and the kinds that it has.
    pub artwork: (ItemId, ArtworkVersions),
}

impl<'a> IndexView<'a> {
    /// The groups of a kind, with their files in no order. A file that is a copy counts where it is, but a group
    /// of copies alone is left out.
    pub(super) fn audio_groups(self, kind: ItemKind) -> HashMap<AlbumId, Vec<&'a IndexedItem>> {
        let mut groups: HashMap<AlbumId, Vec<&'a IndexedItem>> = HashMap::new();
        for item in self.files().filter(|item| item.kind == kind) {
            if let Some(id) = item.album_id() {
                groups.entry(id).or_default().push(item);
            }
        }
        groups.retain(|_, files| files.iter().any(|item| self.stands(item)));
        groups
    }

    /// The summary of files in their order; None without any.
    pub(super) fn summarize_audio(&self, title: &str, files: &[&IndexedItem]) -> Option<AudioSummary> {
        let first = files.first()?;
        let is_same_artist = |other: &&IndexedItem| match (first.artist(), other.artist()) {
            (Some(one), Some(other)) => one == other || fold(one) == fold(other),
            (one, other) => one == other,
        };
        let durations = files.iter().map(|item| item.duration_seconds);
        let has_poster = |versions: &ArtworkVersions| versions.iter().any(|(kind, _)| *kind == ArtworkKind::Poster);
        let with_artwork = |item: &&IndexedItem| (item.id, self.artwork_versions(item));
        let shown = files.iter().map(with_artwork).find(|(_, versions)| has_poster(versions));
        Some(AudioSummary {
            title: title.to_owned(),
            artist: first.artist().filter(|_| files.iter().all(is_same_artist)).map(|artist| artist.to_string()),
            year: files.iter().find_map(|item| item.year),
            file_count: files.len(),
            duration_seconds: durations.sum(),
            added_ms: files.iter().map(|item| item.added_ms).max()?,
            artwork: shown.unwrap_or_else(|| with_artwork(first)),
        })
    }
}

/// The order of an album: disc, track, then names.
pub(super) fn track_order(a: &IndexedItem, b: &IndexedItem) -> Ordering {
    let number = |item: &IndexedItem| (item.disc().unwrap_or(0), item.track().unwrap_or(u32::MAX));
    number(a).cmp(&number(b)).then_with(|| path_order(a, b))
}

/// The natural order of paths, as a book is played.
pub(super) fn path_order(a: &IndexedItem, b: &IndexedItem) -> Ordering {
    compare_natural(&a.path(), &b.path())
}

impl AudioSummary {
    /// The text by which it is sorted.
    pub(super) fn sort_text(&self, key: AlbumSortKey) -> String {
        let title = || fold(sort_title(&self.title));
        let year = self.year.unwrap_or(0).min(9999);
        // Albums without a single artist are last.
        let artist = || self.artist.as_deref().map_or("~".to_owned(), |artist| fold(sort_title(artist)));
        match key {
            AlbumSortKey::Artist => format!("{}\t{year:04}\t{}", artist(), title()),
            AlbumSortKey::Title => title(),
            AlbumSortKey::Added => format!("{:020}", i64::MAX - self.added_ms.max(0)),
            AlbumSortKey::Year => format!("{:04}\t{}", 9999 - year, title()),
        }
    }
}
