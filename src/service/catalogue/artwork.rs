//! Artwork of items, series and seasons: where each kind comes from.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;

use super::Catalogue;
use super::item::{IndexedItem, ItemId, SeriesId, join_path};
use super::series::in_order;
use super::view::IndexView;
use crate::domain::catalogue::ItemKind;
use crate::domain::catalogue::album::album_folder;
use crate::domain::catalogue::artwork::{ArtworkKind, ArtworkName, ArtworkOwner};
use crate::domain::catalogue::names::season_of_folder;
use crate::domain::hash_to_u64;
use crate::domain::library::{file_stem, kind_from_name};
use crate::domain::sniff::MediaKind;
use crate::domain::visibility::VisiblePaths;

/// Images of a folder; further ones are ignored.
pub(super) const MAX_FOLDER_IMAGES: usize = 20_000;

/// Raised whenever frames are chosen by other rules, so that they are made again.
const FRAME_VERSION: u64 = 1;

/// An image that can be made, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artwork {
    /// Changes with its sources.
    pub version: u64,
    /// The best first; never empty.
    pub sources: Vec<ArtworkSource>,
}

/// Where an image comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArtworkSource {
    /// A file of the library.
    File { path: String, version: u64 },
    /// The cover in a media file.
    Cover { path: String, id: ItemId },
    /// A frame of the film.
    Frame { path: String, id: ItemId },
}

/// The kinds of artwork that something has, with the versions of their sources.
pub type ArtworkVersions = Vec<(ArtworkKind, u64)>;

/// The images of one folder. Most folders have a poster and nothing more.
#[derive(Default)]
pub(super) struct FolderImages {
    of_folder: SmallVec<[FolderImage; 1]>,
    of_parts: Option<Box<PartImages>>,
    /// Hash of all of them.
    stamp: u64,
}

/// The images of seasons and files in one folder.
#[derive(Default)]
struct PartImages {
    of_seasons: BTreeMap<u32, Vec<FolderImage>>,
    /// By the name of a media file without its extension, in lower case.
    of_files: BTreeMap<Box<str>, Vec<FolderImage>>,
}

struct FolderImage {
    name: Box<str>,
    kind: Option<ArtworkKind>,
    rank: u8,
    version: u64,
}

impl FolderImage {
    /// The best first.
    fn compare(&self, other: &Self) -> std::cmp::Ordering {
        (self.rank, &self.name).cmp(&(other.rank, &other.name))
    }
}

impl Artwork {
    fn new(sources: Vec<ArtworkSource>) -> Option<Self> {
        let mut hasher = blake3::Hasher::new();
        for source in &sources {
            hasher.update(source.key().as_bytes());
            hasher.update(&[0]);
        }
        (!sources.is_empty()).then(|| Self { version: hash_to_u64(hasher.finalize()), sources })
    }
}

impl ArtworkSource {
    /// Names exactly this content.
    pub fn key(&self) -> String {
        match self {
            Self::File { path, version } => format!("file {version:016x} {path}"),
            Self::Cover { id, .. } => format!("cover {id}"),
            Self::Frame { id, .. } => format!("frame {FRAME_VERSION} {id}"),
        }
    }
}

impl FolderImages {
    /// Of names with length and time (ns).
    pub(super) fn new(mut images: Vec<(String, u64, i64)>) -> Self {
        images.sort();
        let (mut of_folder, mut of_parts) = (SmallVec::new(), PartImages::default());
        let mut stamp = blake3::Hasher::new();
        for (name, size_bytes, modified_ns) in images {
            let Some(parsed) = ArtworkName::parse(&name) else { continue };
            let mut hasher = blake3::Hasher::new();
            hasher.update(name.as_bytes()).update(&size_bytes.to_le_bytes()).update(&modified_ns.to_le_bytes());
            let version = hash_to_u64(hasher.finalize());
            stamp.update(&version.to_le_bytes());
            let image = FolderImage { kind: parsed.kind, rank: parsed.rank, version, name: name.as_str().into() };
            match parsed.owner {
                ArtworkOwner::Folder => of_folder.push(image),
                ArtworkOwner::Season(season) => of_parts.of_seasons.entry(season).or_default().push(image),
                ArtworkOwner::File(stem) => {
                    of_parts.of_files.entry(stem.to_lowercase().into()).or_default().push(image);
                }
            }
        }
        of_folder.sort_by(FolderImage::compare);
        of_folder.shrink_to_fit();
        for images in of_parts.of_seasons.values_mut().chain(of_parts.of_files.values_mut()) {
            images.sort_by(FolderImage::compare);
            images.shrink_to_fit();
        }
        let has_parts = !of_parts.of_seasons.is_empty() || !of_parts.of_files.is_empty();
        let mut found = Self { of_folder, of_parts: has_parts.then(|| Box::new(of_parts)), stamp: 0 };
        if !found.is_empty() {
            found.stamp = hash_to_u64(stamp.finalize());
        }
        found
    }

