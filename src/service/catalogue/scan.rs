//! Folders read into the catalogue: files that are new, changed or gone, and their NFO files.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures_util::StreamExt;

use super::artwork::{FolderImages, MAX_FOLDER_IMAGES};
use super::index::FilePlace;
use super::item::{ItemId, join_path};
use super::playlists::{PlaylistFile, update_playlists};
use super::record::{ChosenTitle, ItemRecord};
use super::{Catalogue, idle, probing};
use crate::domain::catalogue::artwork::{is_artwork, media_stems};
use crate::domain::catalogue::names::Names;
use crate::domain::catalogue::playlist_file::is_playlist_name;
use crate::domain::library::kind_from_name;
use crate::engine::folder::{EntryHint, EntryTarget};
use crate::engine::source::{Roots, SourceFile};
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::events::EventContent;
use crate::store::Tree;

/// Files read at once.
const CONCURRENT_FILES: usize = 4;

/// Items named in one event; more are announced without their ids.
const MAX_EVENT_ITEMS: usize = 100;

/// Between two events while folders wait.
const EVENT_INTERVAL: Duration = Duration::from_secs(2);

/// While something is played, this many times the time of a file's work is left to it.
const BUSY_PAUSE: u32 = 9;

/// The longest pause after one file.
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Items that changed since the last event.
#[derive(Default)]
struct ItemChanges {
    ids: BTreeSet<ItemId>,
    has_other_playlists: bool,
}

/// A folder as it is on disk now.
struct FolderContent {
    media: Vec<MediaFile>,
    /// Changes with every NFO file that may describe one of its files; 0 without any.
    nfo_stamp: u64,
    images: FolderImages,
    playlists: Vec<PlaylistFile>,
    subfolders: Vec<String>,
}

struct MediaFile {
    name: String,
    size_bytes: u64,
    modified_ns: i64,
}

/// Starts the task that keeps the catalogue current.
pub fn start(service: &Arc<Service>) {
    service.tasks.spawn(run(service.clone()));
}

async fn run(service: Arc<Service>) {
    load(&service).await;
    let (mut changes, mut last_event) = (ItemChanges::default(), Instant::now());
    let mut prober = probing::Prober::default();
    loop {
        let next = service.catalogue.take_folder();
        if next.is_none() || last_event.elapsed() >= EVENT_INTERVAL {
            changes.publish(&service);
            last_event = Instant::now();
        }
        match next {
            Some(folder) => {
                if let Err(fault) = read_folder(&service, &folder, &mut changes).await {
                    tracing::info!(%fault, media.path = &*folder, "a folder was not catalogued");
                }
                service.catalogue.lock_pending().reading = None;
            }
            None => prober.run_until(&service, service.catalogue.work_arrived.notified()).await,
        }
    }
}

impl Catalogue {
    pub(super) fn take_folder(&self) -> Option<Arc<str>> {
        let mut pending = self.lock_pending();
        pending.reading = pending.folders.pop_first();
        if pending.reading.is_none() {
            pending.gone = HashMap::new();
        }
        pending.reading.clone()
    }

    /// Stores the record of a file and puts it into the index.
    ///
    /// # Errors
    /// `STORAGE_FULL`: the item is listed, and found again after a restart.
    pub(super) async fn put(&self, roots: &Roots, path: &str, record: &ItemRecord) -> Result<()> {
        let (folder, name) = split_path(path);
        if let Some(names) = parse_names(roots, path) {
            self.write_index().put(FilePlace { folder, name, names: &names }, record);
        }
        self.store.put(Tree::Catalogue, path, record).await
    }
}

impl ItemChanges {
    fn add(&mut self, id: Option<ItemId>) {
        // One more than are named, so that it shows.
        if self.ids.len() <= MAX_EVENT_ITEMS {
            self.ids.extend(id);
        }
    }

