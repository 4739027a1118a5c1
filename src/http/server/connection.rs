//! A connection's socket, and the file ranges that the kernel sends through it (`sendfile`).
//!
//! hyper supports only bodies of bytes (hyperium/hyper#3026). So a body yields a placeholder as long as some file ranges and
//! queues the ranges themselves. When the placeholder is about to be written here, `sendfile` sends the ranges instead. The
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

use super::connection_slots::ConnectionSlot;
use crate::engine::source::SourceFile;
use crate::error::Code;
use crate::service::accounts::random_bytes;

/// Longest file ranges per placeholder, together, bytes.
pub const MAX_RANGE_BYTES: u64 = 2 << 20;

/// How long a client may receive nothing before its connection is closed. A paused player reconnects.
const STALL_TIMEOUT: Duration = Duration::from_secs(120);

/// Bytes a client without credentials must receive per [`RATE_WINDOW`] in which the server waits for it. No real link is
/// slower than 600 bytes/s, so such a client only occupies a connection.
const MIN_RECEIVED_BYTES: u64 = 64 * 1024;
const RATE_WINDOW: Duration = Duration::from_secs(120);

static PLACEHOLDER: LazyLock<Box<[u8]>> = LazyLock::new(|| vec![0; MAX_RANGE_BYTES as usize].into());

/// Ranges of a file to be sent one after the other. CMAF has one for each sample or chunk.
pub struct FileRanges {
    source: Arc<SourceFile>,
    /// Offset and length, none of them empty.
    ranges: VecDeque<(u64, u64)>,
    remaining: u64,
}

impl FileRanges {
    /// From offsets and lengths.
    pub fn new(source: Arc<SourceFile>, ranges: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let ranges: VecDeque<(u64, u64)> = ranges.into_iter().filter(|&(_, len)| len > 0).collect();
        Self { source, remaining: ranges.iter().map(|(_, len)| len).sum(), ranges }
    }

    /// Counts bytes of the first range as sent.
    fn advance(&mut self, sent: u64) {
        self.remaining -= sent;
        if let Some((offset, len)) = self.ranges.front_mut() {
            (*offset, *len) = (*offset + sent, *len - sent);
            if *len == 0 {
                self.ranges.pop_front();
            }
        }
    }
}

/// File ranges that a connection has yet to send, in order.
pub type FileRangeQueue = Arc<Mutex<VecDeque<FileRanges>>>;

/// A chunk of a body: bytes, or the placeholder for file ranges.
pub enum BodyChunk {
    Bytes(Bytes),
    Placeholder(usize),
}

impl BodyChunk {
    /// Queues file ranges of together at most [`MAX_RANGE_BYTES`] and returns their placeholder.
    pub fn queue_ranges(queue: &FileRangeQueue, ranges: FileRanges) -> Self {
        debug_assert!(ranges.remaining <= MAX_RANGE_BYTES, "file ranges must not be longer than their placeholder");
        let len = ranges.remaining as usize;
        queue.lock().expect("the lock is not poisoned").push_back(ranges);
        Self::Placeholder(len)
    }
}

impl Buf for BodyChunk {
    fn remaining(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.remaining(),
            Self::Placeholder(remaining) => *remaining,
        }
    }

    fn chunk(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes.chunk(),
            Self::Placeholder(remaining) => &PLACEHOLDER[..*remaining],
        }
    }

    fn advance(&mut self, count: usize) {
        match self {
            Self::Bytes(bytes) => bytes.advance(count),
            Self::Placeholder(remaining) => *remaining -= count,
        }
    }
}

fn is_placeholder(slice: &IoSlice<'_>) -> bool {
    !slice.is_empty() && slice.as_ptr() == PLACEHOLDER.as_ptr()
}

/// The rate at which a client receives, measured over the time the server waits for it.
pub struct ReceiveRate {
    slot: Arc<ConnectionSlot>,
    /// When the socket's send buffer became full.
    full_since: Option<Instant>,
    waited: Duration,
    received_bytes: u64,
}

