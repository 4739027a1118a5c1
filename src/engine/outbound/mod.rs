//! Requests to external servers: the only way out of this program, and its protection against SSRF.
//!
//! Users and imported lists choose the addresses, so every request is restricted: http and https only; every address that
//! a name resolves to is checked, and only a checked address is connected to (DNS rebinding has no effect); redirects are
//! followed here and checked like the first address; sizes, times, connections and the requests to one host are limited.
//! Proxies of the environment are not used, because they would connect on our behalf. No log line holds a whole address.
#![doc = include_str!("README.md")]

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream::{self, Stream};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, LOCATION, RANGE};
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
pub mod srt;

use names::Names;
pub use names::{Looking, Lookup, system};

/// `User-Agent` header, unless a source has its own.
const USER_AGENT: &str = concat!("Hearthcast/", env!("CARGO_PKG_VERSION"));

/// Maximum number of simultaneous connections, and how long a request waits for a slot.
const PLACES: usize = 256;
const PLACE_WAIT: Duration = Duration::from_secs(5);

const CONNECT: Duration = Duration::from_secs(5);

/// Maximum number of redirects followed.
const REDIRECTS: usize = 5;

/// Maximum number of requests to one host per minute. An ingest of several channels fetches a few per second.
const PER_MINUTE: u32 = 1200;

