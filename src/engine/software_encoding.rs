//! A backend that encodes in software, whatever encoder a plan names: the second of a pair whose first uses hardware.

use std::sync::Arc;

use super::{Backend, Job, Result, Run, RunError};
use crate::domain::plan::{EncodeVideo, VideoPlan};

/// Another backend, with this software encoder in place of the planned one.
pub struct SoftwareEncoding {
    backend: Arc<dyn Backend>,
    /// ffmpeg's name, as in plans.
    encoder: &'static str,
}

impl SoftwareEncoding {
    /// `encoder` must be of the codec of the plans.
    pub fn new(backend: Arc<dyn Backend>, encoder: &'static str) -> Self {
        Self { backend, encoder }
    }

    fn in_software(&self, mut job: Job) -> Job {
        let spec = Arc::make_mut(&mut job.spec);
        if let Some(VideoPlan::Encode(plan)) = &mut Arc::make_mut(&mut spec.rendition).video {
            self.encoder.clone_into(&mut plan.encoder);
        }
        job
    }
}

impl Backend for SoftwareEncoding {
    fn name(&self) -> &'static str {
        self.backend.name()
    }

    fn version(&self) -> &str {
        self.backend.version()
    }

    fn video_encoder(&self, plan: &EncodeVideo) -> Option<&'static str> {
        let plan = EncodeVideo { encoder: self.encoder.to_owned(), ..plan.clone() };
        Some(self.backend.video_encoder(&plan).unwrap_or(self.encoder))
    }

    fn audio_encoder(&self) -> &'static str {
        self.backend.audio_encoder()
    }

    fn active_backend_name(&self) -> &'static str {
        self.backend.active_backend_name()
    }

    fn handle_failure(&self, error: &RunError) -> bool {
        self.backend.handle_failure(error)
    }

    fn fallback_cause(&self) -> Option<RunError> {
        self.backend.fallback_cause()
    }

    fn start(&self, job: Job, last_allowed: usize) -> Result<Run> {
        self.backend.start(self.in_software(job), last_allowed)
    }
}
