//! Sends finished spans to an OpenTelemetry collector: OTLP over HTTP, in JSON.

use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use reqwest::{Client, Url};

use crate::domain::trace::{FinishedSpan, export_request};

/// Time for a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Spans in one request.
const MAX_BATCH: usize = 512;

/// A collector.
#[derive(Clone, Debug)]
pub struct TraceExporter {
    client: Client,
    url: Url,
}

impl TraceExporter {
    /// The collector at an address such as `http://127.0.0.1:4318`, which a setting names.
    ///
    /// # Errors
    /// Why the address cannot be used.
    pub fn new(endpoint: &str) -> Result<Self, String> {
        let url =
            Url::parse(&format!("{}/v1/traces", endpoint.trim_end_matches('/'))).map_err(|fault| fault.to_string())?;
        let client = Client::builder().timeout(REQUEST_TIMEOUT).redirect(Policy::none()).no_proxy().build();
        Ok(Self { client: client.map_err(|fault| fault.to_string())?, url })
    }

    /// Sends spans; those that a failed request contained are lost.
    ///
    /// # Errors
    /// Why a request failed. The others are not sent then.
    pub async fn send(&self, spans: &[FinishedSpan]) -> Result<(), String> {
        for batch in spans.chunks(MAX_BATCH) {
            let body = export_request(batch, env!("CARGO_PKG_VERSION")).to_string();
            let request = self.client.post(self.url.clone()).header(CONTENT_TYPE, "application/json").body(body);
            let answer = request.send().await.map_err(|fault| fault.without_url().to_string())?;
            if !answer.status().is_success() {
                return Err(format!("the collector answered {}", answer.status()));
            }
        }
        Ok(())
    }
}
