//! Media folders: those of the configuration, and those that admins add and remove while the server runs.

use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::domain::library::{Root, unused_root_id};
use crate::domain::media_folder::{
    FolderKind, MAX_MEDIA_FOLDERS, MediaFolderRecord, is_system_folder, overlap, parse_folder_path,
};
use crate::engine::server_folders::{ServerFolder, Subfolders};
use crate::engine::source::Roots;
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::events::EventContent;
use crate::store::{Store, Tree};

/// A folder of the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaFolder {
    /// The id of the root.
    pub id: String,
    pub path: PathBuf,
    pub origin: FolderOrigin,
    /// None: names decide alone.
    pub kind: Option<FolderKind>,
    /// Whether it can be opened now.
    pub is_available: bool,
}

/// Who made a folder one of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderOrigin {
    /// The configuration file, a variable or the command line.
    Configuration,
    /// It is the folder for recordings.
    Recordings,
    /// An admin.
    Admin,
}

/// The folders in a folder of this machine.
pub struct ServerFolderListing {
    pub path: PathBuf,
    /// None for `/`.
    pub parent: Option<PathBuf>,
    pub subfolders: Subfolders,
}

/// Media folders that admins added.
pub struct MediaFolders {
    store: Store,
    /// Changes follow each other.
    change_lock: tokio::sync::Mutex<()>,
}

impl MediaFolders {
    /// Adds the stored folders to the roots of the configuration. A folder that is missing is added too: its disk may come
    /// later.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn open(store: Store, config: &Config, roots: &Roots) -> Result<Self> {
        let mut stored = store.scan::<MediaFolderRecord>(Tree::MediaFolders)?;
        stored.sort_by(|(a, first), (b, second)| (first.added_ms, a).cmp(&(second.added_ms, b)));
        for (path, record) in stored {
            let (path, present) = (PathBuf::from(path), present_roots(roots));
            if present.iter().any(|root| root.path == path) {
                continue;
            }
            if let Some(reason) = refusal(&own_folders(config), &path, &resolve(&path)) {
                tracing::warn!(media.path = %path.display(), reason, "an added media folder is not used");
                continue;
            }
            let is_free = present.iter().all(|root| root.id != record.id);
            let id = if is_free { record.id } else { unused_root_id(&present, &path) };
            roots.add(Root { id, path }, record.kind).map_err(Error::internal)?;
        }
        Ok(Self { store, change_lock: tokio::sync::Mutex::default() })
    }
}

impl Service {
    /// All media folders: those of the configuration first.
    pub async fn media_folders(&self) -> Vec<MediaFolder> {
        let roots: Vec<(usize, Root)> =
            self.library.roots().list().map(|(index, root)| (index, root.clone())).collect();
        let paths = roots.iter().map(|(_, root)| root.path.to_string_lossy().into_owned()).collect();
        let available = self.library.check_available(paths).await;
        let to_folder = |((index, root), is_available): ((usize, Root), bool)| MediaFolder {
            origin: self.origin_of(&root),
            kind: self.library.roots().kind(index),
            id: root.id,
            path: root.path,
            is_available,
        };
        roots.into_iter().zip(available).map(to_folder).collect()
    }

    /// Adds a media folder, durably and at once.
    ///
    /// # Errors
    /// `INVALID_PATH`; those of [`ServerFolder::open`]; `VALIDATION_ERROR` for a folder of this program or above it;
    /// `CONFLICT`: it is in the library, or there are too many; `STORAGE_TIMEOUT`; `STORAGE_FULL`.
    pub async fn add_media_folder(&self, text: &str, kind: Option<FolderKind>) -> Result<MediaFolder> {
        let path = parse_folder_path(text)?;
        let _changing = self.media_folders.change_lock.lock().await;
        let (own_folders, roots, checked_path) =
            (own_folders(&self.config), self.library.roots().clone(), path.clone());
        self.library.run_beside_roots(move || check_folder(&own_folders, &roots, &checked_path)).await?;
        let store = &self.media_folders.store;
        if store.keys(Tree::MediaFolders, "")?.len() >= MAX_MEDIA_FOLDERS {
            return Err(Error::new(
                Code::Conflict,
                format!("there are {MAX_MEDIA_FOLDERS} added media folders already"),
            ));
        }
        let root = Root { id: unused_root_id(&present_roots(self.library.roots()), &path), path };
        let key = root.path.to_string_lossy().into_owned();
        let record = MediaFolderRecord { id: root.id.clone(), added_ms: self.clock.now_ms().0, kind };
        store.put(Tree::MediaFolders, &key, &record).await?;
        if let Err(refused) = self.library.add_root(root.clone(), kind).await {
            store.delete(Tree::MediaFolders, &key).await?;
            return Err(refused);
        }
        tracing::info!(media.path = key, "a media folder was added");
        self.events.publish(None, EventContent::Library { folders: vec![key] });
        Ok(MediaFolder { id: root.id, path: root.path, origin: FolderOrigin::Admin, kind, is_available: true })
    }

