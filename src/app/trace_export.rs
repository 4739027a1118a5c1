//! The task that sends spans to an OpenTelemetry collector.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::trace_exporter::TraceExporter;
use crate::error::{Error, Result};
use crate::service::Service;
use crate::telemetry::traces;

/// Between two requests to the collector.
const EXPORT_INTERVAL: Duration = Duration::from_secs(1);

/// A collector that fails is reported again after this time.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Starts recording and sending spans, if `otlp_endpoint` is set. The last ones are sent at shutdown.
///
/// # Errors
/// When the address cannot be used.
pub fn start(service: &Arc<Service>) -> Result<()> {
    let Some(endpoint) = &service.config.otlp_endpoint else { return Ok(()) };
    let exporter = TraceExporter::new(endpoint).map_err(Error::internal)?;
    traces::start_recording();
    let stop = service.tasks.stop_token();
    service.tasks.spawn_graceful(async move {
        let mut reported_at: Option<tokio::time::Instant> = None;
        loop {
            let is_last = tokio::select! {
                () = stop.cancelled() => true,
                () = tokio::time::sleep(EXPORT_INTERVAL) => false,
            };
            let (spans, dropped) = traces::take_finished();
            let sent = exporter.send(&spans).await;
            let fault = sent.err().or_else(|| (dropped > 0).then(|| format!("{dropped} spans were dropped")));
            if let Some(fault) = fault
                && reported_at.is_none_or(|at| at.elapsed() >= REPORT_INTERVAL)
            {
                tracing::warn!(fault, "traces are not sent completely");
                reported_at = Some(tokio::time::Instant::now());
            }
            if is_last {
                return;
            }
        }
    });
    Ok(())
}