    fn publish(&mut self, service: &Service) {
        let Self { ids, has_other_playlists } = std::mem::take(self);
        if has_other_playlists {
            service.channels.notify_library_change();
        }
        if ids.is_empty() {
            return;
        }
        let item_ids = (ids.len() <= MAX_EVENT_ITEMS).then(|| ids.iter().map(ItemId::to_string).collect());
        service.catalogue.items_changed.send_replace(());
        service.events.publish(None, EventContent::Items { item_ids });
        service.channels.notify_library_change();
    }
}

/// Reads the stored items. Those outside the roots are left out.
async fn load(service: &Arc<Service>) {
    let loading = service.clone();
    let loaded = tokio::task::spawn_blocking(move || -> Result<()> {
        let (catalogue, roots) = (&loading.catalogue, loading.library.roots());
        catalogue.store.for_each(Tree::Titles, |key, chosen: ChosenTitle| {
            if let Some(id) = ItemId::parse(key) {
                catalogue.write_index().chosen_titles.insert(id, chosen.title.into());
            }
        })?;
        catalogue.store.for_each(Tree::Catalogue, |path, record: ItemRecord| {
            let (folder, name) = split_path(path);
            if let Some(names) = parse_names(roots, path) {
                catalogue.write_index().put(FilePlace { folder, name, names: &names }, &record);
            }
        })?;
        catalogue.write_index().compact();
        Ok(())
    });
    if let Ok(Err(fault)) = loaded.await {
        tracing::warn!(%fault, "stored items could not be read; their files are read again");
    }
    service.catalogue.is_loaded.send_replace(true);
}

async fn read_folder(service: &Arc<Service>, folder: &Arc<str>, changes: &mut ItemChanges) -> Result<()> {
    let catalogue = &service.catalogue;
    let (roots, path) = (service.library.roots().clone(), folder.clone());
    let reading = async {
        let root = roots.locate(folder)?.root_index;
        let roots = roots.clone();
        service.library.run_with_deadline(root, move || FolderContent::read(&roots, &path)).await
    };
    let content = match reading.await {
        Ok(content) => content,
        // The folder is gone, or links out of the root now, or its root was removed.
        Err(fault) if matches!(fault.code, Code::NotFound | Code::Forbidden) => FolderContent::empty(),
        Err(fault) => return Err(fault),
    };
    if !content.media.is_empty() {
        catalogue.write_index().begin_folder(folder.clone());
    }
    let stamp = content.nfo_stamp;
    let updates: Vec<_> = content.media.iter().map(|file| update_file(service, folder, file, stamp)).collect();
    let mut updates = futures_util::stream::iter(updates).buffer_unordered(CONCURRENT_FILES);
    while let Some(updated) = updates.next().await {
        match updated {
            Ok(id) => changes.add(id),
            Err(fault) => tracing::info!(%fault, media.path = &**folder, "a file was not catalogued"),
        }
    }
    drop(updates);
    let exists = |name: &str| content.media.iter().any(|file| file.name == name);
    let known = catalogue.read_index().names_in(folder);
    for name in known.iter().filter(|name| !exists(name)) {
        remove_file(service, folder, name, changes).await;
    }
    changes.has_other_playlists |= update_playlists(service, folder, &content.playlists).await?;
    let changed = catalogue.write_index().finish_folder(folder, stamp, content.images, exists);
    if changed.has_other_images {
        let index = catalogue.read_index();
        let below = content.subfolders.iter().map(String::as_str).chain([&**folder]);
        below.flat_map(|folder| index.files_in(folder)).for_each(|item| changes.add(Some(item.id)));
    }
    if changed.has_other_nfo {
        // Their episodes may be described by the NFO file of the series here.
        let known: Vec<String> = content
            .subfolders
            .into_iter()
            .filter(|folder| !catalogue.read_index().names_in(folder).is_empty())
            .collect();
        catalogue.update_folders(known);
    }
    Ok(())
}

async fn remove_file(service: &Service, folder: &str, name: &str, changes: &mut ItemChanges) {
    let (catalogue, path) = (&service.catalogue, join_path(folder, name));
    let removed = catalogue.remove(folder, name);
    changes.add(removed);
    if let Err(fault) = catalogue.store.delete(Tree::Catalogue, &path).await {
        tracing::warn!(%fault, media.path = folder, "a removed file stays in the stored catalogue");
    }
    if let Some(id) = removed {
        show_progress_at_copy(service, id, &path).await;
    }
}