/// Why a request failed. No message contains an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("leads to a blocked address ({0})")]
    Inside(&'static str),
    #[error("the host name does not resolve")]
    Unknown,
    #[error("{0}")]
    Address(&'static str),
    #[error("more than {REDIRECTS} redirects")]
    Redirects,
    #[error("the server answered with status {0}")]
    Status(u16),
    #[error("the response has more than {0} bytes")]
    TooLarge(u64),
    #[error("timeout: {0}")]
    TooSlow(&'static str),
    #[error("the connection failed: {0}")]
    Broken(String),
    #[error("too many outbound requests are in progress")]
    Busy,
    #[error("too many requests to this host: retry in {0} s")]
    TooOften(u32),
}

/// Options and limits of a request.
#[derive(Clone, Debug)]
pub struct Ask {
    pub user_agent: Option<String>,
    pub accept: Option<&'static str>,
    /// Value of the `Range` header, e.g. `bytes=0-99`.
    pub range: Option<String>,
    /// Maximum size in bytes; `u64::MAX` for an endless stream.
    pub most_bytes: u64,
    /// Maximum time until the response headers.
    pub head: Duration,
    /// Maximum time until the end of the body; None for an endless stream.
    pub total: Option<Duration>,
    /// Maximum time without data.
    pub idle: Duration,
}

impl Ask {
    /// A file of at most `most_bytes`: a playlist, a guide, a segment.
    pub fn file(most_bytes: u64) -> Self {
        Self {
            user_agent: None,
            accept: None,
            range: None,
            most_bytes,
            head: Duration::from_secs(10),
            total: Some(Duration::from_secs(60)),
            idle: Duration::from_secs(10),
        }
    }

    /// An endless stream.
    pub fn stream() -> Self {
        Self { total: None, ..Self::file(u64::MAX) }
    }
}

/// The only client for external servers; one for the whole program.
pub struct Outbound {
    client: reqwest::Client,
    allowed: Arc<AllowedSources>,
    names: Names,
    places: Arc<Semaphore>,
    pace: Mutex<RateLimiter>,
    began: Instant,
}

/// A response whose headers have arrived.
#[derive(Debug)]
pub struct Answer {
    /// 2xx.
    pub status: u16,
    /// The final address after redirects: relative addresses in the body are relative to it.
    pub address: Address,
    pub headers: HeaderMap,
    body: reqwest::Response,
    left: u64,
    most: u64,
    until: Option<Instant>,
    idle: Duration,
    _place: OwnedSemaphorePermit,
}

impl Outbound {
    /// A client that resolves names with the system's resolver.
    pub fn new(allowed: AllowedSources) -> Self {
        Self::with_names(allowed, Arc::new(system))
    }

    /// A client that resolves names with `lookup`.
    pub fn with_names(allowed: AllowedSources, lookup: Lookup) -> Self {
        let allowed = Arc::new(allowed);
        let names = Names { allowed: allowed.clone(), lookup };
        let client = reqwest::Client::builder()
            .dns_resolver(Arc::new(names.clone()))
            .redirect(Policy::none())
            .no_proxy()
            .referer(false)
            .connect_timeout(CONNECT)
            .pool_max_idle_per_host(2)
            .pool_idle_timeout(Duration::from_secs(30))
            .user_agent(USER_AGENT)
            .build()
            .expect("TLS uses bundled root certificates");
        let (places, pace) = (Arc::new(Semaphore::new(PLACES)), Mutex::new(RateLimiter::new(PER_MINUTE)));
        Self { client, allowed, names, places, pace, began: Instant::now() }
    }

    /// Whether requests to an address are allowed; for validation before the address is stored.
    ///
    /// # Errors
    /// `Fault::Inside`, `Fault::Unknown`, `Fault::TooSlow`.
    pub async fn check(&self, address: &Address) -> Result<(), Fault> {
        self.check_literal(address)?;
        if let (Host::Domain(name), _) = address.host_and_port() {
            timeout(CONNECT, self.names.checked(name)).await.map_err(|_| Fault::TooSlow("no DNS response"))??;
        }
        Ok(())
    }

    /// The checked socket address of `address`, for protocols other than HTTP. The permit is a connection slot; the caller
    /// keeps it while it receives.
    ///
    /// # Errors
    /// Those of [`Self::check`]; `Fault::Busy`, `Fault::TooOften`.
    pub async fn pinned(&self, address: &Address) -> Result<(SocketAddr, OwnedSemaphorePermit), Fault> {
        let place = timeout(PLACE_WAIT, self.places.clone().acquire_owned()).await;
        let place = place.ok().and_then(Result::ok).ok_or(Fault::Busy)?;
        self.check_literal(address)?;
        self.keep_pace(address)?;
        let (host, port) = address.host_and_port();
        let ip = match host {
            Host::Ipv4(ip) => ip.into(),
            Host::Ipv6(ip) => ip.into(),
            Host::Domain(name) => {
                let found = timeout(CONNECT, self.names.checked(name)).await;
                let found = found.map_err(|_| Fault::TooSlow("no DNS response"))??;
                *found.first().ok_or(Fault::Unknown)?
            }
        };
        Ok((SocketAddr::new(ip, port), place))
    }

    /// Sends a GET request.
    ///
    /// # Errors
    /// A `Fault` for every response but 2xx.
    pub async fn get(&self, address: &Address, ask: &Ask) -> Result<Answer, Fault> {
        let place = timeout(PLACE_WAIT, self.places.clone().acquire_owned()).await;
        let place = place.ok().and_then(Result::ok).ok_or(Fault::Busy)?;
        let until = ask.total.map(|total| Instant::now() + total);
        let reached = timeout(ask.head, self.follow(address, ask)).await;
        let (address, body) = reached.map_err(|_| Fault::TooSlow("no response"))??;
        let (status, headers) = (body.status().as_u16(), body.headers().clone());
        if !body.status().is_success() {
            return Err(Fault::Status(status));
        }
        if body.content_length().is_some_and(|length| length > ask.most_bytes) {
            return Err(Fault::TooLarge(ask.most_bytes));
        }
        let (left, most, idle) = (ask.most_bytes, ask.most_bytes, ask.idle);
        Ok(Answer { status, address, headers, body, left, most, until, idle, _place: place })
    }

    async fn follow(&self, first: &Address, ask: &Ask) -> Result<(Address, reqwest::Response), Fault> {
        let mut address = first.clone();
        for _ in 0..=REDIRECTS {
            self.check_literal(&address)?;
            self.keep_pace(&address)?;
            let mut request = self.client.get(address.full_url().clone());
            if let Some(agent) = &ask.user_agent {
                request = request.header(reqwest::header::USER_AGENT, agent);
            }
            if let Some(range) = &ask.range {
                request = request.header(RANGE, range);
            }
            let answer = request.header(ACCEPT, ask.accept.unwrap_or("*/*")).send().await.map_err(broken)?;
            // The peer is the address that was checked. If that ever fails, nothing is read.
            if let Some(peer) = answer.remote_addr()
                && let Some(why) = self.refuses(&address, peer.ip())
            {
                return Err(Fault::Inside(why));
            }
            let next = answer.headers().get(LOCATION).filter(|_| answer.status().is_redirection());
            let Some(next) = next else { return Ok((address, answer)) };
            let next = next.to_str().map_err(|_| Fault::Address("the redirect is not a valid address"))?;
            address = address.resolve(next).map_err(|_| Fault::Address("the redirect is not an http address"))?;
        }
        Err(Fault::Redirects)
    }

    fn check_literal(&self, address: &Address) -> Result<(), Fault> {
        let ip: IpAddr = match address.host_and_port().0 {
            Host::Ipv4(ip) => ip.into(),
            Host::Ipv6(ip) => ip.into(),
            Host::Domain(_) => return Ok(()),
        };
        self.allowed.refusal_reason(ip).map_or(Ok(()), |why| Err(Fault::Inside(why)))
    }

    fn refuses(&self, address: &Address, ip: IpAddr) -> Option<&'static str> {
        match address.host_and_port().0 {
            Host::Domain(name) if self.allowed.allows_host(name) => None,
            _ => self.allowed.refusal_reason(ip),
        }
    }

    fn keep_pace(&self, address: &Address) -> Result<(), Fault> {
        let (host, port) = address.host_and_port();
        let now_ms = i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX);
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        pace.take(&[format!("{host}:{port}")], now_ms).map_err(Fault::TooOften)
    }
}

