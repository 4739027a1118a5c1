//! Rights of external channels, and the audit log, which only grows.

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::domain::channel::Channel;
use crate::domain::external::{ExternalChannel, ExternalOrigin};
use crate::domain::rights::{ClearanceChange, Clearance, missing_rights_error};
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::clock::Clock;
use crate::store::{Store, Tree};

/// The subject of an entry in the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    Source(u32),
    Channel(u32),
}

/// One entry of the audit log: who did what to which clearance, and the clearance after it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    pub at_ms: i64,
    #[serde(rename = "by")]
    pub by: String,
    pub subject: Subject,
    /// The subject's name at that time.
    pub name: String,
    #[serde(rename = "act")]
    pub act: ClearanceChange,
    /// The fields that changed.
    #[serde(rename = "parts")]
    pub parts: Vec<String>,
    pub clearance: Clearance,
}

/// Notifies tasks that show or record something that rights may have changed, so that they check theirs again.
#[derive(Default)]
pub struct Changes(watch::Sender<u64>);

impl Changes {
    /// Call this after the change is visible.
    pub fn tell(&self) {
        self.0.send_modify(|count| *count += 1);
    }

    pub fn follow(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

/// The audit log. Nothing in this program removes or changes an entry.
pub struct Audit {
    store: Store,
    clock: Clock,
    /// The number of the last entry; locked while one is written.
    last: tokio::sync::Mutex<u64>,
}

impl Audit {
    /// # Errors
    /// `INTERNAL` for a record that cannot be read.
    pub fn open(store: Store, clock: Clock) -> Result<Self> {
        let mut last = 0;
        store.each(Tree::Audit, |key, _: Line| last = key.parse().unwrap_or(last).max(last))?;
        Ok(Self { store, clock, last: tokio::sync::Mutex::new(last) })
    }

    /// Appends an entry, which is durable when this returns. Call it before the recorded change is made.
    ///
    /// # Errors
    /// `STORAGE_FULL`.
    pub async fn add(
        &self,
        subject: Subject,
        name: &str,
        act: ClearanceChange,
        parts: &[&str],
        by: &str,
        clearance: &Clearance,
    ) -> Result<()> {
        let mut last = self.last.lock().await;
        let line = Line {
            at_ms: self.clock.now().as_millisecond(),
            by: by.to_owned(),
            subject,
            name: name.to_owned(),
            act,
            parts: parts.iter().map(|part| (*part).to_owned()).collect(),
            clearance: clearance.clone(),
        };
        // The number is used even if the write fails, because the entry may exist after a restart.
        *last += 1;
        self.store.put(Tree::Audit, &format!("{:012}", *last), &line).await
    }

    /// Entries about `subject` (all when None) after the given number, oldest first, with their numbers.
    ///
    /// # Errors
    /// `INTERNAL` for a record that cannot be read.
    pub fn lines(&self, subject: Option<Subject>, after: u64, most: usize) -> Result<Vec<(u64, Line)>> {
        let mut found = Vec::new();
        self.store.each(Tree::Audit, |key, line: Line| {
            let number = key.parse().unwrap_or(0);
            if number > after && found.len() < most && subject.is_none_or(|subject| subject == line.subject) {
                found.push((number, line));
            }
        })?;
        Ok(found)
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
                let source = self.sources.get(*id).map_err(|_| withdrawn(channel))?;
                source.rights.clearance().cloned().map(Some).ok_or_else(|| withdrawn(channel))
            }
        }
    }

    /// Checks that a channel may be shown now.
    ///
    /// # Errors
    /// `RIGHTS_WITHDRAWN`.
    pub fn may_show(&self, channel: &Channel) -> Result<()> {
        match self.clearance(channel)? {
            Some(clearance) if !clearance.is_attested() => Err(withdrawn(channel)),
            _ => Ok(()),
        }
    }

    /// Checks that a channel can and may be recorded now.
    ///
    /// # Errors
    /// `CONFLICT` for a channel with a clock of its own; `RIGHTS_WITHDRAWN`; `RIGHTS_BASIS_REQUIRED` for an external channel
    /// without a basis for recordings.
    pub fn may_record(&self, channel: &Channel) -> Result<()> {
        self.may_show(channel)?;
        if channel.clock.is_some() {
            let message =
                format!("{} has a clock of its own, so its programmes have no fixed time to record", channel.settings.name);
            return Err(Error::new(Code::Conflict, message));
        }
        self.permits_recording(channel)
    }

    /// Checks that the rights of a channel permit a recording, by this server or by another program's recorder.
    ///
    /// # Errors
    /// `RIGHTS_WITHDRAWN`; `RIGHTS_BASIS_REQUIRED` for an external channel without a basis for recordings.
    pub fn permits_recording(&self, channel: &Channel) -> Result<()> {
        self.may_show(channel)?;
        match self.clearance(channel)? {
            Some(clearance) if clearance.rights.recording_basis.is_none() => Err(missing_rights_error(&["rights.recordingBasis"])),
            _ => Ok(()),
        }
    }
}

fn withdrawn(channel: &Channel) -> Error {
    let message = format!("the right to show {} was withdrawn", channel.settings.name);
    Error::new(Code::RightsWithdrawn, message)
}
