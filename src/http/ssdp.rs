//! Announces the tuner in the home network (SSDP), if `hdhomerun_token_file` names a stream token. Clients then find it
//! without its URL being typed in. The URL contains the token, so everyone on that network can read the token.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket as StdSocket};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt::{set_ip_add_membership, set_ip_multicast_if, set_ip_multicast_ttl, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketType, bind, socket};
use tokio::net::UdpSocket;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::api::livetv::tuner;
use crate::domain::ssdp::{self, AnnouncedDevice, Search};
use crate::service::Service;
use crate::service::accounts::random_bytes;

/// Interval between announcements, well below their `max-age` (1800 s).
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(600);

/// Answers per second, also the largest burst; searches beyond that are ignored.
const ANSWERS_PER_SECOND: f64 = 20.0;

/// Most delayed answers that are queued.
const MAX_QUEUED_ANSWERS: usize = 64;

/// Largest datagram that can be a search, bytes.
const MAX_SEARCH_BYTES: usize = 2048;

/// Shortest and longest backoff after a failed receive: the failure may be permanent.
const BACKOFF_RANGE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(10));

/// Multicast TTL (UPnP Device Architecture 1.1, section 1.2.2).
const MULTICAST_TTL: u32 = 2;

/// Announces the tuner of a stream token, for a server that listens at `listen`, until shutdown or until the returned token
/// is cancelled; then says goodbye (`ssdp:byebye`). `port` is [`ssdp::PORT`] except in tests.
///
/// # Errors
/// When the port is in use or the machine has no multicast.
pub fn announce_tuner(
    service: &Arc<Service>,
    token: String,
    listen: SocketAddr,
    port: u16,
) -> io::Result<CancellationToken> {
    let socket = UdpSocket::from_std(open_socket(listen.ip(), port)?)?;
    let server = AnnouncedServer { service: service.clone(), token, listen, port };
    let stop = service.tasks.stop_token();
    service.tasks.spawn_graceful(server.run(socket, stop.clone()));
    Ok(stop)
}

/// A socket that receives searches. Other SSDP programs on this machine can share its port.
fn open_socket(listen: IpAddr, port: u16) -> io::Result<StdSocket> {
    let owned_socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    set_socket_reuseaddr(&owned_socket, true)?;
    bind(&owned_socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))?;
    // The interface the kernel chooses, unless the server listens at one address only.
    let interface = match listen {
        IpAddr::V4(own) => own,
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    };
    set_ip_add_membership(&owned_socket, &ssdp::MULTICAST_ADDRESS, &interface)?;
    set_ip_multicast_if(&owned_socket, &interface)?;
    set_ip_multicast_ttl(&owned_socket, MULTICAST_TTL)?;
    let std_socket = StdSocket::from(owned_socket);
    std_socket.set_nonblocking(true)?;
    Ok(std_socket)
}

struct AnnouncedServer {
    service: Arc<Service>,
    token: String,
    listen: SocketAddr,
    port: u16,
}

impl AnnouncedServer {
    async fn run(self, socket: UdpSocket, stop: CancellationToken) {
        let multicast_group = SocketAddrV4::new(ssdp::MULTICAST_ADDRESS, self.port);
        let mut announcements = tokio::time::interval(ANNOUNCE_INTERVAL);
        let mut queued_answers: Vec<(Instant, SocketAddrV4, String)> = Vec::new();
        let mut budget = AnswerBudget { tokens: ANSWERS_PER_SECOND, refilled_at: Instant::now() };
        let mut datagram = [0; MAX_SEARCH_BYTES];
        let mut backoff = Backoff::default();
        loop {
            let next_due = queued_answers.iter().map(|(at, ..)| *at).min();
            tokio::select! {
                received = backoff.wait_then(socket.recv_from(&mut datagram)) => {
                    backoff.record(received.as_ref().err());
                    let Ok((length, SocketAddr::V4(client))) = received else { continue };
                    let Some(search) = Search::parse(&datagram[..length]).filter(|_| ssdp::is_local_network(*client.ip())) else {
                        continue;
                    };
                    let Some(device) = self.device_for(client) else { continue };
                    // A random delay up to MX, so that devices do not all answer at the same moment.
                    let delay_seconds = f64::from(u16::from_le_bytes(random_bytes())) / 65_536.0 * f64::from(search.max_wait_seconds);
                    let due_at = Instant::now() + Duration::from_secs_f64(delay_seconds);
                    for answer in device.responses(&search) {
                        if queued_answers.len() < MAX_QUEUED_ANSWERS && budget.try_take() {
                            queued_answers.push((due_at, client, answer));
                        }
                    }
                }
                () = tokio::time::sleep_until(next_due.unwrap_or_else(Instant::now)), if next_due.is_some() => {
                    let now = Instant::now();
                    let due: Vec<_> = queued_answers.extract_if(.., |(at, ..)| *at <= now).collect();
                    for (_, client, answer) in due {
                        let _ = socket.send_to(answer.as_bytes(), client).await;
                    }
                }
                _ = announcements.tick() => self.announce(&socket, multicast_group, AnnouncedDevice::alive_announcements).await,
                () = stop.cancelled() => return self.announce(&socket, multicast_group, AnnouncedDevice::byebye_announcements).await,
            }
        }
    }

