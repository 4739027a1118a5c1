//! A connection's socket, and the file ranges that the kernel sends through it (`sendfile`).
//!
//! hyper supports only bodies of bytes (hyperium/hyper#3026). So a body yields a placeholder as long as the file range and
//! queues the range itself. When the placeholder is about to be written here, `sendfile` sends the range instead. The
//! placeholder is zeros that are never read, so it costs only address space. HTTP/1 keeps the responses of a connection in
//! order, and lengths are compared: a mismatch ends the connection and never sends wrong bytes.

use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use data_encoding::BASE64URL_NOPAD;
use hyper::rt::ReadBufCursor;
use rustix::net::{SendAncillaryBuffer, SendFlags};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use super::places::Place;
use crate::engine::source::SourceFile;
use crate::error::Code;
use crate::service::accounts::random_bytes;

/// Longest file range per placeholder, bytes.
pub const RUN_BYTES: u64 = 2 << 20;

/// How long a client may receive nothing before its connection is closed. A paused player reconnects.
const STALL: Duration = Duration::from_secs(120);

/// Bytes a client without credentials must receive per [`PACE_WINDOW`] in which the server waits for it. No real link is
/// slower than 600 bytes/s, so such a client only occupies a connection.
const LEAST_TAKEN: u64 = 64 * 1024;
const PACE_WINDOW: Duration = Duration::from_secs(120);

static STAND_IN: LazyLock<Box<[u8]>> = LazyLock::new(|| vec![0; RUN_BYTES as usize].into());

/// A file range to be sent.
pub struct Run {
    pub source: Arc<SourceFile>,
    pub offset: u64,
    pub left: u64,
}

/// File ranges that a connection has yet to send, in order.
pub type Runs = Arc<Mutex<VecDeque<Run>>>;

/// A chunk of a body: bytes, or the placeholder for a file range.
pub enum Piece {
    Bytes(Bytes),
    StandIn(usize),
}

impl Piece {
    /// Queues a file range of at most [`RUN_BYTES`] and returns its placeholder.
    pub fn of_run(runs: &Runs, run: Run) -> Self {
        debug_assert!(run.left <= RUN_BYTES, "a file range must not be longer than its placeholder");
        let len = run.left as usize;
        runs.lock().expect("the lock is not poisoned").push_back(run);
        Self::StandIn(len)
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.remaining(),
            Self::StandIn(left) => *left,
        }
    }

    fn chunk(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes.chunk(),
            Self::StandIn(left) => &STAND_IN[..*left],
        }
    }

    fn advance(&mut self, count: usize) {
        match self {
            Self::Bytes(bytes) => bytes.advance(count),
            Self::StandIn(left) => *left -= count,
        }
    }
}

fn is_stand_in(slice: &IoSlice<'_>) -> bool {
    !slice.is_empty() && slice.as_ptr() == STAND_IN.as_ptr()
}

/// The rate at which a client receives, measured over the time the server waits for it.
pub struct Pace {
    place: Arc<Place>,
    /// When the socket's send buffer became full.
    full_since: Option<Instant>,
    waited: Duration,
    taken: u64,
}

impl Pace {
    /// Measures the connection that has this slot.
    pub fn new(place: Arc<Place>) -> Self {
        Self { place, full_since: None, waited: Duration::ZERO, taken: 0 }
    }

    fn full(&mut self, now: Instant) {
        self.full_since.get_or_insert(now);
    }

    fn took(&mut self, bytes: usize) {
        self.taken += bytes as u64;
        self.place.sent(bytes);
    }

    /// The socket is writable again. False if a window ends here in which the client was too slow; an authenticated client
    /// may be slow.
    fn ready(&mut self, now: Instant) -> bool {
        let Some(since) = self.full_since.take() else { return true };
        self.waited += now.saturating_duration_since(since);
        if self.waited < PACE_WINDOW {
            return true;
        }
        let taken = std::mem::take(&mut self.taken);
        self.waited = Duration::ZERO;
        taken >= LEAST_TAKEN || self.place.is_admitted()
    }
}

/// The socket as hyper uses it.
pub struct Wire {
    socket: TcpStream,
    runs: Runs,
    /// The stall timer; None until the client first makes the server wait.
    stalled: Option<Pin<Box<Sleep>>>,
    moved: Instant,
    pace: Pace,
}

impl Wire {
    pub fn new(socket: TcpStream, runs: Runs, pace: Pace) -> Self {
        Self { socket, runs, stalled: None, moved: Instant::now(), pace }
    }

