//! A segment that is packed while it is sent: its layout, and where the bytes of its samples are in the file.
//!
//! A whole segment does not fit into the processor's cache, so writing it, storing it and sending it would each wait for
//! memory (together a third of all processor time). A chunk of a few hundred KiB, sent before the next is packed, never
//! leaves the cache.

use std::sync::Arc;

use bytes::Bytes;

use super::gather::GatheredBytes;
use super::pooled_buffer::PooledBuffer;
use crate::domain::mpegts::layout::{LayoutCursor, PayloadPart, SegmentLayout};
use crate::engine::RunError;
use crate::engine::container::bytes::Truncated;
use crate::engine::container::refuse_if;
use crate::engine::source::SourceFile;

/// Bytes of samples packed at a time, unless one sample has more.
const CHUNK_BYTES: usize = 192 << 10;

/// A contiguous range of a sample's bytes as written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Extent {
    /// In the bytes generated for the segment (`LazySegment::generated_bytes`).
    Generated { start: u32, len: u32 },
    /// In the file.
    File { offset: u64, len: u32 },
}

impl PayloadPart for Extent {
    fn byte_len(&self) -> usize {
        let (Self::Generated { len, .. } | Self::File { len, .. }) = *self;
        len as usize
    }
}

/// A segment that is packed when it is read.
#[derive(Debug)]
pub struct LazySegment {
    layout: SegmentLayout<Extent>,
    /// Start codes, parameter sets and headers, which are not in the file.
    generated_bytes: Vec<u8>,
}

/// Reads a [`LazySegment`] chunk by chunk.
#[derive(Debug)]
pub struct LazySegmentReader {
    segment: Arc<LazySegment>,
    source: Arc<SourceFile>,
    cursor: LayoutCursor,
    remaining_bytes: u64,
}

impl LazySegment {
    pub(super) fn new(layout: SegmentLayout<Extent>, generated_bytes: Vec<u8>) -> Self {
        Self { layout, generated_bytes }
    }

    /// Size of the segment, bytes.
    pub fn size_bytes(&self) -> u64 {
        self.layout.size_bytes() as u64
    }

    /// Approximate memory used, bytes.
    pub fn memory_bytes(&self) -> u64 {
        (self.layout.memory_bytes() + self.generated_bytes.capacity()) as u64
    }

    /// Starts reading; `source` must be the file that the segment was laid out for.
    pub fn reader(self: Arc<Self>, source: Arc<SourceFile>) -> LazySegmentReader {
        LazySegmentReader { cursor: self.layout.cursor(), remaining_bytes: self.size_bytes(), segment: self, source }
    }

    /// Reads the whole segment from the file it was laid out for. Blocks on the disk.
    ///
    /// # Errors
    /// `SourceChanged`, `SourceRead`.
    pub fn read_all(&self, source: &SourceFile) -> Result<Vec<u8>, RunError> {
        let read = self.read_with(|buffer, offset| Some(source.read_ahead(buffer, offset).unwrap_or(0)));
        verify_unchanged(source.has_same_content(), read)
    }

    pub(super) fn read_with(
        &self,
        mut read_at: impl FnMut(&mut [u8], u64) -> Option<usize>,
    ) -> Result<Vec<u8>, Truncated> {
        let (mut cursor, mut out) = (self.layout.cursor(), Vec::with_capacity(self.layout.size_bytes()));
        while !self.layout.is_written(&cursor) {
            refuse_if(!self.append_chunk(&mut cursor, &mut read_at, &mut out)?, Truncated)?;
        }
        Ok(out)
    }

    /// Appends the next chunk to `out`. Returns false, and changes nothing, if `read_at` returns None because the bytes
    /// are not cached.
    fn append_chunk(
        &self,
        cursor: &mut LayoutCursor,
        read_at: impl FnMut(&mut [u8], u64) -> Option<usize>,
        out: &mut Vec<u8>,
    ) -> Result<bool, Truncated> {
        let units = self.layout.next_units(cursor, CHUNK_BYTES);
        let file_ranges = self.layout.unit_parts(&units).iter().filter_map(|extent| match *extent {
            Extent::File { offset, len } => Some((offset, len)),
            Extent::Generated { .. } => None,
        });
        let Some(gathered) = GatheredBytes::read(file_ranges.collect(), read_at)? else { return Ok(false) };
        let bytes_of = |extent| match extent {
            Extent::Generated { start, len } => &self.generated_bytes[start as usize..][..len as usize],
            Extent::File { offset, len } => gathered.get(offset, len).expect("the range was read above"),
        };
        self.layout.write(cursor, units, bytes_of, out);
        Ok(true)
    }
}

impl LazySegmentReader {
    /// Remaining bytes.
    pub fn remaining_bytes(&self) -> u64 {
        self.remaining_bytes
    }

    pub fn source(&self) -> &Arc<SourceFile> {
        &self.source
    }

    /// The next chunk, if its bytes are in the page cache; None if a disk or a network has to be waited for.
    ///
    /// # Errors
    /// `SourceChanged`, `SourceRead`.
    pub fn next_cached(&mut self) -> Result<Option<Bytes>, RunError> {
        let source = self.source.clone();
        if self.remaining_bytes > 0 && !source.is_local {
            return Ok(None);
        }
        self.next_chunk(
            |buffer, offset| source.read_cached(buffer, offset).unwrap_or(Some(0)),
            SourceFile::holds_the_same_at_once,
        )
    }

    /// The next chunk, blocking on the disk; empty after the last.
    ///
    /// # Errors
    /// `SourceChanged`, `SourceRead`.
    pub fn next_blocking(&mut self) -> Result<Bytes, RunError> {
        let source = self.source.clone();
        let read = |into: &mut [u8], offset| Some(source.read_ahead(into, offset).unwrap_or(0));
        let chunk = self.next_chunk(read, |source| Some(source.has_same_content()))?;
        Ok(chunk.unwrap_or_default())
    }

    /// Changes nothing if `read` or `has_same_content` returns None because it would have to wait.
    fn next_chunk(
        &mut self,
        read: impl FnMut(&mut [u8], u64) -> Option<usize>,
        has_same_content: impl FnOnce(&SourceFile) -> Option<bool>,
    ) -> Result<Option<Bytes>, RunError> {
        if self.remaining_bytes == 0 {
            return Ok(Some(Bytes::new()));
        }
        let (mut buffer, before) = (PooledBuffer::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 8), self.cursor.clone());
        let out = buffer.as_mut_vec();
        let is_packed = self.segment.append_chunk(&mut self.cursor, read, out);
        let Some(is_same) = has_same_content(&self.source) else {
            self.cursor = before;
            return Ok(None);
        };
        let packed = verify_unchanged(is_same, is_packed)?;
        self.remaining_bytes -= out.len() as u64;
        Ok(packed.then(|| Bytes::from_owner(buffer)))
    }
}

/// Passes a result on if the file still has the same content. Otherwise bytes from before and after the change may be mixed.
fn verify_unchanged<T>(is_same: bool, read: Result<T, Truncated>) -> Result<T, RunError> {
    match read {
        _ if !is_same => Err(RunError::SourceChanged),
        Ok(value) => Ok(value),
        Err(Truncated) => Err(RunError::SourceRead("the file ends before its samples".into())),
    }
}
