//! Blocks of clusters, found by reading only their headers.

use super::CLUSTER;
use super::ebml::{parse_header, parse_uint, parse_vint};
use crate::domain::time::Ticks;
use crate::engine::container::bytes::{ByteCursor, ReadAt, Truncated};

const CLUSTER_TIME: u32 = 0xe7;
const SIMPLE_BLOCK: u32 = 0xa3;
const BLOCK_GROUP: u32 = 0xa0;
const BLOCK: u32 = 0xa1;

/// Bytes read of every element: its header and a block's header.
const HEADER_BYTES: usize = 32;

/// The positions and timestamp scale of a file's clusters.
#[derive(Clone, Copy, Debug)]
pub struct ClusterLayout {
    /// Start of the segment's body.
    pub segment_body: u64,
    pub(super) segment_end: u64,
    /// Timestamp scale, nanoseconds per unit.
    pub timestamp_scale: u64,
    /// The first cluster, relative to the segment's body.
    pub first_cluster: u64,
}

/// The header of one block.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub track: u64,
    /// Units of the timestamp scale.
    pub time: i64,
    /// Start of the data after the block's header.
    pub offset: u64,
    pub size: u64,
    /// The lacing bits of its flags; 0: a single frame.
    pub lacing: u8,
    /// Marked as a keyframe, or in a group, which marks the other frames after the block.
    pub may_be_keyframe: bool,
    /// Its cluster, relative to the segment's body.
    pub cluster: u64,
}

/// The position of a walk over blocks.
#[derive(Clone, Copy, Debug)]
pub struct WalkPosition {
    position: u64,
    /// The current cluster, relative to the segment's body, and its timestamp.
    cluster: u64,
    cluster_time: i64,
}

impl ClusterLayout {
    /// The start of a cluster (relative to the segment's body).
    pub fn cluster_start(&self, cluster: u64) -> Result<WalkPosition, Truncated> {
        let position = self.segment_body.checked_add(cluster).ok_or(Truncated)?;
        Ok(WalkPosition { position, cluster, cluster_time: 0 })
    }

    /// Converts units of the timestamp scale to the file's clock.
    pub fn to_ticks(self, time: i64) -> Ticks {
        Ticks::from_units(i128::from(time) * i128::from(self.timestamp_scale), 1_000_000_000)
    }

    /// Calls `visit` for every block from a cluster (relative to the segment's body) until it returns false or the file
    /// ends. Returns false if that took more than `max_elements` elements.
    pub fn walk_blocks(
        &self,
        file: &(impl ReadAt + ?Sized),
        cluster: u64,
        max_elements: usize,
        visit: impl FnMut(Block) -> bool,
    ) -> Result<bool, Truncated> {
        self.resume_walk(file, &mut self.cluster_start(cluster)?, max_elements, visit)
    }

    /// Like [`Self::walk_blocks`], from `walk`, which is moved past the last block that was visited.
    pub fn resume_walk(
        &self,
        file: &(impl ReadAt + ?Sized),
        walk: &mut WalkPosition,
        max_elements: usize,
        mut visit: impl FnMut(Block) -> bool,
    ) -> Result<bool, Truncated> {
        let end = self.segment_end.min(file.len());
        let WalkPosition { position, cluster, cluster_time } = walk;
        for _ in 0..max_elements {
            if *position >= end {
                return Ok(true);
            }
            let mut header_bytes = [0; HEADER_BYTES];
            let read = file.read_at(&mut header_bytes, *position);
            let mut cursor = ByteCursor(&header_bytes[..read]);
            let element = parse_header(&mut cursor, *position)?;
            if element.id == CLUSTER {
                *cluster = position.saturating_sub(self.segment_body);
            }
            *position = match element.id {
                // Descends into clusters and groups, so that unknown sizes need no special case.
                CLUSTER | BLOCK_GROUP => element.body,
                CLUSTER_TIME => {
                    let size = element.size.filter(|&size| size <= 8).ok_or(Truncated)?;
                    *cluster_time = i64::try_from(parse_uint(cursor.take(size as usize)?)).map_err(|_| Truncated)?;
                    element.end()
                }
                SIMPLE_BLOCK | BLOCK => {
                    let before = cursor.0.len();
                    let track = parse_vint(&mut cursor)?.ok_or(Truncated)?;
                    let offset = i64::from(cursor.u16()? as i16);
                    let flags = cursor.u8()?;
                    let may_be_keyframe = element.id == BLOCK || flags & 0x80 != 0;
                    let header_len = (before - cursor.0.len()) as u64;
                    let size = element.size.ok_or(Truncated)?.saturating_sub(header_len);
                    let time = cluster_time.saturating_add(offset);
                    let (offset, lacing, cluster) = (element.body + header_len, flags & 0x06, *cluster);
                    if !visit(Block { track, time, offset, size, lacing, may_be_keyframe, cluster }) {
                        *position = element.end();
                        return Ok(true);
                    }
                    element.end()
                }
                _ => element.end(),
            };
        }
        Ok(false)
    }
}
