//! Sources: imported lists (M3U) and guides (XMLTV). They are stored, read, refreshed on schedule, and withdrawn at once.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::domain::address::Address;
use crate::domain::rights::{Clearance, ClearanceChange, RightsClaim, missing_rights_error};
use crate::domain::source::{ChannelFilter, ImportSource, ReadCounts, ReadState, SourceKind, SourceRights};
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::channels::rights::AuditSubject;
use crate::store::{Batch, Store, Tree};

mod guide_storage;
mod guides;
mod source_import;

pub use source_import::{Preview, PreviewChannel};

/// Most sources.
const MAX_SOURCES: usize = 200;

/// Most bytes of text in a selection: far below the size limit of a record.
const MAX_SELECT_BYTES: usize = 1 << 20;

/// How often sources are checked for a due refresh.
const DUE_CHECK_INTERVAL: Duration = Duration::from_secs(60);

pub struct Sources {
    store: Store,
    by_id: RwLock<BTreeMap<u32, Arc<ImportSource>>>,
    /// Ids of the sources being read.
    reading_ids: Mutex<HashSet<u32>>,
    guides: guides::GuideCache,
    /// Locked while a source is changed; contains the highest id ever assigned.
    edit_lock: tokio::sync::Mutex<u32>,
}

/// A source's record; None after its removal, because an id is never reused.
#[derive(Serialize, Deserialize)]
struct SourceRecord {
    source: Option<ImportSource>,
}

/// The properties of a new source, or changes to one.
#[derive(Clone, Debug, Default)]
pub struct SourceChange {
    pub kind: Option<SourceKind>,
    pub name: Option<String>,
    pub url: Option<Address>,
    /// The uploaded content, instead of an address.
    pub upload: Option<Bytes>,
    pub refresh_hours: Option<Option<u32>>,
    pub claim: RightsClaim,
    pub filter: Option<ChannelFilter>,
    pub number_from: Option<Option<u32>>,
    /// Who makes the change, for the audit log.
    pub changed_by: String,
}

impl Sources {
    pub fn open(store: Store) -> Result<Self> {
        let (mut by_id, mut last_id) = (BTreeMap::new(), 0);
        for (key, record) in store.scan::<SourceRecord>(Tree::Sources)? {
            let id: u32 = key.parse().map_err(|_| Error::internal(format!("record sources/{key} has no id")))?;
            last_id = last_id.max(id);
            if let Some(source) = record.source {
                by_id.insert(id, Arc::new(source));
            }
        }
        let guides = guides::GuideCache::open(store.clone(), &by_id)?;
        let (by_id, edit_lock) = (RwLock::new(by_id), tokio::sync::Mutex::new(last_id));
        Ok(Self { store, by_id, reading_ids: Mutex::default(), guides, edit_lock })
    }

    /// All sources, by id.
    pub fn all(&self) -> Vec<Arc<ImportSource>> {
        self.by_id.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// # Errors
    /// `NOT_FOUND`.
    pub fn get(&self, id: u32) -> Result<Arc<ImportSource>> {
        let found = self.by_id.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        found.ok_or_else(|| Error::new(Code::NotFound, format!("there is no source {id}")))
    }

    /// Whether a source is being read now.
    pub fn is_busy(&self, id: u32) -> bool {
        self.reading_ids.lock().unwrap_or_else(PoisonError::into_inner).contains(&id)
    }

    async fn store_source(&self, source: ImportSource) -> Result<Arc<ImportSource>> {
        let record = SourceRecord { source: Some(source) };
        let SourceRecord { source: Some(source) } = &record else { return Err(Error::internal("a source is kept")) };
        self.store.put(Tree::Sources, &source_key(source.id), &record).await?;
        let source = Arc::new(source.clone());
        self.by_id.write().unwrap_or_else(PoisonError::into_inner).insert(source.id, source.clone());
        Ok(source)
    }
}

fn source_key(id: u32) -> String {
    format!("{id:010}")
}

impl Service {
    /// Adds a source and reads it.
    ///
    /// # Errors
    /// `RIGHTS_BASIS_REQUIRED` naming the missing fields; `VALIDATION_ERROR` with the reason if the source cannot be read;
    /// `STORAGE_FULL`.
    pub async fn add_source(self: &Arc<Self>, change: SourceChange) -> Result<Arc<ImportSource>> {
        let kind = change.kind.ok_or_else(|| Error::invalid_field("kind", "is missing"))?;
        let draft = self.draft_source(kind, None, &change)?;
        if self.sources.all().len() >= MAX_SOURCES {
            let message = format!("there are already {MAX_SOURCES} sources, the most allowed; delete some first");
            return Err(Error::new(Code::Conflict, message));
        }
        let bytes = self.fetch_source(&draft, change.upload.as_ref()).await?;
        let parsed = self.read_source(kind, bytes).await?;
        let mut last_id = self.sources.edit_lock.lock().await;
        *last_id += 1;
        let source = ImportSource { id: *last_id, ..draft };
        self.audit_source(None, &source, false, &change.changed_by).await?;
        let source = self.sources.store_source(source).await?;
        self.import_source(&source, parsed).await
    }

