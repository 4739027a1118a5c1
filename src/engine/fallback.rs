//! Failover between two backends: the second takes over for good when the first one fails.
//!
//! The first may use a hardware encoder or decoder that the second does without. Then that hardware rests after the failure, unless
//! the second one fails too: the file was to blame. The second may be such a pair itself, so that hardware is given up step by step.
//!
//! Both make the same grid, PIDs and times, so that segments of both may follow each other in one rendition (shown with hls.js
//! and ffmpeg): a viewer notices a pause at most.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::hardware_rest::{begin_rest, end_rest};
use super::{Backend, Job, Run, RunError};
use crate::domain::plan::EncodeVideo;

/// Two backends for one rendition.
pub struct FallbackBackend {
    primary: Arc<dyn Backend>,
    secondary: Arc<dyn Backend>,
    version: String,
    /// ffmpeg, and the encoder or decoder that the primary backend uses and the secondary does not.
    hardware: Option<(PathBuf, &'static str)>,
    fallback_cause: Mutex<Option<RunError>>,
}

impl FallbackBackend {
    pub fn new(primary: Arc<dyn Backend>, secondary: Arc<dyn Backend>) -> Self {
        let version = match primary.version() == secondary.version() {
            true => primary.version().to_owned(),
            false => format!("{} or {}", primary.version(), secondary.version()),
        };
        Self { primary, secondary, version, hardware: None, fallback_cause: Mutex::default() }
    }

    /// States the hardware encoder or decoder that only the primary backend uses: it rests after a failure.
    #[must_use]
    pub fn with_hardware(mut self, ffmpeg: PathBuf, hardware: &'static str) -> Self {
        self.hardware = Some((ffmpeg, hardware));
        self
    }

    fn active(&self) -> &dyn Backend {
        if self.fallback_cause().is_some() { self.secondary.as_ref() } else { self.primary.as_ref() }
    }

    fn switch_to_secondary(&self, error: &RunError) {
        tracing::warn!(%error, from = self.primary.name(), to = self.secondary.name(), "another backend takes over");
        if let Some((ffmpeg, hardware)) = &self.hardware {
            begin_rest(ffmpeg, hardware);
        }
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

    fn hardware_decoder(&self) -> Option<&'static str> {
        self.active().hardware_decoder()
    }

    fn active_backend_name(&self) -> &'static str {
        self.active().active_backend_name()
    }

    fn handle_failure(&self, error: &RunError) -> bool {
        // No backend can help when the file itself has changed.
        if self.fallback_cause().is_some() {
            let is_handled = self.secondary.handle_failure(error);
            if let Some((ffmpeg, hardware)) = self.hardware.as_ref().filter(|_| !is_handled) {
                end_rest(ffmpeg, hardware);
            }
            return is_handled;
        }
        if matches!(error, RunError::SourceChanged | RunError::SourceEnded) {
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::engine::hardware_rest::remaining_rest;
    use crate::engine::packager::Packager;

    #[test]
    fn a_hardware_encoder_rests_unless_software_fails_too() {
        let (ffmpeg, encoder) = (Path::new("/a/test/of/fallbacks"), "h264_vaapi");
        let backend =
            FallbackBackend::new(Arc::new(Packager), Arc::new(Packager)).with_hardware(ffmpeg.to_owned(), encoder);
        let fault = RunError::Decode("no frames".into());
        assert!(!backend.handle_failure(&RunError::SourceChanged));
        assert_eq!(remaining_rest(ffmpeg, encoder), None);
        assert!(backend.handle_failure(&fault));
        assert!(remaining_rest(ffmpeg, encoder).is_some());
        assert!(!backend.handle_failure(&fault), "software fails too");
        assert_eq!(remaining_rest(ffmpeg, encoder), None);
    }

    #[test]
    fn hardware_is_given_up_step_by_step() {
        let ffmpeg = Path::new("/a/test/of/steps");
        let pair = |secondary: Arc<dyn Backend>, hardware| {
            FallbackBackend::new(Arc::new(Packager), secondary).with_hardware(ffmpeg.to_owned(), hardware)
        };
        let backend = pair(Arc::new(pair(Arc::new(Packager), "h264_vaapi")), "vaapi");
        let resting = || ["vaapi", "h264_vaapi"].map(|name| remaining_rest(ffmpeg, name).is_some());
        let fault = RunError::Decode("no frames".into());
        assert!(backend.handle_failure(&fault));
        assert_eq!(resting(), [true, false]);
        assert!(backend.handle_failure(&fault));
        assert_eq!(resting(), [true, true]);
        assert!(!backend.handle_failure(&fault), "software fails too");
        assert_eq!(resting(), [false, false]);
        assert_eq!(backend.version(), Packager.version());
    }
}
