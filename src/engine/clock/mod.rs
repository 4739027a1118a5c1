//! Transport streams with timestamp discontinuities (clock jumps): the pieces of the file are found, and every reader gets one
//! continuous clock.
//!
//! ffmpeg corrects such jumps itself, but not with `-copyts`, and not in a way that is known beforehand. So this program
//! reads the file and writes it into a pipe with every timestamp moved to source time. Probe, keyframe index, copy and
//! encode all see one continuous clock.

mod feed;
mod jumps;

use std::io::Result;
use std::sync::Arc;

pub use feed::{Fed, Feed};
pub use jumps::{Repaired, has_jump, repaired};

use crate::domain::mpegts::packet::{LEN, Packet, SYNC};
use crate::domain::mpegts::{pes, tables};
use crate::engine::source::Source;

/// Bytes read at a time.
const PIECE: usize = 256 * 1024;

/// Maximum size of the file's beginning that is searched for tables and for the first frame.
const HEAD: u64 = 4 << 20;

/// Distances between packets: plain, with the timestamps of Blu-ray discs, with error correction.
const STRIDES: [usize; 3] = [LEN, 192, 204];

/// The stream whose timestamps represent the file's clock, and the packet layout of the file.
#[derive(Clone, Debug)]
struct Lane {
    source: Arc<Source>,
    stride: usize,
    pid: u16,
    /// The packets of PAT and PMT at the beginning of the file.
    tables: Vec<u8>,
}

/// The timestamps of a PES packet of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    /// Offset of its first packet in the file.
    at: u64,
    /// 90 kHz, 33 bits.
    pts: i64,
    dts: i64,
    key: bool,
    /// Between the previous mark and this one a packet has the discontinuity flag.
    new_clock: bool,
}

impl Lane {
    /// None if the file is not a transport stream of a single program with video or audio.
    fn of(source: &Arc<Source>) -> Result<Option<Self>> {
        let mut head = vec![0; HEAD.min(source.len) as usize];
        let filled = source.read_blocking(&mut head, 0)?;
        head.truncate(filled);
        let synced = |stride: usize| {
            (0..stride.min(head.len())).any(|at| (0..5).all(|n| head.get(at + n * stride) == Some(&SYNC)))
        };
        let Some(stride) = STRIDES.into_iter().find(|&stride| synced(stride)) else { return Ok(None) };
        let (mut map, mut several) = (None, false);
        let (mut pat, mut pmt, mut pmt_done) = (Vec::new(), Vec::new(), false);
        let (mut video, mut audio) = (None, None);
        packets(&head, 0, stride, true, |_, bytes| {
            let Some(packet) = Packet::new(bytes) else { return };
            let payload = packet.payload();
            if packet.pid() == 0 && packet.starts_unit() && map.is_none() {
                let Some(programmes) = tables::parse_pat(payload) else { return };
                several |= programmes.len() != 1;
                map = programmes.first().copied();
                pat.extend_from_slice(bytes);
            } else if map == Some(packet.pid()) && !pmt_done {
                // A PMT may take several packets.
                match packet.starts_unit() {
                    true if pmt.is_empty() => pmt.extend_from_slice(bytes),
                    true => pmt_done = true,
                    false if !pmt.is_empty() => pmt.extend_from_slice(bytes),
                    false => {}
                }
            } else if packet.starts_unit() && pes::parse(payload).is_some_and(|header| header.pts.is_some()) {
                match payload.get(3) {
                    Some(0xe0..=0xef) => video = video.or(Some(packet.pid())),
                    Some(0xc0..=0xdf | 0xbd | 0xfd) => audio = audio.or(Some(packet.pid())),
                    _ => {}
                }
            }
        });
        let lane = video.or(audio).filter(|_| !several && !pmt.is_empty());
        Ok(lane.map(|pid| Self { source: source.clone(), stride, pid, tables: [pat, pmt].concat() }))
    }

    /// The marks whose first packet begins in this byte range. Blocks on file I/O.
    fn marks(&self, from: u64, to: u64) -> Result<Vec<Mark>> {
        let (mut marks, mut new_clock) = (Vec::new(), false);
        self.walk(from, to, |at, bytes| {
            let Some(packet) = Packet::new(bytes) else { return };
            new_clock |= packet.new_clock();
            if packet.pid() != self.pid || !packet.starts_unit() || packet.damaged() || packet.scrambled() {
                return;
            }
            let Some((pts, dts)) = pes::parse(packet.payload()).and_then(|header| header.pts.zip(header.dts)) else {
                return;
            };
            marks.push(Mark { at, pts, dts, key: packet.random_access(), new_clock: std::mem::take(&mut new_clock) });
        })?;
        Ok(marks)
    }

    /// Calls `each` for every packet that begins in this byte range.
    fn walk(&self, from: u64, to: u64, mut each: impl FnMut(u64, &[u8; LEN])) -> Result<()> {
        let to = to.min(self.source.len);
        let mut buffer = vec![0; PIECE + STRIDES[2]];
        let mut at = from;
        while at < to {
            let most = ((to - at) as usize).saturating_add(2 * self.stride).min(buffer.len());
            let filled = self.source.read_blocking(&mut buffer[..most], at)?;
            let ends = at + filled as u64 >= self.source.len;
            let within = (to - at).min(filled as u64) as usize;
            let used = packets(&buffer[..filled], at, self.stride, ends, |offset, bytes| {
                if offset < at + within as u64 {
                    each(offset, bytes);
                }
            });
            if used == 0 {
                break;
            }
            at += used as u64;
        }
        Ok(())
    }
}

/// Calls `each` for every packet in `bytes`, which are at offset `base` of the file. Returns the number of bytes
/// processed. A packet is valid if another one follows it, or if it is the last and `ends` is true (end of file).
fn packets(bytes: &[u8], base: u64, stride: usize, ends: bool, mut each: impl FnMut(u64, &[u8; LEN])) -> usize {
    let mut at = 0;
    while let Some(packet) = bytes.get(at..).and_then(|rest| rest.first_chunk::<LEN>()) {
        let next = bytes.get(at + stride);
        match packet[0] == SYNC && (next == Some(&SYNC) || next.is_none() && ends) {
            true => {
                each(base + at as u64, packet);
                at += stride;
            }
            false if next.is_none() && !ends => break,
            false => at += 1,
        }
    }
    if ends { bytes.len().max(at) } else { at }
}

#[cfg(test)]
mod tests;