    /// Changes a source; reads it again if the change requires it and it can be fetched.
    ///
    /// # Errors
    /// `NOT_FOUND`, and those of [`Self::add_source`].
    pub async fn change_source(self: &Arc<Self>, id: u32, change: SourceChange) -> Result<Arc<ImportSource>> {
        let former = self.sources.get(id)?;
        if change.kind.is_some_and(|kind| kind != former.kind) {
            return Err(Error::invalid_field("kind", "cannot be changed: create another source"));
        }
        let draft = self.draft_source(former.kind, Some(&former), &change)?;
        let is_replaced = draft.url != former.url || change.upload.is_some();
        let is_selection_changed = (&draft.filter, draft.number_from) != (&former.filter, former.number_from);
        let needs_reading = draft.rights.is_usable() && (is_replaced || is_selection_changed && draft.url.is_some());
        let parsed = if needs_reading {
            let bytes = self.fetch_source(&draft, change.upload.as_ref()).await?;
            Some(self.read_source(draft.kind, bytes).await?)
        } else {
            None
        };
        let _editing = self.sources.edit_lock.lock().await;
        let current = self.sources.get(id)?;
        // Content read meanwhile stays; a right claimed or withdrawn meanwhile must not be lost.
        if current.rights != former.rights {
            return Err(Error::new(Code::Conflict, "the source was changed meanwhile"));
        }
        self.audit_source(Some(&former), &draft, is_replaced, &change.changed_by).await?;
        let ImportSource { state, last_read_ms: read_ms, counts, skipped, .. } = (*current).clone();
        let source =
            self.sources.store_source(ImportSource { state, last_read_ms: read_ms, counts, skipped, ..draft }).await?;
        self.rights_changes.notify();
        match parsed {
            Some(parsed) => self.import_source(&source, parsed).await,
            None => {
                self.map_guides().await;
                Ok(source)
            }
        }
    }

    /// Removes a source with its channels and programmes.
    ///
    /// # Errors
    /// `NOT_FOUND`; `STORAGE_FULL`: then nothing was removed, though the audit log may name it.
    pub async fn remove_source(&self, id: u32, by: &str) -> Result<()> {
        let _editing = self.sources.edit_lock.lock().await;
        let source = self.sources.get(id)?;
        if let Some(clearance) = source.rights.clearance() {
            let subject = AuditSubject::Source(id);
            self.audit_log.append(subject, &source.name, ClearanceChange::Removed, &[], by, clearance).await?;
        }
        let mut batch = Batch::default();
        batch.put(Tree::Sources, &source_key(id), &SourceRecord { source: None })?;
        self.channels.remove_imported(id, batch).await?;
        self.sources.by_id.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
        self.rights_changes.notify();
        // A guide without its source is never read, and no other source gets this id.
        if let Err(fault) = self.sources.guides.remove(id).await {
            tracing::warn!(source.id = id, %fault, "the guide of a removed source could not be deleted");
        }
        self.map_guides().await;
        Ok(())
    }

    /// Starts to read a source again; false if it is already being read.
    ///
    /// # Errors
    /// `NOT_FOUND`; `RIGHTS_WITHDRAWN`; `CONFLICT` for an uploaded source.
    pub fn refresh_source(self: &Arc<Self>, id: u32) -> Result<bool> {
        let source = self.sources.get(id)?;
        if !source.rights.is_usable() {
            return Err(Error::new(Code::RightsWithdrawn, "the right to use this source was withdrawn"));
        }
        if source.url.is_none() {
            return Err(Error::new(Code::Conflict, "this source was uploaded: upload it again by PATCH"));
        }
        if !self.sources.reading_ids.lock().unwrap_or_else(PoisonError::into_inner).insert(id) {
            return Ok(false);
        }
        let service = self.clone();
        self.tasks.spawn(async move {
            service.reread_source(&source).await;
            service.sources.reading_ids.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        });
        Ok(true)
    }

