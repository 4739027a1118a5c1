//! Files of items after they were renamed, found before the catalogue has read their folders.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::Channels;
use super::library_items::LibraryItems;
use crate::domain::catalogue::ItemId;
use crate::domain::library::kind_from_name;
use crate::domain::schedule::ScheduleItem;
use crate::engine::folder::{EntryHint, EntryTarget};
use crate::engine::source::Roots;
use crate::error::{Code, Result};
use crate::service::Service;

/// How long an item waits for its renamed file.
const MAX_RENAME_WAIT: Duration = Duration::from_secs(5);

/// Between two looks at the catalogue.
const RENAME_INTERVAL: Duration = Duration::from_millis(200);

/// Folders searched for one file.
const MAX_SEARCHED_FOLDERS: usize = 500;

/// New folders in which a folder of the former name is looked for.
const MAX_NEW_FOLDERS: usize = 64;

/// Files of one folder whose content is read, because their name or their length and time are those of the file.
const MAX_CANDIDATES: usize = 16;

/// Paths remembered until the catalogue lists them.
const MAX_REMEMBERED: usize = 256;

/// Paths of renamed files that were found before the catalogue listed them, by content.
#[derive(Default)]
pub(super) struct RenamedFiles {
    paths: Mutex<HashMap<ItemId, String>>,
    /// Shared by each item that waits.
    waits: Arc<()>,
}

impl RenamedFiles {
    fn get(&self, content: ItemId) -> Option<String> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner).get(&content).cloned()
    }

    fn put(&self, content: ItemId, path: String) {
        let mut paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        if paths.len() >= MAX_REMEMBERED {
            paths.clear();
        }
        paths.insert(content, path);
    }
}

impl Channels {
    /// Whether an item that is due waits for its renamed file.
    pub fn waits_for_renamed_file(&self) -> bool {
        Arc::strong_count(&self.renamed_files.waits) > 1
    }
}

impl Service {
    /// The path at which an item's content is now: its own, otherwise that of another file with the same content. Its own as
    /// well if no file has the content any more.
    pub async fn find_item_file(&self, item: &ScheduleItem) -> String {
        let Some(content) = item.content else { return item.path.clone() };
        if self.has_content(&item.path, content).await {
            return item.path.clone();
        }
        let _wait = self.channels.renamed_files.waits.clone();
        let deadline = Instant::now() + MAX_RENAME_WAIT;
        let mut search = None;
        loop {
            if let Some(path) = self.find_content(&item.path, content).await {
                return path;
            }
            let Some(library) = &self.channels.library_items else { return item.path.clone() };
            // A rename of many files is noticed bit by bit.
            let is_unnoticed = || library.paths_of(content).contains(&item.path);
            let may_be_found = !library.is_current(self.library.roots().list().count()) || is_unnoticed();
            if !may_be_found || Instant::now() >= deadline {
                return item.path.clone();
            }
            let search = search.get_or_insert_with(|| FileSearch::new(self, library, &item.path, content));
            if let Ok(Some(path)) = timeout_at(deadline, search.search_folders()).await {
                self.channels.renamed_files.put(content, path.clone());
                return path;
            }
            sleep(RENAME_INTERVAL).await;
        }
    }

    /// Another path than `former` at which a content is now.
    pub(super) async fn find_content(&self, former: &str, content: ItemId) -> Option<String> {
        let listed = self.channels.library_items.as_ref()?.paths_of(content);
        for path in listed.into_iter().chain(self.channels.renamed_files.get(content)) {
            if *path != *former && self.has_content(&path, content).await {
                return Some(path);
            }
        }
        None
    }

    async fn has_content(&self, path: &str, content: ItemId) -> bool {
        let Ok(source) = self.library.open(path).await else { return false };
        let fingerprint = self.media.fingerprint(&source).await;
        fingerprint.is_ok_and(|id| ItemId::parse(&id) == Some(content))
    }
}

/// A file as it was before it was renamed.
#[derive(Clone)]
struct FormerFile {
    folder: String,
    name: String,
    content: ItemId,
    /// Its length and time; None if the library does not know it any more.
    version: Option<EntryTarget>,
}

