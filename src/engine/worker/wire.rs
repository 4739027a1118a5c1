//! Frames over the socket of a worker: read within bounds, written within a time limit, descriptors beside a job.
//!
//! A worker's bytes are hostile input: a header is checked before anything is allocated for its body, and a worker that does
//! not read is not waited for.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use crate::domain::worker::frame::{FrameError, FrameHeader, FrameKind, HEADER_BYTES, MAX_BODY_BYTES, MAX_PIECE_BYTES};

/// Time limit for writing a frame. The worker reads at once, in a thread of its own.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Descriptors beside one frame at most: the file, the sidecar, the watermark and the script.
pub const MAX_DESCRIPTORS: usize = 4;

/// A frame of a known kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: FrameKind,
    /// Number of the job; 0 outside a job.
    pub job: u32,
    pub body: Vec<u8>,
}

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The other side has ended, possibly in the middle of a frame.
    #[error("the connection is closed: {0}")]
    Closed(io::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("a frame {0:?} cannot be read: {1}")]
    Body(FrameKind, String),
    #[error("the worker does not read")]
    Stuck,
    #[error("a frame for a worker: {0}")]
    Unsendable(&'static str),
}

impl Frame {
    /// Parses a JSON body.
    ///
    /// # Errors
    /// `Body`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ConnectionError> {
        serde_json::from_slice(&self.body).map_err(|cause| ConnectionError::Body(self.kind, cause.to_string()))
    }
}

/// Both directions of a connection.
pub fn split(stream: UnixStream) -> (FrameReader, FrameWriter) {
    let (read_half, write_half) = stream.into_split();
    let reader = FrameReader { half: read_half, header: [0; HEADER_BYTES], header_filled: 0, body: Vec::new() };
    (reader, FrameWriter { half: write_half })
}

/// The direction from the worker.
#[derive(Debug)]
pub struct FrameReader {
    half: OwnedReadHalf,
    header: [u8; HEADER_BYTES],
    header_filled: usize,
    body: Vec<u8>,
}

impl FrameReader {
    /// The next frame; None when the worker closed the connection between two frames. Optional frames of unknown kinds are
    /// skipped. A dropped call loses nothing: the next one continues in the middle of the frame.
    ///
    /// # Errors
    /// [`ConnectionError`]: the connection must not be used any more.
    pub async fn read(&mut self) -> Result<Option<Frame>, ConnectionError> {
        loop {
            while self.header_filled < HEADER_BYTES {
                let read = self.half.read(&mut self.header[self.header_filled..]).await;
                match read.map_err(ConnectionError::Closed)? {
                    0 if self.header_filled == 0 => return Ok(None),
                    0 => return Err(truncated()),
                    count => self.header_filled += count,
                }
            }
            let header = FrameHeader::parse(self.header)?;
            if header.kind == Some(FrameKind::Piece) && header.body_bytes > MAX_PIECE_BYTES {
                return Err(FrameError::TooLong(header.body_bytes).into());
            }
            self.body.reserve_exact(header.body_bytes - self.body.len());
            while self.body.len() < header.body_bytes {
                let rest = (header.body_bytes - self.body.len()) as u64;
                let read = (&mut self.half).take(rest).read_buf(&mut self.body).await;
                if read.map_err(ConnectionError::Closed)? == 0 {
                    return Err(truncated());
                }
            }
            self.header_filled = 0;
            let body = std::mem::take(&mut self.body);
            if let Some(kind) = header.kind {
                return Ok(Some(Frame { kind, job: header.job, body }));
            }
        }
    }
}

fn truncated() -> ConnectionError {
    ConnectionError::Closed(io::ErrorKind::UnexpectedEof.into())
}

/// The direction to the worker.
#[derive(Debug)]
pub struct FrameWriter {
    half: OwnedWriteHalf,
}

impl FrameWriter {
    /// Writes a control frame with a JSON body.
    ///
    /// # Errors
    /// `Closed`; `Stuck` after 5 s; `Unsendable` for a body over 1 MiB.
    pub async fn write(&mut self, kind: FrameKind, job: u32, message: &impl Serialize) -> Result<(), ConnectionError> {
        self.write_with_descriptors(kind, job, message, &[]).await
    }

    /// Writes a control frame with descriptors beside its first byte.
    ///
    /// # Errors
    /// Those of [`Self::write`]; `Unsendable` for more than [`MAX_DESCRIPTORS`].
    pub async fn write_with_descriptors(
        &mut self,
        kind: FrameKind,
        job: u32,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), ConnectionError> {
        let body = serde_json::to_vec(message).map_err(|_| ConnectionError::Unsendable("its values have no JSON"))?;
        if body.len() > MAX_BODY_BYTES {
            return Err(ConnectionError::Unsendable("its body is longer than 1 MiB"));
        }
        let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
        bytes.extend_from_slice(&FrameHeader::to_bytes(kind, job, body.len()));
        bytes.extend_from_slice(&body);
        let write = async {
            let sent = if descriptors.is_empty() { 0 } else { self.send_first_byte(bytes[0], descriptors).await? };
            self.half.write_all(&bytes[sent..]).await.map_err(ConnectionError::Closed)
        };
        timeout(WRITE_TIMEOUT, write).await.map_err(|_| ConnectionError::Stuck)?
    }

