//! Blocks of clusters, found by reading only their headers.

use super::CLUSTER;
use super::ebml::{header, number, vint};
use crate::domain::time::TICKS_PER_SECOND;
use crate::engine::tables::bytes::{Cursor, ReadAt, Short};

const CLUSTER_TIME: u32 = 0xe7;
const SIMPLE_BLOCK: u32 = 0xa3;
const BLOCK_GROUP: u32 = 0xa0;
const BLOCK: u32 = 0xa1;

/// Bytes read of every element: its header and a block's header.
const HEAD: usize = 32;

/// The positions and timestamp scale of a file's clusters.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Start of the segment's body.
    pub body: u64,
    pub(super) end: u64,
    /// Timestamp scale, nanoseconds per unit.
    pub scale: u64,
    /// The first cluster, relative to the segment's body.
    pub first: u64,
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
}

/// The position of a walk over blocks.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    at: u64,
    /// Timestamp of the current cluster.
    time: i64,
}

impl Layout {
    /// The start of a cluster (relative to the segment's body).
    pub fn place(&self, cluster: u64) -> Result<Place, Short> {
        Ok(Place { at: self.body.checked_add(cluster).ok_or(Short)?, time: 0 })
    }

    /// Converts units of the timestamp scale to ticks of the file's clock.
    pub fn ticks(&self, time: i64) -> i64 {
        let numerator = i128::from(time) * i128::from(self.scale) * i128::from(TICKS_PER_SECOND);
        let ticks = (numerator * 2 + 1_000_000_000).div_euclid(2_000_000_000);
        ticks.clamp(i128::from(i64::MIN / 4), i128::from(i64::MAX / 4)) as i64
    }

    /// Calls `each` for every block from a cluster (relative to the segment's body) until it returns false or the file
    /// ends. Returns false if that took more than `steps` elements.
    pub fn walk(
        &self,
        file: &(impl ReadAt + ?Sized),
        cluster: u64,
        steps: usize,
        each: impl FnMut(Block) -> bool,
    ) -> Result<bool, Short> {
        self.walk_on(file, &mut self.place(cluster)?, steps, each)
    }

    /// Like [`Self::walk`], from `place`, which is moved past the last block that was visited.
    pub fn walk_on(
        &self,
        file: &(impl ReadAt + ?Sized),
        place: &mut Place,
        steps: usize,
        mut each: impl FnMut(Block) -> bool,
    ) -> Result<bool, Short> {
        let end = self.end.min(file.len());
        let Place { at, time } = place;
        for _ in 0..steps {
            if *at >= end {
                return Ok(true);
            }
            let mut head = [0; HEAD];
            let read = file.read_at(&mut head, *at);
            let mut cursor = Cursor(&head[..read]);
            let found = header(&mut cursor, *at)?;
            *at = match found.id {
                // Descends into clusters and groups, so that unknown sizes need no special case.
                CLUSTER | BLOCK_GROUP => found.body,
                CLUSTER_TIME => {
                    let size = found.size.filter(|&size| size <= 8).ok_or(Short)?;
                    *time = i64::try_from(number(cursor.take(size as usize)?)).map_err(|_| Short)?;
                    found.end()
                }
                SIMPLE_BLOCK | BLOCK => {
                    let before = cursor.0.len();
                    let track = vint(&mut cursor)?.ok_or(Short)?;
                    let offset = i64::from(cursor.u16()? as i16);
                    let lacing = cursor.u8()? & 0x06;
                    let header = (before - cursor.0.len()) as u64;
                    let size = found.size.ok_or(Short)?.saturating_sub(header);
                    let time = time.saturating_add(offset);
                    if !each(Block { track, time, offset: found.body + header, size, lacing }) {
                        *at = found.end();
                        return Ok(true);
                    }
                    found.end()
                }
                _ => found.end(),
            };
        }
        Ok(false)
    }
}
