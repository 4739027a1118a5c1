//! Transport streams with timestamp discontinuities (clock jumps): the pieces of the file are found, and every reader gets one
//! continuous clock. Chained Ogg files are handled in the same way.
//!
//! ffmpeg corrects such jumps itself, but not with `-copyts`, and not in a way that is known beforehand. So this program
//! reads the file and writes it into a pipe with every timestamp moved to source time. Probe, keyframe index, copy and
//! encode all see one continuous clock.

mod chain;
mod elementary_stream;
mod feed;
mod jumps;

use std::collections::BTreeMap;
use std::io::Result;
use std::sync::Arc;

pub use chain::{PlayedLinks, chained};
pub use elementary_stream::{ElementaryStream, PesPayload};
pub use feed::{ItemInput, PipeInput, RepairedFeed};
pub use jumps::{ClockRepair, find_clock_repair, has_clock_jump};

use crate::domain::mpegts::clock_jumps::ClockSection;
use crate::domain::mpegts::packet::{PACKET_LEN, Packet, SYNC_BYTE};
use crate::domain::mpegts::program::{PmtSection, Program, Router};
use crate::domain::mpegts::psi::{Pmt, ProgramEntry};
use crate::domain::mpegts::{pes, psi};
use crate::domain::time::Ticks;
use crate::engine::container::bytes::read_up_to;
use crate::engine::source::SourceFile;

/// Bytes read at a time.
const READ_BYTES: usize = 256 * 1024;

/// Maximum size of the file's beginning that is searched for tables and for the first frame.
const MAX_HEAD_BYTES: u64 = 4 << 20;

/// Range in which PAT and PMT are repeated, bytes: at least twice a second, more often at high bit rates.
const TABLE_SEARCH_BYTES: u64 = 2 << 20;

/// Maximum size of a sample that is enlarged until a frame begins in it, bytes.
const MAX_SAMPLE_BYTES: u64 = 2 << 20;

/// Maximum number of packets kept of the first PMT; a section takes at most 6.
const PMT_PACKETS: usize = 8;

/// Consecutive frames under another PID after which that PID is followed.
const TAKEOVER_FRAMES: usize = 3;

/// Distances between packets: plain, with the timestamps of Blu-ray discs, with error correction.
const PACKET_STRIDES: [usize; 3] = [PACKET_LEN, 192, 204];

/// The stream whose timestamps represent the file's clock, and the packet layout of the file.
#[derive(Clone, Debug)]
struct ClockStream {
    source: Arc<SourceFile>,
    packet_stride: usize,
    pid: u16,
    is_video: bool,
    /// None if its PMT could not be read: no packet is remapped.
    program: Option<Program>,
    /// Number of programs in the first PAT.
    program_count: usize,
    /// The packets of PAT and PMT at the beginning of the file.
    table_packets: Vec<u8>,
}

/// The timestamps of a PES packet of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PesMark {
    /// Offset of its first packet in the file.
    offset: u64,
    /// Differs from the stream's PID in a part with other PIDs.
    pid: u16,
    /// 33 bits.
    pts: Ticks,
    dts: Ticks,
    is_keyframe: bool,
    /// Between the previous mark and this one a packet has the discontinuity flag.
    has_new_clock: bool,
}

/// A PMT at the beginning of the file.
#[derive(Default)]
struct FirstPmt {
    packets: Vec<u8>,
    section: PmtSection,
    pmt: Option<Pmt>,
    is_complete: bool,
}

impl FirstPmt {
    fn push_packet(&mut self, packet: Packet, bytes: &[u8; PACKET_LEN]) {
        // A PMT may take several packets.
        let is_next = packet.starts_unit() && !self.packets.is_empty();
        self.is_complete |= is_next || self.pmt.is_some() || self.packets.len() >= PMT_PACKETS * PACKET_LEN;
        if !self.is_complete && (packet.starts_unit() || !self.packets.is_empty()) {
            self.packets.extend_from_slice(bytes);
            self.pmt = self.section.push(packet).or(self.pmt.take());
        }
    }
}

