//! `GET /api/server/status`: how busy the server was in the last half hour; admins only.

use crate::domain::status_series::{SAMPLE_INTERVAL, StatusSample};
use crate::domain::time::{format_timestamp, round_to_ms};
use crate::http::api::prelude::*;

/// How busy the server is, and was.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerStatusAnswer {
    /// When the server started. Samples are numbered from 1 since then.
    #[schema(format = DateTime)]
    started_at: String,
    /// Between two samples.
    interval_seconds: f64,
    encode_slots: usize,
    /// The number of the newest sample; 0 without one.
    last_number: u64,
    series: StatusSeriesView,
}

/// Each list has a value for each sample, oldest first, at most 360.
#[derive(Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StatusSeries)]
pub struct StatusSeriesView {
    requests_per_second: Vec<f64>,
    sent_bytes_per_second: Vec<f64>,
    sessions: Vec<usize>,
    /// Runs that copy streams, started since the sample before.
    packager_runs: Vec<u64>,
    /// Runs of ffmpeg, started since the sample before.
    ffmpeg_runs: Vec<u64>,
    /// Runs of GStreamer, started since the sample before.
    gstreamer_runs: Vec<u64>,
    /// Runs that failed since the sample before.
    failed_runs: Vec<u64>,
    encode_slots_used: Vec<usize>,
    /// Renditions that wait for an encode slot.
    encode_slots_waiting: Vec<usize>,
    /// Of the segments requested since the sample before, 0 to 1; null if there were none.
    cache_hit_ratio: Vec<Option<f64>>,
    /// From the start of a session until its first segment exists: the mean since the sample before, or null.
    first_segment_seconds: Vec<Option<f64>>,
    /// From a viewer's first request for a channel until its first segment can be sent: the mean, or null.
    zap_seconds: Vec<Option<f64>>,
    /// Until changes of the state are durable: the mean, or null.
    commit_seconds: Vec<Option<f64>>,
    /// Until viewers are notified of a change in a library folder: the mean, or null.
    library_change_seconds: Vec<Option<f64>>,
    workers_ready: Vec<usize>,
    workers_busy: Vec<usize>,
    /// Recordings in progress.
    recordings: Vec<usize>,
    /// Memory of the server's process, without its workers; null if the system does not state it.
    memory_bytes: Vec<Option<u64>>,
    /// Open files and connections of the server's process, or null.
    open_descriptors: Vec<Option<u64>>,
}

/// How busy the server was in the last half hour
#[utoipa::path(get, path = "/api/server/status", params(
    ("after" = Option<u64>, Query, description = "Only samples after the one with this number; all if it is from before a restart")), responses(
    (status = 200, description = "A sample every few seconds", body = ServerStatusAnswer),
    (status = 400, description = "`VALIDATION_ERROR`")))]
pub async fn status(service: Arc<Service>, call: Call) -> Result<Response> {
    let after = call.query("after").unwrap_or("0").parse();
    let after = after.map_err(|_| Error::invalid_field("after", "must be the number of a sample"))?;
    let (last_number, samples) = service.status.samples_after(after);
    let mut series = StatusSeriesView::default();
    samples.iter().for_each(|sample| series.add(sample));
    Ok(reply::json(&ServerStatusAnswer {
        started_at: format_timestamp(service.started_at),
        interval_seconds: SAMPLE_INTERVAL.as_secs_f64(),
        encode_slots: service.renditions.encode_slots().slot_count(),
        last_number,
        series,
    }))
}

impl StatusSeriesView {
    fn add(&mut self, sample: &StatusSample) {
        let StatusSample { gauges, .. } = sample;
        self.requests_per_second.push(round_to_ms(sample.requests_per_second));
        self.sent_bytes_per_second.push(sample.sent_bytes_per_second.round());
        self.sessions.push(gauges.sessions);
        self.packager_runs.push(sample.packager_runs);
        self.ffmpeg_runs.push(sample.ffmpeg_runs);
        self.gstreamer_runs.push(sample.gstreamer_runs);
        self.failed_runs.push(sample.failed_runs);
        self.encode_slots_used.push(gauges.encode_slots_used);
        self.encode_slots_waiting.push(gauges.encode_slots_waiting);
        self.cache_hit_ratio.push(sample.cache_hit_ratio.map(round_to_ms));
        self.first_segment_seconds.push(sample.first_segment_seconds.map(round_to_ms));
        self.zap_seconds.push(sample.zap_seconds.map(round_to_ms));
        self.commit_seconds.push(sample.commit_seconds.map(round_to_ms));
        self.library_change_seconds.push(sample.library_change_seconds.map(round_to_ms));
        self.workers_ready.push(gauges.workers_ready);
        self.workers_busy.push(gauges.workers_busy);
        self.recordings.push(gauges.recordings);
        self.memory_bytes.push(gauges.memory_bytes);
        self.open_descriptors.push(gauges.open_descriptors);
    }
}
