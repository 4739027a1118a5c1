//! Two producers of one rendition: one for runs from the start of an item, one for runs from elsewhere.
//!
//! Both make the same grid, PIDs and times, so that segments of both may stand in one rendition.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Job, Run, RunError, Transcoder};

pub struct Placed {
    start: Arc<dyn Transcoder>,
    elsewhere: Arc<dyn Transcoder>,
    version: String,
    /// The last run began at the start.
    at_start: AtomicBool,
}

impl Placed {
    pub fn new(start: Arc<dyn Transcoder>, elsewhere: Arc<dyn Transcoder>) -> Self {
        let version = format!("{}, elsewhere {}", start.version(), elsewhere.version());
        Self { start, elsewhere, version, at_start: AtomicBool::new(true) }
    }

    fn last(&self) -> &dyn Transcoder {
        if self.at_start.load(Ordering::Relaxed) { &*self.start } else { &*self.elsewhere }
    }
}

impl Transcoder for Placed {
    fn name(&self) -> &'static str {
        self.start.name()
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn encoder(&self, planned: &str) -> Option<&'static str> {
        self.last().encoder(planned)
    }

    fn at_work(&self) -> &'static str {
        self.last().at_work()
    }

    fn start(&self, job: Job, through: usize) -> Result<Run, RunError> {
        self.at_start.store(job.first == 0, Ordering::Relaxed);
        self.last().start(job, through)
    }
}