impl ReceiveRate {
    pub fn new(slot: Arc<ConnectionSlot>) -> Self {
        Self { slot, full_since: None, waited: Duration::ZERO, received_bytes: 0 }
    }

    fn mark_full(&mut self, now: Instant) {
        self.full_since.get_or_insert(now);
    }

    fn record_received(&mut self, bytes: usize) {
        self.received_bytes += bytes as u64;
        self.slot.record_received(bytes);
    }

    /// The socket is writable again. False if a window ends here in which the client was too slow; an authenticated client
    /// may be slow.
    fn mark_writable(&mut self, now: Instant) -> bool {
        let Some(since) = self.full_since.take() else { return true };
        self.waited += now.saturating_duration_since(since);
        if self.waited < RATE_WINDOW {
            return true;
        }
        let received_bytes = std::mem::take(&mut self.received_bytes);
        self.waited = Duration::ZERO;
        received_bytes >= MIN_RECEIVED_BYTES || self.slot.is_authenticated()
    }
}

/// The socket as hyper uses it.
pub struct Connection {
    socket: TcpStream,
    file_ranges: FileRangeQueue,
    /// The stall timer; None until the client first makes the server wait.
    stall_timer: Option<Pin<Box<Sleep>>>,
    last_progress: Instant,
    rate: ReceiveRate,
    /// Whether the socket holds back incomplete packets (`TCP_CORK`).
    is_corked: bool,
}

impl Connection {
    pub fn new(socket: TcpStream, file_ranges: FileRangeQueue, rate: ReceiveRate) -> Self {
        Self { socket, file_ranges, stall_timer: None, last_progress: Instant::now(), rate, is_corked: false }
    }

    /// Runs a system call that writes once the socket is writable.
    fn poll_socket_write(
        &mut self,
        context: &mut Context<'_>,
        mut write: impl FnMut(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.socket.poll_write_ready(context) {
                Poll::Ready(ready) => ready?,
                Poll::Pending => {
                    self.rate.mark_full(Instant::now());
                    return self.poll_stall(context);
                }
            }
            if self.rate.full_since.is_some() && !self.rate.mark_writable(Instant::now()) {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            match self.socket.try_io(Interest::WRITABLE, || write(&self.socket)) {
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {}
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                result => {
                    self.rate.record_received(*result.as_ref().unwrap_or(&0));
                    if self.stall_timer.is_some() {
                        self.last_progress = Instant::now();
                    }
                    return Poll::Ready(result);
                }
            }
        }
    }

    /// Pending until the stall limit is reached. The timer is armed once and re-armed only when it fires early.
    fn poll_stall(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let timer = match &mut self.stall_timer {
            Some(timer) => timer,
            unarmed => {
                self.last_progress = Instant::now();
                unarmed.insert(Box::pin(tokio::time::sleep(STALL_TIMEOUT)))
            }
        };
        loop {
            ready!(timer.as_mut().poll(context));
            let deadline = self.last_progress + STALL_TIMEOUT;
            if deadline <= Instant::now() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            timer.as_mut().reset(deadline.into());
        }
    }

    /// Lets the socket hold back incomplete packets while more ranges follow. The kernel sends them after 200 ms in any case.
    fn set_corked(&mut self, is_corked: bool) {
        if self.is_corked != is_corked {
            self.is_corked = is_corked;
            // Without it there are only more packets.
            let _ = rustix::net::sockopt::set_tcp_cork(&self.socket, is_corked);
        }
    }

    /// Sends more of the file ranges whose placeholder has `len` bytes left, as many as the socket takes. `has_more` means that
    /// other chunks of the body follow.
    fn poll_ranges(&mut self, context: &mut Context<'_>, len: usize, has_more: bool) -> Poll<io::Result<usize>> {
        let queue = self.file_ranges.clone();
        let mut queue = queue.lock().expect("the lock is not poisoned");
        let Some(queued) = queue.front_mut().filter(|queued| queued.remaining == len as u64) else {
            return Poll::Ready(Err(io::Error::other("a placeholder without its file ranges")));
        };
        self.set_corked(has_more || queued.ranges.len() > 1);
        let mut sent = 0;
        while let Some(&(offset, range_len)) = queued.ranges.front() {
            let written = self.poll_socket_write(context, |socket| {
                let mut offset = offset;
                Ok(rustix::fs::sendfile(socket, &queued.source.file, Some(&mut offset), range_len as usize)?)
            });
            match written {
                Poll::Ready(Ok(0)) => {
                    let message = "the file shrank while it was sent";
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, message)));
                }
                Poll::Ready(Ok(bytes)) => {
                    sent += bytes;
                    queued.advance(bytes as u64);
                }
                // What was sent counts first.
                _ if sent > 0 => return Poll::Ready(Ok(sent)),
                unsent => return unsent,
            }
        }
        queue.pop_front();
        self.set_corked(has_more);
        Poll::Ready(Ok(sent))
    }
}