impl ClockStream {
    /// None if the file is not a transport stream with video or audio. Of several programs, the first one with both is
    /// taken, as `probe/report` does with ffprobe's report.
    fn find_in(source: &Arc<SourceFile>) -> Result<Option<Self>> {
        let head = read_up_to(source, 0, MAX_HEAD_BYTES.min(source.len) as usize)?;
        let is_synced = |stride: usize| {
            (0..stride.min(head.len())).any(|at| (0..5).all(|n| head.get(at + n * stride) == Some(&SYNC_BYTE)))
        };
        let Some(stride) = PACKET_STRIDES.into_iter().find(|&stride| is_synced(stride)) else { return Ok(None) };
        let (mut programs, mut pmts, mut pat) = (Vec::new(), BTreeMap::<u16, FirstPmt>::new(), Vec::new());
        let (mut videos, mut audios) = (Vec::new(), Vec::new());
        scan_packets(&head, 0, stride, true, |_, bytes| {
            let Some(packet) = Packet::new(bytes) else { return };
            let (payload, pid) = (packet.payload(), packet.pid());
            if pid == 0 && packet.starts_unit() && programs.is_empty() {
                programs = psi::parse_programs(payload).unwrap_or_default();
                pat = bytes.to_vec();
            } else if programs.iter().any(|program| program.pmt_pid == pid) {
                pmts.entry(pid).or_default().push_packet(packet, bytes);
            } else if packet.starts_unit() && pes::parse(payload).is_some_and(|header| header.pts.is_some()) {
                let pids = match payload.get(3) {
                    Some(0xe0..=0xef) => &mut videos,
                    Some(0xc0..=0xdf | 0xbd | 0xfd) => &mut audios,
                    _ => return,
                };
                if !pids.contains(&pid) {
                    pids.push(pid);
                }
            }
        });
        let is_multiplex = programs.len() > 1;
        let pid_of = |pids: &[u16], program: &ProgramEntry| {
            let Some(pmt) =
                pmts.get(&program.pmt_pid).filter(|_| is_multiplex).and_then(|first_pmt| first_pmt.pmt.as_ref())
            else {
                return pids.first().copied().filter(|_| !is_multiplex);
            };
            pids.iter().copied().find(|pid| pmt.entries.iter().any(|entry| entry.pid == *pid))
        };
        let first_with = |needs_video: bool, needs_audio: bool| {
            let has_streams = |program: &&ProgramEntry| {
                (!needs_video || pid_of(&videos, program).is_some())
                    && (!needs_audio || pid_of(&audios, program).is_some())
            };
            programs.iter().find(has_streams)
        };
        let best = first_with(true, true).or_else(|| first_with(true, false)).or_else(|| first_with(false, true));
        let Some((program, first)) = best.and_then(|program| Some((program, pmts.get(&program.pmt_pid)?))) else {
            return Ok(None);
        };
        let video_pid = pid_of(&videos, program);
        let Some(pid) = video_pid.or_else(|| pid_of(&audios, program)).filter(|_| !first.packets.is_empty()) else {
            return Ok(None);
        };
        if is_multiplex {
            pat = psi::pat_of(&[*program]).to_vec();
        }
        Ok(Some(Self {
            source: source.clone(),
            packet_stride: stride,
            pid,
            is_video: video_pid.is_some(),
            program: first.pmt.clone().map(|pmt| Program { entry: *program, pmt, selected: is_multiplex }),
            program_count: programs.len(),
            table_packets: [&pat, &first.packets[..]].concat(),
        }))
    }

    /// The marks whose first packet begins in this byte range. Blocks on file I/O.
    fn read_marks(&self, from: u64, to: u64) -> Result<Vec<PesMark>> {
        let (mut marks, mut has_new_clock) = (Vec::new(), false);
        self.for_each_packet(from, to, |offset, bytes| {
            let Some(packet) = Packet::new(bytes) else { return };
            has_new_clock |= packet.starts_new_clock();
            let (pid, payload) = (packet.pid(), packet.payload());
            let is_candidate = pid == self.pid || self.may_take_over(pid, payload);
            if !is_candidate || !packet.starts_unit() || packet.has_transport_error() || packet.is_scrambled() {
                return;
            }
            let Some((pts, dts)) = pes::parse(payload).and_then(|header| header.pts.zip(header.dts)) else { return };
            let (is_keyframe, has_new_clock) = (packet.is_random_access_point(), std::mem::take(&mut has_new_clock));
            marks.push(PesMark { offset, pid, pts, dts, is_keyframe, has_new_clock });
        })?;
        Ok(self.keep_takeovers(marks))
    }

