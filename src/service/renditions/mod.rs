//! Renditions: planned, and produced by runs of the backends. Sessions and channels share them.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::config::Config;
use crate::engine::RenditionSpec;
use crate::engine::segment_cache::{CacheLimits, CacheUsage, SegmentCache};
#[cfg(feature = "cluster")]
use crate::engine::shared_segments::s3::S3Bucket;
use crate::engine::shared_segments::{SharedSegments, StoreCounts};
use crate::engine::worker::Isolation;
use crate::error::{Error, Result};
use crate::service::background_tasks::BackgroundTasks;
use crate::service::quarantine::Quarantine;

pub mod backend_counts;
pub mod backends;
mod element_decoders;
pub mod encode_slots;
pub mod local_encoders;
pub mod pipelines;
pub mod planner;
pub mod runs;
#[cfg(test)]
pub(in crate::service) mod sample_spec;

use backends::Backends;
use encode_slots::{AdmissionRequest, EncodeSlots};
use runs::{Lease, RunHealth, Runs};

/// Segment memory of one rendition, bytes.
const RENDITION_MEMORY_BYTES: u64 = 64 << 20;

/// How often expired segments are evicted.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(10);

/// The name of the backend chosen for a rendition, and why.
pub type BackendChoice = (&'static str, &'static str);

/// The runs of all renditions, the backends they use and the segments they produced.
pub struct Renditions {
    runs: Runs,
    pub backends: Backends,
    segments: SegmentCache,
    shared: Option<SharedSegments>,
    maintenance_started: OnceLock<()>,
    tasks: BackgroundTasks,
}

impl Renditions {
    /// # Errors
    /// The segment folder cannot be emptied or created, or the segment store has no credentials.
    pub fn open(
        config: &Config,
        isolation: Isolation,
        quarantine: Option<Quarantine>,
        tasks: BackgroundTasks,
    ) -> Result<Arc<Self>> {
        let limits = &config.limits;
        let cache_limits = CacheLimits {
            memory_bytes: limits.segment_memory_bytes,
            rendition_memory_bytes: RENDITION_MEMORY_BYTES.min(limits.segment_memory_bytes),
            disk_bytes: limits.segment_disk_bytes,
        };
        let folder = config.cache.join("segments");
        let segments = SegmentCache::open(&folder, cache_limits)
            .map_err(|cause| Error::internal(format!("{}: {cause}", folder.display())))?;
        let shared = open_shared(config, &tasks)?;
        let runs = Runs::new(segments.clone(), limits.concurrent_jobs, tasks.clone()).with_shared(shared.clone());
        Ok(Arc::new(Self {
            runs,
            backends: Backends::new(config, isolation, quarantine),
            segments,
            shared,
            maintenance_started: OnceLock::new(),
            tasks,
        }))
    }

    /// The runs of all renditions. Must be called inside the runtime.
    pub fn runs(self: &Arc<Self>) -> &Runs {
        self.start_maintenance();
        &self.runs
    }

    /// Health of the runs.
    pub fn health(&self) -> &RunHealth {
        self.runs.health()
    }

    /// Encode slots in use.
    pub fn active_jobs(&self) -> usize {
        self.runs.active_jobs()
    }

    pub fn encode_slots(&self) -> &Arc<EncodeSlots> {
        self.runs.encode_slots()
    }

    /// Contents and use of the segment cache.
    pub fn cache_usage(&self) -> CacheUsage {
        self.segments.usage()
    }

    /// Use of the store that servers share; None without `segments`.
    pub fn store_counts(&self) -> Option<StoreCounts> {
        self.shared.as_ref().map(SharedSegments::counts)
    }

    /// Finds the backends before the first session starts.
    pub async fn find_backends(&self) {
        if let Err(error) = self.backends.find_backends().await {
            tracing::error!(%error, "no backend is available; sessions cannot start");
        }
    }

    /// Leases `spec`; also returns the backend chosen for it and why.
    ///
    /// # Errors
    /// `TRANSCODER_BUSY`, `TRANSCODER_UNAVAILABLE`.
    pub async fn lease(
        &self,
        spec: &Arc<RenditionSpec>,
        viewer: AdmissionRequest<'_>,
    ) -> Result<(Lease, BackendChoice)> {
        let chosen = self.backends.choose(spec).await?;
        let backend_choice = (chosen.backend.name(), chosen.reason);
        Ok((self.runs.lease(chosen.backend, spec.clone(), viewer)?, backend_choice))
    }

    /// Removes all segments, once the runs have ended.
    pub fn clear_segments(&self) {
        self.segments.clear();
    }

    /// Starts the maintenance task, once: it evicts expired segments until the server stops.
    fn start_maintenance(self: &Arc<Self>) {
        if self.maintenance_started.set(()).is_ok() {
            let renditions = Arc::downgrade(self);
            self.tasks.spawn(async move {
                loop {
                    tokio::time::sleep(MAINTENANCE_INTERVAL).await;
                    let Some(renditions) = renditions.upgrade() else { return };
                    renditions.segments.evict_expired();
                }
            });
        }
    }
}

/// The store that servers share, with the task that uploads; None without `segments`.
#[cfg(feature = "cluster")]
fn open_shared(config: &Config, tasks: &BackgroundTasks) -> Result<Option<SharedSegments>> {
    let Some(bucket) = S3Bucket::open(config).map_err(Error::internal)? else { return Ok(None) };
    let (shared, uploads) = SharedSegments::new(Arc::new(bucket), config.segments_deadline);
    tasks.spawn(uploads.run());
    Ok(Some(shared))
}

/// None: a build without remote workers refuses `segments` in its configuration.
#[cfg(not(feature = "cluster"))]
fn open_shared(_: &Config, _: &BackgroundTasks) -> Result<Option<SharedSegments>> {
    Ok(None)
}
