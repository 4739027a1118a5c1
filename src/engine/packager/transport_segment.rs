//! A segment of a transport stream: the layout of its packets, and where the bytes of its samples are in the file.

use super::extent::Extent;
use super::gather::GatheredBytes;
use super::lazy_segment::CHUNK_BYTES;
use crate::domain::mpegts::layout::{LayoutCursor, SegmentLayout};
use crate::engine::container::bytes::Truncated;

#[derive(Debug)]
pub(super) struct TransportSegment {
    layout: SegmentLayout<Extent>,
    /// Start codes, parameter sets and headers, which are not in the file.
    generated_bytes: Vec<u8>,
}

impl TransportSegment {
    pub(super) fn new(layout: SegmentLayout<Extent>, generated_bytes: Vec<u8>) -> Self {
        Self { layout, generated_bytes }
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.layout.size_bytes() as u64
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        (self.layout.memory_bytes() + self.generated_bytes.capacity()) as u64
    }

    pub(super) fn cursor(&self) -> LayoutCursor {
        self.layout.cursor()
    }

    /// Appends the next chunk to `out`. Returns false, and changes nothing, if `read_at` returns None because the bytes
    /// are not cached.
    pub(super) fn append_chunk(
        &self,
        cursor: &mut LayoutCursor,
        read_at: impl FnMut(&mut [u8], u64) -> Option<usize>,
        out: &mut Vec<u8>,
    ) -> Result<bool, Truncated> {
        let units = self.layout.next_units(cursor, CHUNK_BYTES);
        let file_ranges = self.layout.unit_parts(&units).iter().filter_map(|extent| extent.file_range());
        let Some(gathered) = GatheredBytes::read(file_ranges.collect(), read_at)? else { return Ok(false) };
        let bytes_of = |extent| match extent {
            Extent::Generated { start, len } => &self.generated_bytes[start as usize..][..len as usize],
            Extent::File { offset, len } => gathered.get(offset, len).expect("the range was read above"),
        };
        self.layout.write(cursor, units, bytes_of, out);
        Ok(true)
    }
}
