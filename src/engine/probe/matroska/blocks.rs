//! Timestamps of blocks: the first and the last in the file.

use super::super::coded::FRAME_HEAD;
use super::super::outline::{OutlineTrack, Result, refuse_if};
use super::TIMESTAMP_SCALE;
use crate::engine::container::bytes::{ByteCursor, ReadAt, read_up_to};
use crate::engine::container::matroska::ebml::{parse_uint, parse_vint, read_body, read_element};
use crate::engine::container::matroska::{ClusterLayout, MatroskaFile, read_segment};
use crate::engine::source::SourceFile;

/// Maximum number of elements visited to find the last block of a truncated file.
const MAX_ELEMENTS: usize = 200_000;
/// Blocks read to find the first timestamp; audio and video interleave more closely than this.
const MAX_FIRST_BLOCKS: usize = 64;

/// The earliest timestamp of audio and video among the first blocks, seconds. Keeps the beginning of each first frame.
pub(super) fn first_timestamp(source: &SourceFile, layout: ClusterLayout, tracks: &mut [OutlineTrack]) -> Result<f64> {
    let cluster_end = read_element(source, layout.segment_body + layout.first_cluster)?.end();
    refuse_if(cluster_end > source.len, "truncated")?;
    let (mut earliest, mut block_count) = (f64::INFINITY, 0);
    layout.walk_blocks(source, layout.first_cluster, MAX_FIRST_BLOCKS * 8, |block| {
        if block.offset >= cluster_end {
            return false;
        }
        block_count += 1;
        let mut played = tracks.iter_mut().filter(|track| track.kind.is_played());
        if let Some(track) = played.find(|track| track.container_id == block.track) {
            earliest = earliest.min(block.time as f64 - track.delay_ms);
            if track.first_frame.is_empty() {
                track.first_frame = read_up_to(source, block.offset, FRAME_HEAD).unwrap_or_default();
            }
        }
        block_count < MAX_FIRST_BLOCKS
    })?;
    if earliest.is_finite() { Ok(earliest / 1000.0) } else { Err("no blocks") }
}

/// The position of the last cluster in a file without cues. Searches the end of the file for a cluster id with a timestamp
/// after it.
pub(in crate::engine::probe) fn last_cluster(source: &SourceFile) -> Option<u64> {
    const TAIL_BYTES: u64 = 4 << 20;
    let tail_start = source.len.saturating_sub(TAIL_BYTES);
    let tail = read_up_to(source, tail_start, TAIL_BYTES as usize).ok()?;
    let mut candidates = tail.windows(4).enumerate().rev().filter(|(_, id)| *id == [0x1f, 0x43, 0xb6, 0x75]);
    candidates.find_map(|(offset, _)| {
        let cluster = read_element(source, tail_start + offset as u64).ok()?;
        let mut first = read_element(source, cluster.body).ok()?;
        // A checksum may precede the timestamp.
        if first.id == 0xbf {
            first = read_element(source, first.end()).ok()?;
        }
        (first.id == 0xe7 && first.size? <= 8).then_some(tail_start + offset as u64)
    })
}

/// The timestamp of the last block in the file, seconds of the file's clock. Complete clusters are skipped without reading
/// their blocks. Starts at `start_cluster`, or at the first element.
pub(in crate::engine::probe) fn last_timestamp(source: &SourceFile, start_cluster: Option<u64>) -> Option<f64> {
    let first = match start_cluster {
        Some(cluster) => cluster,
        None => read_segment(source).ok()?.body,
    };
    let (mut position, mut cluster_units, mut last, mut skipped_cluster) = (first, 0.0, None, None);
    for _ in 0..MAX_ELEMENTS {
        let Ok(child) = read_element(source, position) else {
            // The end of the file, or of its readable part: go back into the last skipped cluster.
            let Some(cluster_content) = skipped_cluster.take() else { break };
            position = cluster_content;
            continue;
        };
        let is_complete = child.end() < source.len;
        match child.id {
            0x1f43_b675 if is_complete => skipped_cluster = Some(child.body),
            0x1f43_b675 => {
                skipped_cluster = None;
                position = child.body;
                continue;
            }
            0xe7 if child.size.is_some_and(|size| size <= 8) => {
                cluster_units = parse_uint(&read_body(source, child, 8).ok()?) as f64
            }
            0xa3 | 0xa1 => {
                let mut block_header = [0; 11];
                let filled = source.read_at(&mut block_header, child.body);
                let mut cursor = ByteCursor(&block_header[..filled]);
                let offset = parse_vint(&mut cursor).and_then(|_| cursor.u16());
                last = offset.ok().map(|offset| cluster_units + f64::from(offset as i16)).or(last);
            }
            0xa0 => {
                position = child.body;
                continue;
            }
            _ => {}
        }
        if !is_complete && child.id != 0x1f43_b675 {
            let Some(cluster_content) = skipped_cluster.take() else { break };
            position = cluster_content;
            continue;
        }
        position = child.end();
    }
    let scale = MatroskaFile::read(source).map_or(TIMESTAMP_SCALE, |film| film.layout.timestamp_scale);
    last.map(|units: f64| units * (scale as f64 / 1e9))
}