/// A search for one file in the folders that the catalogue has not read since they changed.
struct FileSearch<'a> {
    service: &'a Service,
    library: &'a Arc<dyn LibraryItems>,
    file: FormerFile,
    searched: HashSet<String>,
}

impl<'a> FileSearch<'a> {
    fn new(service: &'a Service, library: &'a Arc<dyn LibraryItems>, former: &str, content: ItemId) -> Self {
        let (folder, name) = former.rsplit_once('/').unwrap_or(("", former));
        let version = library.version_of(content);
        let file = FormerFile { folder: folder.to_owned(), name: name.to_owned(), content, version };
        Self { service, library, file, searched: HashSet::new() }
    }

    /// Searches each folder that was not searched before; those most like the former one first.
    async fn search_folders(&mut self) -> Option<String> {
        let mut folders = Vec::new();
        if self.searched.is_empty() {
            let (library, file) = (self.library.clone(), self.file.clone());
            let is_new = move |folder: &str| !library.has_files_below(folder);
            let moved = self.read(&self.file.folder, move |roots| moved_folders(roots, &file, is_new)).await;
            folders = moved.unwrap_or_default();
        }
        folders.extend(self.library.unread_folders(&self.file.folder, MAX_SEARCHED_FOLDERS));
        for folder in folders {
            if self.searched.len() >= MAX_SEARCHED_FOLDERS || !self.searched.insert(folder.clone()) {
                continue;
            }
            let (file, path) = (self.file.clone(), folder.clone());
            if let Some(Some(path)) = self.read(&folder, move |roots| find_in_folder(roots, &path, &file)).await {
                return Some(path);
            }
        }
        None
    }

    /// Runs blocking work on the root of a folder.
    async fn read<T, W>(&self, folder: &str, work: W) -> Option<T>
    where
        T: Send + 'static,
        W: FnOnce(&Roots) -> Result<T> + Send + 'static,
    {
        let roots = self.service.library.roots().clone();
        let root = roots.locate(folder).ok()?.root_index;
        self.service.library.run_with_deadline(root, move || work(&roots)).await.ok()
    }
}

/// Where the folder of a file may be: where it was, or, if it or one above it is gone, in one that is new beside that.
/// Blocks on the file system.
fn moved_folders(roots: &Roots, file: &FormerFile, is_new: impl Fn(&str) -> bool) -> Result<Vec<String>> {
    let mut above = &*file.folder;
    let open = loop {
        match roots.open_folder(above) {
            Ok(open) => break open,
            Err(fault) if fault.code == Code::NotFound => above = above.rsplit_once('/').map_or("", |(above, _)| above),
            Err(fault) => return Err(fault),
        }
    };
    let Some(gone) = file.folder[above.len()..].strip_prefix('/') else { return Ok(vec![file.folder.clone()]) };
    let below = gone.split_once('/').map(|(_, below)| below);
    let folders = open.list_entries()?.into_iter().filter(|(_, hint)| *hint == EntryHint::Folder);
    let new = folders.map(|(name, _)| format!("{above}/{name}")).filter(|folder| is_new(folder));
    let with_below = |folder: String| below.map_or(folder.clone(), |below| format!("{folder}/{below}"));
    Ok(new.take(MAX_NEW_FOLDERS).map(with_below).collect())
}

