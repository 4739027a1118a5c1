//! Makes a segment canonical: our own PAT and PMT first, all continuity counters closed.
//!
//! VLC reports a discontinuity at every segment whose counters do not continue those of the previous segment. Segments
//! made out of order only fit together if each closes its counters at a multiple of 16.
//!
//! Example: a segment with 20 video packets needs 12 more to reach 32. Its last packets that have payload to spare are
//! split into smaller, stuffed ones until 12 are added. The next segment's video counter then starts at 0 again.

use super::packet::{PACKET_LEN, Packet, SYNC_BYTE};
use super::pes;
use super::psi::{self, PmtEntry, TrackKind};

/// Payload bytes that stay in a split packet whose PES header cannot be parsed.
const FALLBACK_HEADER_LEN: usize = 32;

/// Builds one canonical segment from `packets` (a multiple of 188 bytes, only video and audio PIDs).
pub fn canonicalise(packets: &[u8], entries: &[PmtEntry]) -> Vec<u8> {
    let count = packets.len() / PACKET_LEN;
    let mut tables = TableWriter::new(entries);
    let mut splits = SplitPlan::from_packets(packets);
    let mut out = Vec::with_capacity((count + splits.extra_packets() + TableWriter::PACKET_COUNT) * PACKET_LEN);
    let mut counters = [0u8; 2];
    for (index, bytes) in packets.as_chunks::<PACKET_LEN>().0.iter().enumerate() {
        tables.write_due(index, count, &mut out);
        let Some(packet) = Packet::new(bytes) else { continue };
        let Some(track) = TrackKind::from_pid(packet.pid()) else { continue };
        let counter = &mut counters[track as usize];
        if packet.payload_offset().is_none() {
            // A packet without payload repeats the counter (section 2.4.3.3).
            let mut copy = *bytes;
            copy[3] = copy[3] & 0xf0 | counter.wrapping_sub(1) & 0x0f;
            out.extend_from_slice(&copy);
            continue;
        }
        let piece_count = splits.next_piece_count(track);
        if piece_count == 1 {
            let mut copy = *bytes;
            copy[3] = copy[3] & 0xf0 | *counter & 0x0f;
            *counter = counter.wrapping_add(1);
            out.extend_from_slice(&copy);
        } else {
            split_packet(packet, bytes, piece_count, counter, &mut out);
        }
    }
    tables.write_rest(&mut out);
    out
}

/// Writes PAT and PMT sixteen times per segment, so that their counters close as well.
#[derive(Clone, Debug)]
pub(super) struct TableWriter {
    pat: [u8; PACKET_LEN],
    pmt: [u8; PACKET_LEN],
    written_count: u8,
}

impl TableWriter {
    const REPEATS: u8 = 16;

    /// Number of table packets in a segment.
    pub(super) const PACKET_COUNT: usize = 2 * Self::REPEATS as usize;

    pub(super) fn new(entries: &[PmtEntry]) -> Self {
        Self { pat: psi::build_pat(), pmt: psi::build_pmt(entries), written_count: 0 }
    }

    /// Writes the tables due before packet `index` of `count`; they are spread evenly.
    pub(super) fn write_due(&mut self, index: usize, count: usize, out: &mut Vec<u8>) {
        while self.written_count < Self::REPEATS
            && index * usize::from(Self::REPEATS) >= usize::from(self.written_count) * count
        {
            self.write_pair(out);
        }
    }

    /// Index of the packet of `count` before which the next tables are due.
    pub(super) fn next_due(&self, count: usize) -> usize {
        if self.written_count == Self::REPEATS {
            return usize::MAX;
        }
        (usize::from(self.written_count) * count).div_ceil(usize::from(Self::REPEATS))
    }

    pub(super) fn write_rest(&mut self, out: &mut Vec<u8>) {
        while self.written_count < Self::REPEATS {
            self.write_pair(out);
        }
    }

    fn write_pair(&mut self, out: &mut Vec<u8>) {
        for mut table in [self.pat, self.pmt] {
            table[3] |= self.written_count & 0x0f;
            out.extend_from_slice(&table);
        }
        self.written_count += 1;
    }
}