impl Answer {
    /// The media type without parameters; empty if the header is missing.
    pub fn content_type(&self) -> &str {
        let kind = self.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        kind.split(';').next().unwrap_or_default().trim()
    }

    /// The next bytes; None at the end.
    ///
    /// # Errors
    /// `Fault::TooLarge`, `Fault::TooSlow`, `Fault::Broken`.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        let wait = left.map_or(self.idle, |left| left.min(self.idle));
        let piece = timeout(wait, self.body.chunk()).await.map_err(|_| match left {
            Some(left) if left <= self.idle => Fault::TooSlow("not complete in time"),
            _ => Fault::TooSlow("no data received"),
        })?;
        let Some(piece) = piece.map_err(broken)? else { return Ok(None) };
        self.left = self.left.checked_sub(piece.len() as u64).ok_or(Fault::TooLarge(self.most))?;
        Ok(Some(piece))
    }

    /// Reads the whole body.
    ///
    /// # Errors
    /// Those of [`Self::next`].
    pub async fn whole(mut self) -> Result<Bytes, Fault> {
        let mut pieces = VecDeque::new();
        while let Some(piece) = self.next().await? {
            pieces.push_back(piece);
        }
        if pieces.len() == 1 {
            return Ok(pieces.pop_front().unwrap_or_default());
        }
        let mut all = Vec::with_capacity(pieces.iter().map(Bytes::len).sum());
        pieces.iter().for_each(|piece| all.extend_from_slice(piece));
        Ok(all.into())
    }

    /// The body as a stream of chunks. It ends after the first fault.
    pub fn pieces(self) -> impl Stream<Item = Result<Bytes, Fault>> + Send {
        stream::unfold(Some(self), |answer| async move {
            let mut answer = answer?;
            match answer.next().await {
                Ok(Some(piece)) => Some((Ok(piece), Some(answer))),
                Ok(None) => None,
                Err(fault) => Some((Err(fault), None)),
            }
        })
    }
}

/// Converts an error of reqwest, without the address that reqwest puts into its text.
fn broken(cause: reqwest::Error) -> Fault {
    let cause = cause.without_url();
    let mut below: Option<&dyn std::error::Error> = Some(&cause);
    let mut last = String::new();
    while let Some(fault) = below {
        if let Some(fault) = fault.downcast_ref::<Fault>() {
            return fault.clone();
        }
        if let Some(fault) = fault.downcast_ref::<io::Error>().and_then(io::Error::get_ref)
            && let Some(fault) = fault.downcast_ref::<Fault>()
        {
            return fault.clone();
        }
        last = fault.to_string();
        below = fault.source();
    }
    if cause.is_timeout() || cause.is_connect() && last.contains("timed out") {
        return Fault::TooSlow("the server does not accept the connection");
    }
    Fault::Broken(last)
}
