//! Failover between two backends: the second takes over for good when the first one fails.
//!
//! Both make the same grid, PIDs and times, so that segments of both may follow each other in one rendition (shown with hls.js
//! and ffmpeg): a viewer notices a pause at most.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Backend, Job, Run, RunError};
use crate::domain::plan::EncodeVideo;

/// Two backends for one rendition.
pub struct FallbackBackend {
    primary: Arc<dyn Backend>,
    secondary: Arc<dyn Backend>,
    version: String,
    fallback_cause: Mutex<Option<RunError>>,
}

impl FallbackBackend {
    pub fn new(primary: Arc<dyn Backend>, secondary: Arc<dyn Backend>) -> Self {
        let version = format!("{} or {}", primary.version(), secondary.version());
        Self { primary, secondary, version, fallback_cause: Mutex::default() }
    }

    fn active(&self) -> &dyn Backend {
        if self.fallback_cause().is_some() { self.secondary.as_ref() } else { self.primary.as_ref() }
    }

    fn switch_to_secondary(&self, error: &RunError) {
        tracing::warn!(%error, from = self.primary.name(), to = self.secondary.name(), "another backend takes over");
        self.fallback_cause.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| error.clone());
    }
}

impl Backend for FallbackBackend {
    fn name(&self) -> &'static str {
        self.primary.name()
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn video_encoder(&self, plan: &EncodeVideo) -> Option<&'static str> {
        self.active().video_encoder(plan)
    }

    fn audio_encoder(&self) -> &'static str {
        self.active().audio_encoder()
    }

    fn active_backend_name(&self) -> &'static str {
        self.active().active_backend_name()
    }

    fn handle_failure(&self, error: &RunError) -> bool {
        // No backend can help when the file itself has changed.
        if self.fallback_cause().is_some() || matches!(error, RunError::SourceChanged | RunError::SourceEnded) {
            return false;
        }
        self.switch_to_secondary(error);
        true
    }

    fn fallback_cause(&self) -> Option<RunError> {
        self.fallback_cause.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn start(&self, job: Job, last_allowed: usize) -> Result<Run, RunError> {
        if self.fallback_cause().is_none() {
            match self.primary.start(job.clone(), last_allowed) {
                Ok(run) => return Ok(run),
                Err(error) => self.switch_to_secondary(&error),
            }
        }
        self.secondary.start(job, last_allowed)
    }
}