impl hyper::rt::Read for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        // The head of a request is small: a buffer on the stack avoids an unsafe cast to tokio's buffer.
        let mut stack_buffer = [const { MaybeUninit::uninit() }; 8 * 1024];
        let capacity = stack_buffer.len().min(buffer.remaining());
        let mut read = ReadBuf::uninit(&mut stack_buffer[..capacity]);
        ready!(Pin::new(&mut self.get_mut().socket).poll_read(context, &mut read))?;
        buffer.put_slice(read.filled());
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for Connection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(buffer)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let connection = self.get_mut();
        match slices.iter().position(is_placeholder) {
            Some(0) => connection.poll_ranges(context, slices[0].len(), slices.len() > 1),
            Some(byte_slices) => {
                connection.poll_socket_write(context, |socket| send(socket, &slices[..byte_slices], SendFlags::MORE))
            }
            None => match rewrite_hyper_error(slices) {
                Some(rewritten) => connection
                    .poll_socket_write(context, |socket| send(socket, &[IoSlice::new(&rewritten)], SendFlags::empty()))
                    .map_ok(|_| slices[0].len()),
                None => {
                    connection.set_corked(false);
                    connection.poll_socket_write(context, |socket| send(socket, slices, SendFlags::empty()))
                }
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
    let mut ancillary = SendAncillaryBuffer::default();
    Ok(rustix::net::sendmsg(socket, slices, &mut ancillary, flags | SendFlags::NOSIGNAL)?)
}

/// Gives hyper's own response to a head it cannot parse (400, 414 or 431 without a body, then it closes) our JSON error
/// body. Our own responses are recognized by their request ID.
fn rewrite_hyper_error(slices: &[IoSlice<'_>]) -> Option<Vec<u8>> {
    let [response] = slices else { return None };
    let text = std::str::from_utf8(response.strip_prefix(b"HTTP/1.1 4").filter(|rest| rest.len() < 200)?).ok()?;
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
    let headers = format!("content-type: application/json\r\ncache-control: no-store\r\nx-request-id: {id}");
    Some(format!("HTTP/1.1 4{head}\r\n{headers}\r\n\r\n{body}").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::super::connection_slots::ConnectionSlots;
    use super::*;

    /// Whether a client that takes `bytes` each second of waiting is still served after ten minutes.
    fn is_still_served(bytes: usize, is_authenticated: bool) -> bool {
        let slot = ConnectionSlots::new(8, &[]).acquire([192, 0, 2, 1].into()).unwrap();
        if is_authenticated {
            slot.mark_authenticated();
        }
        let (mut rate, mut now) = (ReceiveRate::new(Arc::new(slot)), Instant::now());
        (0..600).all(|_| {
            rate.mark_full(now);
            now += Duration::from_secs(1);
            let is_fast_enough = rate.mark_writable(now);
            rate.record_received(bytes);
            // The next request comes later: only the time spent waiting for the client counts.
            now += Duration::from_secs(30);
            is_fast_enough
        })
    }

    #[test]
    fn an_unauthenticated_client_must_receive_fast_enough() {
        assert!(!is_still_served(75, false) && !is_still_served(500, false));
        assert!(is_still_served(600, false) && is_still_served(75, true));
    }
}
