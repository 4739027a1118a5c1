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
use crate::domain::inside::Allowed;
use crate::domain::throttle::Throttle;

mod names;
mod relay;
pub mod rtsp;
pub mod srt;

use names::Names;
pub use names::{Looking, Lookup, system};

/// What servers elsewhere are told, unless a source says otherwise.
const USER_AGENT: &str = concat!("Hearthcast/", env!("CARGO_PKG_VERSION"));

/// Connections at once, and how long one waits for its place.
const PLACES: usize = 256;
const PLACE_WAIT: Duration = Duration::from_secs(5);

const CONNECT: Duration = Duration::from_secs(5);

/// Redirects followed at most.
const REDIRECTS: usize = 5;

/// Requests to one host a minute: an ingest of several channels fetches a few each second.
const PER_MINUTE: u32 = 1200;

/// Why nothing came. Its text names no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("leads inside: {0}")]
    Inside(&'static str),
    #[error("the name of its host is not known")]
    Unknown,
    #[error("{0}")]
    Address(&'static str),
    #[error("it redirects more than {REDIRECTS} times")]
    Redirects,
    #[error("it answers {0}")]
    Status(u16),
    #[error("it sends more than {0} bytes")]
    TooLarge(u64),
    #[error("it is too slow: {0}")]
    TooSlow(&'static str),
    #[error("it cannot be reached: {0}")]
    Broken(String),
    #[error("too many requests are under way")]
    Busy,
    #[error("its host is asked too often: again in {0} s")]
    TooOften(u32),
}

/// What is asked for, and what is borne.
#[derive(Clone, Debug)]
pub struct Ask {
    pub user_agent: Option<String>,
    pub accept: Option<&'static str>,
    /// As the header says it, e.g. `bytes=0-99`.
    pub range: Option<String>,
    /// Bytes at most; `u64::MAX` for a stream without end.
    pub most_bytes: u64,
    /// How long until its head is there.
    pub head: Duration,
    /// How long until all is there; None for a stream without end.
    pub total: Option<Duration>,
    /// How long nothing may come.
    pub idle: Duration,
}

impl Ask {
    /// A file of so many bytes at most: a list, a guide, a segment.
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

    /// A stream without end.
    pub fn stream() -> Self {
        Self { total: None, ..Self::file(u64::MAX) }
    }
}

/// The way out. Cheap to share by reference; one for the whole program.
pub struct Outbound {
    client: reqwest::Client,
    allowed: Arc<Allowed>,
    names: Names,
    places: Arc<Semaphore>,
    pace: Mutex<Throttle>,
    began: Instant,
}

/// An answer whose head is there.
#[derive(Debug)]
pub struct Answer {
    /// 2xx.
    pub status: u16,
    /// Where it came from in the end: what its relative addresses are relative to.
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
    /// One that asks the system for names.
    pub fn new(allowed: Allowed) -> Self {
        Self::with_names(allowed, Arc::new(system))
    }

    /// One that asks `lookup` for the addresses of a name.
    pub fn with_names(allowed: Allowed, lookup: Lookup) -> Self {
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
            .expect("TLS with its bundled roots needs nothing of this machine");
        let (places, pace) = (Arc::new(Semaphore::new(PLACES)), Mutex::new(Throttle::new(PER_MINUTE)));
        Self { client, allowed, names, places, pace, began: Instant::now() }
    }

    /// Whether an address may be asked at all: to be told before it is kept.
    ///
    /// # Errors
    /// `Fault::Inside`, `Fault::Unknown`, `Fault::TooSlow`.
    pub async fn check(&self, address: &Address) -> Result<(), Fault> {
        self.check_literal(address)?;
        if let (Host::Domain(name), _) = address.host() {
            timeout(CONNECT, self.names.checked(name))
                .await
                .map_err(|_| Fault::TooSlow("no name server answers"))??;
        }
        Ok(())
    }

    /// Where an address leads once all of it was checked, for what is no request by http; the place is held as long as
    /// something is received from there.
    ///
    /// # Errors
    /// Those of [`Self::check`]; `Fault::Busy`, `Fault::TooOften`.
    pub async fn pinned(&self, address: &Address) -> Result<(SocketAddr, OwnedSemaphorePermit), Fault> {
        let place = timeout(PLACE_WAIT, self.places.clone().acquire_owned()).await;
        let place = place.ok().and_then(Result::ok).ok_or(Fault::Busy)?;
        self.check_literal(address)?;
        self.keep_pace(address)?;
        let (host, port) = address.host();
        let ip = match host {
            Host::Ipv4(ip) => ip.into(),
            Host::Ipv6(ip) => ip.into(),
            Host::Domain(name) => {
                let found = timeout(CONNECT, self.names.checked(name)).await;
                let found = found.map_err(|_| Fault::TooSlow("no name server answers"))??;
                *found.first().ok_or(Fault::Unknown)?
            }
        };
        Ok((SocketAddr::new(ip, port), place))
    }

    /// Asks for what lies at an address.
    ///
    /// # Errors
    /// Why nothing came; every answer but 2xx is one.
    pub async fn get(&self, address: &Address, ask: &Ask) -> Result<Answer, Fault> {
        let place = timeout(PLACE_WAIT, self.places.clone().acquire_owned()).await;
        let place = place.ok().and_then(Result::ok).ok_or(Fault::Busy)?;
        let until = ask.total.map(|total| Instant::now() + total);
        let reached = timeout(ask.head, self.follow(address, ask)).await;
        let (address, body) = reached.map_err(|_| Fault::TooSlow("no answer came"))??;
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
            let mut request = self.client.get(address.secret().clone());
            if let Some(agent) = &ask.user_agent {
                request = request.header(reqwest::header::USER_AGENT, agent);
            }
            if let Some(range) = &ask.range {
                request = request.header(RANGE, range);
            }
            let answer = request.header(ACCEPT, ask.accept.unwrap_or("*/*")).send().await.map_err(broken)?;
            // What was connected to is what was checked; should that ever not be so, nothing is read.
            if let Some(peer) = answer.remote_addr()
                && let Some(why) = self.refuses(&address, peer.ip())
            {
                return Err(Fault::Inside(why));
            }
            let next = answer.headers().get(LOCATION).filter(|_| answer.status().is_redirection());
            let Some(next) = next else { return Ok((address, answer)) };
            let next = next.to_str().map_err(|_| Fault::Address("its redirect is no address"))?;
            address = address.join(next).map_err(|_| Fault::Address("its redirect leads to no http address"))?;
        }
        Err(Fault::Redirects)
    }

    fn check_literal(&self, address: &Address) -> Result<(), Fault> {
        let ip: IpAddr = match address.host().0 {
            Host::Ipv4(ip) => ip.into(),
            Host::Ipv6(ip) => ip.into(),
            Host::Domain(_) => return Ok(()),
        };
        self.allowed.refuses(ip).map_or(Ok(()), |why| Err(Fault::Inside(why)))
    }

    fn refuses(&self, address: &Address, ip: IpAddr) -> Option<&'static str> {
        match address.host().0 {
            Host::Domain(name) if self.allowed.host(name) => None,
            _ => self.allowed.refuses(ip),
        }
    }

    fn keep_pace(&self, address: &Address) -> Result<(), Fault> {
        let (host, port) = address.host();
        let now_ms = i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX);
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        pace.take(&[format!("{host}:{port}")], now_ms).map_err(Fault::TooOften)
    }
}

impl Answer {
    /// What it says it is, without parameters; empty when it says nothing.
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
            Some(left) if left <= self.idle => Fault::TooSlow("its time is over"),
            _ => Fault::TooSlow("nothing comes"),
        })?;
        let Some(piece) = piece.map_err(broken)? else { return Ok(None) };
        self.left = self.left.checked_sub(piece.len() as u64).ok_or(Fault::TooLarge(self.most))?;
        Ok(Some(piece))
    }

    /// All of it.
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

    /// Its pieces as a stream, which ends behind the first fault.
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

/// What went wrong below, without the address: reqwest puts it into its text.
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
        return Fault::TooSlow("it does not take the connection");
    }
    Fault::Broken(last)
}
