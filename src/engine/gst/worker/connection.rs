//! The worker's end of the stream to its server: blocking frames, with descriptors beside the first byte of a job.
//!
//! One thread reads. Any thread writes; each frame is written as a whole, so heartbeats go between the pieces of a segment.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use serde::Serialize;

use super::end_process;
use crate::domain::worker::frame::{FrameHeader, FrameKind, HEADER_BYTES, MAX_BODY_BYTES};

/// Most descriptors of a frame: the file, the sidecar, the watermark and the script of a run.
pub(super) const MAX_DESCRIPTORS: usize = 4;

#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    write_lock: Mutex<()>,
}

/// A frame from the server.
#[derive(Debug)]
pub(super) struct Frame {
    pub kind: FrameKind,
    pub job: u32,
    pub body: Vec<u8>,
    pub descriptors: Vec<OwnedFd>,
}

impl Connection {
    /// `socket` is a Unix stream socket.
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self { socket, write_lock: Mutex::new(()) }
    }

    /// The next frame; None when the server has closed the stream. Optional kinds that this version does not know are
    /// skipped. For one thread at a time.
    ///
    /// # Errors
    /// `InvalidData` for a frame that is too long, of an unknown kind or with too many descriptors; those of the socket.
    pub(super) fn read_frame(&self) -> io::Result<Option<Frame>> {
        loop {
            let (mut bytes, mut descriptors) = ([0; HEADER_BYTES], Vec::new());
            let mut filled = 0;
            while filled < HEADER_BYTES {
                match self.receive(&mut bytes[filled..], &mut descriptors)? {
                    0 if filled == 0 => return Ok(None),
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    count => filled += count,
                }
            }
            let header =
                FrameHeader::parse(bytes).map_err(|fault| io::Error::new(io::ErrorKind::InvalidData, fault))?;
            let mut body = vec![0; header.body_bytes];
            self.read_exact(&mut body)?;
            if let Some(kind) = header.kind {
                return Ok(Some(Frame { kind, job: header.job, body, descriptors }));
            }
        }
    }

    /// Receives bytes, and adds the descriptors beside them. 0 bytes mean the end.
    fn receive(&self, buffer: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut slices = [IoSliceMut::new(buffer)];
            match recvmsg(&self.socket, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                received => break received?,
            }
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                descriptors.extend(received);
            }
        }
        if descriptors.len() > MAX_DESCRIPTORS || received.flags.contains(ReturnFlags::CTRUNC) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame has too many descriptors"));
        }
        Ok(received.bytes)
    }

    fn read_exact(&self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            // `read` drops descriptors: they come with the first byte of a frame only.
            match rustix::io::read(&self.socket, &mut *buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => buffer = &mut buffer[count..],
                Err(Errno::INTR) => {}
                Err(cause) => return Err(cause.into()),
            }
        }
        Ok(())
    }

    /// Writes a frame. Blocks while the server does not read.
    ///
    /// # Errors
    /// `InvalidInput` for a body that is too long; those of the socket.
    pub(super) fn write_frame(&self, kind: FrameKind, job: u32, body: &[u8]) -> io::Result<()> {
        if body.len() > MAX_BODY_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the body of a frame is too long"));
        }
        let header = FrameHeader::to_bytes(kind, job, body.len());
        let mut slices = [IoSlice::new(&header), IoSlice::new(body)];
        let mut rest = &mut slices[..];
        let _guard = self.write_lock.lock().unwrap_or_else(PoisonError::into_inner);
        while !rest.is_empty() {
            match rustix::io::writev(&self.socket, rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => IoSlice::advance_slices(&mut rest, count),
                Err(Errno::INTR) => {}
                Err(cause) => return Err(cause.into()),
            }
        }
        Ok(())
    }

    /// Writes a frame, and ends the process if the server is gone: no work has a reader then.
    pub(super) fn send(&self, kind: FrameKind, job: u32, body: &[u8]) {
        if let Err(cause) = self.write_frame(kind, job, body) {
            // Messages are bounded where they are made.
            let is_own_fault = cause.kind() == io::ErrorKind::InvalidInput;
            end_process(i32::from(is_own_fault));
        }
    }

    /// Like [`Self::send`], with a JSON body.
    pub(super) fn send_json(&self, kind: FrameKind, job: u32, body: &impl Serialize) {
        match serde_json::to_vec(body) {
            Ok(body) => self.send(kind, job, &body),
            // Only maps with keys that are not text have no JSON, and no message has one.
            Err(cause) => {
                eprintln!("no JSON for a frame: {cause}");
                end_process(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::{AsFd, BorrowedFd};
    use std::os::unix::net::UnixStream;

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    use super::*;
    use crate::domain::worker::frame::MAX_PIECE_BYTES;

    fn connect() -> (UnixStream, Connection) {
        let (server, worker) = UnixStream::pair().unwrap();
        (server, Connection::new(worker.into()))
    }

    /// Sends a frame with descriptors beside its first byte.
    fn send_with(server: &UnixStream, kind: FrameKind, body: &[u8], descriptors: &[BorrowedFd<'_>]) {
        let frame = [&FrameHeader::to_bytes(kind, 7, body.len())[..], body].concat();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(descriptors)));
        let sent = sendmsg(server, &[IoSlice::new(&frame)], &mut ancillary, SendFlags::empty()).unwrap();
        assert_eq!(sent, frame.len());
    }

    #[test]
    fn descriptors_arrive_with_their_frame_and_are_closed_with_it() {
        let (mut server, worker) = connect();
        let (mut reader, writer) = std::io::pipe().unwrap();
        // A frame without descriptors directly before it, and one after it.
        server.write_all(&FrameHeader::to_bytes(FrameKind::Cancel, 6, 0)).unwrap();
        send_with(&server, FrameKind::Job, b"{}", &[writer.as_fd(), server.as_fd()]);
        server.write_all(&FrameHeader::to_bytes(FrameKind::Gate, 8, 0)).unwrap();
        drop(writer);
        let cancel = worker.read_frame().unwrap().unwrap();
        assert_eq!((cancel.kind, cancel.job, cancel.descriptors.len()), (FrameKind::Cancel, 6, 0));
        let job = worker.read_frame().unwrap().unwrap();
        assert_eq!((job.kind, job.job, job.body.as_slice()), (FrameKind::Job, 7, &b"{}"[..]));
        assert_eq!(job.descriptors.len(), 2);
        for descriptor in &job.descriptors {
            let flags = rustix::io::fcntl_getfd(descriptor).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC), "no child gets it");
        }
        rustix::io::write(&job.descriptors[0], b"x").unwrap();
        assert_eq!(worker.read_frame().unwrap().unwrap().descriptors.len(), 0);
        drop(job);
        let mut rest = Vec::new();
        // The pipe ends when its last writer is closed.
        reader.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"x");
        drop(server);
        assert!(worker.read_frame().unwrap().is_none(), "the server closed the stream");
    }

    #[test]
    fn frames_that_are_not_understood_are_refused() {
        let refusal_of = |bytes: &[u8]| {
            let (mut server, worker) = connect();
            server.write_all(bytes).unwrap();
            drop(server);
            worker.read_frame().map(|frame| frame.map(|frame| frame.kind)).map_err(|cause| cause.kind())
        };
        let mut too_long = FrameHeader::to_bytes(FrameKind::Job, 1, 0);
        too_long[..4].copy_from_slice(&(MAX_BODY_BYTES as u32 + 1).to_le_bytes());
        assert_eq!(refusal_of(&too_long), Err(io::ErrorKind::InvalidData));
        let mut unknown = FrameHeader::to_bytes(FrameKind::Job, 1, 0);
        unknown[4] = 0x7e;
        assert_eq!(refusal_of(&unknown), Err(io::ErrorKind::InvalidData));
        let mut optional = FrameHeader::to_bytes(FrameKind::Job, 1, 3).to_vec();
        optional[4] = 0x90;
        optional.extend(*b"???");
        optional.extend(FrameHeader::to_bytes(FrameKind::Gate, 1, 0));
        assert_eq!(refusal_of(&optional), Ok(Some(FrameKind::Gate)), "the optional one is skipped");
        let truncated = &FrameHeader::to_bytes(FrameKind::Job, 1, 5);
        assert_eq!(refusal_of(truncated), Err(io::ErrorKind::UnexpectedEof));
        assert_eq!(refusal_of(&truncated[..4]), Err(io::ErrorKind::UnexpectedEof));
        assert_eq!(refusal_of(b""), Ok(None));
    }

    #[test]
    fn too_many_descriptors_are_refused_and_closed() {
        for count in [MAX_DESCRIPTORS + 1, 8] {
            let (server, worker) = connect();
            let (mut reader, writer) = std::io::pipe().unwrap();
            send_with(&server, FrameKind::Job, b"", &vec![writer.as_fd(); count]);
            drop(writer);
            assert_eq!(worker.read_frame().unwrap_err().kind(), io::ErrorKind::InvalidData, "{count}");
            assert_eq!(reader.read(&mut [0]).unwrap(), 0, "{count}: none is left open");
        }
    }

    #[test]
    fn a_heartbeat_goes_between_the_pieces_of_a_segment() {
        let (mut server, worker) = connect();
        let piece = vec![7; MAX_PIECE_BYTES];
        std::thread::scope(|scope| {
            // The pieces fill the socket, so the writers alternate as the server reads.
            scope.spawn(|| (0..8).for_each(|_| worker.write_frame(FrameKind::Piece, 1, &piece).unwrap()));
            scope.spawn(|| (0..8).for_each(|_| worker.write_frame(FrameKind::Beat, 1, b"{}").unwrap()));
            let mut counts = (0, 0);
            while counts != (8, 8) {
                let mut header = [0; HEADER_BYTES];
                server.read_exact(&mut header).unwrap();
                let header = FrameHeader::parse(header).unwrap();
                let mut body = vec![0; header.body_bytes];
                server.read_exact(&mut body).unwrap();
                match header.kind {
                    Some(FrameKind::Piece) if body == piece => counts.0 += 1,
                    Some(FrameKind::Beat) if body == b"{}" => counts.1 += 1,
                    _ => panic!("{header:?}"),
                }
            }
        });
        assert!(worker.write_frame(FrameKind::Report, 1, &vec![0; MAX_BODY_BYTES + 1]).is_err());
        // A drop closes it only when no process that another test starts has a copy of the descriptor.
        server.shutdown(std::net::Shutdown::Both).unwrap();
        assert!(worker.write_frame(FrameKind::Beat, 1, b"{}").is_err(), "the server is gone");
    }
}