    pub(super) fn is_empty(&self) -> bool {
        self.of_folder.is_empty() && self.of_parts.is_none()
    }

    fn of_season(&self, season: u32) -> &[FolderImage] {
        self.of_parts.as_ref().and_then(|parts| parts.of_seasons.get(&season)).map_or(&[], |images| images)
    }

    /// Of the media file with this name without its extension, in lower case.
    fn of_file(&self, stem: &str) -> &[FolderImage] {
        self.of_parts.as_ref().and_then(|parts| parts.of_files.get(stem)).map_or(&[], |images| images)
    }

    /// Equal for the same versions of the same files.
    pub(super) fn stamp(&self) -> u64 {
        self.stamp
    }
}

/// The sources of one kind of artwork while they are collected.
struct Sources<'a> {
    index: IndexView<'a>,
    kind: ArtworkKind,
    found: Vec<ArtworkSource>,
}

impl<'a> Sources<'a> {
    /// Adds the images of this kind. `plain` is the kind of images that only repeat the name of a file.
    fn add(&mut self, folder: &str, images: impl IntoIterator<Item = &'a FolderImage>, plain: ArtworkKind) {
        for image in images {
            let source = ArtworkSource::File { path: join_path(folder, &image.name), version: image.version };
            if image.kind.unwrap_or(plain) == self.kind && !self.found.contains(&source) {
                self.found.push(source);
            }
        }
    }

    fn add_folder(&mut self, folder: &str) {
        let images = self.index.images(folder).map(|images| &images.of_folder);
        self.add(folder, images.into_iter().flatten(), ArtworkKind::Poster);
    }

    fn add_file(&mut self, item: &IndexedItem, plain: ArtworkKind) {
        let stem = file_stem(item.name()).to_lowercase();
        let images = self.index.images(&item.folder).map(|images| images.of_file(&stem));
        self.add(&item.folder, images.into_iter().flatten(), plain);
    }

    /// Adds what belongs to the series of an episode, and to its season.
    fn add_series(&mut self, item: &IndexedItem) {
        let place = SeriesPlace::of(item);
        if self.kind == ArtworkKind::Thumbnail {
            return;
        }
        if self.kind == ArtworkKind::Poster {
            self.add_season(item, &place);
        }
        if self.index.is_of_one_work(place.series_folder, item) {
            self.add_folder(place.series_folder);
        }
    }

    fn add_season(&mut self, item: &IndexedItem, place: &SeriesPlace<'_>) {
        let images = self.index.images(place.series_folder);
        let images = images.zip(item.season()).map(|(images, season)| images.of_season(season));
        self.add(place.series_folder, images.into_iter().flatten(), ArtworkKind::Poster);
        if let Some(folder) = place.season_folder {
            self.add_folder(folder);
        }
    }

    fn add_item(&mut self, item: &IndexedItem) {
        let is_video = kind_from_name(item.name()) == Some(MediaKind::Video);
        match item.kind {
            ItemKind::Episode => {
                self.add_file(item, ArtworkKind::Thumbnail);
                self.add_series(item);
            }
            ItemKind::Film | ItemKind::Music | ItemKind::Audiobook => {
                self.add_file(item, ArtworkKind::Poster);
                if item.kind != ItemKind::Film || self.index.is_of_one_work(&item.folder, item) {
                    self.add_folder(&item.folder);
                }
                let above = album_folder(&item.folder);
                if item.kind != ItemKind::Film && *above != *item.folder {
                    self.add_folder(above);
                }
            }
            ItemKind::HomeVideo | ItemKind::Extra => self.add_file(item, ArtworkKind::Thumbnail),
        }
        let (path, id) = (item.path(), item.id);
        // Audio that was not probed yet may have a cover.
        let has_cover = item.has_cover.unwrap_or(!is_video);
        if self.kind == ArtworkKind::Poster && has_cover {
            self.found.push(ArtworkSource::Cover { path, id });
        } else if self.kind == ArtworkKind::Thumbnail && is_video {
            self.found.push(ArtworkSource::Frame { path, id });
        }
    }
}

