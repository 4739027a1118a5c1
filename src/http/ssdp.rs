//! Announces the tuner in the home network (SSDP), if `hdhomerun_token_file` names a stream token. Clients then find it
//! without its URL being typed in. The URL contains the token, so everyone on that network can read the token.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket as StdSocket};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt::{set_ip_add_membership, set_ip_multicast_if, set_ip_multicast_ttl, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketType, bind, socket};
use tokio::net::UdpSocket;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::livetv::tuner;
use crate::domain::ssdp::{self, AnnouncedDevice, Search};
use crate::service::Service;
use crate::service::accounts::random_bytes;

/// Interval between announcements, well below their `max-age` (1800 s).
const TELLS: Duration = Duration::from_secs(600);

/// Answers per second, also the largest burst; searches beyond that are ignored.
const ANSWERS: f64 = 20.0;

/// Most delayed answers that are queued.
const MOST_WAITING: usize = 64;

/// Largest datagram that can be a search, bytes.
const MOST_BYTES: usize = 2048;

/// Shortest and longest backoff after a failed receive: the failure may be permanent.
const RESTS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(10));

/// Multicast TTL (UPnP Device Architecture 1.1, section 1.2.2).
const HOPS: u32 = 2;

/// A running announcement.
pub struct Announcer {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Announcer {
    /// Starts announcing the tuner of a stream token, for a server that listens at `listen`. `port` is [`ssdp::PORT`]
    /// except in tests.
    ///
    /// # Errors
    /// When the port is in use or the machine has no multicast.
    pub fn begin(service: &Arc<Service>, secret: String, listen: SocketAddr, port: u16) -> io::Result<Self> {
        let socket = UdpSocket::from_std(open(listen.ip(), port)?)?;
        let (stop, stopped) = oneshot::channel();
        let host = Host { service: service.clone(), secret, listen, port };
        Ok(Self { stop, task: tokio::spawn(host.run(socket, stopped)) })
    }

    /// Announces that the tuner leaves (`ssdp:byebye`), and ends.
    pub async fn end(self) {
        let _ = self.stop.send(());
        let _ = self.task.await;
    }
}

/// A socket that receives searches. Other SSDP programs on this machine can share its port.
fn open(listen: IpAddr, port: u16) -> io::Result<StdSocket> {
    let made = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    set_socket_reuseaddr(&made, true)?;
    bind(&made, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))?;
    // The interface the kernel chooses, unless the server listens at one address only.
    let own = match listen {
        IpAddr::V4(own) => own,
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    };
    set_ip_add_membership(&made, &ssdp::MULTICAST_ADDRESS, &own)?;
    set_ip_multicast_if(&made, &own)?;
    set_ip_multicast_ttl(&made, HOPS)?;
    let made = StdSocket::from(made);
    made.set_nonblocking(true)?;
    Ok(made)
}

/// The announced server.
struct Host {
    service: Arc<Service>,
    secret: String,
    listen: SocketAddr,
    port: u16,
}

impl Host {
    async fn run(self, socket: UdpSocket, mut stopped: oneshot::Receiver<()>) {
        let everybody = SocketAddrV4::new(ssdp::MULTICAST_ADDRESS, self.port);
        let mut tells = tokio::time::interval(TELLS);
        let mut waiting: Vec<(Instant, SocketAddrV4, String)> = Vec::new();
        let mut budget = Budget { left: ANSWERS, at: Instant::now() };
        let mut datagram = [0; MOST_BYTES];
        let mut rest = Rest::default();
        loop {
            let next = waiting.iter().map(|(at, ..)| *at).min();
            tokio::select! {
                heard = rest.then(socket.recv_from(&mut datagram)) => {
                    rest.after(heard.as_ref().err());
                    let Ok((length, SocketAddr::V4(asker))) = heard else { continue };
                    let Some(search) = Search::parse(&datagram[..length]).filter(|_| ssdp::is_local_network(*asker.ip())) else {
                        continue;
                    };
                    let Some(device) = self.device(asker) else { continue };
                    // A random delay up to MX, so that devices do not all answer at the same moment.
                    let spread = f64::from(u16::from_le_bytes(random_bytes())) / 65_536.0 * f64::from(search.max_wait_seconds);
                    let at = Instant::now() + Duration::from_secs_f64(spread);
                    for answer in device.responses(&search) {
                        if waiting.len() < MOST_WAITING && budget.take() {
                            waiting.push((at, asker, answer));
                        }
                    }
                }
                () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {
                    let now = Instant::now();
                    let due: Vec<_> = waiting.extract_if(.., |(at, ..)| *at <= now).collect();
                    for (_, asker, answer) in due {
                        let _ = socket.send_to(answer.as_bytes(), asker).await;
                    }
                }
                _ = tells.tick() => self.tell(&socket, everybody, AnnouncedDevice::alive_announcements).await,
                _ = &mut stopped => return self.tell(&socket, everybody, AnnouncedDevice::byebye_announcements).await,
            }
        }
    }

