//! A segment that is packed while it is sent: its layout, and where the bytes of its samples are in the file.
//!
//! A whole segment does not fit into the processor's cache, so writing it, storing it and sending it would each wait for
//! memory (together a third of all processor time). A chunk of a few hundred KiB, sent before the next is packed, never
//! leaves the cache.

use std::sync::Arc;

use bytes::Bytes;

use super::pieces::Pieces;
use super::sheet::Sheet;
use crate::domain::mpegts::layout::{SegmentLayout, PayloadPart, LayoutCursor};
use crate::engine::RunError;
use crate::engine::source::Source;
use crate::engine::tables::bytes::Short;

/// Bytes of samples packed at a time, unless one sample has more.
const PIECE: usize = 192 << 10;

/// A contiguous range of a sample's bytes as written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stretch {
    /// In the bytes generated for the segment (`Parcel::own`).
    Own { from: u32, len: u32 },
    /// In the file.
    File { offset: u64, len: u32 },
}

impl PayloadPart for Stretch {
    fn byte_len(&self) -> usize {
        let (Self::Own { len, .. } | Self::File { len, .. }) = *self;
        len as usize
    }
}

/// A segment that is packed when it is read.
#[derive(Debug)]
pub struct Parcel {
    layout: SegmentLayout<Stretch>,
    /// Start codes, parameter sets and headers, which are not in the file.
    own: Vec<u8>,
}

/// Reads a [`Parcel`] chunk by chunk.
#[derive(Debug)]
pub struct Packing {
    parcel: Arc<Parcel>,
    source: Arc<Source>,
    pen: LayoutCursor,
    left: u64,
}

impl Parcel {
    pub(super) fn new(layout: SegmentLayout<Stretch>, own: Vec<u8>) -> Self {
        Self { layout, own }
    }

    /// Size of the segment, bytes.
    pub fn size(&self) -> u64 {
        self.layout.size_bytes() as u64
    }

    /// Approximate memory used, bytes.
    pub fn weight(&self) -> u64 {
        (self.layout.memory_bytes() + self.own.capacity()) as u64
    }

    /// Starts reading; `source` must be the file that the segment was laid out for.
    pub fn pack(self: Arc<Self>, source: Arc<Source>) -> Packing {
        Packing { pen: self.layout.cursor(), left: self.size(), parcel: self, source }
    }

    /// Reads the whole segment from the file it was laid out for. Blocks on the disk.
    ///
    /// # Errors
    /// `SourceChanged`, `SourceRead`.
    pub fn whole(&self, source: &Source) -> Result<Vec<u8>, RunError> {
        let read = self.read(|into, offset| Some(source.read_ahead(into, offset).unwrap_or(0)));
        verified(source.holds_the_same(), read)
    }

    pub(super) fn read(&self, mut read: impl FnMut(&mut [u8], u64) -> Option<usize>) -> Result<Vec<u8>, Short> {
        let (mut pen, mut out) = (self.layout.cursor(), Vec::with_capacity(self.layout.size_bytes()));
        while !self.layout.is_written(&pen) {
            if !self.piece(&mut pen, &mut read, &mut out)? {
                return Err(Short);
            }
        }
        Ok(out)
    }

    /// Appends the next chunk to `out`. Returns false, and changes nothing, if `read` returns None because the bytes are
    /// not cached.
    fn piece(
        &self,
        pen: &mut LayoutCursor,
        read: impl FnMut(&mut [u8], u64) -> Option<usize>,
        out: &mut Vec<u8>,
    ) -> Result<bool, Short> {
        let units = self.layout.next_units(pen, PIECE);
        let wanted = self.layout.unit_parts(&units).iter().filter_map(|part| match *part {
            Stretch::File { offset, len } => Some((offset, len)),
            Stretch::Own { .. } => None,
        });
        let Some(pieces) = Pieces::read(wanted.collect(), read)? else { return Ok(false) };
        let bytes = |part| match part {
            Stretch::Own { from, len } => &self.own[from as usize..][..len as usize],
            Stretch::File { offset, len } => pieces.get(offset, len).expect("the range was read above"),
        };
        self.layout.write(pen, units, bytes, out);
        Ok(true)
    }
}

impl Packing {
    /// Remaining bytes.
    pub fn left(&self) -> u64 {
        self.left
    }

    pub fn source(&self) -> &Arc<Source> {
        &self.source
    }

    /// The next chunk, if its bytes are in the page cache; None if a disk or a network has to be waited for.
    ///
    /// # Errors
    /// `SourceChanged`, `SourceRead`.
    pub fn next_cached(&mut self) -> Result<Option<Bytes>, RunError> {
        let source = self.source.clone();
        if self.left > 0 && !source.local {
            return Ok(None);
        }
        self.next(|into, offset| source.read_cached(into, offset).unwrap_or(Some(0)), Source::holds_the_same_at_once)
    }

    /// The next chunk, blocking on the disk; empty after the last.
    ///
    /// # Errors
    /// `SourceChanged`, `SourceRead`.
    pub fn next_blocking(&mut self) -> Result<Bytes, RunError> {
        let source = self.source.clone();
        let read = |into: &mut [u8], offset| Some(source.read_ahead(into, offset).unwrap_or(0));
        let next = self.next(read, |source| Some(source.holds_the_same()))?;
        Ok(next.unwrap_or_default())
    }

    /// Changes nothing if `read` or `holds_the_same` returns None because it would have to wait.
    fn next(
        &mut self,
        read: impl FnMut(&mut [u8], u64) -> Option<usize>,
        holds_the_same: impl FnOnce(&Source) -> Option<bool>,
    ) -> Result<Option<Bytes>, RunError> {
        if self.left == 0 {
            return Ok(Some(Bytes::new()));
        }
        let (mut sheet, before) = (Sheet::of(PIECE + PIECE / 8), self.pen.clone());
        let out = sheet.bytes();
        let packed = self.parcel.piece(&mut self.pen, read, out);
        let Some(is_same) = holds_the_same(&self.source) else {
            self.pen = before;
            return Ok(None);
        };
        let packed = verified(is_same, packed)?;
        self.left -= out.len() as u64;
        Ok(packed.then(|| Bytes::from_owner(sheet)))
    }
}

/// Passes a result on if the file holds the same afterwards. Otherwise bytes from before and after the change may be mixed.
fn verified<T>(is_same: bool, read: Result<T, Short>) -> Result<T, RunError> {
    match read {
        _ if !is_same => Err(RunError::SourceChanged),
        Ok(read) => Ok(read),
        Err(Short) => Err(RunError::SourceRead("the file ends before its samples".into())),
    }
}
