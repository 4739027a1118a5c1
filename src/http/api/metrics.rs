//! `GET /metrics`: counters and gauges of this server for Prometheus; admins only.

use std::collections::BTreeMap;

use http::header::{CACHE_CONTROL, HeaderValue};

use crate::engine::versions;
use crate::engine::worker::EndCause;
use crate::http::api::prelude::*;
use crate::http::metrics_text::{CONTENT_TYPE, MetricType, MetricsText};
use crate::service::renditions::backend_counts::BackendCount;

/// Metrics for Prometheus
///
/// Text format 0.0.4. Counters begin at 0 when the server starts. A scraper sends the token of an admin as its bearer token.
#[utoipa::path(get, path = "/metrics", responses(
    (status = 200, description = "All metrics", body = String, content_type = "text/plain")))]
pub async fn metrics(service: Arc<Service>, _: Call) -> Result<Response> {
    let mut response = reply::bytes(CONTENT_TYPE, metrics_text(&service).into());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

fn metrics_text(service: &Service) -> String {
    use MetricType::{Counter, Gauge};
    let mut text = MetricsText::default();
    let build = [("version", env!("CARGO_PKG_VERSION").to_owned()), ("gstreamer", versions::gstreamer_version())];
    text.add("hearthcast_build_info", Gauge, "Versions of this server; always 1.", [(build.to_vec(), 1)]);
    let started_at = service.started_at.as_second();
    text.add_single(
        "process_start_time_seconds",
        Gauge,
        "When the server started, seconds since 1970; the uptime is the time since.",
        started_at,
    );

    let pool = service.isolation.status();
    text.add_single("hearthcast_workers_ready", Gauge, "Worker processes without a job.", pool.ready);
    text.add_single("hearthcast_workers_busy", Gauge, "Worker processes with a job.", pool.busy);
    let restarts = EndCause::ALL.map(|cause| {
        let name = cause.as_str();
        (vec![("cause", name.to_owned())], pool.causes.get(name).copied().unwrap_or(0))
    });
    text.add(
        "hearthcast_worker_restarts_total",
        Counter,
        "Worker processes that ended before their work was done, or were recycled, by cause.",
        restarts,
    );
    let quarantined = service.quarantine.len();
    text.add_single("hearthcast_quarantined_files", Gauge, "Files that only ffmpeg reads.", quarantined);

    let runs = service.renditions.health().run_counts();
    add_backend_counts(&mut text, "hearthcast_runs", "Runs", &runs.snapshot());
    add_backend_counts(&mut text, "hearthcast_slates", "Encodes of a slate", &service.slates.counts().snapshot());
    text.into_string()
}

/// Starts and failures of each backend that was used.
fn add_backend_counts(text: &mut MetricsText, name: &str, noun: &str, counts: &BTreeMap<&'static str, BackendCount>) {
    let samples = |count: fn(&BackendCount) -> u64| {
        counts.iter().map(move |(backend, counted)| (vec![("backend", (*backend).to_owned())], count(counted)))
    };
    let (started, failed) = (samples(|count| count.started), samples(|count| count.failed));
    text.add(&format!("{name}_started_total"), MetricType::Counter, &format!("{noun} started, by backend."), started);
    text.add(&format!("{name}_failed_total"), MetricType::Counter, &format!("{noun} that failed, by backend."), failed);
}