    async fn announce(&self, socket: &UdpSocket, group: SocketAddrV4, texts: impl Fn(&AnnouncedDevice) -> Vec<String>) {
        let Some(device) = self.device_for(group) else { return };
        for text in texts(&device) {
            if let Err(fault) = socket.send_to(text.as_bytes(), group).await {
                return tracing::debug!(%fault, "the SSDP announcement could not be sent");
            }
        }
    }

    /// The device with the URL for this client; None while the token is invalid, or if the client cannot reach the server.
    fn device_for(&self, client: SocketAddrV4) -> Option<AnnouncedDevice> {
        let user = self.service.accounts.authenticate_stream(&self.token).ok()?;
        let base = match self.service.config.base_url() {
            Some(base) => base.to_owned(),
            None => format!("http://{}:{}", self.address_for(client)?, self.listen.port()),
        };
        Some(AnnouncedDevice {
            id: tuner::unique_id(&user.login_id),
            location: format!("{base}/hdhr/{}/device.xml", self.token),
            program: format!("Hearthcast/{}", env!("CARGO_PKG_VERSION")),
        })
    }

    fn address_for(&self, client: SocketAddrV4) -> Option<Ipv4Addr> {
        match self.listen.ip() {
            // Only this machine can reach a server that listens on loopback.
            IpAddr::V4(own) if own.is_loopback() && !(client.ip().is_loopback() || client.ip().is_multicast()) => None,
            IpAddr::V4(own) if !own.is_unspecified() => Some(own),
            IpAddr::V6(own) if !own.is_unspecified() => None,
            // The address the kernel would send from to reach the client.
            _ => {
                let probe_socket = StdSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
                probe_socket.connect(client).ok()?;
                match probe_socket.local_addr().ok()?.ip() {
                    IpAddr::V4(own) if !own.is_unspecified() => Some(own),
                    _ => None,
                }
            }
        }
    }
}

/// A token bucket for answers.
struct AnswerBudget {
    tokens: f64,
    refilled_at: Instant,
}

impl AnswerBudget {
    fn try_take(&mut self) -> bool {
        let now = Instant::now();
        self.tokens =
            (self.tokens + (now - self.refilled_at).as_secs_f64() * ANSWERS_PER_SECOND).min(ANSWERS_PER_SECOND);
        self.refilled_at = now;
        let is_allowed = self.tokens >= 1.0;
        if is_allowed {
            self.tokens -= 1.0;
        }
        is_allowed
    }
}

/// The backoff after failed receives.
#[derive(Default)]
struct Backoff {
    until: Option<Instant>,
    delay: Duration,
}

impl Backoff {
    /// Waits until the backoff is over, then does the work.
    async fn wait_then<T>(&self, work: impl Future<Output = T>) -> T {
        if let Some(until) = self.until {
            tokio::time::sleep_until(until).await;
        }
        work.await
    }

    /// Doubles the backoff after a failure; resets it after a success.
    fn record(&mut self, error: Option<&io::Error>) {
        let Some(fault) = error else { return *self = Self::default() };
        if self.delay.is_zero() {
            tracing::warn!(%fault, "SSDP searches cannot be received");
        }
        self.delay = (self.delay * 2).clamp(BACKOFF_RANGE.0, BACKOFF_RANGE.1);
        self.until = Some(Instant::now() + self.delay);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn answers_are_rate_limited() {
        let mut budget = AnswerBudget { tokens: ANSWERS_PER_SECOND, refilled_at: Instant::now() };
        assert_eq!((0..100).filter(|_| budget.try_take()).count(), 20);
        tokio::time::advance(Duration::from_millis(250)).await;
        assert_eq!((0..100).filter(|_| budget.try_take()).count(), 5);
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!((0..100).filter(|_| budget.try_take()).count(), 20);
    }

    #[tokio::test(start_paused = true)]
    async fn a_permanent_failure_is_retried_less_and_less_often() {
        let (mut backoff, started) = (Backoff::default(), Instant::now());
        let mut tries = 0;
        while started.elapsed() < Duration::from_secs(3600) {
            let failed: io::Result<()> = backoff.wait_then(async { Err(io::ErrorKind::NotConnected.into()) }).await;
            backoff.record(failed.as_ref().err());
            tries += 1;
        }
        assert!((360..380).contains(&tries), "{tries} tries in an hour");
        backoff.record(None);
        let retried = Instant::now();
        backoff.wait_then(async {}).await;
        assert_eq!(retried.elapsed(), Duration::ZERO, "a success resets the backoff");
    }
}
