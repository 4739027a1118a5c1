//! The packets of a `.sup` file: PGS with a header before every segment.

use std::sync::Arc;

use super::{MAX_BACKWARD_BYTES, MAX_BACKWARD_PACKETS, MAX_PACKET_BYTES, SearchLimit, SubtitlePacket};
use crate::domain::bitmap_subtitles::PgsDecoder;
use crate::domain::time::Ticks;
use crate::engine::RunError;
use crate::engine::container::bytes::ReadAt;
use crate::engine::source::SourceFile;

/// Bytes of the header before a segment: `PG`, presentation time, decoding time (90 kHz). The segment itself starts with
/// type and length.
const HEADER_BYTES: u64 = 10;

const COMPOSITION_SEGMENT: u8 = 0x16;

/// Largest number of segments of a file; a film has some 20,000.
const MAX_SEGMENTS: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct SupFile {
    source: Arc<SourceFile>,
    display_sets: Vec<DisplaySet>,
    /// The set returned next.
    next_set: usize,
}

/// A display set, from its composition to the next.
#[derive(Clone, Copy, Debug)]
struct DisplaySet {
    time_ms: i64,
    offset: u64,
    len: u64,
    /// Can be decoded without earlier sets.
    is_self_contained: bool,
}

impl SupFile {
    /// Finds the display sets by the headers of all segments.
    pub(super) fn open(source: Arc<SourceFile>, limit: &SearchLimit) -> Result<Self, RunError> {
        let mut display_sets: Vec<DisplaySet> = Vec::new();
        let mut offset = 0;
        for _ in 0..MAX_SEGMENTS {
            // Long enough to include the composition state of a composition segment.
            let mut header = [0; HEADER_BYTES as usize + 14];
            let read = source.read_at(&mut header, offset);
            let [b'P', b'G', a, b, c, d, _, _, _, _, kind, high, low, ..] = header else { break };
            if read < HEADER_BYTES as usize + 3 {
                break;
            }
            limit.check()?;
            let len = HEADER_BYTES + 3 + u64::from(u16::from_be_bytes([high, low]));
            if kind == COMPOSITION_SEGMENT {
                let time_ms = Ticks(i64::from(u32::from_be_bytes([a, b, c, d]))).as_ms_floor();
                let is_self_contained = PgsDecoder::is_self_contained(&header[HEADER_BYTES as usize..read]);
                display_sets.push(DisplaySet { time_ms, offset, len: 0, is_self_contained });
            }
            if let Some(set) = display_sets.last_mut() {
                set.len += len;
            }
            offset += len;
        }
        if display_sets.is_empty() {
            return Err(RunError::SourceRead("the subtitle file contains no PGS subtitles".into()));
        }
        display_sets.sort_by_key(|set| set.time_ms);
        Ok(Self { source, display_sets, next_set: 0 })
    }

    /// The packets before `at_ms` that are needed to show what is on screen then; reading continues from there.
    pub(super) fn packets_before(&mut self, at_ms: i64, limit: &SearchLimit) -> Result<Vec<SubtitlePacket>, RunError> {
        self.next_set = self.display_sets.partition_point(|set| set.time_ms <= at_ms);
        let earlier_sets = &self.display_sets[self.next_set.saturating_sub(MAX_BACKWARD_PACKETS)..self.next_set];
        let from = earlier_sets.iter().rposition(|set| set.is_self_contained).unwrap_or(0);
        let bytes: u64 = earlier_sets[from..].iter().map(|set| set.len).sum();
        if bytes > MAX_BACKWARD_BYTES as u64 {
            return Ok(Vec::new());
        }
        self.read_packets(&earlier_sets[from..], limit)
    }

    /// The following packets, up to a time of the item.
    pub(super) fn packets_until(&mut self, to_ms: i64, limit: &SearchLimit) -> Result<Vec<SubtitlePacket>, RunError> {
        let end = self.display_sets.partition_point(|set| set.time_ms < to_ms).max(self.next_set);
        let packets = self.read_packets(&self.display_sets[self.next_set..end], limit)?;
        self.next_set = end;
        Ok(packets)
    }

    fn read_packets(&self, sets: &[DisplaySet], limit: &SearchLimit) -> Result<Vec<SubtitlePacket>, RunError> {
        let mut packets = Vec::new();
        for set in sets.iter().filter(|set| set.len <= MAX_PACKET_BYTES) {
            limit.check()?;
            // The last one may be truncated.
            let len = set.len.min(self.source.len.saturating_sub(set.offset));
            let read = self.source.read_exact(set.offset, len as usize);
            let set_bytes = read.map_err(|_| RunError::SourceRead("the subtitle file cannot be read".into()))?;
            let (mut rest, mut bytes) = (&set_bytes[..], Vec::new());
            while let Some((_, segment)) = rest.split_at_checked(HEADER_BYTES as usize)
                && let [_, high, low, ..] = *segment
            {
                let len = (3 + usize::from(u16::from_be_bytes([high, low]))).min(segment.len());
                bytes.extend_from_slice(&segment[..len]);
                rest = &segment[len..];
            }
            packets.push(SubtitlePacket { time_ms: set.time_ms, bytes });
        }
        Ok(packets)
    }
}
