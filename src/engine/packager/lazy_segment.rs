//! A segment that is read from its source file while it is sent: it keeps only its layout.
//!
//! A whole segment does not fit into the processor's cache, so writing it, storing it and sending it would each wait for
//! memory (together a third of all processor time). A chunk of a few hundred KiB, sent before the next is read, never
//! leaves the cache. Of CMAF, the kernel sends longer ranges of the file itself.

use std::io::IoSliceMut;
use std::sync::Arc;

use bytes::Bytes;

use super::cmaf::{CmafSegment, ExtentCursor};
use super::pooled_buffer::PooledBuffer;
#[cfg(test)]
use super::scatter::fill_each;
use super::transport_segment::TransportSegment;
use crate::domain::mpegts::layout::LayoutCursor;
use crate::domain::range::ByteRange;
use crate::engine::RunError;
use crate::engine::container::bytes::Truncated;
use crate::engine::container::refuse_if;
use crate::engine::source::SourceFile;

/// Bytes of samples read at a time, unless one sample of a transport stream has more.
pub(super) const CHUNK_BYTES: usize = 192 << 10;

/// A segment that is made when it is read.
#[derive(Debug)]
pub struct LazySegment {
    form: SegmentForm,
}

#[derive(Debug)]
enum SegmentForm {
    Transport(Box<TransportSegment>),
    Cmaf(CmafSegment),
}

/// How much of a segment was read.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "it is copied for every chunk")]
enum SegmentCursor {
    Transport(LayoutCursor),
    Cmaf(ExtentCursor),
}

/// The next part of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SegmentPart {
    Bytes(Bytes),
    /// Ranges of the source file, which the kernel can send as they are: offsets and lengths.
    FileRanges(Vec<(u64, u64)>),
}

/// Reads a [`LazySegment`], or a byte range of one, part by part.
#[derive(Clone, Debug)]
pub struct LazySegmentReader {
    segment: Arc<LazySegment>,
    source: Arc<SourceFile>,
    cursor: SegmentCursor,
    remaining_bytes: u64,
}

impl From<TransportSegment> for LazySegment {
    fn from(segment: TransportSegment) -> Self {
        Self { form: SegmentForm::Transport(Box::new(segment)) }
    }
}

impl From<CmafSegment> for LazySegment {
    fn from(segment: CmafSegment) -> Self {
        Self { form: SegmentForm::Cmaf(segment) }
    }
}

impl LazySegment {
    /// Size of the segment, bytes.
    pub fn size_bytes(&self) -> u64 {
        match &self.form {
            SegmentForm::Transport(segment) => segment.size_bytes(),
            SegmentForm::Cmaf(segment) => segment.size_bytes(),
        }
    }

    /// Approximate memory used, bytes.
    pub fn memory_bytes(&self) -> u64 {
        match &self.form {
            SegmentForm::Transport(segment) => segment.memory_bytes(),
            SegmentForm::Cmaf(segment) => segment.memory_bytes(),
        }
    }

    /// Starts reading; `source` must be the file that the segment was laid out for.
    pub fn reader(self: Arc<Self>, source: Arc<SourceFile>) -> LazySegmentReader {
        LazySegmentReader { cursor: self.cursor(), remaining_bytes: self.size_bytes(), segment: self, source }
    }

    /// Starts reading a byte range, which must be within the segment. What precedes it is not read. None for a transport
    /// stream: where a packet begins is known only after those before it.
    pub fn range_reader(self: Arc<Self>, source: Arc<SourceFile>, range: ByteRange) -> Option<LazySegmentReader> {
        let cursor = match &self.form {
            SegmentForm::Transport(_) => return None,
            SegmentForm::Cmaf(segment) => SegmentCursor::Cmaf(segment.cursor_at(range.first)),
        };
        Some(LazySegmentReader { cursor, remaining_bytes: range.len(), segment: self, source })
    }

    /// Reads the whole segment from the file it was laid out for. Blocks on the disk.
    ///
    /// # Errors
    /// `SourceChanged`, `SourceRead`.
    pub fn read_all(&self, source: &SourceFile) -> Result<Vec<u8>, RunError> {
        let read = self.read_with_slices(|slices, offset| Some(source.read_ahead(slices, offset).unwrap_or(0)));
        verify_unchanged(source.has_same_content(), read)
    }

    #[cfg(test)]
    pub(super) fn read_with(
        &self,
        mut read_at: impl FnMut(&mut [u8], u64) -> Option<usize>,
    ) -> Result<Vec<u8>, Truncated> {
        self.read_with_slices(|slices, offset| fill_each(slices, offset, &mut read_at))
    }

