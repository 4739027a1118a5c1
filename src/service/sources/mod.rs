//! Sources: imported lists (M3U) and guides (XMLTV). They are stored, read, refreshed on schedule, and withdrawn at once.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::domain::address::Address;
use crate::domain::rights::{ClearanceChange, RightsClaim, Clearance, missing_rights_error};
use crate::domain::source::{ReadCounts, SourceKind, SourceRights, ChannelFilter, ImportSource, ReadState};
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::rights::AuditSubject;
use crate::store::{Batch, Store, Tree};

mod guides;
mod pieces;
mod reading;

pub use reading::{Preview, PreviewChannel};

/// Most sources.
const MAX_SOURCES: usize = 200;

/// Most bytes of text in a selection: far below the size limit of a record.
const MAX_SELECT: usize = 1 << 20;

/// How often sources are checked for a due refresh.
const LOOK: Duration = Duration::from_secs(60);

/// All sources.
pub struct Sources {
    store: Store,
    by_id: RwLock<BTreeMap<u32, Arc<ImportSource>>>,
    /// Ids of the sources being read.
    busy: Mutex<HashSet<u32>>,
    guides: guides::Guides,
    /// Locked while a source is changed; contains the highest id ever assigned.
    editing: tokio::sync::Mutex<u32>,
}

/// A source's record; None after its removal, because an id is never reused.
#[derive(Serialize, Deserialize)]
struct Kept {
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
    pub select: Option<ChannelFilter>,
    pub number_from: Option<Option<u32>>,
    /// Who makes the change, for the audit log.
    pub by: String,
}

impl Sources {
    /// # Errors
    /// `INTERNAL` for a record that cannot be read.
    pub fn open(store: Store) -> Result<Self> {
        let (mut by_id, mut last) = (BTreeMap::new(), 0);
        for (key, kept) in store.scan::<Kept>(Tree::Sources)? {
            let id: u32 = key.parse().map_err(|_| Error::internal(format!("record sources/{key} has no id")))?;
            last = last.max(id);
            if let Some(source) = kept.source {
                by_id.insert(id, Arc::new(source));
            }
        }
        let guides = guides::Guides::open(store.clone(), &by_id)?;
        let (by_id, editing) = (RwLock::new(by_id), tokio::sync::Mutex::new(last));
        Ok(Self { store, by_id, busy: Mutex::default(), guides, editing })
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
        self.busy.lock().unwrap_or_else(PoisonError::into_inner).contains(&id)
    }

    async fn keep(&self, source: ImportSource) -> Result<Arc<ImportSource>> {
        let kept = Kept { source: Some(source) };
        let Kept { source: Some(source) } = &kept else { return Err(Error::internal("a source is kept")) };
        self.store.put(Tree::Sources, &key(source.id), &kept).await?;
        let source = Arc::new(source.clone());
        self.by_id.write().unwrap_or_else(PoisonError::into_inner).insert(source.id, source.clone());
        Ok(source)
    }
}

fn key(id: u32) -> String {
    format!("{id:010}")
}

impl Service {
    /// Adds a source and reads it.
    ///
    /// # Errors
    /// `RIGHTS_BASIS_REQUIRED` naming the missing fields; `VALIDATION_ERROR` with the reason if the source cannot be read;
    /// `STORAGE_FULL`.
    pub async fn add_source(self: &Arc<Self>, change: SourceChange) -> Result<Arc<ImportSource>> {
        let kind = change.kind.ok_or_else(|| Error::field("kind", "is missing"))?;
        let drafted = self.draft_source(kind, None, &change)?;
        if self.sources.all().len() >= MAX_SOURCES {
            return Err(Error::new(
                Code::Conflict,
                format!("there are already {MAX_SOURCES} sources, the most allowed; delete some first"),
            ));
        }
        let bytes = self.fetched(&drafted, change.upload.as_ref()).await?;
        let read = self.read_source(kind, bytes).await?;
        let mut last = self.sources.editing.lock().await;
        *last += 1;
        let source = ImportSource { id: *last, ..drafted };
        self.note_source(None, &source, false, &change.by).await?;
        let source = self.sources.keep(source).await?;
        self.take_in(&source, read).await
    }

