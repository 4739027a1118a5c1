//! GStreamer's backends that decode by hardware, each tested when a film first needs it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::engine::video_decoders::{HardwareDecoder, TRIAL_FORMATS, TrialFormat};
use crate::engine::worker::WorkerBackend;

/// The names of hardware and format.
type Key = (&'static str, &'static str);

/// The trials begun so far: at most one for each hardware and format of the tables.
type Trials = HashMap<Key, Trial>;

#[derive(Debug)]
enum Trial {
    UnderWay,
    Passed(WorkerBackend),
    /// With the reason.
    Failed(String),
}

#[derive(Debug, Default)]
pub struct ElementDecoders {
    /// Replaced when the machine has changed, so that a trial under way counts for the former one only.
    trials: Mutex<Arc<Mutex<Trials>>>,
}

/// The formats that GStreamer's elements of some hardware were tested with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestedFormats {
    pub passed: Vec<&'static str>,
    /// With the reasons.
    pub rejected: Vec<(&'static str, String)>,
}

impl ElementDecoders {
    /// The backend for video of this format, if it decodes like software. The first call starts the trial, for which no viewer waits.
    /// Must be called inside a tokio runtime.
    pub fn find(
        &self,
        software: &WorkerBackend,
        ffmpeg: &Path,
        decoder: &'static HardwareDecoder,
        format: &'static TrialFormat,
    ) -> Option<WorkerBackend> {
        let (trials, key) = (self.trials(), (decoder.name, format.name));
        match lock(&trials).entry(key) {
            Entry::Occupied(begun) => {
                return match begun.get() {
                    Trial::Passed(backend) => Some(backend.clone()),
                    Trial::UnderWay | Trial::Failed(_) => None,
                };
            }
            Entry::Vacant(new) => drop(new.insert(Trial::UnderWay)),
        }
        let (software, ffmpeg) = (software.clone(), ffmpeg.to_owned());
        tokio::spawn(async move {
            let outcome = software.with_decoder(&ffmpeg, decoder, format).await;
            let (hardware, format) = (decoder.name, format.name);
            let trial = match outcome {
                Ok(backend) => {
                    tracing::info!(hardware, format, "GStreamer decodes by hardware");
                    Trial::Passed(backend)
                }
                Err(cause) => {
                    tracing::info!(hardware, format, cause, "GStreamer does not decode by hardware, but ffmpeg");
                    Trial::Failed(cause)
                }
            };
            lock(&trials).insert(key, trial);
        });
        None
    }

    /// Has all trials repeated when films need them again.
    pub fn forget(&self) {
        *lock(&self.trials) = Arc::default();
    }

    fn trials(&self) -> Arc<Mutex<Trials>> {
        lock(&self.trials).clone()
    }

    /// The formats that were tested with this hardware, in the order of their table.
    pub fn tested_formats(&self, decoder: &HardwareDecoder) -> TestedFormats {
        let trials = self.trials();
        let trials = lock(&trials);
        let mut tested = TestedFormats::default();
        for format in &TRIAL_FORMATS {
            match trials.get(&(decoder.name, format.name)) {
                Some(Trial::Passed(_)) => tested.passed.push(format.name),
                Some(Trial::Failed(cause)) => tested.rejected.push((format.name, cause.clone())),
                Some(Trial::UnderWay) | None => {}
            }
        }
        tested
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
