//! Makes a segment canonical: our own PAT and PMT first, all continuity counters closed.
//!
//! VLC reports a discontinuity at every segment whose counters do not continue those of the previous segment. Segments
//! made out of order only fit together if each closes its counters at a multiple of 16.
//!
//! Example: a segment with 20 video packets needs 12 more to reach 32. Its last packets that have payload to spare are
//! split into smaller, stuffed ones until 12 are added. The next segment's video counter then starts at 0 again.

use super::packet::{LEN, Packet, SYNC};
use super::tables::{self, Entry, Track};

/// Payload bytes that stay in a split packet whose PES header cannot be parsed.
const HEADER_ROOM: usize = 32;

/// Builds one canonical segment from `packets` (a multiple of 188 bytes, only video and audio PIDs).
pub fn segment(packets: &[u8], entries: &[Entry]) -> Vec<u8> {
    let count = packets.len() / LEN;
    let mut tables = Tables::new(entries);
    let mut splits = Splits::of(packets);
    let mut out = Vec::with_capacity((count + splits.extra() + Tables::PACKETS) * LEN);
    let mut counters = [0u8; 2];
    for (index, bytes) in packets.as_chunks::<LEN>().0.iter().enumerate() {
        tables.put(index, count, &mut out);
        let Some(packet) = Packet::new(bytes) else { continue };
        let Some(track) = Track::of_pid(packet.pid()) else { continue };
        let counter = &mut counters[track as usize];
        if packet.payload_at().is_none() {
            // A packet without payload repeats the counter (section 2.4.3.3).
            let mut copy = *bytes;
            copy[3] = copy[3] & 0xf0 | counter.wrapping_sub(1) & 0x0f;
            out.extend_from_slice(&copy);
            continue;
        }
        let pieces = splits.pieces(track);
        if pieces == 1 {
            let mut copy = *bytes;
            copy[3] = copy[3] & 0xf0 | *counter & 0x0f;
            *counter = counter.wrapping_add(1);
            out.extend_from_slice(&copy);
        } else {
            split(packet, bytes, pieces, counter, &mut out);
        }
    }
    tables.close(&mut out);
    out
}

/// Writes PAT and PMT sixteen times per segment, so that their counters close as well.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    pat: [u8; LEN],
    pmt: [u8; LEN],
    written: u8,
}

impl Tables {
    const TIMES: u8 = 16;

    /// Number of table packets in a segment.
    pub(super) const PACKETS: usize = 2 * Self::TIMES as usize;

    pub(super) fn new(entries: &[Entry]) -> Self {
        Self { pat: tables::pat(), pmt: tables::pmt(entries), written: 0 }
    }

    /// Writes the tables due before packet `index` of `count`; they are spread evenly.
    pub(super) fn put(&mut self, index: usize, count: usize, out: &mut Vec<u8>) {
        while self.written < Self::TIMES && index * usize::from(Self::TIMES) >= usize::from(self.written) * count {
            self.once(out);
        }
    }

    /// Index of the packet of `count` before which the next tables are due.
    pub(super) fn due(&self, count: usize) -> usize {
        if self.written == Self::TIMES {
            return usize::MAX;
        }
        (usize::from(self.written) * count).div_ceil(usize::from(Self::TIMES))
    }

    /// Writes the remaining tables.
    pub(super) fn close(&mut self, out: &mut Vec<u8>) {
        while self.written < Self::TIMES {
            self.once(out);
        }
    }

    fn once(&mut self, out: &mut Vec<u8>) {
        for mut table in [self.pat, self.pmt] {
            table[3] |= self.written & 0x0f;
            out.extend_from_slice(&table);
        }
        self.written += 1;
    }
}

/// Plan of packet splits per track. Only packets with payload count.
#[derive(Clone, Debug)]
pub(super) struct Splits {
    planned: [Vec<(usize, usize)>; 2],
    passed: [usize; 2],
}

impl Splits {
    /// Plans the splits from the number of payload packets per track and the packets themselves, last one first. Each is
    /// given as (payload bytes, PES header bytes); the header is never split.
    pub(super) fn plan<I: Iterator<Item = (usize, usize)>>(
        counts: [usize; 2],
        mut back: impl FnMut(Track) -> I,
    ) -> Self {
        let planned = [Track::Video, Track::Audio].map(|track| {
            let count = counts[track as usize];
            let mut missing = (16 - count % 16) % 16;
            let spare = |(payload, header): (usize, usize)| payload.saturating_sub(1 + header);
            // At most fifteen extra packets are needed, so fifteen candidates are enough.
            let candidates = (0..count).rev().zip(back(track).map(spare)).filter(|(_, spare)| *spare > 0).take(15);
            let mut planned = Vec::new();
            for (number, spare) in candidates {
                let extra = missing.min(spare);
                if extra == 0 {
                    break;
                }
                planned.push((number, extra + 1));
                missing -= extra;
            }
            planned
        });
        Self { planned, passed: [0; 2] }
    }

