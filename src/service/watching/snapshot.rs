//! The content of a root at the last look, and what differs now.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::SystemTime;

use crate::domain::library::kind_from_name;
use crate::engine::folder::{EntryHint, EntryTarget};
use crate::engine::source::Roots;

/// Files tracked per root; further files are not watched.
const MAX_FILES: usize = 500_000;

/// Nested folders at most.
const MAX_DEPTH: usize = 32;

/// Folders and the media files in them.
#[derive(Default)]
pub struct Snapshot {
    folders: BTreeMap<String, HashMap<String, (u64, SystemTime)>>,
    files: usize,
}

/// The changes that an update found.
#[derive(Debug, Default)]
pub struct Changes {
    /// Folders with changed content.
    pub folders: BTreeSet<String>,
    /// Files that are new or were replaced, with their size.
    pub came: Vec<(String, u64)>,
    pub new_folders: Vec<String>,
}

impl Snapshot {
    /// Reads a folder again: with all folders below it if `deep`, otherwise only itself and new folders in it. `found` is
    /// called for every new folder, and for every folder if deep. Blocks on the file system.
    pub fn look(
        &mut self,
        roots: &Roots,
        folder: &str,
        deep: bool,
        changes: &mut Changes,
        found: &mut dyn FnMut(&str),
    ) {
        let mut left = vec![(folder.trim_end_matches('/').to_owned(), 0)];
        while let Some((path, depth)) = left.pop() {
            let is_new = !self.folders.contains_key(&path);
            let Ok(open) = roots.open_folder(&path) else {
                self.forget(&path, changes);
                continue;
            };
            if is_new || deep {
                // Watched before it is read, so that changes in between are reported.
                found(&path);
            }
            let Ok(names) = open.list_entries() else { continue };
            let mut files = HashMap::new();
            let mut below = BTreeSet::new();
            for (name, hint) in names {
                let media = kind_from_name(&name).is_some();
                match hint {
                    EntryHint::Folder => drop(below.insert(format!("{path}/{name}"))),
                    EntryHint::File if !media => {}
                    // Links to folders are not followed, because they could form a loop.
                    _ => match open.resolve_entry(&name) {
                        Some(EntryTarget::File { size_bytes, modified }) if media => {
                            files.insert(name, (size_bytes, modified));
                        }
                        _ => {}
                    },
                }
            }
            drop(open);
            self.compare(&path, files, is_new, changes);
            let gone: Vec<String> = self.below(&path).filter(|known| !below.contains(known)).collect();
            for folder in gone {
                self.forget(&folder, changes);
            }
            // Folders that are tracked already are read again even at the limit.
            let has_room = self.files < MAX_FILES;
            let next = below.into_iter().filter(|folder| match self.folders.contains_key(folder) {
                true => deep,
                false => has_room,
            });
            if depth < MAX_DEPTH {
                left.extend(next.map(|folder| (folder, depth + 1)));
            }
        }
    }

    fn compare(&mut self, path: &str, files: HashMap<String, (u64, SystemTime)>, is_new: bool, changes: &mut Changes) {
        let before = self.folders.remove(path).unwrap_or_default();
        self.files -= before.len();
        for (name, seen) in &files {
            if before.get(name) != Some(seen) {
                changes.came.push((format!("{path}/{name}"), seen.0));
            }
        }
        if before != files {
            changes.folders.insert(path.to_owned());
        }
        if is_new {
            changes.new_folders.push(path.to_owned());
        }
        self.files += files.len();
        self.folders.insert(path.to_owned(), files);
    }

    /// Removes a deleted folder and all folders below it.
    fn forget(&mut self, path: &str, changes: &mut Changes) {
        let inside = format!("{path}/");
        let below = self.folders.range(inside.clone()..).map(|(known, _)| known.clone());
        let mut gone: Vec<String> = below.take_while(|known| known.starts_with(&inside)).collect();
        gone.push(path.to_owned());
        for folder in gone {
            if let Some(files) = self.folders.remove(&folder) {
                self.files -= files.len();
                changes.folders.insert(folder);
            }
        }
    }

