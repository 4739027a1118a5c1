//! A segment's packets, made canonical: own PAT and PMT first, continuity counters closed.
//!
//! VLC counts a discontinuity at every segment whose counters do not go on from the one before; segments made out of
//! order can only do so when each closes its counters at a multiple of 16.

use super::packet::{LEN, Packet, SYNC};
use super::tables::{self, Entry, Track};

/// Payload bytes a packet that starts a PES keeps when it is split, so that the PES header stays whole.
const HEADER_ROOM: usize = 32;

/// Joins `packets` (a multiple of 188 bytes, only video and audio PIDs) to one canonical segment.
pub fn segment(packets: &[u8], entries: &[Entry]) -> Vec<u8> {
    let count = packets.len() / LEN;
    let mut out = Vec::with_capacity(packets.len() + 64 * LEN);
    let (pat, pmt) = (tables::pat(), tables::pmt(entries));
    let mut tables_written = 0u8;
    let mut put_tables = |out: &mut Vec<u8>| {
        for mut table in [pat, pmt] {
            table[3] |= tables_written & 0x0f;
            out.extend_from_slice(&table);
        }
        tables_written += 1;
        tables_written
    };
    let mut splits = Splits::plan(packets);
    let mut counters = [0u8; 2];
    let mut written = 0;
    for (index, bytes) in packets.as_chunks::<LEN>().0.iter().enumerate() {
        // Sixteen repeats, evenly spread: the counters of the tables close as well.
        while written < 16 && index * 16 >= usize::from(written) * count {
            written = put_tables(&mut out);
        }
        let Some(packet) = Packet::new(bytes) else { continue };
        let Some(track) = Track::of_pid(packet.pid()) else { continue };
        let counter = &mut counters[track as usize];
        if packet.payload_at().is_none() {
            // Without payload the counter stands still (section 2.4.3.3).
            let mut copy = *bytes;
            copy[3] = copy[3] & 0xf0 | counter.wrapping_sub(1) & 0x0f;
            out.extend_from_slice(&copy);
            continue;
        }
        let pieces = splits.pieces(track, index);
        if pieces == 1 {
            let mut copy = *bytes;
            copy[3] = copy[3] & 0xf0 | *counter & 0x0f;
            *counter = counter.wrapping_add(1);
            out.extend_from_slice(&copy);
        } else {
            split(packet, bytes, pieces, counter, &mut out);
        }
    }
    while written < 16 {
        written = put_tables(&mut out);
    }
    out
}

/// Which packets are to be split into how many, per track.
struct Splits {
    planned: [Vec<(usize, usize)>; 2],
}

impl Splits {
    fn plan(packets: &[u8]) -> Self {
        let mut with_payload: [Vec<(usize, usize)>; 2] = [Vec::new(), Vec::new()];
        let mut counts = [0usize; 2];
        for (index, bytes) in packets.as_chunks::<LEN>().0.iter().enumerate() {
            let Some(packet) = Packet::new(bytes) else { continue };
            let (Some(track), Some(at)) = (Track::of_pid(packet.pid()), packet.payload_at()) else { continue };
            counts[track as usize] += 1;
            let spare = LEN - at - 1;
            let spare = if packet.starts_unit() { spare.saturating_sub(HEADER_ROOM) } else { spare };
            let last = &mut with_payload[track as usize];
            if spare > 0 {
                // Fifteen extra packets at most are wanted, so fifteen candidates are enough.
                if last.len() == 15 {
                    last.remove(0);
                }
                last.push((index, spare));
            }
        }
        let planned = [0, 1].map(|track| {
            let mut missing = (16 - counts[track] % 16) % 16;
            let mut planned = Vec::new();
            for &(index, spare) in with_payload[track].iter().rev() {
                let extra = missing.min(spare);
                if extra == 0 {
                    break;
                }
                planned.push((index, extra + 1));
                missing -= extra;
            }
            planned
        });
        Self { planned }
    }

    fn pieces(&mut self, track: Track, index: usize) -> usize {
        let planned = &mut self.planned[track as usize];
        match planned.last() {
            Some(&(at, pieces)) if at == index => {
                planned.pop();
                pieces
            }
            _ => 1,
        }
    }
}

/// Writes one packet's payload as `pieces` packets; the first keeps the adaptation field and the PES header.
fn split(packet: Packet, bytes: &[u8; LEN], pieces: usize, counter: &mut u8, out: &mut Vec<u8>) {
    let Some(at) = packet.payload_at() else { return };
    let payload = &bytes[at..];
    let keep = if packet.starts_unit() { HEADER_ROOM.min(payload.len() - 1) } else { 0 };
    let share = (payload.len() - keep) / pieces;
    // The adaptation field as it was, without its own stuffing taken apart: only more stuffing is added.
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

    /// A packet with this adaptation field length (None: no field) and payload `fill`.
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
                // Closed unless there was too little payload to spread.
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