/// Plan of packet splits per track. Only packets with payload count.
#[derive(Clone, Debug)]
pub(super) struct SplitPlan {
    splits: [Vec<(usize, usize)>; 2],
    packets_passed: [usize; 2],
}

impl SplitPlan {
    /// Plans the splits from the number of payload packets per track and the packets themselves, last one first. Each is
    /// given as (payload bytes, PES header bytes); the header is never split.
    pub(super) fn plan<I: Iterator<Item = (usize, usize)>>(
        counts: [usize; 2],
        mut packets_from_last: impl FnMut(TrackKind) -> I,
    ) -> Self {
        let splits = [TrackKind::Video, TrackKind::Audio].map(|track| {
            let count = counts[track as usize];
            let mut missing = (16 - count % 16) % 16;
            let spare = |(payload, header): (usize, usize)| payload.saturating_sub(1 + header);
            // At most fifteen extra packets are needed, so fifteen candidates are enough.
            let candidates =
                (0..count).rev().zip(packets_from_last(track).map(spare)).filter(|(_, spare)| *spare > 0).take(15);
            let mut track_splits = Vec::new();
            for (number, spare) in candidates {
                let extra = missing.min(spare);
                if extra == 0 {
                    break;
                }
                track_splits.push((number, extra + 1));
                missing -= extra;
            }
            track_splits
        });
        Self { splits, packets_passed: [0; 2] }
    }

    fn from_packets(packets: &[u8]) -> Self {
        let payloads = |track: TrackKind| {
            let all = packets.as_chunks::<PACKET_LEN>().0.iter().rev().filter_map(Packet::new);
            let own = all.filter(move |packet| TrackKind::from_pid(packet.pid()) == Some(track));
            let own = own.filter(|packet| packet.payload_offset().is_some());
            own.map(|packet| (packet.payload().len(), pes_header_len(packet)))
        };
        Self::plan([TrackKind::Video, TrackKind::Audio].map(|track| payloads(track).count()), payloads)
    }

    /// Number of packets that splitting adds.
    pub(super) fn extra_packets(&self) -> usize {
        self.splits.iter().flatten().map(|(_, pieces)| pieces - 1).sum()
    }

    /// Number of packets of a track before the next one to split.
    pub(super) fn packets_before_next_split(&self, track: TrackKind) -> usize {
        self.splits[track as usize].last().map_or(usize::MAX, |(at, _)| at - self.packets_passed[track as usize])
    }

    /// Skips packets that are not split.
    pub(super) fn skip(&mut self, track: TrackKind, count: usize) {
        self.packets_passed[track as usize] += count;
    }

    /// Number of packets that the next payload packet of a track becomes.
    pub(super) fn next_piece_count(&mut self, track: TrackKind) -> usize {
        let number = self.packets_passed[track as usize];
        self.packets_passed[track as usize] += 1;
        self.splits[track as usize].pop_if(|(at, _)| *at == number).map_or(1, |(_, pieces)| pieces)
    }
}

/// Length of the PES header that begins in a packet, bytes; 0 if none begins.
fn pes_header_len(packet: Packet) -> usize {
    if packet.starts_unit() { pes::header_len(packet.payload()).unwrap_or(FALLBACK_HEADER_LEN) } else { 0 }
}

