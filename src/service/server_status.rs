//! How busy the server is: a task takes a sample every few seconds, and admins see the last half hour.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};

use super::Service;
use super::live::ZapKind;
use crate::domain::histogram::HistogramCounts;
use crate::domain::recording::RecordingState;
use crate::domain::status_series::{
    MeasuredTotal, SAMPLE_INTERVAL, StatusGauges, StatusSample, StatusSeries, StatusTotals,
};
use crate::domain::traffic::RouteClass;
use crate::engine::own_process::ProcessUsage;

/// The samples of this server.
#[derive(Debug)]
pub struct ServerStatus {
    series: Mutex<StatusSeries>,
    began: Instant,
}

impl Default for ServerStatus {
    fn default() -> Self {
        let series = StatusSeries::new(StatusTotals::default(), Duration::ZERO);
        Self { series: Mutex::new(series), began: Instant::now() }
    }
}

impl ServerStatus {
    /// The number of the newest sample, and the samples after the one with this number, oldest first.
    pub fn samples_after(&self, number: u64) -> (u64, Vec<StatusSample>) {
        let series = self.lock();
        (series.last_number(), series.samples_after(number).copied().collect())
    }

    fn lock(&self) -> MutexGuard<'_, StatusSeries> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service {
    /// Adds a sample of this moment.
    pub fn sample_status(&self) {
        let (totals, gauges) = (self.status_totals(), self.status_gauges());
        self.status.lock().add(totals, gauges, self.status.began.elapsed());
    }

    fn status_totals(&self) -> StatusTotals {
        let of_classes = |of: &dyn Fn(RouteClass) -> u64| RouteClass::ALL.into_iter().map(of).sum();
        let runs = self.renditions.health().run_counts().snapshot();
        let started = |backend: &str| runs.get(backend).map_or(0, |count| count.started);
        let cache = self.renditions.cache_usage();
        let zaps = ZapKind::ALL.map(|kind| measured(self.live_channels.zap_times.of(kind).counts()));
        StatusTotals {
            requests: of_classes(&|class| self.traffic.responses(class).into_iter().sum()),
            sent_bytes: of_classes(&|class| self.traffic.sent_bytes(class).load(std::sync::atomic::Ordering::Relaxed)),
            packager_runs: started("packager"),
            ffmpeg_runs: started("ffmpeg"),
            gstreamer_runs: started("gstreamer"),
            failed_runs: runs.values().map(|count| count.failed).sum(),
            cache_hits: cache.hits,
            cache_misses: cache.misses,
            first_segments: measured(self.sessions.first_segment_times().counts()),
            zaps: zaps.into_iter().fold(MeasuredTotal::default(), |sum, one| MeasuredTotal {
                count: sum.count + one.count,
                sum_seconds: sum.sum_seconds + one.sum_seconds,
            }),
            commits: measured(self.store.commit_times().counts()),
            library_changes: measured(self.library_change_times.counts()),
        }
    }

    fn status_gauges(&self) -> StatusGauges {
        let pool = self.isolation.status();
        let slots = self.renditions.encode_slots();
        let usage = ProcessUsage::read();
        StatusGauges {
            sessions: self.sessions.session_counts().0,
            encode_slots_used: slots.used_slots(),
            encode_slots_waiting: slots.waiting_renditions(),
            workers_ready: pool.ready,
            workers_busy: pool.busy,
            recordings: self.recordings.count_in(RecordingState::Recording),
            memory_bytes: usage.memory_bytes,
            open_descriptors: usage.open_descriptors,
        }
    }
}

fn measured(counts: HistogramCounts) -> MeasuredTotal {
    MeasuredTotal { count: counts.count, sum_seconds: counts.sum_seconds }
}

/// Starts the task that takes samples.
pub fn start(service: &Arc<Service>) {
    let weak = Arc::downgrade(service);
    service.tasks.spawn(async move {
        let mut ticks = tokio::time::interval(SAMPLE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let Some(service) = weak.upgrade() else { return };
            service.sample_status();
        }
    });
}
