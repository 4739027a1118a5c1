//! The packets of a program stream, read in order from an offset.

use std::io::Result;
use std::sync::Arc;

use crate::domain::mpegps::packet::{MAX_UNIT_BYTES, PackUnit, PacketHeader, pack_header_len};
use crate::engine::source::SourceFile;

/// Bytes read at a time.
const READ_BYTES: usize = 256 * 1024;

/// Length of a pack header without stuffing, bytes.
const PACK_HEADER_BYTES: usize = 14;

/// Reads the packets of a file one after the other.
#[derive(Debug)]
pub(super) struct PackReader {
    source: Arc<SourceFile>,
    buffer: Vec<u8>,
    /// Offset of the buffer in the file.
    buffer_start: u64,
    /// Position of the next unit in the buffer.
    at: usize,
    /// Whether a unit ended at `at`. Otherwise the next pack header is searched.
    is_synced: bool,
}

/// A packet of video, audio or private data.
#[derive(Debug)]
pub(super) struct PackPacket<'a> {
    /// Offset in the file.
    pub offset: u64,
    pub header: PacketHeader,
    pub payload: &'a [u8],
}

impl PackReader {
    /// Reads from any offset.
    pub(super) fn new(source: &Arc<SourceFile>, offset: u64) -> Self {
        Self { source: source.clone(), buffer: Vec::new(), buffer_start: offset, at: 0, is_synced: false }
    }

    /// Reads from the offset of a packet.
    pub(super) fn at_packet(source: &Arc<SourceFile>, offset: u64) -> Self {
        Self { is_synced: true, ..Self::new(source, offset) }
    }

    /// The next packet; None at the end of the file. Blocks on file I/O.
    pub(super) fn next_packet(&mut self) -> Result<Option<PackPacket<'_>>> {
        loop {
            self.fill()?;
            let rest = &self.buffer[self.at..];
            if rest.len() < 4 {
                return Ok(None);
            }
            if !self.is_synced {
                match (0..rest.len()).find(|&at| pack_header_len(&rest[at..]).is_some()) {
                    Some(at) => (self.at, self.is_synced) = (self.at + at, true),
                    // The buffer is shorter than a unit only at the end of the file.
                    None if rest.len() < MAX_UNIT_BYTES => return Ok(None),
                    // A header may begin in the last bytes.
                    None => self.at = self.buffer.len() - PACK_HEADER_BYTES,
                }
                continue;
            }
            match PackUnit::parse(rest) {
                Some(PackUnit::Packet(header)) => {
                    let offset = self.buffer_start + self.at as u64;
                    let len = header.total_len.min(rest.len());
                    let (start, end) = (self.at + header.header_len.min(len), self.at + len);
                    self.at = end;
                    return Ok(Some(PackPacket { offset, header, payload: &self.buffer[start..end] }));
                }
                Some(PackUnit::Other(len)) => self.at += len.min(rest.len()),
                None => self.is_synced = false,
            }
        }
    }

    /// Reads on unless a whole unit is in the buffer.
    fn fill(&mut self) -> Result<()> {
        if self.buffer.len() - self.at >= MAX_UNIT_BYTES {
            return Ok(());
        }
        let kept = self.buffer.len() - self.at;
        self.buffer.copy_within(self.at.., 0);
        self.buffer.resize(kept + READ_BYTES, 0);
        self.buffer_start += self.at as u64;
        self.at = 0;
        let filled = self.source.read_blocking(&mut self.buffer[kept..], self.buffer_start + kept as u64)?;
        self.buffer.truncate(kept + filled);
        Ok(())
    }
}
