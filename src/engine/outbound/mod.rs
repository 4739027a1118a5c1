//! Requests to external servers: the only way out of this program, and its protection against SSRF.
//!
//! Users and imported lists choose the addresses, so every request is restricted: http and https only; every address that
//! a name resolves to is checked, and only a checked address is connected to (DNS rebinding has no effect); redirects are
//! followed here and checked like the first address; sizes, times, connections and the requests to one host are limited.
//! Proxies of the environment are not used, because they would connect on our behalf. No log line holds a whole address.
#![doc = include_str!("README.md")]

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::{ACCEPT, LOCATION, RANGE};
use reqwest::redirect::Policy;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use url::Host;

use crate::domain::address::Address;
use crate::domain::ssrf::AllowedSources;
use crate::domain::throttle::RateLimiter;

mod names;
mod relay;
pub mod rtsp;

use names::CheckedResolver;
pub use names::{Lookup, LookupFuture, system_lookup};

/// `User-Agent` header, unless a source has its own.
const USER_AGENT: &str = concat!("Hearthcast/", env!("CARGO_PKG_VERSION"));

/// Maximum number of simultaneous connections, and how long a request waits for a slot.
const MAX_CONNECTIONS: usize = 256;
const SLOT_WAIT: Duration = Duration::from_secs(5);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of redirects followed.
const MAX_REDIRECTS: usize = 5;

/// Maximum number of requests to one host per minute. An ingest of several channels fetches a few per second.
const MAX_REQUESTS_PER_MINUTE: u32 = 1200;