/// The file of a folder that has the name, or the length and time, of a file, and its content. Blocks on the file system.
fn find_in_folder(roots: &Roots, folder: &str, file: &FormerFile) -> Result<Option<String>> {
    let open = roots.open_folder(folder)?;
    let entries = open.list_entries()?;
    let names = || entries.iter().map(|(name, _)| &**name).filter(|name| kind_from_name(name).is_some());
    let has_version = |name: &&str| file.version.is_some() && open.resolve_entry(name) == file.version;
    let with_name = names().filter(|name| *name == file.name);
    let with_version = names().filter(|name| *name != file.name).filter(has_version);
    let candidates = with_name.chain(with_version).take(MAX_CANDIDATES);
    let mut paths = candidates.map(|name| format!("{}/{name}", folder.trim_end_matches('/')));
    let has_content = |path: &String| {
        let source = roots.open_file(path).ok();
        source.is_some_and(|source| source.fingerprint().ok().and_then(ItemId::parse) == Some(file.content))
    };
    Ok(paths.find(has_content))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::domain::library::Root;

    struct Folder {
        dir: tempfile::TempDir,
        roots: Roots,
    }

    impl Folder {
        /// A root with files whose content is the text beside their path.
        fn new(files: &[(&str, &str)]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            for (path, text) in files {
                let path = dir.path().join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            let roots = Roots::open(vec![Root { id: "r".into(), path: dir.path().into() }]).unwrap();
            Self { dir, roots }
        }

        fn path(&self, path: &str) -> PathBuf {
            self.dir.path().join(path)
        }

        fn text(&self, path: &str) -> String {
            self.path(path).to_str().unwrap().to_owned()
        }

        fn file(&self, path: &str) -> FormerFile {
            let (folder, name) = path.rsplit_once('/').unwrap();
            let source = self.roots.open_file(&self.text(path)).unwrap();
            let content = ItemId::parse(source.fingerprint().unwrap()).unwrap();
            let version = self.roots.resolve_target(&self.text(path));
            FormerFile { folder: self.text(folder), name: name.to_owned(), content, version }
        }

        fn find(&self, folder: &str, file: &FormerFile) -> Option<String> {
            let found = find_in_folder(&self.roots, &self.text(folder), file).unwrap()?;
            Some(found.strip_prefix(self.dir.path().to_str().unwrap()).unwrap().to_owned())
        }
    }

    #[test]
    fn a_file_is_found_by_its_name_or_by_its_length_and_time() {
        let folder = Folder::new(&[("old/1.mp4", "first"), ("new/0.mp4", "other"), ("new/1.mp4", "other")]);
        let file = folder.file("old/1.mp4");
        let without_version = FormerFile { version: None, ..file.clone() };
        assert_eq!(folder.find("new", &file), None, "the name is that of another content");
        std::fs::rename(folder.path("old/1.mp4"), folder.path("new/Film (1979).mp4")).unwrap();
        assert_eq!(folder.find("new", &file).as_deref(), Some("/new/Film (1979).mp4"));
        assert_eq!(folder.find("new", &without_version), None);
        std::fs::rename(folder.path("new/Film (1979).mp4"), folder.path("new/1.mp4")).unwrap();
        assert_eq!(folder.find("new", &without_version).as_deref(), Some("/new/1.mp4"));
        std::fs::rename(folder.path("new/1.mp4"), folder.path("new/1.txt")).unwrap();
        assert_eq!(folder.find("new", &file), None, "it is no media file any more");
    }

    #[test]
    fn a_renamed_folder_is_one_that_is_new_beside_it() {
        let folder =
            Folder::new(&[("TV/Lost/Season 1/1.mp4", "x"), ("TV/Other/Season 1/2.mp4", "y"), ("TV/3.mp4", "z")]);
        let file = folder.file("TV/Lost/Season 1/1.mp4");
        let moved = || moved_folders(&folder.roots, &file, |new| !new.ends_with("/Other")).unwrap();
        assert_eq!(moved(), [folder.text("TV/Lost/Season 1")]);
        std::fs::rename(folder.path("TV/Lost/Season 1"), folder.path("TV/Lost/S1")).unwrap();
        assert_eq!(moved(), [folder.text("TV/Lost/S1")]);
        std::fs::rename(folder.path("TV/Lost/S1"), folder.path("TV/Lost/Season 1")).unwrap();
        std::fs::rename(folder.path("TV/Lost"), folder.path("TV/Lost (2004)")).unwrap();
        assert_eq!(moved(), [folder.text("TV/Lost (2004)/Season 1")]);
        std::fs::rename(folder.path("TV"), folder.path("Series")).unwrap();
        assert_eq!(moved(), [folder.text("Series/Lost/Season 1")]);
    }
}