    /// Runs a system call that writes once the socket is writable.
    fn poll_io(
        &mut self,
        context: &mut Context<'_>,
        mut write: impl FnMut(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.socket.poll_write_ready(context) {
                Poll::Ready(ready) => ready?,
                Poll::Pending => {
                    self.pace.full(Instant::now());
                    return self.poll_stall(context);
                }
            }
            if self.pace.full_since.is_some() && !self.pace.ready(Instant::now()) {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            match self.socket.try_io(Interest::WRITABLE, || write(&self.socket)) {
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {}
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                done => {
                    self.pace.took(*done.as_ref().unwrap_or(&0));
                    if self.stalled.is_some() {
                        self.moved = Instant::now();
                    }
                    return Poll::Ready(done);
                }
            }
        }
    }

    /// Pending until the stall limit is reached. The timer is armed once and re-armed only when it fires early.
    fn poll_stall(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let timer = match &mut self.stalled {
            Some(timer) => timer,
            none => {
                self.moved = Instant::now();
                none.insert(Box::pin(tokio::time::sleep(STALL)))
            }
        };
        loop {
            ready!(timer.as_mut().poll(context));
            let until = self.moved + STALL;
            if until <= Instant::now() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            timer.as_mut().reset(until.into());
        }
    }

    /// Sends more of the file range whose placeholder has `len` bytes left.
    fn poll_run(&mut self, context: &mut Context<'_>, len: usize) -> Poll<io::Result<usize>> {
        let runs = self.runs.clone();
        let mut runs = runs.lock().expect("the lock is not poisoned");
        let Some(run) = runs.front_mut().filter(|run| run.left == len as u64) else {
            return Poll::Ready(Err(io::Error::other("a placeholder without its file range")));
        };
        let sent = ready!(self.poll_io(context, |socket| {
            let mut offset = run.offset;
            Ok(rustix::fs::sendfile(socket, &run.source.file, Some(&mut offset), len)?)
        }))?;
        if sent == 0 {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file shrank while it was sent")));
        }
        run.offset += sent as u64;
        run.left -= sent as u64;
        if run.left == 0 {
            runs.pop_front();
        }
        Poll::Ready(Ok(sent))
    }
}

impl hyper::rt::Read for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        // The head of a request is small: a buffer on the stack avoids an unsafe cast to tokio's buffer.
        let mut piece = [const { MaybeUninit::uninit() }; 8 * 1024];
        let most = piece.len().min(buffer.remaining());
        let mut read = ReadBuf::uninit(&mut piece[..most]);
        ready!(Pin::new(&mut self.get_mut().socket).poll_read(context, &mut read))?;
        buffer.put_slice(read.filled());
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for Wire {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(buffer)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wire = self.get_mut();
        match slices.iter().position(is_stand_in) {
            Some(0) => wire.poll_run(context, slices[0].len()),
            Some(before) => wire.poll_io(context, |socket| send(socket, &slices[..before], SendFlags::MORE)),
            None => match unshaped(slices) {
                Some(shaped) => wire
                    .poll_io(context, |socket| send(socket, &[IoSlice::new(&shaped)], SendFlags::empty()))
                    .map_ok(|_| slices[0].len()),
                None => wire.poll_io(context, |socket| send(socket, slices, SendFlags::empty())),
            },
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(context)
    }
}

fn send(socket: &TcpStream, slices: &[IoSlice<'_>], flags: SendFlags) -> io::Result<usize> {
    let mut nothing = SendAncillaryBuffer::default();
    Ok(rustix::net::sendmsg(socket, slices, &mut nothing, flags | SendFlags::NOSIGNAL)?)
}

/// Gives hyper's own response to a head it cannot parse (400, 414 or 431 without a body, then it closes) our JSON error
/// body. Our own responses are recognized by their request ID.
fn unshaped(slices: &[IoSlice<'_>]) -> Option<Vec<u8>> {
    let [answer] = slices else { return None };
    let text = std::str::from_utf8(answer.strip_prefix(b"HTTP/1.1 4").filter(|rest| rest.len() < 200)?).ok()?;
    if !text.ends_with("\r\n\r\n") || !text.contains("content-length: 0\r\n") || text.contains("x-request-id") {
        return None;
    }
    let (code, message) = match text.get(..2)? {
        "00" => (Code::BadRequest, "malformed HTTP request"),
        "14" => (Code::UriTooLong, "the request target is too long"),
        "31" => (Code::HeadersTooLarge, "the request has too many or too large headers"),
        _ => return None,
    };
    let id = BASE64URL_NOPAD.encode(&random_bytes::<12>());
    let body = format!(r#"{{"error":"{message}","code":"{}","requestId":"{id}"}}"#, code.as_str());
    let head = text.trim_end().replace("content-length: 0", &format!("content-length: {}", body.len()));
    Some(
        format!(
            "HTTP/1.1 4{head}\r\ncontent-type: application/json\r\ncache-control: no-store\r\nx-request-id: {id}\r\n\r\n{body}"
        )
        .into_bytes(),
    )
}

#[cfg(test)]
mod tests {
    use super::super::places::Places;
    use super::*;

    /// Whether a client that takes `bytes` each second of waiting is still served after ten minutes.
    fn is_served(bytes: usize, admitted: bool) -> bool {
        let place = Places::new(8, &[]).take([192, 0, 2, 1].into()).unwrap();
        if admitted {
            place.admit();
        }
        let (mut pace, mut now) = (Pace::new(Arc::new(place)), Instant::now());
        (0..600).all(|_| {
            pace.full(now);
            now += Duration::from_secs(1);
            let served = pace.ready(now);
            pace.took(bytes);
            // The next request comes later: only the time spent waiting for the client counts.
            now += Duration::from_secs(30);
            served
        })
    }

    #[test]
    fn a_client_without_credentials_must_take_its_answers() {
        assert!(!is_served(75, false) && !is_served(500, false));
        assert!(is_served(600, false) && is_served(75, true));
    }
}
