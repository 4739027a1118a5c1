//! Images on other servers: logos of external channels, and icons of programmes in imported guides.
//!
//! They are fetched when they are requested, by the client that checks every address (SSRF), and decoded and kept as all images.

use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use lru::LruCache;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::{RETRY_SECONDS, job_error};
use crate::domain::address::Address;
use crate::engine::artwork::{self as engine, OutputFormat};
use crate::engine::outbound::OutboundRequest;
use crate::error::{Code, Error, Result};
use crate::service::Service;

/// Largest image that is fetched, bytes.
const MAX_REMOTE_BYTES: u64 = 4 << 20;

/// Images fetched at once.
const CONCURRENT_FETCHES: usize = 4;

/// Time limit of one fetch.
const FETCH_TIMEOUT: Duration = Duration::from_secs(15);

/// An image is fetched again after this time, days.
const PERIOD_DAYS: i64 = 7;

/// After a failure an image is not fetched for this time.
const FAILURE_PAUSE: Duration = Duration::from_secs(600);

/// Failures that are remembered; some 100 bytes each.
const MAX_FAILURES: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");

/// Limits of fetches.
pub(super) struct RemoteFetches {
    fetches: Semaphore,
    /// When an address failed, by its hash.
    failures: Mutex<LruCache<blake3::Hash, Instant>>,
}

impl Default for RemoteFetches {
    fn default() -> Self {
        Self { fetches: Semaphore::new(CONCURRENT_FETCHES), failures: Mutex::new(LruCache::sparse(MAX_FAILURES)) }
    }
}

impl RemoteFetches {
    fn has_failed(&self, url: &str) -> bool {
        let failed_at = self.lock_failures().peek(&blake3::hash(url.as_bytes())).copied();
        failed_at.is_some_and(|at| at.elapsed() < FAILURE_PAUSE)
    }

    fn add_failure(&self, url: &str) {
        self.lock_failures().put(blake3::hash(url.as_bytes()), Instant::now());
    }

    fn lock_failures(&self) -> MutexGuard<'_, LruCache<blake3::Hash, Instant>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service {
    /// An image on another server as PNG of at most this width; None if it cannot be fetched or is no PNG, JPEG, WebP or SVG.
    ///
    /// # Errors
    /// `SERVER_BUSY` if too many images are being made.
    pub async fn load_remote_image(&self, url: &str, width: u32) -> Result<Option<Bytes>> {
        let busy = || Error::new(Code::ServerBusy, "too many images are being made").with_retry_after(RETRY_SECONDS);
        let _request = self.artworks.requests.try_acquire().map_err(|_| busy())?;
        let period = self.clock.now().as_second().div_euclid(PERIOD_DAYS * 86_400);
        let key = |period: i64| format!("remote image {period} {url}");
        let sized = |period: i64| format!("{} {width}", key(period));
        if !self.artworks.remote.has_failed(url) {
            match self.artworks.get_or_make(&sized(period), self.make_remote(url, &key(period), width)).await {
                Ok(image) => return Ok(image),
                Err(fault) if fault.code == Code::ServerBusy => return Err(fault),
                Err(fault) => tracing::debug!(%fault, "an image on another server was not fetched"),
            }
        }
        // That of the period before is better than none.
        Ok(self.artworks.cache.get(&sized(period - 1)).await.filter(|image| !image.is_empty()))
    }

    async fn make_remote(&self, url: &str, key: &str, width: u32) -> Result<Option<Bytes>> {
        let Some(original) = self.artworks.get_or_make(key, self.fetch_image(url)).await? else { return Ok(None) };
        let _job = self.artworks.jobs.acquire().await.map_err(Error::internal)?;
        let made = engine::resize(&self.artworks.ffmpeg, &original, width, OutputFormat::Png).await;
        // Another try may succeed, but not at once: an SVG can state any amount of work.
        let made = made.inspect_err(|_| self.artworks.remote.add_failure(url));
        made.map(|made| made.map(Bytes::from)).map_err(job_error)
    }

    /// Fetches an image; None for bytes that are no image within the limits.
    async fn fetch_image(&self, url: &str) -> Result<Option<Bytes>> {
        let _fetch = self.artworks.remote.fetches.acquire().await.map_err(Error::internal)?;
        let fetching = async {
            let address = Address::parse(url).map_err(|fault| fault.to_string())?;
            let options = OutboundRequest {
                accept: Some("image/png,image/webp,image/jpeg,image/svg+xml;q=0.5"),
                total_timeout: Some(FETCH_TIMEOUT),
                ..OutboundRequest::for_file(MAX_REMOTE_BYTES)
            };
            let response = self.outbound.get(&address, &options).await.map_err(|fault| fault.to_string())?;
            response.read_all().await.map_err(|fault| fault.to_string())
        };
        match fetching.await {
            Ok(bytes) => Ok(Some(bytes).filter(|bytes| engine::is_usable_image(bytes))),
            Err(reason) => {
                self.artworks.remote.add_failure(url);
                Err(Error::new(Code::SourceReadFailed, "the image could not be fetched").with_cause(reason))
            }
        }
    }
}
