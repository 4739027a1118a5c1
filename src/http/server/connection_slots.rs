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
const MIN_ADDRESS_LIMIT: usize = 6;

/// How long an address counts as authenticated after its last authenticated connection has closed.
const AUTHENTICATION_MEMORY: Duration = Duration::from_secs(3600);

/// How long a new connection cannot be evicted: enough to sign in, which protects it.
const EVICTION_GRACE: Duration = Duration::from_secs(10);

/// Most addresses without an open connection that are remembered.
const MAX_REMEMBERED_ADDRESSES: usize = 4096;

pub struct ConnectionSlots {
    permits: Arc<Semaphore>,
    capacity: usize,
    trusted_proxies: Vec<IpAddr>,
    clients: Mutex<HashMap<IpAddr, ClientConnections>>,
    /// Open connections that may be evicted, by number; connections of trusted proxies are not among them.
    evictable: Mutex<HashMap<u64, Arc<ConnectionProgress>>>,
    next_number: AtomicU64,
}

/// The state of a connection that decides about its eviction.
struct ConnectionProgress {
    opened_at: Instant,
    /// Bytes the client has received.
    received_bytes: AtomicU64,
    is_authenticated: AtomicBool,
    /// None once it was transferred to another connection.
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    eviction: Notify,
}

impl ConnectionProgress {
    /// Bytes per second; None for a connection that must not be evicted.
    fn evictable_rate(&self, now: Instant) -> Option<f64> {
        let age = now.saturating_duration_since(self.opened_at);
        let is_evictable = age >= EVICTION_GRACE && !self.is_authenticated.load(Ordering::Relaxed);
        is_evictable.then(|| self.received_bytes.load(Ordering::Relaxed) as f64 / age.as_secs_f64())
    }

    fn lock_permit(&self) -> MutexGuard<'_, Option<OwnedSemaphorePermit>> {
        self.permit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One client address.
#[derive(Default)]
struct ClientConnections {
    open_connections: usize,
    /// Open connections on which a request was authenticated.
    authenticated_connections: usize,
    /// When the last authenticated connection closed.
    last_authenticated_close: Option<Instant>,
}

impl ClientConnections {
    fn is_authenticated(&self) -> bool {
        self.authenticated_connections > 0
            || self.last_authenticated_close.is_some_and(|closed| closed.elapsed() < AUTHENTICATION_MEMORY)
    }
}

/// Why no slot is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionRefusal {
    Server,
    /// The address has reached its limit.
    Address,
}

/// The slot of one open connection. Dropping it frees the slot.
pub struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    /// None for a trusted proxy.
    client: Option<IpAddr>,
    number: u64,
    progress: Arc<ConnectionProgress>,
    /// Whether it no longer counts for its address, because it is a standby's.
    is_standby: AtomicBool,
    /// The counter of the present response's bytes; None before the first one.
    sent_bytes: Mutex<Option<Arc<AtomicU64>>>,
}

impl ConnectionSlots {
    pub fn new(capacity: usize, trusted_proxies: &[IpAddr]) -> Arc<Self> {
        let permits = Arc::new(Semaphore::new(capacity));
        let (clients, evictable, next_number) = (Mutex::default(), Mutex::default(), AtomicU64::new(0));
        Arc::new(Self { permits, capacity, trusted_proxies: trusted_proxies.to_vec(), clients, evictable, next_number })
    }

    /// Takes a slot for a connection from `peer`.
    ///
    /// # Errors
    /// When all slots belong to connections that must not be evicted, or the address has reached its limit.
    pub fn acquire(self: &Arc<Self>, peer: IpAddr) -> Result<ConnectionSlot, ConnectionRefusal> {
        self.acquire_at(peer, Instant::now())
    }

    pub(super) fn acquire_at(self: &Arc<Self>, peer: IpAddr, at: Instant) -> Result<ConnectionSlot, ConnectionRefusal> {
        let peer = peer.to_canonical();
        let client = (!self.trusted_proxies.contains(&peer)).then(|| client_key(peer));
        let mut clients = self.lock_clients();
        let mut is_reserved = false;
        if let Some(client) = client {
            let known_client = clients.get(&client);
            if known_client.is_some_and(|client| client.open_connections >= (self.capacity / 4).max(MIN_ADDRESS_LIMIT))
            {
                return Err(ConnectionRefusal::Address);
            }
            is_reserved = self.open_connections() >= self.capacity - self.capacity / 4
                && !known_client.is_some_and(ClientConnections::is_authenticated);
        }
        let free_permit = if is_reserved { None } else { self.permits.clone().try_acquire_owned().ok() };
        let permit = free_permit.or_else(|| self.evict(at)).ok_or(ConnectionRefusal::Server)?;
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let progress = Arc::new(ConnectionProgress {
            opened_at: at,
            received_bytes: AtomicU64::new(0),
            is_authenticated: AtomicBool::new(false),
            permit: Mutex::new(Some(permit)),
            eviction: Notify::new(),
        });
        if let Some(client) = client {
            clients.entry(client).or_default().open_connections += 1;
            self.lock_evictable().insert(number, progress.clone());
        }
        Ok(ConnectionSlot {
            slots: self.clone(),
            client,
            number,
            progress,
            is_standby: AtomicBool::new(false),
            sent_bytes: Mutex::default(),
        })
    }

