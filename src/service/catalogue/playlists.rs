//! Playlist files of the library, and the items that they list.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use super::Catalogue;
use super::item::{ItemId, join_path};
use super::scan::split_path;
use super::view::IndexView;
use crate::domain::catalogue::playlist_file::{MAX_PLAYLIST_BYTES, parse_playlist};
use crate::domain::library::file_stem;
use crate::domain::visibility::VisiblePaths;
use crate::engine::source::Roots;
use crate::error::{Code, Error, Result};
use crate::service::Service;

/// Most playlists kept; further ones select nothing.
const MAX_PLAYLISTS: usize = 10_000;

/// Paths of all playlists in memory, bytes.
const MAX_PATHS_BYTES: usize = 32 << 20;

/// Memory of a path beside its text, bytes.
const PATH_OVERHEAD_BYTES: usize = 16;

/// A playlist in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaylistSummary {
    pub path: String,
    /// The name of the file without its extension.
    pub name: String,
    /// Files that it lists.
    pub file_count: usize,
    /// Those of them that are items of the library.
    pub item_count: usize,
}

/// Playlists by folder and name.
#[derive(Debug, Default)]
pub(super) struct Playlists {
    by_place: BTreeMap<(Box<str>, Box<str>), Playlist>,
    paths_bytes: usize,
}

/// One file, as it was read.
#[derive(Debug, PartialEq, Eq)]
struct Playlist {
    /// Length and time (ns).
    version: (u64, i64),
    paths: Box<[Box<str>]>,
}

impl Playlist {
    fn paths_bytes(&self) -> usize {
        self.paths.iter().map(|path| path.len() + PATH_OVERHEAD_BYTES).sum()
    }
}

impl Playlists {
    /// Whether a file was read in this version.
    pub(super) fn is_known(&self, folder: &str, name: &str, version: (u64, i64)) -> bool {
        self.by_place.get(&(folder.into(), name.into())).is_some_and(|playlist| playlist.version == version)
    }

    /// Stores the paths of a playlist; without paths beyond the bounds.
    pub(super) fn put(&mut self, folder: &str, name: &str, version: (u64, i64), paths: Vec<String>) {
        let place = (folder.into(), name.into());
        self.remove(&place);
        let mut playlist = Playlist { version, paths: paths.into_iter().map(String::into_boxed_str).collect() };
        if self.paths_bytes + playlist.paths_bytes() > MAX_PATHS_BYTES || self.by_place.len() >= MAX_PLAYLISTS {
            tracing::warn!(media.path = join_path(folder, name), "a playlist is not used: there are too many");
            playlist.paths = Box::default();
        }
        if self.by_place.len() < MAX_PLAYLISTS {
            self.paths_bytes += playlist.paths_bytes();
            self.by_place.insert(place, playlist);
        }
    }

    /// Removes the playlists of a folder that do not exist; returns whether there were any.
    pub(super) fn retain(&mut self, folder: &str, exists: impl Fn(&str) -> bool) -> bool {
        let gone: Vec<_> = self.in_folder(folder).filter(|(_, name)| !exists(name)).cloned().collect();
        gone.iter().for_each(|place| self.remove(place));
        !gone.is_empty()
    }

    /// The paths of a playlist, in its order.
    pub(super) fn paths(&self, path: &str) -> &[Box<str>] {
        let (folder, name) = split_path(path);
        self.by_place.get(&(folder.into(), name.into())).map_or(&[], |playlist| &playlist.paths)
    }

    fn remove(&mut self, place: &(Box<str>, Box<str>)) {
        if let Some(playlist) = self.by_place.remove(place) {
            self.paths_bytes -= playlist.paths_bytes();
        }
    }

    /// The folder and name of each, with the number of files that it lists.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &str, usize)> {
        self.by_place.iter().map(|((folder, name), playlist)| (&**folder, &**name, playlist.paths.len()))
    }

    /// Their folders, one for each playlist.
    pub(super) fn folders(&self) -> impl Iterator<Item = &str> {
        self.by_place.keys().map(|(folder, _)| &**folder)
    }

    fn in_folder<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a (Box<str>, Box<str>)> {
        let from = Bound::Included((folder.into(), Box::from("")));
        let places = self.by_place.range((from, Bound::Unbounded)).map(|(place, _)| place);
        places.take_while(move |(own, _)| **own == *folder)
    }
}

