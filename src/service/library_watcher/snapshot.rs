//! The content of a root at the last scan, and what differs now.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Bound;
use std::sync::Arc;
use std::time::SystemTime;

use crate::domain::catalogue::artwork::{is_artwork, media_stems};
use crate::domain::catalogue::playlist_file::is_playlist_name;
use crate::domain::compact_map;
use crate::domain::library::kind_from_name;
use crate::engine::folder::{EntryHint, EntryTarget};
use crate::engine::source::Roots;

/// Files tracked per root; further files are not watched.
const MAX_FILES: usize = 500_000;

/// Nested folders at most.
const MAX_DEPTH: usize = 32;

/// Folders, and the media files, NFO files, images and playlists in them.
#[derive(Default)]
pub struct RootSnapshot {
    folders: BTreeMap<Arc<str>, Box<[TrackedFile]>>,
    file_count: usize,
}

/// A file as it was at the last scan, 16 bytes. A folder has them in the order of the hashes of their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TrackedFile {
    name_hash: u64,
    /// Of its length and time.
    version_hash: u64,
}

/// A file that a scan found.
struct FoundFile {
    name: String,
    size_bytes: u64,
    tracked: TrackedFile,
}

impl FoundFile {
    fn new(name: String, size_bytes: u64, modified: SystemTime) -> Self {
        let tracked = TrackedFile { name_hash: hash(&name), version_hash: hash((size_bytes, modified)) };
        Self { name, size_bytes, tracked }
    }
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The changes that an update found. Folders are those of the snapshot, because a first scan finds all of them.
#[derive(Debug, Default)]
pub struct RootChanges {
    /// Sizes of files that are listed if they changed.
    sizes: HashSet<u64>,
    /// Folders with changed media files, NFO files, images or playlists.
    pub folders: BTreeSet<Arc<str>>,
    /// Media files of these sizes that are new or were replaced, with their size.
    pub changed_files: Vec<(String, u64)>,
    pub new_folders: Vec<Arc<str>>,
}

impl RootChanges {
    /// No changes yet; files are listed if they have one of these sizes.
    pub fn new(sizes: HashSet<u64>) -> Self {
        Self { sizes, ..Self::default() }
    }
}

impl RootSnapshot {
    /// Reads a folder again: with all folders below it if `deep`, otherwise only itself and new folders in it. `on_folder`
    /// is called for every new folder, and for every folder if deep; `path_of` gives the path of a new one, for example one that is
    /// in memory already. Blocks on the file system.
    pub fn update(
        &mut self,
        roots: &Roots,
        folder: &str,
        deep: bool,
        changes: &mut RootChanges,
        path_of: &dyn Fn(&str) -> Arc<str>,
        on_folder: &mut dyn FnMut(&Arc<str>),
    ) {
        let mut pending = vec![(folder.trim_end_matches('/').to_owned(), 0)];
        while let Some((path, depth)) = pending.pop() {
            let tracked = self.folders.get_key_value(&*path).map(|(tracked, _)| tracked.clone());
            let is_new = tracked.is_none();
            let Ok(open) = roots.open_folder(&path) else {
                self.remove_folder(&path, changes);
                continue;
            };
            let path = tracked.unwrap_or_else(|| path_of(&path));
            if is_new || deep {
                // Watched before it is read, so that changes in between are reported.
                on_folder(&path);
            }
            let Ok(names) = open.list_entries() else { continue };
            let stems = media_stems(names.iter().map(|(name, _)| name.as_str()));
            let mut files = Vec::new();
            let mut subfolders = BTreeSet::new();
            for (name, hint) in names {
                let is_tracked = kind_from_name(&name).is_some() || is_companion(&name) || is_artwork(&name, &stems);
                match hint {
                    EntryHint::Folder => drop(subfolders.insert(format!("{path}/{name}"))),
                    EntryHint::File if !is_tracked => {}
                    // Links to folders are not followed, because they could form a loop.
                    _ => match open.resolve_entry(&name) {
                        Some(EntryTarget::File { size_bytes, modified }) if is_tracked => {
                            files.push(FoundFile::new(name, size_bytes, modified));
                        }
                        _ => {}
                    },
                }
            }
            drop(open);
            self.diff(&path, &files, is_new, changes);
            let removed: Vec<_> = self.subfolders(&path).filter(|existing| !subfolders.contains(existing)).collect();
            for folder in removed {
                self.remove_folder(&folder, changes);
            }
            // Folders that are tracked already are read again even at the limit.
            let has_room = self.file_count < MAX_FILES;
            let is_visited = |folder: &String| if self.folders.contains_key(&**folder) { deep } else { has_room };
            if depth < MAX_DEPTH {
                pending.extend(subfolders.into_iter().filter(is_visited).map(|folder| (folder, depth + 1)));
            }
        }
    }

