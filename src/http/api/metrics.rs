//! `GET /metrics`: counters, gauges and histograms of this server for Prometheus; admins only.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use http::header::{CACHE_CONTROL, HeaderValue};

use crate::domain::recording::RecordingState;
use crate::domain::traffic::{RouteClass, STATUS_CLASSES};
use crate::engine::own_process::ProcessUsage;
use crate::engine::shared_segments::StoreCounts;
use crate::engine::versions;
use crate::engine::worker::EndCause;
use crate::http::api::prelude::*;
use crate::http::metrics_text::{CONTENT_TYPE, MetricType, MetricsText};
use crate::service::live::ZapKind;
use crate::service::renditions::backend_counts::BackendCount;
use MetricType::{Counter, Gauge};

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
    let mut text = MetricsText::default();
    add_server(&mut text, service);
    add_traffic(&mut text, service);
    add_sessions(&mut text, service);
    add_encodes(&mut text, service);
    add_segments(&mut text, service);
    add_segment_store(&mut text, service);
    add_state(&mut text, service);
    text.into_string()
}

/// Versions, start time, memory, open files and worker processes.
fn add_server(text: &mut MetricsText, service: &Service) {
    let build = [("version", env!("CARGO_PKG_VERSION").to_owned()), ("gstreamer", versions::gstreamer_version())];
    text.add("hearthcast_build_info", Gauge, "Versions of this server; always 1.", [(build.to_vec(), 1)]);
    let started_at = service.started_at.as_second();
    text.add_single(
        "process_start_time_seconds",
        Gauge,
        "When the server started, seconds since 1970; the uptime is the time since.",
        started_at,
    );
    let usage = ProcessUsage::read();
    let memory = usage.memory_bytes.map(|bytes| (Vec::new(), bytes));
    text.add("process_resident_memory_bytes", Gauge, "Memory of the server, without its workers.", memory);
    let descriptors = usage.open_descriptors.map(|count| (Vec::new(), count));
    text.add("process_open_fds", Gauge, "Open files and connections of the server.", descriptors);
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
}

/// Responses and bytes by class of route.
fn add_traffic(text: &mut MetricsText, service: &Service) {
    let class_label = |class: RouteClass| ("class", class.as_str().to_owned());
    let responses = RouteClass::ALL.into_iter().flat_map(|class| {
        let counts = STATUS_CLASSES.into_iter().zip(service.traffic.responses(class));
        counts.map(move |(status, count)| (vec![class_label(class), ("status", status.to_owned())], count))
    });
    text.add(
        "hearthcast_http_requests_total",
        Counter,
        "Answered requests, by class of route and of status code.",
        responses,
    );
    let bytes = RouteClass::ALL
        .map(|class| (vec![class_label(class)], service.traffic.sent_bytes(class).load(Ordering::Relaxed)));
    text.add("hearthcast_http_sent_bytes_total", Counter, "Bytes of responses, by class of route.", bytes);
}

/// Sessions and channels: how many there are, and how long viewers wait.
fn add_sessions(text: &mut MetricsText, service: &Service) {
    let (live, started) = service.sessions.session_counts();
    text.add_single("hearthcast_sessions", Gauge, "Sessions now.", live);
    text.add_single("hearthcast_sessions_started_total", Counter, "Sessions started.", started);
    text.add_histogram(
        "hearthcast_first_segment_seconds",
        "From the start of a session until its first segment exists.",
        [(Vec::new(), service.sessions.first_segment_times().counts())],
    );
    let zaps = ZapKind::ALL.map(|kind| {
        let labels = vec![("kind", kind.as_str().to_owned())];
        (labels, service.live_channels.zap_times.of(kind).counts())
    });
    text.add_histogram(
        "hearthcast_zap_seconds",
        "From a viewer's first request for a channel until its first segment can be sent, by where that came from.",
        zaps,
    );
}

/// Runs, encode speed and the queue at the encode slots.
fn add_encodes(text: &mut MetricsText, service: &Service) {
    let runs = service.renditions.health().run_counts().snapshot();
    add_backend_counts(text, "hearthcast_runs", "Runs", &runs);
    let labels = |backend: &str| vec![("backend", backend.to_owned())];
    let finished = runs.iter().map(|(backend, count)| (labels(backend), count.finished));
    text.add(
        "hearthcast_runs_finished_total",
        Counter,
        "Runs that reached the end of their source, by backend; the others failed, were stopped, or run now.",
        finished,
    );
    let encoded = runs.iter().map(|(backend, count)| (labels(backend), count.encoded.as_secs_f64()));
    text.add(
        "hearthcast_encoded_media_seconds_total",
        Counter,
        "Length of the encoded segments, seconds, by backend; divided by the encode time, the encode speed.",
        encoded,
    );
    let spent = runs.iter().map(|(backend, count)| (labels(backend), count.encode_time.as_secs_f64()));
    text.add(
        "hearthcast_encode_time_seconds_total",
        Counter,
        "Time that the encodes of segments took, seconds, by backend.",
        spent,
    );
    add_backend_counts(text, "hearthcast_slates", "Encodes of a slate", &service.slates.counts().snapshot());
    let slots = service.renditions.encode_slots();
    text.add_single("hearthcast_encode_slots", Gauge, "Encode slots of this machine.", slots.slot_count());
    text.add_single("hearthcast_encode_slots_used", Gauge, "Encode slots in use.", slots.used_slots());
    text.add_single(
        "hearthcast_encode_slots_waiting",
        Gauge,
        "Renditions whose readers need segments, and that wait for an encode slot.",
        slots.waiting_renditions(),
    );
}

