//! The tuner announced in a home network, where one of its stream tokens is named for that in the configuration: whoever
//! looks for tuners there finds it without typing its address. The address holds the token, so everybody there gets it.

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
use crate::domain::ssdp::{self, Device, Search};
use crate::service::Service;
use crate::service::accounts::random;

/// How often it says that it is there: before others forget it (1800 s).
const TELLS: Duration = Duration::from_secs(600);

/// Answers a second, and at once; what comes beyond is not answered.
const ANSWERS: f64 = 20.0;

/// Answers held back at once.
const MOST_WAITING: usize = 64;

/// A datagram that is longer is no search.
const MOST_BYTES: usize = 2048;

/// Rests after a datagram that could not be received, the first and the longest: what fails once may fail for good.
const RESTS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(10));

/// Routers pass it on so often (UPnP Device Architecture 1.1, section 1.2.2).
const HOPS: u32 = 2;

/// An announcement under way.
pub struct Announcer {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Announcer {
    /// Begins to announce the tuner of a stream token, by a server that listens at `listen`. `port` is
    /// [`ssdp::PORT`], but for tests.
    ///
    /// # Errors
    /// What keeps it from taking part: a port that is taken, a machine without multicast.
    pub fn begin(service: &Arc<Service>, secret: String, listen: SocketAddr, port: u16) -> io::Result<Self> {
        let socket = UdpSocket::from_std(open(listen.ip(), port)?)?;
        let (stop, stopped) = oneshot::channel();
        let host = Host { service: service.clone(), secret, listen, port };
        Ok(Self { stop, task: tokio::spawn(host.run(socket, stopped)) })
    }

    /// Says that the tuner goes, and ends.
    pub async fn end(self) {
        let _ = self.stop.send(());
        let _ = self.task.await;
    }
}

/// A socket that hears searches: shared with whatever else announces itself on this machine.
fn open(listen: IpAddr, port: u16) -> io::Result<StdSocket> {
    let made = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    set_socket_reuseaddr(&made, true)?;
    bind(&made, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))?;
    // Where the kernel would send from, unless the server is at one address only.
    let own = match listen {
        IpAddr::V4(own) => own,
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    };
    set_ip_add_membership(&made, &ssdp::GROUP, &own)?;
    set_ip_multicast_if(&made, &own)?;
    set_ip_multicast_ttl(&made, HOPS)?;
    let made = StdSocket::from(made);
    made.set_nonblocking(true)?;
    Ok(made)
}

/// Who is announced.
struct Host {
    service: Arc<Service>,
    secret: String,
    listen: SocketAddr,
    port: u16,
}

impl Host {
    async fn run(self, socket: UdpSocket, mut stopped: oneshot::Receiver<()>) {
        let everybody = SocketAddrV4::new(ssdp::GROUP, self.port);
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
                    let Some(search) = Search::read(&datagram[..length]).filter(|_| ssdp::is_near(*asker.ip())) else {
                        continue;
                    };
                    let Some(device) = self.device(asker) else { continue };
                    // Spread, so that whoever asks is not answered by everybody at once.
                    let spread = f64::from(u16::from_le_bytes(random())) / 65_536.0 * f64::from(search.wait);
                    let at = Instant::now() + Duration::from_secs_f64(spread);
                    for answer in device.answers(&search) {
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
                _ = tells.tick() => self.tell(&socket, everybody, Device::arrives).await,
                _ = &mut stopped => return self.tell(&socket, everybody, Device::leaves).await,
            }
        }
    }

    async fn tell(&self, socket: &UdpSocket, everybody: SocketAddrV4, what: impl Fn(&Device) -> Vec<String>) {
        let Some(device) = self.device(everybody) else { return };
        for text in what(&device) {
            if let Err(fault) = socket.send_to(text.as_bytes(), everybody).await {
                return tracing::debug!(%fault, "the tuner could not be announced");
            }
        }
    }

    /// The device as somebody reaches it; None while its token opens nothing, and for whom there is no way here.
    fn device(&self, asker: SocketAddrV4) -> Option<Device> {
        let user = self.service.accounts.authenticate_stream(&self.secret).ok()?;
        let base = match self.service.config.base_url() {
            Some(base) => base.to_owned(),
            None => format!("http://{}:{}", self.address(asker)?, self.listen.port()),
        };
        Some(Device {
            id: tuner::unique_id(&user.login_id),
            location: format!("{base}/hdhr/{}/device.xml", self.secret),
            program: format!("Hearthcast/{}", env!("CARGO_PKG_VERSION")),
        })
    }

    fn address(&self, asker: SocketAddrV4) -> Option<Ipv4Addr> {
        match self.listen.ip() {
            // Nobody else reaches a server that listens for this machine alone.
            IpAddr::V4(own) if own.is_loopback() && !(asker.ip().is_loopback() || asker.ip().is_multicast()) => None,
            IpAddr::V4(own) if !own.is_unspecified() => Some(own),
            IpAddr::V6(own) if !own.is_unspecified() => None,
            // The address the kernel sends from, on the way to the asker.
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

/// Answers that may be sent now.
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

/// How long nothing is listened for, because listening failed.
#[derive(Default)]
struct Rest {
    until: Option<Instant>,
    last: Duration,
}

impl Rest {
    /// Does something once it is over.
    async fn then<T>(&self, work: impl Future<Output = T>) -> T {
        if let Some(until) = self.until {
            tokio::time::sleep_until(until).await;
        }
        work.await
    }

    /// Begins one after a failure, each twice as long as the one before; ends them after none.
    fn after(&mut self, failure: Option<&io::Error>) {
        let Some(fault) = failure else { return *self = Self::default() };
        if self.last.is_zero() {
            tracing::warn!(%fault, "searches for tuners are not heard");
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
        assert_eq!(again.elapsed(), Duration::ZERO, "what works is waited for at once");
    }
}