/// Writes one packet's payload as `piece_count` packets. The first keeps the adaptation field and the PES header.
pub(super) fn split_packet(
    packet: Packet,
    bytes: &[u8; PACKET_LEN],
    piece_count: usize,
    counter: &mut u8,
    out: &mut Vec<u8>,
) {
    let Some(at) = packet.payload_offset() else { return };
    let payload = &bytes[at..];
    let header_len = pes_header_len(packet).min(payload.len() - 1);
    let piece_len = (payload.len() - header_len) / piece_count;
    // The adaptation field is kept as it is, including its stuffing; only more stuffing is added.
    let field: &[u8] = if at > 4 { &bytes[5..at] } else { &[] };
    let mut start = 0;
    for piece in 0..piece_count {
        let is_last = piece + 1 == piece_count;
        let end = if is_last { payload.len() } else { header_len + piece_len * (piece + 1) };
        let part = &payload[start..end];
        start = end;
        let start_flags = bytes[1] & !0x40 | if piece == 0 { bytes[1] & 0x40 } else { 0 };
        let header = [SYNC_BYTE, start_flags, bytes[2], bytes[3] & 0xc0 | *counter & 0x0f];
        *counter = counter.wrapping_add(1);
        out.extend_from_slice(&header);
        let flags_at = out.len() - 1;
        let capacity = PACKET_LEN - 4 - part.len();
        let field = if piece == 0 { field } else { &[] };
        if capacity == 0 {
            out[flags_at] |= 0x10;
        } else {
            out[flags_at] |= 0x30;
            out.push((capacity - 1) as u8);
            if capacity > 1 {
                let flags = field.first().copied().unwrap_or(0);
                out.push(flags);
                let tail = field.get(1..).unwrap_or(&[]);
                out.extend_from_slice(tail);
                out.extend(std::iter::repeat_n(0xff, capacity - 2 - tail.len()));
            }
        }
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::mpegts::{AUDIO_PID, PMT_PID, VIDEO_PID};
    use proptest::prelude::*;

    /// A packet with this adaptation field length (None: no field) and payload bytes `fill`.
    fn packet(pid: u16, start: bool, field: Option<u8>, fill: u8) -> [u8; PACKET_LEN] {
        let mut bytes = [fill; PACKET_LEN];
        let pid = pid.to_be_bytes();
        bytes[..4].copy_from_slice(&[SYNC_BYTE, if start { 0x40 } else { 0 } | pid[0], pid[1], 0x10]);
        if let Some(length) = field {
            bytes[3] = 0x30;
            bytes[4] = length;
            bytes[5..5 + usize::from(length)].fill(0xff);
            if length > 0 {
                bytes[5] = 0;
            }
        }
        bytes
    }

    fn payloads(segment: &[u8], pid: u16) -> Vec<u8> {
        let packets = segment.as_chunks::<PACKET_LEN>().0.iter().filter_map(Packet::new);
        packets.filter(|packet| packet.pid() == pid).flat_map(|packet| packet.payload().to_vec()).collect()
    }

    proptest! {
        #[test]
        fn counters_close_and_no_payload_byte_is_lost(
            shapes in proptest::collection::vec((any::<bool>(), any::<bool>(), proptest::option::of(0u8..=183), any::<u8>()), 0..80),
        ) {
            let shapes: Vec<_> = shapes
                .iter()
                .map(|&(video, start, field, fill)| packet(if video { VIDEO_PID } else { AUDIO_PID }, start, field, fill))
                .collect();
            let joined = shapes.concat();
            let segment = canonicalise(&joined, &[]);
            prop_assert_eq!(segment.len() % PACKET_LEN, 0);
            for pid in [0, PMT_PID, VIDEO_PID, AUDIO_PID] {
                let mut next = 0;
                for packet in segment.as_chunks::<PACKET_LEN>().0.iter().filter_map(Packet::new) {
                    if packet.pid() == pid && packet.payload_offset().is_some() {
                        prop_assert_eq!(packet.continuity_counter(), next % 16);
                        next = (next + 1) % 16;
                    }
                }
                // Closed, unless there was too little payload to spread (these PES headers cannot be parsed).
                let bytes = payloads(&joined, pid).len();
                if bytes > 15 * (FALLBACK_HEADER_LEN + 2) || pid == 0 || pid == PMT_PID {
                    prop_assert!(next == 0 || bytes < 16 * 184, "pid {} ends at {}", pid, next);
                }
                if pid == VIDEO_PID || pid == AUDIO_PID {
                    prop_assert_eq!(payloads(&segment, pid), payloads(&joined, pid));
                }
            }
        }

        #[test]
        fn garbage_is_made_canonical_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert_eq!(canonicalise(&bytes, &[]).len() % PACKET_LEN, 0);
        }
    }
}