impl IndexView<'_> {
    /// The items of a playlist with their places in it.
    pub(super) fn playlist_places(&self, path: &str) -> HashMap<ItemId, usize> {
        let mut places = HashMap::new();
        for (at, path) in self.playlist_paths(path).iter().enumerate() {
            let (folder, name) = split_path(path);
            if let Some(item) = self.file(folder, name) {
                places.entry(item.id).or_insert(at);
            }
        }
        places
    }
}

impl Catalogue {
    /// The playlists that a user sees, by path.
    pub fn playlists(&self, paths: &VisiblePaths) -> Vec<PlaylistSummary> {
        let index = self.read_index();
        let index = index.seen_in(paths);
        let summary = |(folder, name, file_count): (&str, &str, usize)| {
            let path = join_path(folder, name);
            let item_count = index.playlist_places(&path).len();
            PlaylistSummary { name: file_stem(name).to_owned(), file_count, item_count, path }
        };
        index.all_playlists().map(summary).collect()
    }
}

/// A playlist file in a folder.
#[derive(Clone, Debug)]
pub(super) struct PlaylistFile {
    pub name: String,
    /// Length and time (ns).
    pub version: (u64, i64),
}

/// Reads those playlists of a folder that are new or were changed, and removes those that are gone; returns whether any was.
pub(super) async fn update_playlists(service: &Arc<Service>, folder: &str, files: &[PlaylistFile]) -> Result<bool> {
    let catalogue = &service.catalogue;
    let mut is_changed =
        catalogue.write_index().playlists.retain(folder, |name| files.iter().any(|file| file.name == name));
    for PlaylistFile { name, version } in files {
        if catalogue.read_index().playlists.is_known(folder, name, *version) {
            continue;
        }
        let path = join_path(folder, name);
        let root = service.library.roots().locate(&path)?.root_index;
        let roots = service.library.roots().clone();
        let read = service.library.run_with_deadline(root, move || read_file(&roots, &path)).await;
        match read {
            Ok(bytes) => {
                let paths = parse_playlist(folder, &bytes);
                catalogue.write_index().playlists.put(folder, name, *version, paths);
                is_changed = true;
            }
            Err(fault) => tracing::info!(%fault, media.path = folder, "a playlist was not read"),
        }
    }
    Ok(is_changed)
}

/// Blocks on the file system.
fn read_file(roots: &Roots, path: &str) -> Result<Vec<u8>> {
    let source = roots.open_file(path)?;
    let mut bytes = vec![0; MAX_PLAYLIST_BYTES.min(source.len as usize)];
    let unreadable =
        |cause: std::io::Error| Error::new(Code::SourceReadFailed, "the playlist could not be read").with_cause(cause);
    let count = source.read_blocking(&mut bytes, 0).map_err(unreadable)?;
    bytes.truncate(count);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_removed_or_too_much_is_not_kept() {
        let mut playlists = Playlists::default();
        let paths = |count: usize| (0..count).map(|n| format!("/l/{n:>0200}.mp3")).collect::<Vec<_>>();
        playlists.put("/l", "a.m3u", (1, 1), paths(3));
        playlists.put("/l", "b.m3u", (1, 1), paths(2));
        playlists.put("/l/m", "c.m3u", (1, 1), paths(1));
        assert!(playlists.is_known("/l", "a.m3u", (1, 1)) && !playlists.is_known("/l", "a.m3u", (1, 2)));
        playlists.put("/l", "a.m3u", (1, 2), paths(1));
        assert_eq!(playlists.paths("/l/a.m3u").len(), 1);
        assert!(playlists.retain("/l", |name| name == "b.m3u") && !playlists.retain("/l", |name| name == "b.m3u"));
        assert!(playlists.paths("/l/a.m3u").is_empty() && playlists.paths("/l/m/c.m3u").len() == 1);
        let path_bytes = paths(1)[0].len() + PATH_OVERHEAD_BYTES;
        assert_eq!(playlists.paths_bytes, 3 * path_bytes);
        let fitting = MAX_PATHS_BYTES / path_bytes;
        playlists.put("/l", "large.m3u", (1, 1), paths(fitting));
        assert!(playlists.paths("/l/large.m3u").is_empty() && playlists.is_known("/l", "large.m3u", (1, 1)));
        playlists.put("/l", "large.m3u", (1, 1), paths(fitting - 3));
        assert_eq!(playlists.paths("/l/large.m3u").len(), fitting - 3);
    }
}
