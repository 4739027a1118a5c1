//! Rights of external channels, and the audit log, which only grows.

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::domain::channel::Channel;
use crate::domain::external::{ExternalChannel, ExternalOrigin};
use crate::domain::rights::{Clearance, ClearanceChange, missing_rights_error};
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::clock::Clock;
use crate::store::{Store, Tree};

/// The subject of an entry in the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditSubject {
    Source(u32),
    Channel(u32),
}

/// One entry of the audit log: who did what to which clearance, and the clearance after it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AuditRecord {
    pub at_ms: i64,
    #[serde(rename = "by")]
    pub user_id: String,
    pub subject: AuditSubject,
    /// The subject's name at that time.
    pub name: String,
    #[serde(rename = "act")]
    pub change: ClearanceChange,
    /// The fields that changed.
    #[serde(rename = "parts")]
    pub changed_fields: Vec<String>,
    pub clearance: Clearance,
}

/// Notifies tasks that show or record something that rights may have changed, so that they check theirs again.
#[derive(Default)]
pub struct RightsNotifier(watch::Sender<u64>);

impl RightsNotifier {
    /// Call this after the change is visible.
    pub fn notify(&self) {
        self.0.send_modify(|count| *count += 1);
    }

    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

/// The audit log. Nothing in this program removes or changes an entry.
pub struct AuditLog {
    store: Store,
    clock: Clock,
    /// The number of the last entry; locked while one is written.
    last_number: tokio::sync::Mutex<u64>,
}

impl AuditLog {
    pub fn open(store: Store, clock: Clock) -> Result<Self> {
        let mut last_number = 0;
        store.for_each(Tree::Audit, |key, _: AuditRecord| {
            last_number = key.parse().unwrap_or(last_number).max(last_number)
        })?;
        Ok(Self { store, clock, last_number: tokio::sync::Mutex::new(last_number) })
    }

    /// Appends an entry, which is durable when this returns. Call it before the recorded change is made.
    ///
    /// # Errors
    /// `STORAGE_FULL`.
    pub async fn append(
        &self,
        subject: AuditSubject,
        name: &str,
        change: ClearanceChange,
        changed_fields: &[&str],
        user_id: &str,
        clearance: &Clearance,
    ) -> Result<()> {
        let mut last_number = self.last_number.lock().await;
        let entry = AuditRecord {
            at_ms: self.clock.now().as_millisecond(),
            user_id: user_id.to_owned(),
            subject,
            name: name.to_owned(),
            change,
            changed_fields: changed_fields.iter().map(|part| (*part).to_owned()).collect(),
            clearance: clearance.clone(),
        };
        // The number is used even if the write fails, because the entry may exist after a restart.
        *last_number += 1;
        self.store.put(Tree::Audit, &format!("{:012}", *last_number), &entry).await
    }

    /// Entries about `subject` (all when None) after the given number, oldest first, with their numbers.
    pub fn entries(&self, subject: Option<AuditSubject>, after: u64, max: usize) -> Result<Vec<(u64, AuditRecord)>> {
        let mut entries = Vec::new();
        self.store.for_each(Tree::Audit, |key, entry: AuditRecord| {
            let number = key.parse().unwrap_or(0);
            if number > after && entries.len() < max && subject.is_none_or(|subject| subject == entry.subject) {
                entries.push((number, entry));
            }
        })?;
        Ok(entries)
    }
}

impl Service {
    /// The clearance of an external channel; None for a library channel, which needs none.
    ///
    /// # Errors
    /// `RIGHTS_WITHDRAWN` when its source was removed.
    pub fn clearance(&self, channel: &Channel) -> Result<Option<Clearance>> {
        match channel.external.as_deref().map(|ExternalChannel { origin, .. }| origin) {
            None => Ok(None),
            Some(ExternalOrigin::Own { clearance, .. }) => Ok(Some(clearance.clone())),
            Some(ExternalOrigin::Source { id, .. }) => {
                let source = self.sources.get(*id).map_err(|_| rights_withdrawn_error(channel))?;
                source.rights.clearance().cloned().map(Some).ok_or_else(|| rights_withdrawn_error(channel))
            }
        }
    }

    /// Checks that a channel may be shown now.
    ///
    /// # Errors
    /// `RIGHTS_WITHDRAWN`.
    pub fn check_showing_rights(&self, channel: &Channel) -> Result<()> {
        let is_attested = match channel.external.as_deref().map(|external| &external.origin) {
            None => true,
            Some(ExternalOrigin::Own { clearance, .. }) => clearance.is_attested(),
            Some(ExternalOrigin::Source { id, .. }) => {
                self.sources.get(*id).is_ok_and(|source| source.rights.clearance().is_some_and(Clearance::is_attested))
            }
        };
        if is_attested { Ok(()) } else { Err(rights_withdrawn_error(channel)) }
    }

    /// Checks that a channel can and may be recorded now.
    ///
    /// # Errors
    /// `CONFLICT` for a channel with a clock of its own; `RIGHTS_WITHDRAWN`; `RIGHTS_BASIS_REQUIRED` for an external channel
    /// without a basis for recordings.
    pub fn check_recordable(&self, channel: &Channel) -> Result<()> {
        self.check_showing_rights(channel)?;
        if channel.clock.is_some() {
            let message = format!(
                "{} has a clock of its own, so its programmes have no fixed time to record",
                channel.settings.name
            );
            return Err(Error::new(Code::Conflict, message));
        }
        self.check_recording_rights(channel)
    }

    /// Checks that the rights of a channel permit a recording, by this server or by another program's recorder.
    ///
    /// # Errors
    /// `RIGHTS_WITHDRAWN`; `RIGHTS_BASIS_REQUIRED` for an external channel without a basis for recordings.
    pub fn check_recording_rights(&self, channel: &Channel) -> Result<()> {
        self.check_showing_rights(channel)?;
        match self.clearance(channel)? {
            Some(clearance) if clearance.rights.recording_basis.is_none() => {
                Err(missing_rights_error(&["rights.recordingBasis"]))
            }
            _ => Ok(()),
        }
    }
}

fn rights_withdrawn_error(channel: &Channel) -> Error {
    let message = format!("the right to show {} was withdrawn", channel.settings.name);
    Error::new(Code::RightsWithdrawn, message)
}