/// Moves progress from a removed file to another one with the same content, so that lists name a file that exists.
async fn show_progress_at_copy(service: &Service, id: ItemId, gone: &str) {
    let Some(copy) = service.catalogue.read_index().paths(id).into_iter().next() else { return };
    for collection in [&service.progress, &service.books] {
        if let Err(fault) = collection.leave_path(&id.to_string(), gone, &copy).await {
            tracing::warn!(%fault, media.path = copy, "progress stays at the path of a removed file");
        }
    }
}

/// Reads a file that is new or was changed, or whose NFO files were; returns its item, if it changed.
async fn update_file(service: &Arc<Service>, folder: &str, file: &MediaFile, stamp: u64) -> Result<Option<ItemId>> {
    let catalogue = &service.catalogue;
    let version = (file.size_bytes, file.modified_ns);
    let known = {
        let index = catalogue.read_index();
        if index.is_rejected(folder, &file.name, version) {
            return Ok(None);
        }
        let known = index.file(folder, &file.name).filter(|item| (item.size_bytes, item.modified_ns) == version);
        known.map(|item| item.nfo_stamp)
    };
    if known == Some(stamp) {
        return Ok(None);
    }
    let started = Instant::now();
    let updated = read_file(service, folder, file, stamp).await;
    // An item that is due waits for its renamed file for a few seconds only.
    if idle::is_busy(service) && !service.channels.waits_for_renamed_file() {
        tokio::time::sleep((started.elapsed() * BUSY_PAUSE).min(MAX_PAUSE)).await;
    }
    updated
}

async fn read_file(service: &Arc<Service>, folder: &str, file: &MediaFile, stamp: u64) -> Result<Option<ItemId>> {
    let (catalogue, path) = (&service.catalogue, join_path(folder, &file.name));
    let Some(OpenedFile { source, fingerprint, created_ms }) = open(service, &path).await? else {
        let version = (file.size_bytes, file.modified_ns);
        let mut index = catalogue.write_index();
        let removed = index.remove(folder, &file.name);
        index.reject(folder, &file.name, version);
        return Ok(removed);
    };
    // The record of the same content, at this path or before a move.
    let former = ItemId::parse(&fingerprint).and_then(|id| catalogue.read_index().by_id(id).map(|item| item.path()));
    let stored = |path: &str| catalogue.store.get::<ItemRecord>(Tree::Catalogue, path).ok().flatten();
    let former = former.and_then(|former| stored(&former)).filter(|record| record.id == fingerprint);
    let nfo = if stamp == 0 { None } else { service.library.describe_patiently(&source).await };
    let record = ItemRecord {
        id: fingerprint,
        size_bytes: file.size_bytes,
        modified_ns: file.modified_ns,
        added_ms: former.as_ref().map_or(created_ms, |record| record.added_ms),
        nfo_stamp: stamp,
        nfo,
        // A repair in place may leave the identity as it was.
        technical: former.filter(|record| record.modified_ns == file.modified_ns).and_then(|record| record.technical),
    };
    let id = ItemId::parse(&record.id);
    catalogue.put(service.library.roots(), &path, &record).await?;
    Ok(id)
}

struct OpenedFile {
    source: Arc<SourceFile>,
    fingerprint: String,
    created_ms: i64,
}