    /// Changes a source; reads it again if the change requires it and it can be fetched.
    ///
    /// # Errors
    /// `NOT_FOUND`, and those of [`Self::add_source`].
    pub async fn change_source(self: &Arc<Self>, id: u32, change: SourceChange) -> Result<Arc<ImportSource>> {
        let before = self.sources.get(id)?;
        if change.kind.is_some_and(|kind| kind != before.kind) {
            return Err(Error::field("kind", "cannot be changed: create another source"));
        }
        let drafted = self.draft_source(before.kind, Some(&before), &change)?;
        let moved = drafted.url != before.url || change.upload.is_some();
        let other = (&drafted.filter, drafted.number_from) != (&before.filter, before.number_from);
        let again = drafted.rights.is_usable() && (moved || other && drafted.url.is_some());
        let read = match again {
            true => {
                let bytes = self.fetched(&drafted, change.upload.as_ref()).await?;
                Some(self.read_source(drafted.kind, bytes).await?)
            }
            false => None,
        };
        let _editing = self.sources.editing.lock().await;
        let current = self.sources.get(id)?;
        // Content read meanwhile stays; a right claimed or withdrawn meanwhile must not be lost.
        if current.rights != before.rights {
            return Err(Error::new(Code::Conflict, "the source was changed meanwhile"));
        }
        self.note_source(Some(&before), &drafted, moved, &change.by).await?;
        let ImportSource { state, last_read_ms: read_ms, counts, skipped, .. } = (*current).clone();
        let source = self.sources.keep(ImportSource { state, last_read_ms: read_ms, counts, skipped, ..drafted }).await?;
        self.rights_changes.notify();
        match read {
            Some(read) => self.take_in(&source, read).await,
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
        let _editing = self.sources.editing.lock().await;
        let source = self.sources.get(id)?;
        if let Some(clearance) = source.rights.clearance() {
            self.audit_log.append(AuditSubject::Source(id), &source.name, ClearanceChange::Removed, &[], by, clearance).await?;
        }
        let mut batch = Batch::default();
        batch.put(Tree::Sources, &key(id), &Kept { source: None })?;
        self.channels.remove_imported(id, batch).await?;
        self.sources.by_id.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
        self.rights_changes.notify();
        // A guide without its source is never read, and no other source gets this id.
        if let Err(fault) = self.sources.guides.forget(id).await {
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
        if !self.sources.busy.lock().unwrap_or_else(PoisonError::into_inner).insert(id) {
            return Ok(false);
        }
        let service = self.clone();
        tokio::spawn(async move {
            service.read_again(&source).await;
            service.sources.busy.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        });
        Ok(true)
    }

    async fn read_again(self: &Arc<Self>, source: &Arc<ImportSource>) {
        let read = async {
            let bytes = self.fetched(source, None).await?;
            self.read_source(source.kind, bytes).await
        };
        let read = read.await;
        let _editing = self.sources.editing.lock().await;
        // It may have been changed, withdrawn or removed meanwhile.
        let Ok(current) = self.sources.get(source.id) else { return };
        if current.url != source.url || !current.rights.is_usable() {
            return;
        }
        let outcome = match read {
            Ok(read) => self.take_in(&current, read).await.map(drop),
            Err(fault) => {
                tracing::warn!(source.id = current.id, %fault, "a source could not be read");
                let failed = ReadState::Failed(fault.message);
                let read_ms = Some(self.clock.now().as_millisecond());
                self.sources.keep(ImportSource { state: failed, last_read_ms: read_ms, ..(*current).clone() }).await.map(drop)
            }
        };
        if let Err(fault) = outcome {
            tracing::warn!(source.id = current.id, %fault, "the content of a source could not be stored");
        }
    }

    /// Refreshes the sources that are due.
    fn refresh_due(self: &Arc<Self>) {
        let now_ms = self.clock.now().as_millisecond();
        for source in self.sources.all() {
            let every = source.refresh_hours.map(|hours| i64::from(hours) * 3_600_000);
            let due = every.is_some_and(|every| source.last_read_ms.unwrap_or(0) + every <= now_ms);
            if due && source.url.is_some() && source.rights.is_usable() {
                let _ = self.refresh_source(source.id);
            }
        }
    }

    fn draft_source(&self, kind: SourceKind, before: Option<&ImportSource>, change: &SourceChange) -> Result<ImportSource> {
        let name = change.name.clone().or_else(|| before.map(|before| before.name.clone()));
        let name = name.ok_or_else(|| Error::field("name", "is missing"))?;
        if name.trim().is_empty() || name.chars().count() > 100 || name.chars().any(char::is_control) {
            return Err(Error::field("name", "must have 1 to 100 characters, none of them a control character"));
        }
        if change.url.is_some() && change.upload.is_some() {
            return Err(Error::field("upload", "and url cannot both be given"));
        }
        let url = match (&change.url, &change.upload) {
            (Some(url), _) => Some(url.clone()),
            (None, Some(_)) => None,
            (None, None) => before.and_then(|before| before.url.clone()),
        };
        let moved = before.is_some_and(|before| before.url != url) || change.upload.is_some();
        let was = before.map(|before| &before.rights);
        let now_ms = self.clock.now().as_millisecond();
        let right = SourceRights::from_claim(kind, change.claim.clone(), was, moved, &change.by, now_ms);
        let right = right.map_err(|lacks| missing_rights_error(&lacks))?;
        if before.is_none() && url.is_none() && change.upload.is_none() {
            return Err(Error::field("url", "is missing, and so is upload"));
        }
        let select = change.select.as_ref().map_or(0, ChannelFilter::text_bytes);
        if select > MAX_SELECT {
            let message = format!("select has {select} bytes of names; at most {MAX_SELECT} are allowed");
            return Err(Error::new(Code::PayloadTooLarge, message));
        }
        let kept = |of: fn(&ImportSource) -> Option<u32>| before.and_then(of);
        Ok(ImportSource {
            id: before.map_or(0, |before| before.id),
            kind,
            name,
            url,
            refresh_hours: change.refresh_hours.unwrap_or_else(|| kept(|before| before.refresh_hours)),
            rights: right,
            filter: change.select.clone().or_else(|| before.map(|before| before.filter.clone())).unwrap_or_default(),
            number_from: change.number_from.unwrap_or_else(|| kept(|before| before.number_from)),
            state: ReadState::Ready,
            last_read_ms: None,
            counts: ReadCounts::default(),
            skipped: Vec::new(),
        })
    }

    async fn note_source(&self, before: Option<&ImportSource>, after: &ImportSource, moved: bool, by: &str) -> Result<()> {
        let Some(is) = after.rights.clearance() else { return Ok(()) };
        let was = before.and_then(|before| before.rights.clearance());
        match Clearance::change_between(was, is, moved) {
            Some((act, parts)) => self.audit_log.append(AuditSubject::Source(after.id), &after.name, act, &parts, by, is).await,
            None => Ok(()),
        }
    }
}

/// Starts the task that refreshes sources until the server stops.
pub fn start(service: &Arc<Service>) {
    let service = Arc::downgrade(service);
    tokio::spawn(async move {
        loop {
            let Some(service) = service.upgrade() else { return };
            service.refresh_due();
            drop(service);
            tokio::time::sleep(LOOK).await;
        }
    });
}