    fn diff(&mut self, path: &Arc<str>, found: &[FoundFile], is_new: bool, changes: &mut RootChanges) {
        let previous = self.folders.remove(path).unwrap_or_default();
        self.file_count -= previous.len();
        let mut files: Box<[TrackedFile]> = found.iter().map(|file| file.tracked).collect();
        files.sort_unstable();
        for file in found {
            let is_changed = || previous.binary_search(&file.tracked).is_err() && kind_from_name(&file.name).is_some();
            if changes.sizes.contains(&file.size_bytes) && is_changed() {
                changes.changed_files.push((format!("{path}/{}", file.name), file.size_bytes));
            }
        }
        if previous != files {
            changes.folders.insert(path.clone());
        }
        if is_new {
            changes.new_folders.push(path.clone());
        }
        self.file_count += files.len();
        self.folders.insert(path.clone(), files);
    }

    /// Removes a deleted folder and all folders below it.
    fn remove_folder(&mut self, path: &str, changes: &mut RootChanges) {
        let prefix = format!("{path}/");
        let descendants = self
            .folders
            .range::<str, _>((Bound::Included(&*prefix), Bound::Unbounded))
            .map(|(folder, _)| folder.to_string());
        let mut removed: Vec<String> = descendants.take_while(|folder| folder.starts_with(&prefix)).collect();
        removed.push(path.to_owned());
        for folder in removed {
            if let Some((folder, files)) = self.folders.remove_entry(&*folder) {
                self.file_count -= files.len();
                changes.folders.insert(folder);
            }
        }
    }

    /// Known direct subfolders of a folder.
    fn subfolders<'a>(&'a self, path: &str) -> impl Iterator<Item = String> + use<'a> {
        let prefix = format!("{path}/");
        let folders = self
            .folders
            .range::<str, _>((Bound::Included(&*prefix), Bound::Unbounded))
            .map(|(folder, _)| folder)
            .take_while({
                let prefix = prefix.clone();
                move |folder| folder.starts_with(&prefix)
            });
        folders.filter(move |folder| !folder[prefix.len()..].contains('/')).map(|folder| folder.to_string())
    }

    /// Gives back memory that the first scan left unused.
    pub fn compact(&mut self) {
        compact_map(&mut self.folders);
    }

    /// Whether there is a file or a folder at a path.
    pub fn contains(&self, path: &str) -> bool {
        let file = path.rsplit_once('/');
        let files = |folder: &str| self.folders.get(folder).map(|files| &**files).unwrap_or_default();
        let has_file = |folder: &str, name: &str| {
            let name_hash = hash(name);
            files(folder).binary_search_by_key(&name_hash, |file| file.name_hash).is_ok()
        };
        file.is_some_and(|(folder, name)| has_file(folder, name)) || self.folders.contains_key(path)
    }

    pub fn file_count(&self) -> usize {
        self.file_count
    }
}

