//! Shifts a canonical segment in time: the same payload with other timestamps.

use super::TIMESTAMP_WRAP;
use super::packet::{PACKET_LEN, Packet};
use super::psi::TrackKind;

/// Adds `ticks` to every PCR, PTS and DTS of the two tracks. A PES header that is not complete in its first packet is
/// left unchanged; canonical segments have no such headers.
pub fn shift_segment(segment: &mut [u8], ticks: i64) {
    for bytes in segment.as_chunks_mut::<PACKET_LEN>().0 {
        if Packet::new(bytes).is_some_and(|packet| TrackKind::from_pid(packet.pid()).is_some()) {
            shift_packet(bytes, ticks);
        }
    }
}

/// Adds `ticks` to the PCR, PTS and DTS in one packet of any stream.
pub fn shift_packet(bytes: &mut [u8; PACKET_LEN], ticks: i64) {
    let Some(packet) = Packet::new(bytes) else { return };
    let (payload, starts) = (packet.payload_offset(), packet.starts_unit());
    // The PCR in the adaptation field (ISO/IEC 13818-1 section 2.4.3.4).
    if bytes[3] & 0x20 != 0 && bytes[4] >= 7 && bytes[5] & 0x10 != 0 {
        shift_pcr(&mut bytes[6..12], ticks);
    }
    if let Some(at) = payload.filter(|_| starts) {
        shift_pes(&mut bytes[at..], ticks);
    }
}

/// Shifts the 33-bit base at 90 kHz. The 9-bit extension at 27 MHz stays.
fn shift_pcr(field: &mut [u8], ticks: i64) {
    let base = field[..4].iter().fold(0i64, |base, byte| base << 8 | i64::from(*byte)) << 1 | i64::from(field[4] >> 7);
    let base = (base + ticks).rem_euclid(TIMESTAMP_WRAP) as u64;
    field[..4].copy_from_slice(&((base >> 1) as u32).to_be_bytes());
    field[4] = field[4] & 0x7f | ((base & 1) << 7) as u8;
}

/// Stream ids whose PES packets have no timestamp header: maps, padding, private data (ISO/IEC 13818-1 table 2-21).
fn lacks_timestamps(stream_id: u8) -> bool {
    matches!(stream_id, 0xbc | 0xbe | 0xbf | 0xf0..=0xf2 | 0xf8 | 0xff)
}

fn shift_pes(pes: &mut [u8], ticks: i64) {
    if pes.len() < 9 || pes[..3] != [0, 0, 1] || pes[6] & 0xc0 != 0x80 || lacks_timestamps(pes[3]) {
        return;
    }
    let stamp_count = [0, 0, 1, 2][usize::from(pes[7] >> 6)];
    for stamp in pes[9..].chunks_exact_mut(5).take(stamp_count) {
        let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(|n| i64::from(stamp[n]));
        let time = ((a >> 1 & 7) << 30 | b << 22 | (c >> 1) << 15 | d << 7 | e >> 1) + ticks;
        let time = time.rem_euclid(TIMESTAMP_WRAP);
        stamp[0] = stamp[0] & 0xf1 | (time >> 29) as u8 & 0x0e;
        stamp[1] = (time >> 22) as u8;
        stamp[2] = (time >> 14) as u8 & 0xfe | 1;
        stamp[3] = (time >> 7) as u8;
        stamp[4] = (time << 1) as u8 | 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::mpegts::psi::PmtEntry;
    use crate::domain::mpegts::ts_writer::{AccessUnit, TsWriter};
    use proptest::prelude::*;

    /// A segment of units with these times; video comes first.
    fn segment(times: &[(bool, i64, usize)], by: i64) -> Vec<u8> {
        let bytes = [7; 700];
        let mut writer = TsWriter::new(TrackKind::Video);
        for &(video, at, size) in times {
            let track = if video { TrackKind::Video } else { TrackKind::Audio };
            let (pts, dts) = (at + by, video.then_some(at + by - 3000));
            writer.push_unit(&AccessUnit { track, pts, dts, random_access: true, parts: &[&bytes[..size]] });
        }
        let entry = |track: TrackKind, stream_type| PmtEntry { pid: track.pid(), stream_type, descriptors: Vec::new() };
        writer.into_segment(&[entry(TrackKind::Video, 0x1b), entry(TrackKind::Audio, 0x0f)])
    }

    proptest! {
        #[test]
        fn shifting_equals_writing_with_shifted_times(
            times in proptest::collection::vec((any::<bool>(), 0i64..2 * TIMESTAMP_WRAP, 0usize..700), 0..30),
            by in -2 * TIMESTAMP_WRAP..2 * TIMESTAMP_WRAP,
        ) {
            let mut shifted = segment(&times, 0);
            shift_segment(&mut shifted, by);
            prop_assert_eq!(shifted, segment(&times, by));
        }

        #[test]
        fn any_bytes_are_shifted_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..1000), by in any::<i32>()) {
            let mut bytes = bytes;
            for start in (0..bytes.len()).step_by(PACKET_LEN) {
                bytes[start] = 0x47;
            }
            shift_segment(&mut bytes, i64::from(by));
        }
    }
}
