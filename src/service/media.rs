//! What the library's files hold: probed once, remembered by content.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, Semaphore};

use crate::domain::media::{Media, PROBE_VERSION};
use crate::engine::index;
use crate::engine::probe::{self, ProbeError, Tools};
use crate::engine::source::Source;
use crate::error::{Code, Error, Result};
use crate::service::quarantine::Quarantine;
use crate::store::{Store, Tree};

/// Probes at once; each may be a process of its own.
const CONCURRENT: usize = 4;
/// Answers kept in memory; one is a few KiB.
const REMEMBERED: usize = 2048;

/// The reason given for a probe that took too long.
const TIMED_OUT: &str = "PROBE_TIMED_OUT";

/// How often whoever has time tries, and how many deadlines long.
const PATIENCE: [u32; 3] = [1, 2, 4];

/// Keeper of probe results.
pub struct Probes {
    tools: Tools,
    deadline: Duration,
    /// Where results survive a restart; None on the command line.
    store: Option<Store>,
    quarantine: Option<Arc<Quarantine>>,
    places: Semaphore,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// By fingerprint; a cell that is still empty is a probe under way, which later askers wait for.
    by_content: HashMap<String, Entry>,
    clock: u64,
}

struct Entry {
    outcome: Arc<OnceCell<Outcome>>,
    used: u64,
}

/// A probe's answer and when it was found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Probed {
    pub media: Arc<Media>,
    pub at: Timestamp,
}

type Outcome = Result<Probed, ProbeError>;

impl Probes {
    /// `ffmpeg` is the configured transcoder; its ffprobe is looked for beside it.
    pub fn new(ffmpeg: &Path, deadline: Duration) -> Self {
        Self {
            tools: Tools::beside(ffmpeg),
            deadline,
            store: None,
            quarantine: None,
            places: Semaphore::new(CONCURRENT),
            known: Mutex::default(),
        }
    }

    /// Keeps results in `store`, and files that took the server down out of this process. Inside a runtime it also
    /// begins to pay ahead what the first probe would.
    pub fn remembering(self, store: Store, quarantine: Arc<Quarantine>) -> Self {
        if let Ok(runtime) = Handle::try_current() {
            let tools = self.tools.clone();
            runtime.spawn(async move { probe::warm(&tools).await });
        }
        Self { store: Some(store), quarantine: Some(quarantine), ..self }
    }

    /// Pays ahead what the first probe would.
    pub async fn warm(&self) {
        probe::warm(&self.tools).await;
    }

    /// What a file holds.
    ///
    /// # Errors
    /// `UNPLAYABLE_MEDIA` with `details.reasons` when nothing can be read of it within the deadline (5 s unless
    /// configured); `SOURCE_READ_FAILED` when the file cannot be read; `INTERNAL` when the probe itself cannot run.
    pub async fn probe(&self, source: &Arc<Source>) -> Result<Arc<Media>> {
        Ok(self.probed(source).await?.media)
    }

    /// The same with the time it was found.
    ///
    /// # Errors
    /// Those of [`Self::probe`].
    pub async fn probed(&self, source: &Arc<Source>) -> Result<Probed> {
        self.probed_within(source, self.deadline).await
    }

    /// The same for whoever has time: what is not done within the deadline is tried again, longer each time. A busy
    /// machine is no fault of a file.
    ///
    /// # Errors
    /// Those of [`Self::probe`], but `SERVER_BUSY` where it took too long even so.
    pub async fn probe_patiently(&self, source: &Arc<Source>) -> Result<Arc<Media>> {
        for factor in PATIENCE {
            match self.probed_within(source, self.deadline * factor).await {
                Err(fault) if is_late(&fault) => {
                    tracing::debug!(media.path = %source.path, factor, "a probe took too long");
                }
                outcome => return Ok(outcome?.media),
            }
        }
        Err(Error::new(Code::ServerBusy, "it could not be looked into in time").with_retry_after(10))
    }