    fn of(packets: &[u8]) -> Self {
        let payloads = |track: Track| {
            let all = packets.as_chunks::<LEN>().0.iter().rev().filter_map(Packet::new);
            let own = all.filter(move |packet| Track::of_pid(packet.pid()) == Some(track));
            own.filter(|packet| packet.payload_at().is_some()).map(|packet| (packet.payload().len(), header_of(packet)))
        };
        Self::plan([Track::Video, Track::Audio].map(|track| payloads(track).count()), payloads)
    }

    /// Number of packets that splitting adds.
    pub(super) fn extra(&self) -> usize {
        self.planned.iter().flatten().map(|(_, pieces)| pieces - 1).sum()
    }

    /// Number of packets of a track before the next one to split.
    pub(super) fn unsplit(&self, track: Track) -> usize {
        self.planned[track as usize].last().map_or(usize::MAX, |(at, _)| at - self.passed[track as usize])
    }

    /// Skips packets that are not split.
    pub(super) fn pass(&mut self, track: Track, count: usize) {
        self.passed[track as usize] += count;
    }

    /// Number of packets that the next payload packet of a track becomes.
    pub(super) fn pieces(&mut self, track: Track) -> usize {
        let number = self.passed[track as usize];
        self.passed[track as usize] += 1;
        self.planned[track as usize].pop_if(|(at, _)| *at == number).map_or(1, |(_, pieces)| pieces)
    }
}

/// Length of the PES header that begins in a packet, bytes (ISO/IEC 13818-1 section 2.4.3.6); 0 if none begins.
fn header_of(packet: Packet) -> usize {
    match packet.payload() {
        _ if !packet.starts_unit() => 0,
        [0, 0, 1, _, _, _, flags, _, length, ..] if flags & 0xc0 == 0x80 => 9 + usize::from(*length),
        _ => HEADER_ROOM,
    }
}

/// Writes one packet's payload as `pieces` packets. The first keeps the adaptation field and the PES header.
pub(super) fn split(packet: Packet, bytes: &[u8; LEN], pieces: usize, counter: &mut u8, out: &mut Vec<u8>) {
    let Some(at) = packet.payload_at() else { return };
    let payload = &bytes[at..];
    let keep = header_of(packet).min(payload.len() - 1);
    let share = (payload.len() - keep) / pieces;
    // The adaptation field is kept as it is, including its stuffing; only more stuffing is added.
    let field: &[u8] = if at > 4 { &bytes[5..at] } else { &[] };
    let mut from = 0;
    for piece in 0..pieces {
        let last = piece + 1 == pieces;
        let end = if last { payload.len() } else { keep + share * (piece + 1) };
        let part = &payload[from..end];
        from = end;
        let start = bytes[1] & !0x40 | if piece == 0 { bytes[1] & 0x40 } else { 0 };
        let head = [SYNC, start, bytes[2], bytes[3] & 0xc0 | *counter & 0x0f];
        *counter = counter.wrapping_add(1);
        out.extend_from_slice(&head);
        let flags_at = out.len() - 1;
        let room = LEN - 4 - part.len();
        let field = if piece == 0 { field } else { &[] };
        if room == 0 {
            out[flags_at] |= 0x10;
        } else {
            out[flags_at] |= 0x30;
            out.push((room - 1) as u8);
            if room > 1 {
                let flags = field.first().copied().unwrap_or(0);
                out.push(flags);
                let tail = field.get(1..).unwrap_or(&[]);
                out.extend_from_slice(tail);
                out.extend(std::iter::repeat_n(0xff, room - 2 - tail.len()));
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
    fn packet(pid: u16, start: bool, field: Option<u8>, fill: u8) -> [u8; LEN] {
        let mut bytes = [fill; LEN];
        let pid = pid.to_be_bytes();
        bytes[..4].copy_from_slice(&[SYNC, if start { 0x40 } else { 0 } | pid[0], pid[1], 0x10]);
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
        let packets = segment.as_chunks::<LEN>().0.iter().filter_map(Packet::new);
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
            let segment = segment(&joined, &[]);
            prop_assert_eq!(segment.len() % LEN, 0);
            for pid in [0, PMT_PID, VIDEO_PID, AUDIO_PID] {
                let mut next = 0;
                for packet in segment.as_chunks::<LEN>().0.iter().filter_map(Packet::new) {
                    if packet.pid() == pid && packet.payload_at().is_some() {
                        prop_assert_eq!(packet.counter(), next % 16);
                        next = (next + 1) % 16;
                    }
                }
                // Closed, unless there was too little payload to spread (these PES headers cannot be parsed).
                let bytes = payloads(&joined, pid).len();
                if bytes > 15 * (HEADER_ROOM + 2) || pid == 0 || pid == PMT_PID {
                    prop_assert!(next == 0 || bytes < 16 * 184, "pid {} ends at {}", pid, next);
                }
                if pid == VIDEO_PID || pid == AUDIO_PID {
                    prop_assert_eq!(payloads(&segment, pid), payloads(&joined, pid));
                }
            }
        }

        #[test]
        fn garbage_is_made_canonical_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert_eq!(segment(&bytes, &[]).len() % LEN, 0);
        }
    }
}
