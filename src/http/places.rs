//! Connection slots: how many connections each client address may have open.
//!
//! One client address gets at most a quarter of the slots. The last quarter is reserved for addresses that have presented
//! credentials; otherwise one machine that reads slowly could lock everyone out. An IPv6 client owns a /64, which counts
//! as one address. A trusted proxy acts for many clients and limits them itself: its connections have no limit per
//! address and may use the last quarter.
//!
//! When no slot is free, the slowest connection without credentials is closed and the new one gets its slot. So many
//! slow readers cannot lock out a user who has not signed in lately.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Smallest limit per address, if a quarter would be fewer: as many connections as one browser opens.
const LEAST_SHARE: usize = 6;

/// How long an address counts as authenticated after its last authenticated connection has closed.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// How long a new connection cannot be evicted: enough to sign in, which protects it.
const GRACE: Duration = Duration::from_secs(10);

/// Most addresses without an open connection that are remembered.
const MOST_REMEMBERED: usize = 4096;

/// All connection slots of a server.
pub struct Places {
    free: Arc<Semaphore>,
    most: usize,
    trusted: Vec<IpAddr>,
    clients: Mutex<HashMap<IpAddr, Client>>,
    /// Open connections that may be evicted, by number; connections of trusted proxies are not among them.
    open: Mutex<HashMap<u64, Arc<Progress>>>,
    numbered: AtomicU64,
}

/// The state of a connection that decides about its eviction.
struct Progress {
    since: Instant,
    /// Bytes the client has received.
    taken: AtomicU64,
    admitted: AtomicBool,
    /// None once it was transferred to another connection.
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    evicted: Notify,
}

impl Progress {
    /// Bytes per second; None for a connection that must not be evicted.
    fn rate(&self, now: Instant) -> Option<f64> {
        let age = now.saturating_duration_since(self.since);
        let is_slow = age >= GRACE && !self.admitted.load(Ordering::Relaxed);
        is_slow.then(|| self.taken.load(Ordering::Relaxed) as f64 / age.as_secs_f64())
    }

    fn permit(&self) -> MutexGuard<'_, Option<OwnedSemaphorePermit>> {
        self.permit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One client address.
#[derive(Default)]
struct Client {
    open: usize,
    /// Open connections on which a request was authenticated.
    admitted: usize,
    /// When the last authenticated connection closed.
    left: Option<Instant>,
}

impl Client {
    fn is_known(&self) -> bool {
        self.admitted > 0 || self.left.is_some_and(|left| left.elapsed() < REMEMBERED)
    }
}

/// Why no slot is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    Server,
    /// The address has reached its limit.
    Address,
}

/// The slot of one open connection. Dropping it frees the slot.
pub struct Place {
    places: Arc<Places>,
    /// None for a trusted proxy.
    client: Option<IpAddr>,
    number: u64,
    progress: Arc<Progress>,
}

impl Places {
    pub fn new(most: usize, trusted: &[IpAddr]) -> Arc<Self> {
        let free = Arc::new(Semaphore::new(most));
        let (clients, open, numbered) = (Mutex::default(), Mutex::default(), AtomicU64::new(0));
        Arc::new(Self { free, most, trusted: trusted.to_vec(), clients, open, numbered })
    }

    /// Takes a slot for a connection from `peer`.
    ///
    /// # Errors
    /// When all slots belong to connections that must not be evicted, or the address has reached its limit.
    pub fn take(self: &Arc<Self>, peer: IpAddr) -> Result<Place, Full> {
        self.take_at(peer, Instant::now())
    }

    pub(super) fn take_at(self: &Arc<Self>, peer: IpAddr, now: Instant) -> Result<Place, Full> {
        let peer = peer.to_canonical();
        let client = (!self.trusted.contains(&peer)).then(|| network(peer));
        let mut clients = self.clients();
        let mut is_reserved = false;
        if let Some(client) = client {
            let known = clients.get(&client);
            if known.is_some_and(|known| known.open >= (self.most / 4).max(LEAST_SHARE)) {
                return Err(Full::Address);
            }
            is_reserved = self.taken() >= self.most - self.most / 4 && !known.is_some_and(Client::is_known);
        }
        let free = if is_reserved { None } else { self.free.clone().try_acquire_owned().ok() };
        let permit = free.or_else(|| self.evict(now)).ok_or(Full::Server)?;
        let number = self.numbered.fetch_add(1, Ordering::Relaxed);
        let (taken, admitted) = (AtomicU64::new(0), AtomicBool::new(false));
        let permit = Mutex::new(Some(permit));
        let progress = Arc::new(Progress { since: now, taken, admitted, permit, evicted: Notify::new() });
        if let Some(client) = client {
            clients.entry(client).or_default().open += 1;
            self.open().insert(number, progress.clone());
        }
        Ok(Place { places: self.clone(), client, number, progress })
    }

    /// Closes the slowest connection without credentials and returns its permit.
    fn evict(&self, now: Instant) -> Option<OwnedSemaphorePermit> {
        let mut open = self.open();
        let rates = open.iter().filter_map(|(number, progress)| Some((*number, progress.rate(now)?)));
        let (number, _) = rates.min_by(|(_, one), (_, other)| one.total_cmp(other))?;
        // Its own thread closes the connection, which no longer has a slot.
        let slowest = open.remove(&number)?;
        slowest.evicted.notify_one();
        slowest.permit().take()
    }

    /// Number of open connections.
    pub fn taken(&self) -> usize {
        self.most - self.free.available_permits()
    }