    async fn probed_within(&self, source: &Arc<Source>, deadline: Duration) -> Result<Probed> {
        let name = self.fingerprint(source).await?;
        let cell = self.cell(&name);
        let outcome = cell.get_or_init(|| self.remembered_or_run(&name, source, deadline)).await.clone();
        // Only what the bytes themselves decide is remembered; a missing tool or a busy machine may pass.
        if matches!(outcome, Err(ProbeError::TimedOut | ProbeError::Unavailable(_))) {
            self.known.lock().expect("no panic while held").by_content.remove(&name);
        }
        outcome.map_err(|fault| match fault {
            ProbeError::Unreadable(why) => unplayable("UNREADABLE").with_cause(why),
            ProbeError::TimedOut => unplayable(TIMED_OUT),
            ProbeError::Unavailable(cause) => Error::internal(cause),
        })
    }

    async fn remembered_or_run(&self, name: &str, source: &Arc<Source>, deadline: Duration) -> Outcome {
        let key = format!("{PROBE_VERSION}/{name}");
        if let Some(store) = self.store.clone() {
            let key = key.clone();
            let reading = tokio::task::spawn_blocking(move || store.get::<Probed>(Tree::Probes, &key));
            // A record that cannot be read is found again, like one that was never kept.
            if let Ok(Ok(Some(known))) = reading.await {
                return Ok(known);
            }
        }
        let outcome = self.run(name, source, deadline).await;
        if let (Some(store), Ok(probed)) = (self.store.clone(), &outcome) {
            let probed = probed.clone();
            // Nobody waits for the disk here: what is lost is only found again.
            tokio::spawn(async move {
                if let Err(fault) = store.put(Tree::Probes, &key, &probed).await {
                    tracing::warn!(%fault, "a probe result could not be kept");
                }
            });
        }
        outcome
    }

    async fn run(&self, name: &str, source: &Arc<Source>, deadline: Duration) -> Outcome {
        let work = async {
            let _place = self.places.acquire().await.expect("the semaphore is never closed");
            self.look(name, source).await
        };
        let mut media = tokio::time::timeout(deadline, work).await.unwrap_or(Err(ProbeError::TimedOut))?;
        // What is known stands without it.
        media.keyframe_interval_seconds = index::interval(source, &media).await;
        Ok(Probed { media: Arc::new(media), at: Timestamp::now() })
    }

    /// The quick way, in this process, unless the file is in quarantine; else ffprobe.
    async fn look(&self, name: &str, source: &Arc<Source>) -> Result<Media, ProbeError> {
        let mark = self.quarantine.as_ref().map(|quarantine| quarantine.enter(name, &source.path));
        let why = match mark {
            Some(None) => "it is in quarantine",
            mark => match probe::quick(&self.tools, source, Box::new(mark)).await {
                Ok(media) => return Ok(media),
                Err(why) => why,
            },
        };
        tracing::debug!(media.path = %source.path, why, "ffprobe is asked");
        probe::thorough(&self.tools, source).await
    }

    /// Identity of a file by its content, whatever its name.
    ///
    /// # Errors
    /// `SOURCE_READ_FAILED`.
    pub async fn fingerprint(&self, source: &Arc<Source>) -> Result<String> {
        let held = source.clone();
        let reading = tokio::task::spawn_blocking(move || held.fingerprint().map(str::to_owned));
        reading
            .await
            .map_err(Error::internal)?
            .map_err(|cause| Error::new(Code::SourceReadFailed, "the file could not be read").with_cause(cause))
    }

    fn cell(&self, name: &str) -> Arc<OnceCell<Outcome>> {
        let mut known = self.known.lock().expect("no panic while held");
        known.clock += 1;
        let now = known.clock;
        if !known.by_content.contains_key(name) && known.by_content.len() >= REMEMBERED {
            let oldest = known.by_content.iter().min_by_key(|(_, entry)| entry.used).map(|(name, _)| name.clone());
            oldest.map(|name| known.by_content.remove(&name));
        }
        let entry =
            known.by_content.entry(name.to_owned()).or_insert_with(|| Entry { outcome: Arc::default(), used: 0 });
        entry.used = now;
        entry.outcome.clone()
    }
}

/// Whether a probe failed for want of time.
fn is_late(fault: &Error) -> bool {
    fault.details.as_ref().is_some_and(|details| details["reasons"] == json!([TIMED_OUT]))
}

fn unplayable(reason: &str) -> Error {
    Error::new(Code::UnplayableMedia, "nothing in this file can be played").with_details(json!({"reasons": [reason]}))
}