    fn read_with_slices(
        &self,
        mut read_at: impl FnMut(&mut [IoSliceMut<'_>], u64) -> Option<usize>,
    ) -> Result<Vec<u8>, Truncated> {
        let size = self.size_bytes() as usize;
        match &self.form {
            SegmentForm::Transport(segment) => {
                let mut read_one = |buffer: &mut [u8], offset| read_at(&mut [IoSliceMut::new(buffer)], offset);
                let (mut cursor, mut out) = (segment.cursor(), Vec::with_capacity(size));
                while out.len() < size {
                    refuse_if(!segment.append_chunk(&mut cursor, &mut read_one, &mut out)?, Truncated)?;
                }
                Ok(out)
            }
            SegmentForm::Cmaf(segment) => {
                let (mut cursor, mut out, mut filled) = (ExtentCursor::default(), vec![0; size], 0);
                while filled < size {
                    let read = segment.read_chunk(&mut cursor, &mut out[filled..], &mut read_at)?;
                    filled += read.filter(|&count| count > 0).ok_or(Truncated)?;
                }
                Ok(out)
            }
        }
    }

    fn cursor(&self) -> SegmentCursor {
        match &self.form {
            SegmentForm::Transport(segment) => SegmentCursor::Transport(segment.cursor()),
            SegmentForm::Cmaf(_) => SegmentCursor::Cmaf(ExtentCursor::default()),
        }
    }

    /// The next chunk, of `remaining` bytes that are still to be read. None, and changes nothing, if `read_at` returns None because
    /// the bytes are not cached.
    fn read_chunk(
        &self,
        cursor: &mut SegmentCursor,
        remaining: u64,
        mut read_at: impl FnMut(&mut [IoSliceMut<'_>], u64) -> Option<usize>,
    ) -> Result<Option<PooledBuffer>, Truncated> {
        match (&self.form, cursor) {
            // Always read to its end.
            (SegmentForm::Transport(segment), SegmentCursor::Transport(cursor)) => {
                let read_one = |buffer: &mut [u8], offset| read_at(&mut [IoSliceMut::new(buffer)], offset);
                let mut buffer = PooledBuffer::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 8);
                let is_packed = segment.append_chunk(cursor, read_one, buffer.as_mut_vec())?;
                Ok(is_packed.then_some(buffer))
            }
            (SegmentForm::Cmaf(segment), SegmentCursor::Cmaf(cursor)) => {
                let max = usize::try_from(remaining).map_or(CHUNK_BYTES, |remaining| remaining.min(CHUNK_BYTES));
                let mut buffer = PooledBuffer::with_len(max);
                let filled = segment.read_chunk(cursor, buffer.as_mut_vec(), read_at)?;
                Ok(filled.map(|filled| {
                    buffer.as_mut_vec().truncate(filled);
                    buffer
                }))
            }
            _ => unreachable!("a cursor has the form of its segment"),
        }
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

    /// The next part, if its bytes are in the page cache; None if a disk or a network has to be waited for. File ranges
    /// have at most `max_bytes` together.
    ///
    /// # Errors
    /// `SourceChanged`, `SourceRead`.
    pub fn next_part_cached(&mut self, max_bytes: u64) -> Result<Option<SegmentPart>, RunError> {
        let ranges = self.file_ranges(max_bytes.min(self.remaining_bytes));
        if ranges.is_empty() {
            return Ok(self.next_cached()?.map(SegmentPart::Bytes));
        }
        if !self.source.is_local || !are_cached(&self.source, &ranges) {
            return Ok(None);
        }
        match self.source.holds_the_same_at_once() {
            None => return Ok(None),
            Some(false) => return Err(RunError::SourceChanged),
            Some(true) => {}
        }
        if let (SegmentForm::Cmaf(segment), SegmentCursor::Cmaf(cursor)) = (&self.segment.form, &mut self.cursor) {
            for &(_, len) in &ranges {
                segment.skip(cursor, len);
                self.remaining_bytes -= len;
            }
        }
        Ok(Some(SegmentPart::FileRanges(ranges)))
    }

    /// The file ranges that are next, if the kernel should send them.
    fn file_ranges(&self, max: u64) -> Vec<(u64, u64)> {
        match (&self.segment.form, &self.cursor) {
            (SegmentForm::Cmaf(segment), SegmentCursor::Cmaf(cursor)) => segment.long_file_ranges(*cursor, max),
            _ => Vec::new(),
        }
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
            |slices, offset| source.read_slices_cached(slices, offset).unwrap_or(Some(0)),
            SourceFile::holds_the_same_at_once,
        )
    }

    /// The next chunk, blocking on the disk; empty after the last.
    ///
    /// # Errors
    /// `SourceChanged`, `SourceRead`.
    pub fn next_blocking(&mut self) -> Result<Bytes, RunError> {
        let source = self.source.clone();
        let read = |slices: &mut [IoSliceMut<'_>], offset| Some(source.read_ahead(slices, offset).unwrap_or(0));
        let chunk = self.next_chunk(read, |source| Some(source.has_same_content()))?;
        Ok(chunk.unwrap_or_default())
    }

    /// Changes nothing if `read` or `has_same_content` returns None because it would have to wait.
    fn next_chunk(
        &mut self,
        read: impl FnMut(&mut [IoSliceMut<'_>], u64) -> Option<usize>,
        has_same_content: impl FnOnce(&SourceFile) -> Option<bool>,
    ) -> Result<Option<Bytes>, RunError> {
        if self.remaining_bytes == 0 {
            return Ok(Some(Bytes::new()));
        }
        let before = self.cursor.clone();
        let chunk = self.segment.read_chunk(&mut self.cursor, self.remaining_bytes, read);
        let Some(is_same) = has_same_content(&self.source) else {
            self.cursor = before;
            return Ok(None);
        };
        let Some(chunk) = verify_unchanged(is_same, chunk)? else { return Ok(None) };
        self.remaining_bytes -= chunk.as_ref().len() as u64;
        Ok(Some(Bytes::from_owner(chunk)))
    }
}

/// Whether file ranges are in the page cache. Those of a track lie close together, so what is between them is checked too, in
/// fewer system calls.
fn are_cached(source: &SourceFile, ranges: &[(u64, u64)]) -> bool {
    let total: u64 = ranges.iter().map(|(_, len)| len).sum();
    let (Some(&(first, _)), Some(&(last, last_len))) = (ranges.first(), ranges.last()) else { return true };
    let span = (last + last_len).saturating_sub(first);
    let is_dense = ranges.is_sorted() && span <= total + total / 2;
    if is_dense {
        source.is_cached(first, span)
    } else {
        ranges.iter().all(|&(offset, len)| source.is_cached(offset, len))
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