    /// Known direct subfolders of a folder.
    fn below<'a>(&'a self, path: &str) -> impl Iterator<Item = String> + use<'a> {
        let inside = format!("{path}/");
        let from = inside.clone();
        let all = self.folders.range(from..).map(|(known, _)| known).take_while({
            let inside = inside.clone();
            move |known| known.starts_with(&inside)
        });
        all.filter(move |known| !known[inside.len()..].contains('/')).cloned()
    }

    /// Whether there is a file or a folder at a path.
    pub fn holds(&self, path: &str) -> bool {
        let file = path.rsplit_once('/');
        let file = file.and_then(|(folder, name)| Some(self.folders.get(folder)?.contains_key(name)));
        file.unwrap_or(false) || self.folders.contains_key(path)
    }

    pub fn files(&self) -> usize {
        self.files
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::library::Root;

    fn look(snapshot: &mut Snapshot, roots: &Roots, path: &str, deep: bool) -> (Vec<String>, Vec<String>, Vec<String>) {
        let (mut changes, mut found) = (Changes::default(), Vec::new());
        snapshot.look(roots, path, deep, &mut changes, &mut |path| found.push(path.to_owned()));
        let short = |list: Vec<String>| {
            let mut list: Vec<String> =
                list.into_iter().map(|path| path.rsplit('/').next().unwrap().to_owned()).collect();
            list.sort();
            list
        };
        (
            short(changes.folders.into_iter().collect()),
            short(changes.came.into_iter().map(|(path, _)| path).collect()),
            short(found),
        )
    }

    #[test]
    fn what_is_different_is_told_and_nothing_else() {
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
        let mut known = Snapshot::default();
        let first = look(&mut known, &roots, &top, true);
        assert_eq!(first.0, ["a", "deep"]);
        assert_eq!(first.1, ["1.mkv", "2.mkv"]);
        assert_eq!(first.2, ["a", "deep", name]);
        assert!(known.holds(&format!("{top}/a/deep/2.mkv")) && known.holds(&format!("{top}/a")));
        assert_eq!(look(&mut known, &roots, &top, true).0, Vec::<String>::new());

        write("a/1.mkv", "another");
        std::fs::create_dir_all(dir.path().join("a/new/er")).unwrap();
        write("a/new/er/3.mkv", "3");
        let second = look(&mut known, &roots, &format!("{top}/a"), false);
        assert_eq!(second.0, ["a", "er"], "replaced, and new");
        assert_eq!(
            (second.1, second.2),
            (vec!["1.mkv".to_owned(), "3.mkv".to_owned()], vec!["er".to_owned(), "new".to_owned()])
        );

        std::fs::remove_dir_all(dir.path().join("a/new")).unwrap();
        std::fs::remove_file(dir.path().join("a/1.mkv")).unwrap();
        assert_eq!(look(&mut known, &roots, &format!("{top}/a"), false).0, ["a", "er", "new"]);
        assert!(!known.holds(&format!("{top}/a/1.mkv")) && !known.holds(&format!("{top}/a/new/er/3.mkv")));
        assert_eq!(known.files(), 1);
    }

    #[test]
    fn at_the_limit_tracked_folders_are_still_read() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().to_str().unwrap().to_owned();
        let write = |path: &str, text: &str| std::fs::write(dir.path().join(path), text).unwrap();
        std::fs::create_dir_all(dir.path().join("a/deep")).unwrap();
        write("a/deep/1.mkv", "1");
        let roots = Roots::open(vec![Root { id: "r".into(), path: dir.path().to_owned() }]).unwrap();
        let mut snapshot = Snapshot::default();
        look(&mut snapshot, &roots, &top, true);

        snapshot.files += MAX_FILES;
        write("a/deep/1.mkv", "replaced");
        std::fs::create_dir_all(dir.path().join("a/new")).unwrap();
        write("a/new/2.mkv", "2");
        let (folders, came, _) = look(&mut snapshot, &roots, &top, true);
        assert_eq!((folders, came), (vec!["deep".to_owned()], vec!["1.mkv".to_owned()]), "no new folder is tracked");
    }
}
