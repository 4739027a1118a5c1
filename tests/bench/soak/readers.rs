//! Readers of a film's bytes at its rate, with a buffer and with seeks, on connections of their own.

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::player_buffer::{PlayerBuffer, Totals};
use crate::peer::{discard, read_head};
use crate::program::ServerProcess;

const START_AT: Duration = Duration::from_secs(2);
const FULL: Duration = Duration::from_secs(10);
const PART_BYTES: u64 = 256 << 10;

struct Reader {
    address: String,
    request: String,
    film_bytes: u64,
    bits_per_second: u64,
    totals: Arc<Totals>,
}

/// Starts a reader on a thread that ends at `end`. Each begins at another place of the film.
pub fn start(
    server: &ServerProcess,
    film: &Path,
    bits_per_second: u64,
    number: usize,
    end: Instant,
    totals: Arc<Totals>,
) {
    let film_bytes = film.metadata().expect("the film").len();
    let path = film.display().to_string().replace('/', "%2F");
    let reader = Reader {
        address: server.base.trim_start_matches("http://").to_owned(),
        request: format!(
            "GET /api/stream/file?path={path} HTTP/1.1\r\nHost: b\r\nAuthorization: Bearer {}\r\n",
            server.token
        ),
        film_bytes,
        bits_per_second,
        totals,
    };
    let first = film_bytes / 50 * (number as u64 % 50);
    std::thread::spawn(move || reader.read_until(first, end));
}

impl Reader {
    fn read_until(&self, mut first: u64, end: Instant) {
        while Instant::now() < end {
            if let Err(cause) = self.read_from(first, end) {
                self.totals.add_fault(format!("reader: {cause}"));
                std::thread::sleep(Duration::from_secs(1));
            }
            // Then from the beginning: a seek.
            first = 0;
        }
    }

    /// Reads to the end of the film.
    fn read_from(&self, first: u64, end: Instant) -> std::io::Result<()> {
        let mut socket = TcpStream::connect(&self.address)?;
        socket.write_all(format!("{}Range: bytes={first}-\r\n\r\n", self.request).as_bytes())?;
        let (_, mut remaining) = read_head(&mut socket)?;
        remaining = remaining.min(self.film_bytes);
        let mut buffer = PlayerBuffer::new(START_AT);
        while remaining > 0 && Instant::now() < end {
            let received = discard(&socket, remaining.min(PART_BYTES))?;
            remaining -= received;
            self.totals.bytes.fetch_add(received, Ordering::Relaxed);
            buffer.receive(Duration::from_secs_f64((received * 8) as f64 / self.bits_per_second as f64), &self.totals);
            if let Some(excess) = buffer.ahead().checked_sub(FULL) {
                std::thread::sleep(excess);
            }
        }
        Ok(())
    }
}