    async fn tell(&self, socket: &UdpSocket, everybody: SocketAddrV4, what: impl Fn(&AnnouncedDevice) -> Vec<String>) {
        let Some(device) = self.device(everybody) else { return };
        for text in what(&device) {
            if let Err(fault) = socket.send_to(text.as_bytes(), everybody).await {
                return tracing::debug!(%fault, "the SSDP announcement could not be sent");
            }
        }
    }

    /// The device with the URL for this client; None while the token is invalid, or if the client cannot reach the server.
    fn device(&self, asker: SocketAddrV4) -> Option<AnnouncedDevice> {
        let user = self.service.accounts.authenticate_stream(&self.secret).ok()?;
        let base = match self.service.config.base_url() {
            Some(base) => base.to_owned(),
            None => format!("http://{}:{}", self.address(asker)?, self.listen.port()),
        };
        Some(AnnouncedDevice {
            id: tuner::unique_id(&user.login_id),
            location: format!("{base}/hdhr/{}/device.xml", self.secret),
            program: format!("Hearthcast/{}", env!("CARGO_PKG_VERSION")),
        })
    }

    fn address(&self, asker: SocketAddrV4) -> Option<Ipv4Addr> {
        match self.listen.ip() {
            // Only this machine can reach a server that listens on loopback.
            IpAddr::V4(own) if own.is_loopback() && !(asker.ip().is_loopback() || asker.ip().is_multicast()) => None,
            IpAddr::V4(own) if !own.is_unspecified() => Some(own),
            IpAddr::V6(own) if !own.is_unspecified() => None,
            // The address the kernel would send from to reach the client.
            _ => {
                let way = StdSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
                way.connect(asker).ok()?;
                match way.local_addr().ok()?.ip() {
                    IpAddr::V4(own) if !own.is_unspecified() => Some(own),
                    _ => None,
                }
            }
        }
    }
}

/// A token bucket for answers.
struct Budget {
    left: f64,
    at: Instant,
}

impl Budget {
    fn take(&mut self) -> bool {
        let now = Instant::now();
        self.left = (self.left + (now - self.at).as_secs_f64() * ANSWERS).min(ANSWERS);
        self.at = now;
        let there = self.left >= 1.0;
        if there {
            self.left -= 1.0;
        }
        there
    }
}

/// The backoff after failed receives.
#[derive(Default)]
struct Rest {
    until: Option<Instant>,
    last: Duration,
}

impl Rest {
    /// Waits until the backoff is over, then does the work.
    async fn then<T>(&self, work: impl Future<Output = T>) -> T {
        if let Some(until) = self.until {
            tokio::time::sleep_until(until).await;
        }
        work.await
    }

    /// Doubles the backoff after a failure; resets it after a success.
    fn after(&mut self, failure: Option<&io::Error>) {
        let Some(fault) = failure else { return *self = Self::default() };
        if self.last.is_zero() {
            tracing::warn!(%fault, "SSDP searches cannot be received");
        }
        self.last = (self.last * 2).clamp(RESTS.0, RESTS.1);
        self.until = Some(Instant::now() + self.last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn answers_are_bounded_and_come_back_with_time() {
        let mut budget = Budget { left: ANSWERS, at: Instant::now() };
        assert_eq!((0..100).filter(|_| budget.take()).count(), 20);
        tokio::time::advance(Duration::from_millis(250)).await;
        assert_eq!((0..100).filter(|_| budget.take()).count(), 5);
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!((0..100).filter(|_| budget.take()).count(), 20);
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_for_good_is_tried_ever_more_seldom() {
        let (mut rest, begun) = (Rest::default(), Instant::now());
        let mut tries = 0;
        while begun.elapsed() < Duration::from_secs(3600) {
            let failed: io::Result<()> = rest.then(async { Err(io::ErrorKind::NotConnected.into()) }).await;
            rest.after(failed.as_ref().err());
            tries += 1;
        }
        assert!((360..380).contains(&tries), "{tries} tries in an hour");
        rest.after(None);
        let again = Instant::now();
        rest.then(async {}).await;
        assert_eq!(again.elapsed(), Duration::ZERO, "a success resets the backoff");
    }
}
