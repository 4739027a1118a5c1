//! The packets of a `.sup` file: PGS with a header before every segment.

use std::sync::Arc;

use super::{Limit, MOST_BACK, MOST_BACK_BYTES, MOST_PACKET, Packet};
use crate::domain::bitmap_subtitles::PgsDecoder;
use crate::engine::RunError;
use crate::engine::source::Source;
use crate::engine::tables::bytes::{Disk, ReadAt};

/// Bytes of the header before a segment: `PG`, presentation time, decoding time (90 kHz). The segment itself starts with
/// type and length.
const HEAD: u64 = 10;

const COMPOSITION: u8 = 0x16;

/// Largest number of segments of a file; a film has some 20,000.
const MOST_SEGMENTS: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Beside {
    source: Arc<Source>,
    sets: Vec<Set>,
    /// The set returned next.
    next: usize,
}

/// A display set, from its composition to the next.
#[derive(Clone, Copy, Debug)]
struct Set {
    at_ms: i64,
    offset: u64,
    len: u64,
    /// Can be decoded without earlier sets.
    alone: bool,
}

impl Beside {
    /// Finds the display sets by the headers of all segments.
    pub(super) fn open(source: Arc<Source>, limit: &Limit) -> Result<Self, RunError> {
        let disk = Disk::of(&source.file);
        let mut sets: Vec<Set> = Vec::new();
        let mut at = 0;
        for _ in 0..MOST_SEGMENTS {
            // Long enough to include the composition state of a composition segment.
            let mut head = [0; HEAD as usize + 14];
            let read = disk.read_at(&mut head, at);
            let [b'P', b'G', a, b, c, d, _, _, _, _, kind, high, low, ..] = head else { break };
            if read < HEAD as usize + 3 {
                break;
            }
            limit.check()?;
            let len = HEAD + 3 + u64::from(u16::from_be_bytes([high, low]));
            if kind == COMPOSITION {
                let at_ms = i64::from(u32::from_be_bytes([a, b, c, d])) / 90;
                sets.push(Set { at_ms, offset: at, len: 0, alone: PgsDecoder::is_self_contained(&head[HEAD as usize..read]) });
            }
            if let Some(set) = sets.last_mut() {
                set.len += len;
            }
            at += len;
        }
        if sets.is_empty() {
            return Err(RunError::SourceRead("the subtitle file contains no PGS subtitles".into()));
        }
        sets.sort_by_key(|set| set.at_ms);
        Ok(Self { source, sets, next: 0 })
    }

    /// The packets before `at_ms` that are needed to show what is on screen then; reading continues from there.
    pub(super) fn before(&mut self, at_ms: i64, limit: &Limit) -> Result<Vec<Packet>, RunError> {
        self.next = self.sets.partition_point(|set| set.at_ms <= at_ms);
        let earlier = &self.sets[self.next.saturating_sub(MOST_BACK)..self.next];
        let from = earlier.iter().rposition(|set| set.alone).unwrap_or(0);
        let bytes: u64 = earlier[from..].iter().map(|set| set.len).sum();
        if bytes > MOST_BACK_BYTES as u64 {
            return Ok(Vec::new());
        }
        self.packets(&earlier[from..], limit)
    }

    /// The following packets, up to a time of the item.
    pub(super) fn until(&mut self, to_ms: i64, limit: &Limit) -> Result<Vec<Packet>, RunError> {
        let behind = self.sets.partition_point(|set| set.at_ms < to_ms).max(self.next);
        let packets = self.packets(&self.sets[self.next..behind], limit)?;
        self.next = behind;
        Ok(packets)
    }

    fn packets(&self, sets: &[Set], limit: &Limit) -> Result<Vec<Packet>, RunError> {
        let disk = Disk::of(&self.source.file);
        let mut packets = Vec::new();
        for set in sets.iter().filter(|set| set.len <= MOST_PACKET) {
            limit.check()?;
            // The last one may be truncated.
            let len = set.len.min(disk.len().saturating_sub(set.offset));
            let read = disk.exact(set.offset, len as usize);
            let whole = read.map_err(|_| RunError::SourceRead("the subtitle file cannot be read".into()))?;
            let (mut rest, mut bytes) = (&whole[..], Vec::new());
            while let Some((_, segment)) = rest.split_at_checked(HEAD as usize)
                && let [_, high, low, ..] = *segment
            {
                let len = (3 + usize::from(u16::from_be_bytes([high, low]))).min(segment.len());
                bytes.extend_from_slice(&segment[..len]);
                rest = &segment[len..];
            }
            packets.push(Packet { at_ms: set.at_ms, bytes });
        }
        Ok(packets)
    }
}