/// Opens a file without keeping it open for requests; None if its bytes are not media.
async fn open(service: &Service, path: &str) -> Result<Option<OpenedFile>> {
    let root = service.library.roots().locate(path)?.root_index;
    let (roots, path, now_ms) =
        (service.library.roots().clone(), path.to_owned(), service.clock.now().as_millisecond());
    let work = move || {
        let source = roots.open_file(&path)?;
        // All empty files have the same content.
        if source.format.is_none() || source.len == 0 {
            return Ok(None);
        }
        let unreadable = |cause: std::io::Error| {
            Error::new(Code::SourceReadFailed, "the file could not be read").with_cause(format!("{path}: {cause}"))
        };
        let fingerprint = source.fingerprint().map_err(unreadable)?.to_owned();
        // When the file came to this disk. Programs that copy often keep the time of the last change.
        let created = source.file.metadata().and_then(|metadata| metadata.created()).unwrap_or(source.modified);
        let created_ms = (to_nanoseconds(created) / 1_000_000).min(now_ms);
        Ok(Some(OpenedFile { source: Arc::new(source), fingerprint, created_ms }))
    };
    service.library.run_with_deadline(root, work).await
}

impl FolderContent {
    fn empty() -> Self {
        Self {
            media: Vec::new(),
            nfo_stamp: 0,
            images: FolderImages::default(),
            playlists: Vec::new(),
            subfolders: Vec::new(),
        }
    }

    /// Reads a folder. Blocks on the file system.
    fn read(roots: &Roots, folder: &str) -> Result<Self> {
        let open = roots.open_folder(folder)?;
        let mut content = Self::empty();
        let (mut nfo_files, mut images) = (Vec::new(), Vec::new());
        let entries = open.list_entries()?;
        let stems = media_stems(entries.iter().map(|(name, _)| name.as_str()));
        for (name, hint) in entries {
            let kind = kind_from_name(&name);
            let is_nfo = name.len() > 4 && name.to_ascii_lowercase().ends_with(".nfo");
            let is_image = images.len() < MAX_FOLDER_IMAGES && is_artwork(&name, &stems);
            if hint == EntryHint::Folder {
                content.subfolders.push(join_path(folder, &name));
            } else if (kind.is_some() || is_nfo || is_image || is_playlist_name(&name))
                && let Some(EntryTarget::File { size_bytes, modified }) = open.resolve_entry(&name)
            {
                let modified_ns = to_nanoseconds(modified);
                match kind {
                    Some(_) => content.media.push(MediaFile { name, size_bytes, modified_ns }),
                    None if is_nfo => nfo_files.push((name, size_bytes, modified_ns)),
                    None if is_image => images.push((name, size_bytes, modified_ns)),
                    None => content.playlists.push(PlaylistFile { name, version: (size_bytes, modified_ns) }),
                }
            }
        }
        drop(open);
        if let Some((above, _)) = folder.rsplit_once('/')
            && let Some(EntryTarget::File { size_bytes, modified }) =
                roots.resolve_target(&join_path(above, "tvshow.nfo"))
        {
            nfo_files.push(("../tvshow.nfo".to_owned(), size_bytes, to_nanoseconds(modified)));
        }
        content.nfo_stamp = stamp_of(nfo_files);
        content.images = FolderImages::new(images);
        Ok(content)
    }
}

/// A hash of names, lengths and times; 0 without files.
fn stamp_of(mut nfo_files: Vec<(String, u64, i64)>) -> u64 {
    if nfo_files.is_empty() {
        return 0;
    }
    nfo_files.sort();
    let mut hasher = blake3::Hasher::new();
    for (name, size_bytes, modified_ns) in nfo_files {
        hasher.update(name.as_bytes());
        hasher.update(&[0]);
        hasher.update(&size_bytes.to_le_bytes());
        hasher.update(&modified_ns.to_le_bytes());
    }
    u64::from_le_bytes(hasher.finalize().as_bytes()[..8].try_into().expect("8 of 32 bytes")).max(1)
}

/// The names of a path below its root; None outside the roots.
pub(super) fn parse_names(roots: &Roots, path: &str) -> Option<Names> {
    let located = roots.locate(path).ok()?;
    Some(Names::parse(roots.stated_name(located.root_index)?, located.relative_path.to_str()?, kind_from_name(path)?))
}

pub(super) fn split_path(path: &str) -> (&str, &str) {
    match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some(parts) => parts,
        None => ("", path),
    }
}

fn to_nanoseconds(at: SystemTime) -> i64 {
    let since_epoch = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX)
}