    /// The marks of a sample that begins at byte `at` and ends before `to`. Frames may be larger than a sample: it is
    /// enlarged until it has a mark.
    fn sample(&self, at: u64, to: u64) -> Result<Vec<PesMark>> {
        let mut size = READ_BYTES as u64;
        loop {
            let end = (at + size).min(to);
            let marks = self.read_marks(at, end)?;
            if !marks.is_empty() || end == to || size >= MAX_SAMPLE_BYTES {
                return Ok(marks);
            }
            size *= 2;
        }
    }

    /// Whether this may be video of a joined part with other PIDs.
    fn may_take_over(&self, pid: u16, payload: &[u8]) -> bool {
        let program = self.program.as_ref().filter(|program| self.is_video && !program.selected);
        let is_new = program.is_some_and(|first| first.pmt.entries.iter().all(|entry| entry.pid != pid));
        is_new && matches!(payload, [0, 0, 1, 0xe0..=0xef, ..])
    }

    /// Video under another PID counts where it replaces the stream's video, not where the two are interleaved.
    fn keep_takeovers(&self, marks: Vec<PesMark>) -> Vec<PesMark> {
        if marks.iter().all(|mark| mark.pid == self.pid) {
            return marks;
        }
        let takes_over = |run: &&[PesMark]| run[0].pid == self.pid || run.len() >= TAKEOVER_FRAMES;
        let runs = || marks.chunk_by(|a, b| a.pid == b.pid);
        if runs().any(|run| takes_over(&run)) {
            return runs().filter(takes_over).flatten().copied().collect();
        }
        let mut counts = BTreeMap::<u16, usize>::new();
        for mark in &marks {
            *counts.entry(mark.pid).or_default() += 1;
        }
        let main_pid = counts.into_iter().max_by_key(|(_, count)| *count).map(|(pid, _)| pid);
        marks.into_iter().filter(|mark| Some(mark.pid) == main_pid).collect()
    }

    /// The router for the packets from byte `at`, with the tables at the beginning of its piece and just before `at`. None
    /// if no packet is remapped. Blocks on file I/O.
    fn router_at(&self, pieces: &[ClockSection], at: u64) -> Result<Option<Router>> {
        let Some(mut router) = self.program.clone().map(Router::new) else { return Ok(None) };
        let piece_start = pieces.iter().rev().map(|piece| piece.start_byte).find(|begin| *begin <= at);
        for position in piece_start.into_iter().chain([at]) {
            self.for_each_packet(position.saturating_sub(TABLE_SEARCH_BYTES), position, |_, bytes| {
                router.route(&mut bytes.clone());
            })?;
        }
        Ok(Some(router))
    }

    /// Calls `visit` for every packet that begins in this byte range.
    fn for_each_packet(&self, from: u64, to: u64, mut visit: impl FnMut(u64, &[u8; PACKET_LEN])) -> Result<()> {
        let to = to.min(self.source.len);
        let mut buffer = vec![0; READ_BYTES + PACKET_STRIDES[2]];
        let mut position = from;
        while position < to {
            let read_len = ((to - position) as usize).saturating_add(2 * self.packet_stride).min(buffer.len());
            let filled = self.source.read_blocking(&mut buffer[..read_len], position)?;
            let is_file_end = position + filled as u64 >= self.source.len;
            let in_range = (to - position).min(filled as u64) as usize;
            let processed =
                scan_packets(&buffer[..filled], position, self.packet_stride, is_file_end, |offset, bytes| {
                    if offset < position + in_range as u64 {
                        visit(offset, bytes);
                    }
                });
            if processed == 0 {
                break;
            }
            position += processed as u64;
        }
        Ok(())
    }
}

/// Calls `visit` for every packet in `bytes`, which are at offset `base` of the file. Returns the number of bytes
/// processed. A packet is valid if another one follows it, or if it is the last and `is_file_end` is true (end of file).
fn scan_packets(
    bytes: &[u8],
    base: u64,
    stride: usize,
    is_file_end: bool,
    mut visit: impl FnMut(u64, &[u8; PACKET_LEN]),
) -> usize {
    let mut position = 0;
    while let Some(packet) = bytes.get(position..).and_then(|rest| rest.first_chunk::<PACKET_LEN>()) {
        let next = bytes.get(position + stride);
        match packet[0] == SYNC_BYTE && (next == Some(&SYNC_BYTE) || next.is_none() && is_file_end) {
            true => {
                visit(base + position as u64, packet);
                position += stride;
            }
            false if next.is_none() && !is_file_end => break,
            false => position += 1,
        }
    }
    if is_file_end { bytes.len().max(position) } else { position }
}

#[cfg(test)]
mod tests;
