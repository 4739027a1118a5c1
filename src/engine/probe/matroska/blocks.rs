//! Timestamps of blocks: the first and the last in the file.

use std::os::unix::fs::FileExt;

use super::super::coded::FRAME_HEAD;
use super::super::outline::{Kind, Unsure, number};
use super::ebml::{Element, Inside, element, loose, unsigned, vint, whole};
use super::track::Listed;
use crate::engine::source::Source;

/// Maximum number of elements visited to find the last block of a truncated file.
const WALK: usize = 200_000;
/// Blocks read to find the first timestamp; audio and video interleave more closely than this.
const FIRST_BLOCKS: usize = 64;

/// The earliest timestamp of audio and video among the first blocks, seconds. Keeps the beginning of each first frame.
pub(super) fn first_timestamp(source: &Source, cluster: Element, tracks: &mut [Listed]) -> Result<f64, Unsure> {
    let mut base = 0.0;
    let mut earliest = f64::INFINITY;
    let mut at = cluster.at;
    let mut blocks = 0;
    for _ in 0..FIRST_BLOCKS * 2 {
        if at >= cluster.end() || blocks == FIRST_BLOCKS {
            break;
        }
        let found = element(source, at)?;
        let mut block = None;
        match found.id {
            0xe7 => base = unsigned(&whole(source, found)?)? as f64,
            0xa3 => block = Some(found.at),
            // A group begins with its block in every known file; another order is not supported.
            0xa0 => block = Some(element(source, found.at)?).filter(|inner| inner.id == 0xa1).map(|inner| inner.at),
            _ => {}
        }
        if let Some(block) = block {
            blocks += 1;
            let mut head = [0; 11 + FRAME_HEAD];
            let filled = source.file.read_at(&mut head, block).map_err(|_| Unsure("unreadable"))?;
            let (key, used) = vint(&head[..filled], false)?;
            let offset = number(&head[..filled], used, 2)? as u16 as i16;
            let played = |listed: &&mut Listed| matches!(listed.track.kind, Kind::Video | Kind::Audio);
            if let Some(listed) = tracks.iter_mut().filter(played).find(|listed| listed.track.key == key) {
                earliest = earliest.min(base + f64::from(offset) - listed.delay_ms);
                if listed.track.first_frame.is_empty() {
                    // The block's flags precede the frame.
                    listed.track.first_frame = head[..filled].get(used + 3..).unwrap_or_default().to_vec();
                }
            }
        }
        at = found.end();
    }
    if earliest.is_finite() { Ok(earliest / 1000.0) } else { Err(Unsure("no blocks")) }
}

/// The position of the last cluster in a file without cues. Searches the end of the file for a cluster id with a timestamp
/// after it.
pub(in crate::engine::probe) fn last_cluster(source: &Source) -> Option<u64> {
    const TAIL: u64 = 4 << 20;
    let from = source.len.saturating_sub(TAIL);
    let mut tail = vec![0; TAIL as usize];
    let filled = source.read_blocking(&mut tail, from).ok()?;
    let mut candidates = tail[..filled].windows(4).enumerate().rev().filter(|(_, id)| *id == [0x1f, 0x43, 0xb6, 0x75]);
    candidates.find_map(|(at, _)| {
        let cluster = loose(source, from + at as u64)?;
        // A checksum may precede the timestamp.
        let first = loose(source, cluster.at).filter(|first| first.id != 0xbf);
        let first = first.or_else(|| loose(source, loose(source, cluster.at)?.end()))?;
        (first.id == 0xe7 && first.len <= 8).then_some(from + at as u64)
    })
}

/// The timestamp of the last block in the file, seconds of the file's clock. Complete clusters are skipped without reading
/// their blocks. `from` is a cluster to start at.
pub(in crate::engine::probe) fn last_timestamp(source: &Source, from: Option<u64>) -> Option<f64> {
    let first = match from {
        Some(cluster) => cluster,
        None => loose(source, element(source, 0).ok()?.end())?.at,
    };
    let (mut at, mut base, mut last, mut cluster) = (first, 0.0, None, None);
    for _ in 0..WALK {
        let Some(found) = loose(source, at) else {
            // The end of the file, or of its readable part: go back into the last skipped cluster.
            let Some(inside) = cluster.take() else { break };
            at = inside;
            continue;
        };
        let complete = found.end() < source.len;
        match found.id {
            0x1f43_b675 if complete => cluster = Some(found.at),
            0x1f43_b675 => {
                cluster = None;
                at = found.at;
                continue;
            }
            0xe7 if found.len <= 8 => base = unsigned(&whole(source, found).ok()?).ok()? as f64,
            0xa3 | 0xa1 => {
                let mut head = [0; 11];
                let filled = source.file.read_at(&mut head, found.at).ok()?;
                let offset = vint(&head[..filled], false).and_then(|(_, used)| number(&head[..filled], used, 2));
                last = offset.ok().map(|offset| base + f64::from(offset as u16 as i16)).or(last);
            }
            0xa0 => {
                at = found.at;
                continue;
            }
            _ => {}
        }
        if !complete && found.id != 0x1f43_b675 {
            let Some(inside) = cluster.take() else { break };
            at = inside;
            continue;
        }
        at = found.end();
    }
    last.map(|units: f64| units * scale_seconds(source))
}

/// Seconds per timestamp unit (RFC 9559 section 5.1.2.9): a millisecond unless the file states another.
fn scale_seconds(source: &Source) -> f64 {
    let stated = || {
        let segment = loose(source, element(source, 0).ok()?.end())?;
        let mut at = segment.at;
        for _ in 0..64 {
            let found = loose(source, at)?;
            match found.id {
                0x1549_a966 => {
                    let info = whole(source, found).ok()?;
                    return Inside(&info)
                        .flatten()
                        .find(|(id, _)| *id == 0x2a_d7b1)
                        .and_then(|(_, value)| unsigned(value).ok());
                }
                0x1f43_b675 => return None,
                _ => at = found.end(),
            }
        }
        None
    };
    stated().unwrap_or(1_000_000) as f64 / 1e9
}