    /// Sends one byte with descriptors. Returns its length.
    async fn send_first_byte(&self, byte: u8, descriptors: &[BorrowedFd<'_>]) -> Result<usize, ConnectionError> {
        if descriptors.len() > MAX_DESCRIPTORS {
            return Err(ConnectionError::Unsendable("it has too many descriptors"));
        }
        let socket: &UnixStream = self.half.as_ref();
        let send = || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            Ok(sendmsg(socket, &[IoSlice::new(&[byte])], &mut control, flags)?)
        };
        socket.async_io(Interest::WRITABLE, send).await.map_err(ConnectionError::Closed)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::{AsFd, OwnedFd};

    use super::*;
    use crate::domain::worker::frame::MAX_BODY_BYTES;
    use crate::engine::worker::message::Gate;

    fn pair() -> (FrameReader, FrameWriter, UnixStream) {
        let (own_end, worker_end) = UnixStream::pair().unwrap();
        let (reader, writer) = split(own_end);
        (reader, writer, worker_end)
    }

    /// The reader's result for these bytes, after which the worker closes the connection.
    async fn read_bytes(bytes: &[u8]) -> Result<Option<Frame>, ConnectionError> {
        let (mut reader, _writer, mut worker) = pair();
        worker.write_all(bytes).await.unwrap();
        drop(worker);
        reader.read().await
    }

    fn frame_bytes(kind: FrameKind, body: &[u8]) -> Vec<u8> {
        [&FrameHeader::to_bytes(kind, 3, body.len())[..], body].concat()
    }

    #[tokio::test]
    async fn frames_arrive_in_any_portions() {
        let (mut reader, _writer, mut worker) = pair();
        let bytes = frame_bytes(FrameKind::Gate, br#"{"through":7}"#);
        for byte in bytes.chunks(1) {
            assert!(timeout(Duration::from_millis(1), reader.read()).await.is_err(), "the frame is incomplete");
            worker.write_all(byte).await.unwrap();
        }
        let frame = reader.read().await.unwrap().unwrap();
        assert_eq!((frame.kind, frame.job, frame.parse::<Gate>().unwrap()), (FrameKind::Gate, 3, Gate { through: 7 }));
        drop(worker);
        assert_eq!(reader.read().await.unwrap(), None);
    }

    #[tokio::test]
    async fn frames_that_are_too_long_are_refused_by_their_header() {
        let header = |kind, length: usize| FrameHeader::to_bytes(kind, 3, length);
        let piece = read_bytes(&header(FrameKind::Piece, MAX_PIECE_BYTES + 1)).await;
        assert!(matches!(piece, Err(ConnectionError::Frame(FrameError::TooLong(_)))), "{piece:?}");
        let mut control = header(FrameKind::Report, 0);
        control[..4].copy_from_slice(&(MAX_BODY_BYTES as u32 + 1).to_le_bytes());
        let control = read_bytes(&control).await;
        assert!(matches!(control, Err(ConnectionError::Frame(FrameError::TooLong(_)))), "{control:?}");
    }

    #[tokio::test]
    async fn unknown_frames_are_refused_and_optional_ones_skipped() {
        let with_kind = |kind: u8| {
            let mut bytes = frame_bytes(FrameKind::Done, b"body of an unknown kind");
            bytes[4] = kind;
            bytes.extend(frame_bytes(FrameKind::Done, b""));
            bytes
        };
        let refused = read_bytes(&with_kind(0x70)).await;
        assert!(matches!(refused, Err(ConnectionError::Frame(FrameError::UnknownKind(0x70)))), "{refused:?}");
        let skipped = read_bytes(&with_kind(0x80)).await.unwrap().unwrap();
        assert_eq!((skipped.kind, skipped.body.len()), (FrameKind::Done, 0));
    }

    #[tokio::test]
    async fn truncated_frames_and_json_are_errors() {
        let whole = frame_bytes(FrameKind::Gate, br#"{"through":7}"#);
        for length in [1, HEADER_BYTES, whole.len() - 1] {
            let read = read_bytes(&whole[..length]).await;
            assert!(matches!(read, Err(ConnectionError::Closed(_))), "{length} bytes: {read:?}");
        }
        let frame = read_bytes(&frame_bytes(FrameKind::Gate, br#"{"through":"#)).await.unwrap().unwrap();
        assert!(matches!(frame.parse::<Gate>(), Err(ConnectionError::Body(FrameKind::Gate, _))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_does_not_read_is_stuck() {
        let (_reader, mut writer, _worker) = pair();
        let text = "x".repeat(MAX_BODY_BYTES - 2);
        let mut written = Ok(());
        for _ in 0..64 {
            written = writer.write(FrameKind::Ask, 0, &text).await;
            if written.is_err() {
                break;
            }
        }
        assert!(matches!(written, Err(ConnectionError::Stuck)), "{written:?}");
        let refused = writer.write(FrameKind::Ask, 0, &"x".repeat(MAX_BODY_BYTES)).await;
        assert!(matches!(refused, Err(ConnectionError::Unsendable(_))), "{refused:?}");
    }

    #[tokio::test]
    async fn descriptors_arrive_with_the_first_byte() {
        let (_reader, mut writer, worker) = pair();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "content").unwrap();
        let file = std::fs::File::open(folder.path().join("a")).unwrap();
        writer.write_with_descriptors(FrameKind::Job, 1, &Gate { through: 1 }, &[file.as_fd()]).await.unwrap();
        worker.readable().await.unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = rustix::net::RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0; 1];
        let flags = rustix::net::RecvFlags::CMSG_CLOEXEC;
        let received =
            rustix::net::recvmsg(&worker, &mut [io::IoSliceMut::new(&mut byte)], &mut control, flags).unwrap();
        assert_eq!(received.bytes, 1);
        let mut files: Vec<OwnedFd> = Vec::new();
        for message in control.drain() {
            if let rustix::net::RecvAncillaryMessage::ScmRights(descriptors) = message {
                files.extend(descriptors);
            }
        }
        assert_eq!(files.len(), 1);
        let mut text = String::new();
        std::fs::File::from(files.remove(0)).read_to_string(&mut text).unwrap();
        assert_eq!(text, "content");
    }
}