/// Starts and failures of each backend that was used.
fn add_backend_counts(text: &mut MetricsText, name: &str, noun: &str, counts: &BTreeMap<&'static str, BackendCount>) {
    let samples = |count: fn(&BackendCount) -> u64| {
        counts.iter().map(move |(backend, counted)| (vec![("backend", (*backend).to_owned())], count(counted)))
    };
    let (started, failed) = (samples(|count| count.started), samples(|count| count.failed));
    text.add(&format!("{name}_started_total"), Counter, &format!("{noun} started, by backend."), started);
    text.add(&format!("{name}_failed_total"), Counter, &format!("{noun} that failed, by backend."), failed);
}

/// The segment cache, and requests that wait for a segment.
fn add_segments(text: &mut MetricsText, service: &Service) {
    let waiting = service.renditions.health().waiting_requests();
    text.add_single("hearthcast_segment_requests_waiting", Gauge, "Requests that wait for their segment.", waiting);
    let usage = service.renditions.cache_usage();
    let label = |name, value: &str, count| (vec![(name, value.to_owned())], count);
    text.add(
        "hearthcast_segment_cache_requests_total",
        Counter,
        "Segments requested from the cache: hit, or miss if they have to be made.",
        [label("result", "hit", usage.hits), label("result", "miss", usage.misses)],
    );
    text.add(
        "hearthcast_segment_cache_bytes",
        Gauge,
        "Bytes of segments in the cache, by where they are.",
        [label("place", "memory", usage.memory_bytes), label("place", "disk", usage.disk_bytes)],
    );
}

/// The segment store that servers share; without samples unless one is configured.
fn add_segment_store(text: &mut MetricsText, service: &Service) {
    let counts = service.renditions.store_counts();
    let samples = |results: fn(StoreCounts) -> Vec<(&'static str, u64)>| {
        counts.into_iter().flat_map(results).map(|(result, count)| (vec![("result", result.to_owned())], count))
    };
    text.add(
        "hearthcast_segment_store_reads_total",
        Counter,
        "Segments looked for in the shared store: hit, miss, fault (an error, too slow, damaged), or skipped after faults.",
        samples(|counts| {
            let StoreCounts { hits, misses, faults, skipped, .. } = counts;
            vec![("hit", hits), ("miss", misses), ("fault", faults), ("skipped", skipped)]
        }),
    );
    text.add(
        "hearthcast_segment_store_uploads_total",
        Counter,
        "Segments for the shared store: stored, failed, or dropped because the queue was full or after faults.",
        samples(|counts| {
            let StoreCounts { uploaded, failed_uploads, dropped_uploads, .. } = counts;
            vec![("stored", uploaded), ("failed", failed_uploads), ("dropped", dropped_uploads)]
        }),
    );
    text.add(
        "hearthcast_segment_store_available",
        Gauge,
        "1 if the shared store is in use, 0 while it is left alone after faults.",
        counts.map(|counts| (Vec::new(), u8::from(counts.is_available))),
    );
    text.add_histogram(
        "hearthcast_segment_store_read_seconds",
        "Time until the shared store answered a read, or until its deadline.",
        counts.map(|counts| (Vec::new(), counts.read_times)),
    );
}

/// The store, the library and recordings.
fn add_state(text: &mut MetricsText, service: &Service) {
    text.add_histogram(
        "hearthcast_store_commit_seconds",
        "Time to make changes of the state durable, with one measurement for those that shared a sync.",
        [(Vec::new(), service.store.commit_times().counts())],
    );
    text.add_histogram(
        "hearthcast_library_change_seconds",
        "From the first event of a change in a library folder until viewers are notified of it.",
        [(Vec::new(), service.library_change_times.counts())],
    );
    let samples = RecordingState::ALL
        .map(|state| (vec![("state", state.as_str().to_owned())], service.recordings.count_in(state)));
    text.add("hearthcast_recordings", Gauge, "Recordings, by state.", samples);
}