/// NFO files are tracked because they describe media files, playlists because they list them.
fn is_companion(name: &str) -> bool {
    let is_nfo = name.get(name.len().saturating_sub(4)..).is_some_and(|end| end.eq_ignore_ascii_case(".nfo"));
    is_nfo || is_playlist_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::library::Root;

    /// Names of the changed folders, the changed files, and the folders found.
    fn update_and_list(snapshot: &mut RootSnapshot, roots: &Roots, path: &str, deep: bool) -> [Vec<String>; 3] {
        let (mut changes, mut found) = (RootChanges::new((0..10).collect()), Vec::new());
        snapshot.update(roots, path, deep, &mut changes, &|path| path.into(), &mut |path| found.push(path.to_string()));
        let file_names = |list: Vec<String>| {
            let mut list: Vec<_> = list.into_iter().map(|path| path.rsplit('/').next().unwrap().to_owned()).collect();
            list.sort();
            list
        };
        let changed_files = changes.changed_files.into_iter().map(|(path, _)| path).collect();
        [changes.folders.iter().map(|folder| folder.to_string()).collect(), changed_files, found].map(file_names)
    }

    #[test]
    fn only_changes_are_reported_and_at_the_limit_only_those_of_tracked_folders() {
        let dir = tempfile::Builder::new().prefix("top").tempdir().unwrap();
        let top = dir.path().to_str().unwrap().to_owned();
        let name = top.rsplit('/').next().unwrap();
        let write = |path: &str, text: &str| std::fs::write(dir.path().join(path), text).unwrap();
        std::fs::create_dir_all(dir.path().join("a/deep")).unwrap();
        write("a/1.mkv", "1");
        write("a/notes.txt", "no media");
        write("a/deep/2.mkv", "2");
        std::os::unix::fs::symlink("..", dir.path().join("a/circle")).unwrap();
        let roots = Roots::open(vec![Root { id: "r".into(), path: dir.path().to_owned() }]).unwrap();
        let mut snapshot = RootSnapshot::default();
        let first = update_and_list(&mut snapshot, &roots, &top, true);
        assert_eq!(first[0], ["a", "deep"]);
        assert_eq!(first[1], ["1.mkv", "2.mkv"]);
        assert_eq!(first[2], ["a", "deep", name]);
        assert!(snapshot.contains(&format!("{top}/a/deep/2.mkv")) && snapshot.contains(&format!("{top}/a")));
        assert_eq!(update_and_list(&mut snapshot, &roots, &top, true)[0], Vec::<String>::new());

        write("a/1.mkv", "another");
        std::fs::create_dir_all(dir.path().join("a/new/er")).unwrap();
        write("a/new/er/3.mkv", "3");
        let second = update_and_list(&mut snapshot, &roots, &format!("{top}/a"), false);
        assert_eq!(second[0], ["a", "er"], "replaced, and new");
        assert_eq!(second[1], ["1.mkv", "3.mkv"]);
        assert_eq!(second[2], ["er", "new"]);

        std::fs::remove_dir_all(dir.path().join("a/new")).unwrap();
        std::fs::remove_file(dir.path().join("a/1.mkv")).unwrap();
        assert_eq!(update_and_list(&mut snapshot, &roots, &format!("{top}/a"), false)[0], ["a", "er", "new"]);
        assert!(!snapshot.contains(&format!("{top}/a/1.mkv")) && !snapshot.contains(&format!("{top}/a/new/er/3.mkv")));
        assert_eq!(snapshot.file_count(), 1);

        // At the limit, tracked folders are still read.
        snapshot.file_count += MAX_FILES;
        write("a/deep/2.mkv", "replaced");
        std::fs::create_dir_all(dir.path().join("a/new")).unwrap();
        write("a/new/3.mkv", "3");
        let [folders, changed_files, _] = update_and_list(&mut snapshot, &roots, &top, true);
        assert_eq!(folders, ["deep"], "no new folder is tracked");
        assert_eq!(changed_files, ["2.mkv"]);
    }
}