    /// Waits until no connection is open, and admits no new one.
    pub async fn drained(&self) {
        let all = u32::try_from(self.most).unwrap_or(u32::MAX);
        if let Ok(all) = self.free.acquire_many(all).await {
            all.forget();
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<Progress>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<IpAddr, Client>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Records that a request on this connection was authenticated.
    pub fn admit(&self) {
        if self.progress.admitted.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Some(client) = self.client {
            self.places.clients().entry(client).or_default().admitted += 1;
        }
    }

    /// Whether a request on this connection was authenticated.
    pub fn is_admitted(&self) -> bool {
        self.progress.admitted.load(Ordering::Relaxed)
    }

    /// Records bytes the client has received.
    pub fn sent(&self, bytes: usize) {
        self.progress.taken.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Waits until the connection is evicted.
    pub async fn evicted(&self) {
        self.progress.evicted.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(address) = self.client else { return };
        let mut clients = self.places.clients();
        self.places.open().remove(&self.number);
        let Some(client) = clients.get_mut(&address) else { return };
        client.open -= 1;
        if self.progress.admitted.load(Ordering::Relaxed) {
            client.admitted -= 1;
            client.left = Some(Instant::now());
        }
        if client.open == 0 && !client.is_known() {
            clients.remove(&address);
        }
        // Addresses with an open connection are bounded by the number of slots.
        if clients.len() > self.places.most + MOST_REMEMBERED {
            forget(&mut clients);
        }
    }
}

/// Drops the older half of the addresses without a connection.
fn forget(clients: &mut HashMap<IpAddr, Client>) {
    let mut idle: Vec<Instant> =
        clients.values().filter(|client| client.open == 0).filter_map(|client| client.left).collect();
    idle.sort_unstable();
    if let Some(oldest) = idle.get(idle.len() / 2).copied() {
        clients.retain(|_, client| client.open > 0 || client.left.is_some_and(|left| left > oldest));
    }
}

/// The client key of an address: an IPv4 address, or the /64 of an IPv6 address.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (!0 << 64)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_holds_a_quarter_and_the_last_quarter_is_for_those_with_credentials() {
        let places = Places::new(40, &[ip("10.0.0.1")]);
        let take = |from: &str, count: usize| (0..count).map_while(|_| places.take(ip(from)).ok()).collect::<Vec<_>>();
        let signed_in = take("192.0.2.1", 1);
        signed_in[0].admit();
        let mut flood = vec![take("192.0.2.2", 99), take("2001:db8::1", 5), take("2001:db8::2", 99)];
        assert_eq!(flood.iter().map(Vec::len).collect::<Vec<_>>(), [10, 5, 5], "a /64 is one client");
        assert_eq!(
            places.take(ip("::ffff:192.0.2.2")).err(),
            Some(Full::Address),
            "an IPv4-mapped address is the same client"
        );
        flood.push(take("192.0.2.3", 99));
        assert_eq!((flood[3].len(), places.taken()), (9, 30));
        assert_eq!(places.take(ip("192.0.2.4")).err(), Some(Full::Server), "three quarters are taken");
        drop(signed_in);
        assert_eq!(take("192.0.2.1", 99).len(), 10, "an address with recent credentials is still admitted");
        assert_eq!(take("10.0.0.1", 99).len(), 11, "a trusted proxy has no limit");
        flood.clear();
        assert_eq!(take("192.0.2.4", 99).len(), 10);
        assert_eq!((places.taken(), places.clients().len()), (0, 1), "only the address with credentials is remembered");
    }

    #[test]
    fn the_slowest_connection_without_credentials_gives_way() {
        let places = Places::new(8, &[]);
        let from = |n: u8| IpAddr::from([192, 0, 2, n]);
        let mut held: Vec<Place> = (1..7).map(|n| places.take(from(n)).unwrap()).collect();
        held[0].admit();
        for (n, place) in held.iter().enumerate() {
            place.sent(if n == 3 { 10 } else { 1000 * n });
        }
        assert_eq!(places.take(from(9)).err(), Some(Full::Server), "no connection is evicted in its first seconds");
        let later = Instant::now() + GRACE;
        let evicted = |place: &Place| {
            let mut waiting = std::pin::pin!(place.evicted());
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            waiting.as_mut().poll(&mut context).is_ready()
        };
        let newcomer = places.take_at(from(9), later).unwrap();
        let given_way = held.iter().map(evicted).collect::<Vec<_>>();
        assert_eq!(given_way, [false, false, false, true, false, false], "the first one is slower, but signed in");
        assert_eq!(places.taken(), 6, "the newcomer replaces the evicted one");
        drop(held.remove(3));
        assert_eq!(places.taken(), 6, "the evicted one's slot belongs to the newcomer");
        newcomer.admit();
        held.push(newcomer);
        // All slots are taken, also the reserved ones.
        held.extend((0..2).map(|_| places.take(from(1)).unwrap()));
        held.iter().for_each(Place::admit);
        assert_eq!(
            places.take_at(from(1), later + GRACE).err(),
            Some(Full::Server),
            "all connections are authenticated"
        );
        drop(held);
        assert_eq!((places.taken(), places.open().len()), (0, 0));
    }

    #[test]
    fn what_is_remembered_of_addresses_is_bounded() {
        let places = Places::new(8, &[]);
        for number in 0..2 * MOST_REMEMBERED as u32 {
            places.take(IpAddr::V4(number.into())).unwrap().admit();
        }
        let known = places.clients().len();
        assert!((MOST_REMEMBERED / 2..=MOST_REMEMBERED + 8).contains(&known), "{known}");
        assert!(places.clients().contains_key(&IpAddr::V4((2 * MOST_REMEMBERED as u32 - 1).into())));
    }
}
