//! A segment that is packed while it is sent: how it is laid out, and where the bytes of its samples lie in the file.
//!
//! Whole segments are memory that no processor's cache holds: to lay them, to keep them and to send them waits for memory
//! three times (a third of all processor time). What is packed a few hundred KiB at a time, and sent before the next is
//! packed, never leaves the cache.

use std::sync::Arc;

use bytes::Bytes;

use super::pieces::Pieces;
use super::sheet::Sheet;
use crate::domain::mpegts::layout::{Layout, Part, Pen};
use crate::engine::RunError;
use crate::engine::source::Source;
use crate::engine::tables::bytes::Short;

/// Bytes of samples packed at a time, unless one sample has more.
const PIECE: usize = 192 << 10;

/// A stretch of a sample as it is written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stretch {
    /// Of what a parcel holds itself.
    Own { from: u32, len: u32 },
    /// Of the file.
    File { offset: u64, len: u32 },
}

impl Part for Stretch {
    fn size(&self) -> usize {
        let (Self::Own { len, .. } | Self::File { len, .. }) = *self;
        len as usize
    }
}

/// One segment, to be packed.
#[derive(Debug)]
pub struct Parcel {
    layout: Layout<Stretch>,
    /// Start codes, parameter sets, headers: what stands in no file.
    own: Vec<u8>,
}

/// A parcel on its way to one reader.
#[derive(Debug)]
pub struct Packing {
    parcel: Arc<Parcel>,
    source: Arc<Source>,
    pen: Pen,
    left: u64,
}

impl Parcel {
    pub(super) fn new(layout: Layout<Stretch>, own: Vec<u8>) -> Self {
        Self { layout, own }
    }

    /// Bytes of the segment.
    pub fn size(&self) -> u64 {
        self.layout.size() as u64
    }

    /// Memory it takes, bytes, nearly.
    pub fn weight(&self) -> u64 {
        (self.layout.weight() + self.own.capacity()) as u64
    }

    /// Begins to pack it, out of the file it was laid out for.
    pub fn pack(self: Arc<Self>, source: Arc<Source>) -> Packing {
        Packing { pen: self.layout.pen(), left: self.size(), parcel: self, source }
    }

    /// All of it, out of the file it was laid out for; waits for the disk.
    ///
    /// # Errors
    /// `SourceChanged`, `SourceRead`.
    pub fn whole(&self, source: &Source) -> Result<Vec<u8>, RunError> {
        verified(source, self.read(|into, offset| Some(source.read_ahead(into, offset).unwrap_or(0))))
    }

    pub(super) fn read(&self, mut read: impl FnMut(&mut [u8], u64) -> Option<usize>) -> Result<Vec<u8>, Short> {
        let (mut pen, mut out) = (self.layout.pen(), Vec::with_capacity(self.layout.size()));
        while !self.layout.is_written(&pen) {
            if !self.piece(&mut pen, &mut read, &mut out)? {
                return Err(Short);
            }
        }
        Ok(out)
    }

    /// Puts the next piece behind `out`; false, and nothing moved, where `read` says that it cannot be had at once.
    fn piece(
        &self,
        pen: &mut Pen,
        read: impl FnMut(&mut [u8], u64) -> Option<usize>,
        out: &mut Vec<u8>,
    ) -> Result<bool, Short> {
        let units = self.layout.next(pen, PIECE);
        let wanted = self.layout.parts(&units).iter().filter_map(|part| match *part {
            Stretch::File { offset, len } => Some((offset, len)),
            Stretch::Own { .. } => None,
        });
        let Some(pieces) = Pieces::read(wanted.collect(), read)? else { return Ok(false) };
        let bytes = |part| match part {
            Stretch::Own { from, len } => &self.own[from as usize..][..len as usize],
            Stretch::File { offset, len } => pieces.get(offset, len).expect("it was asked for"),
        };
        self.layout.write(pen, units, bytes, out);
        Ok(true)
    }
}

impl Packing {
    /// Bytes still to come.
    pub fn left(&self) -> u64 {
        self.left
    }

    pub fn source(&self) -> &Arc<Source> {
        &self.source
    }

    /// The next piece, if the file's bytes are in memory; None when the disk must be waited for.
    ///
    /// # Errors
    /// `SourceChanged`, `SourceRead`.
    pub fn next_cached(&mut self) -> Result<Option<Bytes>, RunError> {
        let source = self.source.clone();
        self.next(|into, offset| source.read_cached(into, offset).unwrap_or(Some(0)))
    }

    /// The next piece, however long the disk takes; nothing behind the last.
    ///
    /// # Errors
    /// `SourceChanged`, `SourceRead`.
    pub fn next_blocking(&mut self) -> Result<Bytes, RunError> {
        let source = self.source.clone();
        let next = self.next(|into, offset| Some(source.read_ahead(into, offset).unwrap_or(0)))?;
        Ok(next.unwrap_or_default())
    }

    fn next(&mut self, read: impl FnMut(&mut [u8], u64) -> Option<usize>) -> Result<Option<Bytes>, RunError> {
        if self.left == 0 {
            return Ok(Some(Bytes::new()));
        }
        let mut sheet = Sheet::of(PIECE + PIECE / 8);
        let out = sheet.bytes();
        let packed = verified(&self.source, self.parcel.piece(&mut self.pen, read, out))?;
        self.left -= out.len() as u64;
        Ok(packed.then(|| Bytes::from_owner(sheet)))
    }
}

/// What was read of a file, as long as it is what it was: what is read after a change may not belong to what was before.
fn verified<T>(source: &Source, read: Result<T, Short>) -> Result<T, RunError> {
    match read {
        _ if !source.holds_the_same() => Err(RunError::SourceChanged),
        Ok(read) => Ok(read),
        Err(Short) => Err(RunError::SourceRead("its bytes are not there".into())),
    }
}