    /// Removes a media folder that an admin added; its files stay. What plays continues.
    ///
    /// # Errors
    /// `NOT_FOUND`; `CONFLICT` for a folder of the configuration; `STORAGE_FULL`.
    pub async fn remove_media_folder(&self, id: &str) -> Result<()> {
        let _changing = self.media_folders.change_lock.lock().await;
        let found = self.library.roots().list().find(|(_, root)| root.id == id);
        let (index, root) = found.ok_or_else(|| Error::new(Code::NotFound, "there is no such media folder"))?;
        if self.origin_of(root) != FolderOrigin::Admin {
            return Err(Error::new(Code::Conflict, "the configuration states this folder: change it there"));
        }
        let path = root.path.to_string_lossy().into_owned();
        self.media_folders.store.delete(Tree::MediaFolders, &path).await?;
        self.library.remove_root(index);
        tracing::info!(media.path = path, "a media folder was removed");
        self.events.publish(None, EventContent::Library { folders: vec![path] });
        Ok(())
    }

    /// The folders in a folder of this machine.
    ///
    /// # Errors
    /// `INVALID_PATH`; those of [`ServerFolder::open`]; `STORAGE_TIMEOUT`.
    pub async fn server_folder(&self, text: &str) -> Result<ServerFolderListing> {
        let path = parse_folder_path(text)?;
        let opened = path.clone();
        let list = move || ServerFolder::open(&opened)?.subfolders();
        let subfolders = self.library.run_beside_roots(list).await?;
        Ok(ServerFolderListing { parent: path.parent().map(Path::to_owned), path, subfolders })
    }

    fn origin_of(&self, root: &Root) -> FolderOrigin {
        if self.config.roots.iter().any(|configured| configured.path == root.path) {
            FolderOrigin::Configuration
        } else if self.config.recordings.as_ref() == Some(&root.path) {
            FolderOrigin::Recordings
        } else {
            FolderOrigin::Admin
        }
    }
}

fn present_roots(roots: &Roots) -> Vec<Root> {
    roots.list().map(|(_, root)| root.clone()).collect()
}

/// A path without symbolic links; as it is if it does not exist.
fn resolve(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Checks that a folder can become one of the library. Blocks on the file system.
fn check_folder(own_folders: &[PathBuf], roots: &Roots, path: &Path) -> Result<()> {
    let real_path = ServerFolder::open(path)?.real_path;
    if let Some(reason) = refusal(own_folders, path, &real_path) {
        return Err(Error::invalid_field("path", reason));
    }
    if roots.is_covered(path, &real_path) {
        return Err(Error::new(Code::Conflict, "this folder is in the library already"));
    }
    Ok(())
}

/// The folders that this program writes to.
fn own_folders(config: &Config) -> [PathBuf; 2] {
    [config.state.clone(), config.cache.clone()]
}

/// Why a folder must not be one of the library; None if it may. `real_path` is without symbolic links.
fn refusal(own_folders: &[PathBuf], path: &Path, real_path: &Path) -> Option<&'static str> {
    if [path, real_path].into_iter().any(|path| is_system_folder(path) || path.parent().is_none()) {
        return Some("is a folder of the system");
    }
    let is_own = own_folders.iter().any(|own| overlap(real_path, &resolve(own)) || overlap(path, own));
    is_own.then_some("contains files of this program, or is inside them")
}