/// Why a request failed. No message contains an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutboundError {
    #[error("leads to a blocked address ({0})")]
    BlockedAddress(&'static str),
    #[error("the host name does not resolve")]
    UnknownHost,
    #[error("{0}")]
    InvalidAddress(&'static str),
    #[error("more than {MAX_REDIRECTS} redirects")]
    TooManyRedirects,
    #[error("the server answered with status {0}")]
    Status(u16),
    #[error("the response has more than {0} bytes")]
    TooLarge(u64),
    #[error("timeout: {0}")]
    Timeout(&'static str),
    #[error("the connection failed: {0}")]
    ConnectionFailed(String),
    #[error("too many outbound requests are in progress")]
    Busy,
    #[error("too many requests to this host: retry in {0} s")]
    RateLimited(u32),
}

/// Options and limits of a request.
#[derive(Clone, Debug)]
pub struct OutboundRequest {
    pub user_agent: Option<String>,
    pub accept: Option<&'static str>,
    /// Value of the `Range` header, e.g. `bytes=0-99`.
    pub range: Option<String>,
    /// Maximum size in bytes; `u64::MAX` for an endless stream.
    pub max_bytes: u64,
    /// Maximum time until the response headers.
    pub head_timeout: Duration,
    /// Maximum time until the end of the body; None for an endless stream.
    pub total_timeout: Option<Duration>,
    /// Maximum time without data.
    pub idle_timeout: Duration,
}

impl OutboundRequest {
    /// A file of at most `max_bytes`: a playlist, a guide, a segment.
    pub fn for_file(max_bytes: u64) -> Self {
        Self {
            user_agent: None,
            accept: None,
            range: None,
            max_bytes,
            head_timeout: Duration::from_secs(10),
            total_timeout: Some(Duration::from_secs(60)),
            idle_timeout: Duration::from_secs(10),
        }
    }

    /// An endless stream.
    pub fn for_stream() -> Self {
        Self { total_timeout: None, ..Self::for_file(u64::MAX) }
    }
}

/// The only client for external servers; one for the whole program.
pub struct OutboundClient {
    client: reqwest::Client,
    resolver: CheckedResolver,
    slots: Arc<Semaphore>,
    host_throttle: Mutex<RateLimiter>,
    started: Instant,
}

/// A response whose headers have arrived.
#[derive(Debug)]
pub struct OutboundResponse {
    /// The final address after redirects: relative addresses in the body are relative to it.
    pub address: Address,
    response: reqwest::Response,
    remaining_bytes: u64,
    max_bytes: u64,
    deadline: Option<Instant>,
    idle_timeout: Duration,
    _slot: OwnedSemaphorePermit,
}

impl OutboundClient {
    /// A client that resolves names with the system's resolver.
    pub fn new(allowed: AllowedSources) -> Self {
        Self::with_lookup(allowed, Arc::new(system_lookup))
    }

    /// A client that resolves names with `lookup`.
    pub fn with_lookup(allowed: AllowedSources, lookup: Lookup) -> Self {
        let resolver = CheckedResolver { allowed: Arc::new(RwLock::new(allowed)), lookup };
        let client = reqwest::Client::builder()
            .dns_resolver(Arc::new(resolver.clone()))
            .redirect(Policy::none())
            .no_proxy()
            .referer(false)
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_max_idle_per_host(2)
            .pool_idle_timeout(Duration::from_secs(30))
            .user_agent(USER_AGENT)
            .build()
            .expect("TLS uses bundled root certificates");
        let (slots, host_throttle) =
            (Arc::new(Semaphore::new(MAX_CONNECTIONS)), Mutex::new(RateLimiter::new(MAX_REQUESTS_PER_MINUTE)));
        Self { client, resolver, slots, host_throttle, started: Instant::now() }
    }

    /// Replaces the exceptions to the SSRF check. Connections that are open stay open.
    pub fn set_allowed(&self, allowed: AllowedSources) {
        *self.resolver.allowed.write().unwrap_or_else(PoisonError::into_inner) = allowed;
    }

    /// The checked socket address of `address`, for protocols other than HTTP. The permit is a connection slot; the caller
    /// keeps it while it receives.
    ///
    /// # Errors
    /// `OutboundError::BlockedAddress`, `OutboundError::UnknownHost`, `OutboundError::Timeout`, `OutboundError::Busy`,
    /// `OutboundError::RateLimited`.
    pub async fn resolve_and_reserve(
        &self,
        address: &Address,
    ) -> Result<(SocketAddr, OwnedSemaphorePermit), OutboundError> {
        let slot = self.reserve_slot().await?;
        self.check_ip_literal(address)?;
        self.check_rate_limit(address)?;
        let (host, port) = address.host_and_port();
        let ip = match host {
            Host::Ipv4(ip) => ip.into(),
            Host::Ipv6(ip) => ip.into(),
            Host::Domain(name) => {
                let addresses = timeout(CONNECT_TIMEOUT, self.resolver.resolve_checked(name)).await;
                let addresses = addresses.map_err(|_| OutboundError::Timeout("no DNS response"))??;
                *addresses.first().ok_or(OutboundError::UnknownHost)?
            }
        };
        Ok((SocketAddr::new(ip, port), slot))
    }

    /// Sends a GET request; every response but 2xx is an error.
    pub async fn get(&self, address: &Address, request: &OutboundRequest) -> Result<OutboundResponse, OutboundError> {
        let slot = self.reserve_slot().await?;
        let deadline = request.total_timeout.map(|total| Instant::now() + total);
        let result = timeout(request.head_timeout, self.send_following_redirects(address, request)).await;
        let (address, response) = result.map_err(|_| OutboundError::Timeout("no response"))??;
        if !response.status().is_success() {
            return Err(OutboundError::Status(response.status().as_u16()));
        }
        if response.content_length().is_some_and(|length| length > request.max_bytes) {
            return Err(OutboundError::TooLarge(request.max_bytes));
        }
        Ok(OutboundResponse {
            address,
            response,
            remaining_bytes: request.max_bytes,
            max_bytes: request.max_bytes,
            deadline,
            idle_timeout: request.idle_timeout,
            _slot: slot,
        })
    }

    async fn reserve_slot(&self) -> Result<OwnedSemaphorePermit, OutboundError> {
        let slot = timeout(SLOT_WAIT, self.slots.clone().acquire_owned()).await;
        slot.ok().and_then(Result::ok).ok_or(OutboundError::Busy)
    }

    async fn send_following_redirects(
        &self,
        first: &Address,
        options: &OutboundRequest,
    ) -> Result<(Address, reqwest::Response), OutboundError> {
        let mut address = first.clone();
        for _ in 0..=MAX_REDIRECTS {
            self.check_ip_literal(&address)?;
            self.check_rate_limit(&address)?;
            let mut request = self.client.get(address.full_url().clone());
            if let Some(agent) = &options.user_agent {
                request = request.header(reqwest::header::USER_AGENT, agent);
            }
            if let Some(range) = &options.range {
                request = request.header(RANGE, range);
            }
            let response =
                request.header(ACCEPT, options.accept.unwrap_or("*/*")).send().await.map_err(connection_error)?;
            // The peer is the address that was checked. If that ever fails, nothing is read.
            if let Some(peer) = response.remote_addr()
                && let Some(reason) = self.refusal_reason(&address, peer.ip())
            {
                return Err(OutboundError::BlockedAddress(reason));
            }
            let location = response.headers().get(LOCATION).filter(|_| response.status().is_redirection());
            let Some(location) = location else { return Ok((address, response)) };
            let location =
                location.to_str().map_err(|_| OutboundError::InvalidAddress("the redirect is not a valid address"))?;
            address = address
                .resolve(location)
                .map_err(|_| OutboundError::InvalidAddress("the redirect is not an http address"))?;
        }
        Err(OutboundError::TooManyRedirects)
    }

    fn check_ip_literal(&self, address: &Address) -> Result<(), OutboundError> {
        let ip: IpAddr = match address.host_and_port().0 {
            Host::Ipv4(ip) => ip.into(),
            Host::Ipv6(ip) => ip.into(),
            Host::Domain(_) => return Ok(()),
        };
        self.resolver.allowed().refusal_reason(ip).map_or(Ok(()), |reason| Err(OutboundError::BlockedAddress(reason)))
    }

    fn refusal_reason(&self, address: &Address, ip: IpAddr) -> Option<&'static str> {
        match address.host_and_port().0 {
            Host::Domain(name) if self.resolver.allowed().allows_host(name) => None,
            _ => self.resolver.allowed().refusal_reason(ip),
        }
    }

    fn check_rate_limit(&self, address: &Address) -> Result<(), OutboundError> {
        let (host, port) = address.host_and_port();
        let now_ms = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        let mut throttle = self.host_throttle.lock().unwrap_or_else(PoisonError::into_inner);
        throttle.take(&[format!("{host}:{port}")], now_ms).map_err(OutboundError::RateLimited)
    }
}

impl OutboundResponse {
    /// The next bytes; None at the end.
    pub async fn next_chunk(&mut self) -> Result<Option<Bytes>, OutboundError> {
        let time_left = self.deadline.map(|until| until.saturating_duration_since(Instant::now()));
        let wait = time_left.map_or(self.idle_timeout, |left| left.min(self.idle_timeout));
        let chunk = timeout(wait, self.response.chunk()).await.map_err(|_| match time_left {
            Some(time_left) if time_left <= self.idle_timeout => OutboundError::Timeout("not complete in time"),
            _ => OutboundError::Timeout("no data received"),
        })?;
        let Some(chunk) = chunk.map_err(connection_error)? else { return Ok(None) };
        self.remaining_bytes =
            self.remaining_bytes.checked_sub(chunk.len() as u64).ok_or(OutboundError::TooLarge(self.max_bytes))?;
        Ok(Some(chunk))
    }

    /// Reads the whole body.
    pub async fn read_all(mut self) -> Result<Bytes, OutboundError> {
        let mut chunks = Vec::new();
        while let Some(chunk) = self.next_chunk().await? {
            chunks.push(chunk);
        }
        Ok(if let [only] = &chunks[..] { only.clone() } else { chunks.concat().into() })
    }
}

/// Converts an error of reqwest, without the address that reqwest puts into its text.
fn connection_error(error: reqwest::Error) -> OutboundError {
    let error = error.without_url();
    let mut current: Option<&dyn std::error::Error> = Some(&error);
    let mut innermost = String::new();
    while let Some(fault) = current {
        if let Some(fault) = fault.downcast_ref::<OutboundError>() {
            return fault.clone();
        }
        if let Some(fault) = fault.downcast_ref::<io::Error>().and_then(io::Error::get_ref)
            && let Some(fault) = fault.downcast_ref::<OutboundError>()
        {
            return fault.clone();
        }
        innermost = fault.to_string();
        current = fault.source();
    }
    if error.is_timeout() || error.is_connect() && innermost.contains("timed out") {
        return OutboundError::Timeout("the server does not accept the connection");
    }
    OutboundError::ConnectionFailed(innermost)
}
