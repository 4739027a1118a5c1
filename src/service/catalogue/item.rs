//! One item in memory, and as it is listed.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::artwork::ArtworkVersions;
use super::view::IndexView;
use crate::domain::catalogue::fold::fold;
use crate::domain::catalogue::{AlbumId, Facts, ItemKind};
pub use crate::domain::catalogue::{ItemId, SeriesId};
use crate::domain::hash_to_u64;
use crate::domain::progress::ProgressRecord;
use crate::engine::folder::EntryTarget;
use jiff::civil::Date;

/// Genres and people of an item by which it is found. Its details have all.
pub(super) const MAX_GENRES: usize = 16;
pub(super) const MAX_PEOPLE: usize = 32;

/// Longest key by which items are sorted, bytes.
const MAX_SORT_KEY_BYTES: usize = 160;

/// Longest name of a file, bytes: Linux has no longer path (`PATH_MAX`).
pub(super) const MAX_NAME_BYTES: usize = 4096;

/// Longest title in memory, bytes. Longer ones are cut.
const MAX_TITLE_BYTES: usize = 4096;

/// One file of the library in memory.
pub(super) struct IndexedItem {
    pub id: ItemId,
    pub folder: Arc<str>,
    pub texts: ItemTexts,
    pub size_bytes: u64,
    pub modified_ns: i64,
    pub added_ms: i64,
    pub nfo_stamp: u64,
    pub is_probed: bool,
    pub duration_seconds: Option<f64>,
    /// Whether a cover is embedded; None until it was probed.
    pub has_cover: Option<bool>,
    pub kind: ItemKind,
    pub year: Option<u32>,
    /// None of what is not an episode.
    pub of_series: Option<Box<SeriesFields>>,
    /// None of what has no artist and no album.
    pub of_album: Option<Box<AlbumFields>>,
    pub released_on: Option<Date>,
    pub pooled: PooledTexts,
    /// Another file has the same content and stands for both.
    pub is_copy: bool,
}

// A library has very many items, and the allocator gives memory in steps of 16 bytes.
const _: () = assert!(size_of::<IndexedItem>() <= 160);

/// Texts that each item has, in one allocation: the name, the sort key, the title if it is no part of the name, and the stated
/// sort title.
pub(super) struct ItemTexts {
    all: Box<str>,
    name_end: u16,
    sort_key_end: u16,
    title_start: u16,
    title_end: u16,
}

impl ItemTexts {
    /// Of a name and a sort key with at most [`MAX_NAME_BYTES`] and [`MAX_SORT_KEY_BYTES`]. The sort title is empty if it is the title without its article.
    pub(super) fn new(name: &str, title: &str, sort_key: &str, stated_sort_title: &str) -> Self {
        let title = &title[..title.floor_char_boundary(MAX_TITLE_BYTES)];
        let (title_at, own_title) = match name.find(title) {
            Some(at) => (at, ""),
            None => (name.len() + sort_key.len(), title),
        };
        Self {
            all: [name, sort_key, own_title, stated_sort_title].concat().into(),
            name_end: name.len() as u16,
            sort_key_end: (name.len() + sort_key.len()) as u16,
            title_start: title_at as u16,
            title_end: (title_at + title.len()) as u16,
        }
    }

    pub(super) fn name(&self) -> &str {
        self.range(0, self.name_end)
    }

    pub(super) fn title(&self) -> &str {
        self.range(self.title_start, self.title_end)
    }

    pub(super) fn sort_key(&self) -> &str {
        self.range(self.name_end, self.sort_key_end)
    }

    pub(super) fn stated_sort_title(&self) -> &str {
        &self.all[usize::from(self.title_end.max(self.sort_key_end))..]
    }

    fn range(&self, start: u16, end: u16) -> &str {
        &self.all[usize::from(start)..usize::from(end)]
    }
}

/// Numbers of pooled texts, in one allocation: the number of genres, the genres, the people. Empty without both.
pub(super) struct PooledTexts(Box<[u32]>);

impl PooledTexts {
    pub(super) fn new(genres: &[u32], people: &[u32]) -> Self {
        match genres.len() + people.len() {
            0 => Self(Box::default()),
            _ => Self([&[genres.len() as u32], genres, people].concat().into()),
        }
    }

    /// The genres, and the people.
    pub(super) fn lists(&self) -> (&[u32], &[u32]) {
        let (genre_count, all) = self.0.split_first().unwrap_or((&0, &[]));
        all.split_at(*genre_count as usize)
    }
}

/// The fields of an episode.
#[derive(Default, PartialEq)]
pub(super) struct SeriesFields {
    pub series: Option<(SeriesId, Arc<str>)>,
    /// The year in the name of its series.
    pub series_year: Option<u32>,
    pub season: Option<u32>,
    pub episode: Option<u32>,
    pub last_episode: Option<u32>,
}

/// The fields of music, and of audiobooks.
#[derive(Default, PartialEq)]
pub(super) struct AlbumFields {
    pub artist: Option<Arc<str>>,
    pub album: Option<Arc<str>>,
    /// The identity of its album, or of the book of which it is a part.
    pub album_id: Option<AlbumId>,
    pub disc: Option<u32>,
    pub track: Option<u32>,
}