    /// Closes the slowest connection without credentials and returns its permit.
    fn evict(&self, now: Instant) -> Option<OwnedSemaphorePermit> {
        let mut evictable = self.lock_evictable();
        let rates = evictable.iter().filter_map(|(number, progress)| Some((*number, progress.evictable_rate(now)?)));
        let (number, _) = rates.min_by(|(_, one), (_, other)| one.total_cmp(other))?;
        // Its own thread closes the connection, which no longer has a slot.
        let slowest = evictable.remove(&number)?;
        slowest.eviction.notify_one();
        slowest.lock_permit().take()
    }

    pub fn open_connections(&self) -> usize {
        self.capacity - self.permits.available_permits()
    }

    /// Waits until no connection is open, and admits no new one.
    pub async fn wait_until_drained(&self) {
        let total = u32::try_from(self.capacity).unwrap_or(u32::MAX);
        if let Ok(all) = self.permits.acquire_many(total).await {
            all.forget();
        }
    }

    fn lock_evictable(&self) -> MutexGuard<'_, HashMap<u64, Arc<ConnectionProgress>>> {
        self.evictable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_clients(&self) -> MutexGuard<'_, HashMap<IpAddr, ClientConnections>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionSlot {
    /// Records that a request on this connection was authenticated.
    pub fn mark_authenticated(&self) {
        if self.progress.is_authenticated.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Some(client) = self.client {
            self.slots.lock_clients().entry(client).or_default().authenticated_connections += 1;
        }
    }