/// The folders of an episode.
struct SeriesPlace<'a> {
    series_folder: &'a str,
    season_folder: Option<&'a str>,
}

impl<'a> SeriesPlace<'a> {
    fn of(item: &'a IndexedItem) -> Self {
        let folder = &*item.folder;
        let season_folder = folder.rsplit_once('/').filter(|(_, name)| {
            let number = season_of_folder(name).or_else(|| name.parse().ok());
            number.is_some() && number == item.season()
        });
        match season_folder {
            Some((series_folder, _)) => Self { series_folder, season_folder: Some(folder) },
            None => Self { series_folder: folder, season_folder: None },
        }
    }
}

impl IndexView<'_> {
    /// Whether the files in a folder are those of one film or one series, so that its images are theirs.
    fn is_of_one_work(&self, folder: &str, item: &IndexedItem) -> bool {
        let is_same = |other: &IndexedItem| match (other.series(), item.series()) {
            _ if other.kind == ItemKind::Extra => true,
            (Some((other, _)), Some((series, _))) => other == series,
            _ => other.kind == item.kind && other.title() == item.title(),
        };
        self.files_in(folder).all(is_same)
    }

    /// The artwork of an item.
    pub(super) fn artwork_of_item(&self, item: &IndexedItem, kind: ArtworkKind) -> Option<Artwork> {
        let mut sources = Sources { index: *self, kind, found: Vec::new() };
        sources.add_item(item);
        Artwork::new(sources.found)
    }

    /// The artwork of a series, or the poster of one of its seasons (0 for specials). Its thumbnail is that of its first episode.
    pub(super) fn artwork_of_series(&self, id: SeriesId, season: Option<u32>, kind: ArtworkKind) -> Option<Artwork> {
        let episodes = in_order(*self, self.series(id)?);
        let mut sources = Sources { index: *self, kind, found: Vec::new() };
        let mut folders = BTreeSet::new();
        for item in &episodes {
            let place = SeriesPlace::of(item);
            let is_of = |season| item.season() == Some(season) && kind == ArtworkKind::Poster;
            match season {
                Some(season) if is_of(season) && folders.insert(&*item.folder) => sources.add_season(item, &place),
                None if folders.insert(place.series_folder) && self.is_of_one_work(place.series_folder, item) => {
                    sources.add_folder(place.series_folder);
                }
                _ => {}
            }
        }
        if let Some(first) = episodes.first().filter(|_| kind == ArtworkKind::Thumbnail && season.is_none()) {
            sources.add_item(first);
        }
        Artwork::new(sources.found)
    }

    /// The kinds of artwork of an item.
    pub(super) fn artwork_versions(&self, item: &IndexedItem) -> ArtworkVersions {
        versions(|kind| self.artwork_of_item(item, kind))
    }

    /// The kinds of artwork of a series, or of one of its seasons.
    pub(super) fn series_artwork_versions(&self, id: SeriesId, season: Option<u32>) -> ArtworkVersions {
        versions(|kind| self.artwork_of_series(id, season, kind))
    }
}

fn versions(artwork: impl Fn(ArtworkKind) -> Option<Artwork>) -> ArtworkVersions {
    ArtworkKind::ALL.into_iter().filter_map(|kind| Some((kind, artwork(kind)?.version))).collect()
}

impl Catalogue {
    /// The kinds of artwork of an item; empty if there is no such item.
    pub fn item_artwork_versions(&self, paths: &VisiblePaths, id: ItemId) -> ArtworkVersions {
        let index = self.read_index();
        let index = index.seen_in(paths);
        index.by_id(id).map(|item| index.artwork_versions(item)).unwrap_or_default()
    }

    /// Another one whenever the artwork of an item may be another one; the same for the same library.
    pub fn artwork_stamp(&self) -> u64 {
        self.read_index().artwork_stamp()
    }

    /// The artwork of an item; None if there is no such item, or none of this kind.
    pub fn item_artwork(&self, paths: &VisiblePaths, id: ItemId, kind: ArtworkKind) -> Option<Artwork> {
        let index = self.read_index();
        let index = index.seen_in(paths);
        index.artwork_of_item(index.by_id(id)?, kind)
    }

    /// The artwork of a series, or of one of its seasons (0 for specials); None as in [`Self::item_artwork`].
    pub fn series_artwork(
        &self,
        paths: &VisiblePaths,
        id: SeriesId,
        season: Option<u32>,
        kind: ArtworkKind,
    ) -> Option<Artwork> {
        self.read_index().seen_in(paths).artwork_of_series(id, season, kind)
    }
}