impl IndexedItem {
    /// The item with the fields of its kind; those without a value take no memory.
    pub(super) fn with_fields(self, series: SeriesFields, album: AlbumFields) -> Self {
        let of_series = (series != SeriesFields::default()).then(|| Box::new(series));
        let of_album = (album != AlbumFields::default()).then(|| Box::new(album));
        Self { of_series, of_album, ..self }
    }

    /// Its name in the folder.
    pub(super) fn name(&self) -> &str {
        self.texts.name()
    }

    pub(super) fn title(&self) -> &str {
        self.texts.title()
    }

    /// Sorts items by title: episodes by series and number, music by artist, album and number.
    pub(super) fn sort_key(&self) -> &str {
        self.texts.sort_key()
    }

    pub(super) fn genres(&self) -> &[u32] {
        self.pooled.lists().0
    }

    pub(super) fn people(&self) -> &[u32] {
        self.pooled.lists().1
    }

    pub(super) fn series(&self) -> Option<&(SeriesId, Arc<str>)> {
        self.of_series.as_ref()?.series.as_ref()
    }

    pub(super) fn series_year(&self) -> Option<u32> {
        self.of_series.as_ref()?.series_year
    }

    pub(super) fn season(&self) -> Option<u32> {
        self.of_series.as_ref()?.season
    }

    pub(super) fn episode(&self) -> Option<u32> {
        self.of_series.as_ref()?.episode
    }

    pub(super) fn last_episode(&self) -> Option<u32> {
        self.of_series.as_ref()?.last_episode
    }

    pub(super) fn artist(&self) -> Option<&Arc<str>> {
        self.of_album.as_ref()?.artist.as_ref()
    }

    pub(super) fn album(&self) -> Option<&Arc<str>> {
        self.of_album.as_ref()?.album.as_ref()
    }

    pub(super) fn album_id(&self) -> Option<AlbumId> {
        self.of_album.as_ref()?.album_id
    }

    pub(super) fn disc(&self) -> Option<u32> {
        self.of_album.as_ref()?.disc
    }

    pub(super) fn track(&self) -> Option<u32> {
        self.of_album.as_ref()?.track
    }

    pub(super) fn sort_title(&self) -> &str {
        match self.texts.stated_sort_title() {
            "" => crate::domain::catalogue::sort_title(self.title()),
            stated => stated,
        }
    }

    pub(super) fn path(&self) -> String {
        join_path(&self.folder, self.name())
    }

    /// The length and time of its file, as a folder reports them.
    pub(super) fn version(&self) -> EntryTarget {
        let modified_ns = u64::try_from(self.modified_ns).unwrap_or(0);
        EntryTarget::File {
            size_bytes: self.size_bytes,
            modified: SystemTime::UNIX_EPOCH + Duration::from_nanos(modified_ns),
        }
    }

    /// Another one if its own artwork may be another one.
    pub(super) fn artwork_hash(&self) -> u64 {
        let mut hasher = blake3::Hasher::new();
        for text in [&*self.folder, self.name(), self.title(), &self.id.to_string()] {
            hasher.update(text.as_bytes()).update(&[0]);
        }
        hasher.update(&[self.has_cover.map_or(2, u8::from)]);
        hash_to_u64(hasher.finalize())
    }

    /// The text by which it is found, beside its title and people.
    pub(super) fn context(&self) -> String {
        let series = self.series().map(|(_, name)| name);
        let parts = [series, self.artist(), self.album()];
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
    pub album_id: Option<AlbumId>,
    pub disc: Option<u32>,
    pub track: Option<u32>,
    pub released_on: Option<Date>,
    pub genres: Vec<String>,
    /// None until it was probed.
    pub duration_seconds: Option<f64>,
    pub size_bytes: u64,
    pub added_ms: i64,
    pub artwork: ArtworkVersions,
    pub progress: Option<ProgressRecord>,
}

impl IndexView<'_> {
    /// The form of an item in a list, without progress.
    pub(super) fn to_listed(self, item: &IndexedItem) -> ListedItem {
        let owned = |text: Option<&Arc<str>>| text.map(|text| text.to_string());
        ListedItem {
            id: item.id,
            kind: item.kind,
            path: item.path(),
            title: item.title().to_owned(),
            sort_title: item.sort_title().to_owned(),
            year: item.year,
            series: item.series().map(|(id, name)| (*id, name.to_string())),
            season: item.season(),
            episode: item.episode(),
            last_episode: item.last_episode(),
            artist: owned(item.artist()),
            album: owned(item.album()),
            album_id: item.album_id(),
            disc: item.disc(),
            track: item.track(),
            released_on: item.released_on,
            genres: item.genres().iter().map(|genre| self.genres().get(*genre).to_owned()).collect(),
            duration_seconds: item.duration_seconds,
            size_bytes: item.size_bytes,
            added_ms: item.added_ms,
            artwork: self.artwork_versions(item),
            progress: None,
        }
    }
}