    /// Records that the connection is that of a standby, which passes on requests of many clients and limits them itself: as for
    /// a trusted proxy, it does not count for its address, and it is not evicted.
    pub fn mark_standby(&self) {
        if !self.is_standby.swap(true, Ordering::Relaxed) {
            self.leave_client();
            self.progress.is_authenticated.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a request on this connection was authenticated.
    pub fn is_authenticated(&self) -> bool {
        self.progress.is_authenticated.load(Ordering::Relaxed)
    }

    /// Records bytes the client has received.
    pub fn record_received(&self, bytes: usize) {
        self.progress.received_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if let Some(counter) = &*self.lock_counter() {
            counter.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// Counts the bytes of the response that follows in `counter`. A connection answers one request after another.
    pub fn count_sent_bytes_in(&self, counter: &Arc<AtomicU64>) {
        *self.lock_counter() = Some(counter.clone());
    }

    fn lock_counter(&self) -> MutexGuard<'_, Option<Arc<AtomicU64>>> {
        self.sent_bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub async fn wait_until_evicted(&self) {
        self.progress.eviction.notified().await;
    }

    /// Counts the connection no longer for its address.
    fn leave_client(&self) {
        let Some(address) = self.client else { return };
        let mut clients = self.slots.lock_clients();
        self.slots.lock_evictable().remove(&self.number);
        let Some(client) = clients.get_mut(&address) else { return };
        client.open_connections -= 1;
        if self.progress.is_authenticated.load(Ordering::Relaxed) {
            client.authenticated_connections -= 1;
            client.last_authenticated_close = Some(Instant::now());
        }
        if client.open_connections == 0 && !client.is_authenticated() {
            clients.remove(&address);
        }
        // Addresses with an open connection are bounded by the number of slots.
        if clients.len() > self.slots.capacity + MAX_REMEMBERED_ADDRESSES {
            prune_idle_addresses(&mut clients);
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        if !self.is_standby.load(Ordering::Relaxed) {
            self.leave_client();
        }
    }
}

/// Drops the older half of the addresses without a connection.
fn prune_idle_addresses(clients: &mut HashMap<IpAddr, ClientConnections>) {
    let mut close_times: Vec<Instant> = clients
        .values()
        .filter(|client| client.open_connections == 0)
        .filter_map(|client| client.last_authenticated_close)
        .collect();
    close_times.sort_unstable();
    if let Some(oldest) = close_times.get(close_times.len() / 2).copied() {
        clients.retain(|_, client| {
            client.open_connections > 0 || client.last_authenticated_close.is_some_and(|closed| closed > oldest)
        });
    }
}

/// The client key of an address: an IPv4 address, or the /64 of an IPv6 address.
fn client_key(address: IpAddr) -> IpAddr {
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
    fn an_address_gets_a_quarter_and_the_last_quarter_is_for_authenticated_addresses() {
        let slots = ConnectionSlots::new(40, &[ip("10.0.0.1")]);
        let take = |from: &str, n: usize| (0..n).map_while(|_| slots.acquire(ip(from)).ok()).collect::<Vec<_>>();
        let authenticated = take("192.0.2.1", 1);
        authenticated[0].mark_authenticated();
        let mut flooding = vec![take("192.0.2.2", 99), take("2001:db8::1", 5), take("2001:db8::2", 99)];
        assert_eq!(flooding.iter().map(Vec::len).collect::<Vec<_>>(), [10, 5, 5], "a /64 is one client");
        let refused = slots.acquire(ip("::ffff:192.0.2.2")).err();
        assert_eq!(refused, Some(ConnectionRefusal::Address), "an IPv4-mapped address is the same client");
        flooding.push(take("192.0.2.3", 99));
        assert_eq!((flooding[3].len(), slots.open_connections()), (9, 30));
        assert_eq!(slots.acquire(ip("192.0.2.4")).err(), Some(ConnectionRefusal::Server), "three quarters are taken");
        drop(authenticated);
        assert_eq!(take("192.0.2.1", 99).len(), 10, "an address with recent credentials is still admitted");
        assert_eq!(take("10.0.0.1", 99).len(), 11, "a trusted proxy has no limit");
        flooding.clear();
        assert_eq!(take("192.0.2.4", 99).len(), 10);
        let counts = (slots.open_connections(), slots.lock_clients().len());
        assert_eq!(counts, (0, 1), "only the address with credentials is remembered");
    }

    #[test]
    fn a_connection_of_a_standby_leaves_the_limit_of_its_address() {
        let slots = ConnectionSlots::new(40, &[]);
        let take = || slots.acquire(ip("192.0.2.1"));
        let first: Vec<_> = (0..10).map(|_| take().unwrap()).collect();
        assert_eq!(take().err(), Some(ConnectionRefusal::Address));
        first.iter().for_each(ConnectionSlot::mark_standby);
        let second: Vec<_> = (0..10).map(|_| take().unwrap()).collect();
        assert_eq!(take().err(), Some(ConnectionRefusal::Address));
        second[0].mark_authenticated();
        second[0].mark_standby();
        let later = Instant::now() + EVICTION_GRACE;
        assert!(first[0].progress.evictable_rate(later).is_none());
        drop((first, second));
        assert_eq!((slots.open_connections(), slots.lock_evictable().len()), (0, 0));
        assert_eq!(slots.lock_clients()[&ip("192.0.2.1")].open_connections, 0, "it is remembered for its credentials");
    }

    #[test]
    fn the_slowest_unauthenticated_connection_is_evicted() {
        let slots = ConnectionSlots::new(8, &[]);
        let address = |n: u8| IpAddr::from([192, 0, 2, n]);
        let mut open_slots: Vec<ConnectionSlot> = (1..7).map(|n| slots.acquire(address(n)).unwrap()).collect();
        open_slots[0].mark_authenticated();
        for (n, slot) in open_slots.iter().enumerate() {
            slot.record_received(if n == 3 { 10 } else { 1000 * n });
        }
        let refused = slots.acquire(address(9)).err();
        assert_eq!(refused, Some(ConnectionRefusal::Server), "no connection is evicted in its first seconds");
        let later = Instant::now() + EVICTION_GRACE;
        let is_evicted = |slot: &ConnectionSlot| {
            let mut waiting = std::pin::pin!(slot.wait_until_evicted());
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            waiting.as_mut().poll(&mut context).is_ready()
        };
        let newcomer = slots.acquire_at(address(9), later).unwrap();
        let evictions = open_slots.iter().map(is_evicted).collect::<Vec<_>>();
        assert_eq!(evictions, [false, false, false, true, false, false], "the first one is slower, but signed in");
        assert_eq!(slots.open_connections(), 6, "the newcomer replaces the evicted one");
        drop(open_slots.remove(3));
        assert_eq!(slots.open_connections(), 6, "the evicted one's slot belongs to the newcomer");
        newcomer.mark_authenticated();
        open_slots.push(newcomer);
        // All slots are taken, also the reserved ones.
        open_slots.extend((0..2).map(|_| slots.acquire(address(1)).unwrap()));
        open_slots.iter().for_each(ConnectionSlot::mark_authenticated);
        let refused = slots.acquire_at(address(1), later + EVICTION_GRACE).err();
        assert_eq!(refused, Some(ConnectionRefusal::Server), "all connections are authenticated");
        drop(open_slots);
        assert_eq!((slots.open_connections(), slots.lock_evictable().len()), (0, 0));
    }

    #[test]
    fn remembered_addresses_are_bounded() {
        let slots = ConnectionSlots::new(8, &[]);
        for number in 0..2 * MAX_REMEMBERED_ADDRESSES as u32 {
            slots.acquire(IpAddr::V4(number.into())).unwrap().mark_authenticated();
        }
        let remembered = slots.lock_clients().len();
        assert!((MAX_REMEMBERED_ADDRESSES / 2..=MAX_REMEMBERED_ADDRESSES + 8).contains(&remembered), "{remembered}");
        assert!(slots.lock_clients().contains_key(&IpAddr::V4((2 * MAX_REMEMBERED_ADDRESSES as u32 - 1).into())));
    }
}
