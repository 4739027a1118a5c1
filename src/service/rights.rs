//! Rights of external channels, and the audit log, which only grows.

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::domain::channel::Channel;
use crate::domain::external::{External, Origin};
use crate::domain::rights::{Act, Clearance, required};
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::clock::Clock;
use crate::store::{Store, Tree};

/// What a line of the log is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    Source(u32),
    Channel(u32),
}

/// One line of the log: who did what to which clearance, and what it said from then on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    pub at_ms: i64,
    pub by: String,
    pub subject: Subject,
    /// What it was called.
    pub name: String,
    pub act: Act,
    /// Which parts of it changed.
    pub parts: Vec<String>,
    pub clearance: Clearance,
}

/// Tells whoever shows or records something that rights may have changed: they look whether theirs still stand.
#[derive(Default)]
pub struct Changes(watch::Sender<u64>);

impl Changes {
    /// Called once what changed can be seen.
    pub fn tell(&self) {
        self.0.send_modify(|count| *count += 1);
    }

    pub fn follow(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

/// The log. Nothing in this program removes or changes a line.
pub struct Audit {
    store: Store,
    clock: Clock,
    /// The number of the last line; held while one is written.
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

    /// Adds a line; it is on disk when this returns. Written before what it tells of is done.
    ///
    /// # Errors
    /// `STORAGE_FULL`.
    pub async fn add(
        &self,
        subject: Subject,
        name: &str,
        act: Act,
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
        // Counted on even when it fails: it may be there after a restart.
        *last += 1;
        self.store.put(Tree::Audit, &format!("{:012}", *last), &line).await
    }

    /// Lines about `subject` (all when None) behind the given number, the oldest first, with their numbers.
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
    /// By what right a channel from elsewhere is shown; None for one made out of the library, which needs none.
    ///
    /// # Errors
    /// `RIGHTS_WITHDRAWN` when the source that had it is gone.
    pub fn clearance(&self, channel: &Channel) -> Result<Option<Clearance>> {
        match channel.external.as_deref().map(|External { origin, .. }| origin) {
            None => Ok(None),
            Some(Origin::Own { clearance, .. }) => Ok(Some(clearance.clone())),
            Some(Origin::Source { id, .. }) => {
                let source = self.sources.get(*id).map_err(|_| withdrawn(channel))?;
                source.right.clearance().cloned().map(Some).ok_or_else(|| withdrawn(channel))
            }
        }
    }

    /// Whether a channel may be shown now.
    ///
    /// # Errors
    /// `RIGHTS_WITHDRAWN`.
    pub fn may_show(&self, channel: &Channel) -> Result<()> {
        match self.clearance(channel)? {
            Some(clearance) if !clearance.stands() => Err(withdrawn(channel)),
            _ => Ok(()),
        }
    }

    /// Whether a channel may be recorded now.
    ///
    /// # Errors
    /// `RIGHTS_WITHDRAWN`; `RIGHTS_BASIS_REQUIRED` for one from elsewhere without a basis for recordings.
    pub fn may_record(&self, channel: &Channel) -> Result<()> {
        self.may_show(channel)?;
        if channel.pace.is_some() {
            let message =
                format!("{} goes by a clock of its own: nothing of it is on at a known time", channel.face.name);
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
            Some(clearance) if clearance.rights.recording_basis.is_none() => Err(required(&["rights.recordingBasis"])),
            _ => Ok(()),
        }
    }
}

fn withdrawn(channel: &Channel) -> Error {
    let message = format!("the right to show {} was withdrawn", channel.face.name);
    Error::new(Code::RightsWithdrawn, message)
}