    async fn reread_source(self: &Arc<Self>, source: &Arc<ImportSource>) {
        let parsing = async {
            let bytes = self.fetch_source(source, None).await?;
            self.read_source(source.kind, bytes).await
        };
        let parsed = parsing.await;
        let _editing = self.sources.edit_lock.lock().await;
        // It may have been changed, withdrawn or removed meanwhile.
        let Ok(current) = self.sources.get(source.id) else { return };
        if current.url != source.url || !current.rights.is_usable() {
            return;
        }
        let outcome = match parsed {
            Ok(parsed) => self.import_source(&current, parsed).await.map(drop),
            Err(fault) => {
                tracing::warn!(source.id = current.id, %fault, "a source could not be read");
                let failed = ReadState::Failed(fault.message);
                let read_ms = Some(self.clock.now().as_millisecond());
                let source = ImportSource { state: failed, last_read_ms: read_ms, ..(*current).clone() };
                self.sources.store_source(source).await.map(drop)
            }
        };
        if let Err(fault) = outcome {
            tracing::warn!(source.id = current.id, %fault, "the content of a source could not be stored");
        }
    }

    fn refresh_due_sources(self: &Arc<Self>) {
        let now_ms = self.clock.now().as_millisecond();
        for source in self.sources.all() {
            let every_ms = source.refresh_hours.map(|hours| i64::from(hours) * 3_600_000);
            let is_due = every_ms.is_some_and(|every_ms| source.last_read_ms.unwrap_or(0) + every_ms <= now_ms);
            if is_due && source.url.is_some() && source.rights.is_usable() {
                let _ = self.refresh_source(source.id);
            }
        }
    }

    fn draft_source(&self, kind: SourceKind, old: Option<&ImportSource>, edit: &SourceChange) -> Result<ImportSource> {
        let name = edit.name.clone().or_else(|| old.map(|old| old.name.clone()));
        let name = name.ok_or_else(|| Error::invalid_field("name", "is missing"))?;
        if name.trim().is_empty() || name.chars().count() > 100 || name.chars().any(char::is_control) {
            let message = "must have 1 to 100 characters, none of them a control character";
            return Err(Error::invalid_field("name", message));
        }
        if edit.url.is_some() && edit.upload.is_some() {
            return Err(Error::invalid_field("upload", "and url cannot both be given"));
        }
        let url = match (&edit.url, &edit.upload) {
            (Some(url), _) => {
                let stored_url = old.and_then(|old| old.url.as_ref());
                let url = url.clone().or_stored(stored_url);
                Some(url.map_err(|message| Error::invalid_field("url", message))?)
            }
            (None, Some(_)) => None,
            (None, None) => old.and_then(|old| old.url.clone()),
        };
        let is_replaced = old.is_some_and(|old| old.url != url) || edit.upload.is_some();
        let former_rights = old.map(|old| &old.rights);
        let now_ms = self.clock.now().as_millisecond();
        let claim = edit.claim.clone();
        let rights = SourceRights::from_claim(kind, claim, former_rights, is_replaced, &edit.changed_by, now_ms);
        let rights = rights.map_err(|missing| missing_rights_error(&missing))?;
        if old.is_none() && url.is_none() && edit.upload.is_none() {
            return Err(Error::invalid_field("url", "is missing, and so is upload"));
        }
        let select_bytes = edit.filter.as_ref().map_or(0, ChannelFilter::text_bytes);
        if select_bytes > MAX_SELECT_BYTES {
            let message = format!("select has {select_bytes} bytes of names; at most {MAX_SELECT_BYTES} are allowed");
            return Err(Error::new(Code::PayloadTooLarge, message));
        }
        let former_value = |field: fn(&ImportSource) -> Option<u32>| old.and_then(field);
        Ok(ImportSource {
            id: old.map_or(0, |old| old.id),
            kind,
            name,
            url,
            refresh_hours: edit.refresh_hours.unwrap_or_else(|| former_value(|old| old.refresh_hours)),
            rights,
            filter: edit.filter.clone().or_else(|| old.map(|old| old.filter.clone())).unwrap_or_default(),
            number_from: edit.number_from.unwrap_or_else(|| former_value(|old| old.number_from)),
            state: ReadState::Ready,
            last_read_ms: None,
            counts: ReadCounts::default(),
            skipped: Vec::new(),
        })
    }

    async fn audit_source(
        &self,
        former: Option<&ImportSource>,
        after: &ImportSource,
        is_content_replaced: bool,
        by: &str,
    ) -> Result<()> {
        let Some(clearance) = after.rights.clearance() else { return Ok(()) };
        let former_clearance = former.and_then(|former| former.rights.clearance());
        match Clearance::change_between(former_clearance, clearance, is_content_replaced) {
            Some((kind, fields)) => {
                self.audit_log.append(AuditSubject::Source(after.id), &after.name, kind, &fields, by, clearance).await
            }
            None => Ok(()),
        }
    }
}

/// Starts the task that refreshes sources until the server stops.
pub fn start_refresh_task(service: &Arc<Service>) {
    let weak_service = Arc::downgrade(service);
    service.tasks.spawn(async move {
        loop {
            let Some(service) = weak_service.upgrade() else { return };
            service.refresh_due_sources();
            drop(service);
            tokio::time::sleep(DUE_CHECK_INTERVAL).await;
        }
    });
}
