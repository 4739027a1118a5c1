//! Timestamps of blocks: the first and the last in the file.

use std::os::unix::fs::FileExt;

use super::super::coded::FRAME_HEAD;
use super::super::outline::{NeedsFfprobe, OutlineTrackKind, parse_uint};
use super::ebml::{
    ChildElements, Element, parse_unsigned, parse_vint, read_content, read_element, read_truncated_element,
};
use super::track::TimedMatroskaTrack;
use crate::engine::source::SourceFile;

/// Maximum number of elements visited to find the last block of a truncated file.
const MAX_ELEMENTS: usize = 200_000;
/// Blocks read to find the first timestamp; audio and video interleave more closely than this.
const MAX_FIRST_BLOCKS: usize = 64;

/// The earliest timestamp of audio and video among the first blocks, seconds. Keeps the beginning of each first frame.
pub(super) fn first_timestamp(
    source: &SourceFile,
    cluster: Element,
    tracks: &mut [TimedMatroskaTrack],
) -> Result<f64, NeedsFfprobe> {
    let mut cluster_ms = 0.0;
    let mut earliest = f64::INFINITY;
    let mut position = cluster.content_start;
    let mut block_count = 0;
    for _ in 0..MAX_FIRST_BLOCKS * 2 {
        if position >= cluster.end() || block_count == MAX_FIRST_BLOCKS {
            break;
        }
        let child = read_element(source, position)?;
        let mut block_start = None;
        match child.id {
            0xe7 => cluster_ms = parse_unsigned(&read_content(source, child)?)? as f64,
            0xa3 => block_start = Some(child.content_start),
            // A group begins with its block in every known file; another order is not supported.
            0xa0 => {
                block_start = Some(read_element(source, child.content_start)?)
                    .filter(|group_child| group_child.id == 0xa1)
                    .map(|inner| inner.content_start)
            }
            _ => {}
        }
        if let Some(block_start) = block_start {
            block_count += 1;
            let mut block_header = [0; 11 + FRAME_HEAD];
            let filled = source.file.read_at(&mut block_header, block_start).map_err(|_| NeedsFfprobe("unreadable"))?;
            let (track_id, vint_len) = parse_vint(&block_header[..filled], false)?;
            let offset = parse_uint(&block_header[..filled], vint_len, 2)? as u16 as i16;
            let is_played = |timed_track: &&mut TimedMatroskaTrack| {
                matches!(timed_track.track.kind, OutlineTrackKind::Video | OutlineTrackKind::Audio)
            };
            if let Some(timed_track) =
                tracks.iter_mut().filter(is_played).find(|timed_track| timed_track.track.container_id == track_id)
            {
                earliest = earliest.min(cluster_ms + f64::from(offset) - timed_track.delay_ms);
                if timed_track.track.first_frame.is_empty() {
                    // The block's flags precede the frame.
                    timed_track.track.first_frame =
                        block_header[..filled].get(vint_len + 3..).unwrap_or_default().to_vec();
                }
            }
        }
        position = child.end();
    }
    if earliest.is_finite() { Ok(earliest / 1000.0) } else { Err(NeedsFfprobe("no blocks")) }
}

/// The position of the last cluster in a file without cues. Searches the end of the file for a cluster id with a timestamp
/// after it.
pub(in crate::engine::probe) fn last_cluster(source: &SourceFile) -> Option<u64> {
    const TAIL_BYTES: u64 = 4 << 20;
    let tail_start = source.len.saturating_sub(TAIL_BYTES);
    let mut tail = vec![0; TAIL_BYTES as usize];
    let filled = source.read_blocking(&mut tail, tail_start).ok()?;
    let mut candidates = tail[..filled].windows(4).enumerate().rev().filter(|(_, id)| *id == [0x1f, 0x43, 0xb6, 0x75]);
    candidates.find_map(|(offset, _)| {
        let cluster = read_truncated_element(source, tail_start + offset as u64)?;
        // A checksum may precede the timestamp.
        let first = read_truncated_element(source, cluster.content_start).filter(|first| first.id != 0xbf);
        let first = first
            .or_else(|| read_truncated_element(source, read_truncated_element(source, cluster.content_start)?.end()))?;
        (first.id == 0xe7 && first.content_len <= 8).then_some(tail_start + offset as u64)
    })
}

/// The timestamp of the last block in the file, seconds of the file's clock. Complete clusters are skipped without reading
/// their blocks. Starts at `start_cluster`, or at the first element.
pub(in crate::engine::probe) fn last_timestamp(source: &SourceFile, start_cluster: Option<u64>) -> Option<f64> {
    let first = match start_cluster {
        Some(cluster) => cluster,
        None => read_truncated_element(source, read_element(source, 0).ok()?.end())?.content_start,
    };
    let (mut position, mut cluster_units, mut last, mut skipped_cluster) = (first, 0.0, None, None);
    for _ in 0..MAX_ELEMENTS {
        let Some(child) = read_truncated_element(source, position) else {
            // The end of the file, or of its readable part: go back into the last skipped cluster.
            let Some(cluster_content) = skipped_cluster.take() else { break };
            position = cluster_content;
            continue;
        };
        let is_complete = child.end() < source.len;
        match child.id {
            0x1f43_b675 if is_complete => skipped_cluster = Some(child.content_start),
            0x1f43_b675 => {
                skipped_cluster = None;
                position = child.content_start;
                continue;
            }
            0xe7 if child.content_len <= 8 => {
                cluster_units = parse_unsigned(&read_content(source, child).ok()?).ok()? as f64
            }
            0xa3 | 0xa1 => {
                let mut block_header = [0; 11];
                let filled = source.file.read_at(&mut block_header, child.content_start).ok()?;
                let offset = parse_vint(&block_header[..filled], false)
                    .and_then(|(_, used)| parse_uint(&block_header[..filled], used, 2));
                last = offset.ok().map(|offset| cluster_units + f64::from(offset as u16 as i16)).or(last);
            }
            0xa0 => {
                position = child.content_start;
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
    last.map(|units: f64| units * timestamp_scale_seconds(source))
}

/// Seconds per timestamp unit (RFC 9559 section 5.1.2.9): a millisecond unless the file states another.
fn timestamp_scale_seconds(source: &SourceFile) -> f64 {
    let stated_nanos = || {
        let segment = read_truncated_element(source, read_element(source, 0).ok()?.end())?;
        let mut position = segment.content_start;
        for _ in 0..64 {
            let child = read_truncated_element(source, position)?;
            match child.id {
                0x1549_a966 => {
                    let info = read_content(source, child).ok()?;
                    return ChildElements(&info)
                        .flatten()
                        .find(|(id, _)| *id == 0x2a_d7b1)
                        .and_then(|(_, value)| parse_unsigned(value).ok());
                }
                0x1f43_b675 => return None,
                _ => position = child.end(),
            }
        }
        None
    };
    stated_nanos().unwrap_or(1_000_000) as f64 / 1e9
}
