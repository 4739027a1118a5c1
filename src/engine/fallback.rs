//! Failover between two backends: the second takes over for good when the first one fails.
//!
//! Both make the same grid, PIDs and times, so that segments of both may follow each other in one rendition (shown with hls.js
//! and ffmpeg): a viewer notices a pause at most.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Job, Run, RunError, Transcoder};

/// Two backends for one rendition.
pub struct Fallback {
    first: Arc<dyn Transcoder>,
    second: Arc<dyn Transcoder>,
    version: String,
    fallen: Mutex<Option<RunError>>,
}

impl Fallback {
    pub fn new(first: Arc<dyn Transcoder>, second: Arc<dyn Transcoder>) -> Self {
        let version = format!("{} or {}", first.version(), second.version());
        Self { first, second, version, fallen: Mutex::default() }
    }

    fn fall(&self, error: &RunError) {
        tracing::warn!(%error, from = self.first.name(), to = self.second.name(), "another backend takes over");
        self.fallen.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| error.clone());
    }
}

impl Transcoder for Fallback {
    fn name(&self) -> &'static str {
        self.first.name()
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn encoder(&self, planned: &str) -> Option<&'static str> {
        if self.fallen().is_some() { self.second.encoder(planned) } else { self.first.encoder(planned) }
    }

    fn audio_encoder(&self) -> &'static str {
        if self.fallen().is_some() { self.second.audio_encoder() } else { self.first.audio_encoder() }
    }

    fn at_work(&self) -> &'static str {
        if self.fallen().is_some() { self.second.name() } else { self.first.at_work() }
    }

    fn failed(&self, error: &RunError) -> bool {
        // No backend can help when the file itself has changed.
        if self.fallen().is_some() || matches!(error, RunError::SourceChanged | RunError::SourceEnded) {
            return false;
        }
        self.fall(error);
        true
    }

    fn fallen(&self) -> Option<RunError> {
        self.fallen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn start(&self, job: Job, through: usize) -> Result<Run, RunError> {
        if self.fallen().is_none() {
            match self.first.start(job.clone(), through) {
                Ok(run) => return Ok(run),
                Err(error) => self.fall(&error),
            }
        }
        self.second.start(job, through)
    }
}
