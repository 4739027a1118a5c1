//! Checks a transport stream as a receiver would, packet by packet (ISO/IEC 13818-1).

use std::collections::HashMap;

use hearthcast::domain::mpegts::packet::{PACKET_LEN, Packet};
use hearthcast::domain::mpegts::{AUDIO_PID, VIDEO_PID, pes, unwrap_timestamp};
use hearthcast::domain::time::Ticks;

/// The longest interval between two PCRs.
const MAX_PCR_INTERVAL: Ticks = Ticks::from_ms(100);

/// Asserts that continuity counters are right, that PCRs and decoding times increase, that a PCR comes at least every 100 ms,
/// and that it lies before the times after it. Returns the first PCR.
pub fn check_transport_stream(stream: &[u8]) -> Ticks {
    let (mut counters, mut last_dts) = (HashMap::new(), HashMap::new());
    let (mut last_pcr, mut first_pcr) = (None, None);
    assert_eq!(stream.len() % PACKET_LEN, 0);
    for (n, bytes) in stream.as_chunks::<PACKET_LEN>().0.iter().enumerate() {
        let packet = Packet::new(bytes).expect("a sync byte");
        let (pid, counter) = (packet.pid(), packet.continuity_counter());
        let step = u8::from(packet.payload_offset().is_some());
        if let Some(before) = counters.insert(pid, counter) {
            assert_eq!((before + step) % 16, counter, "the counter of PID {pid} at packet {n}");
        }
        if bytes[3] & 0x20 != 0 && bytes[4] >= 7 && bytes[5] & 0x10 != 0 {
            let base = i64::from(u32::from_be_bytes([bytes[6], bytes[7], bytes[8], bytes[9]]));
            let pcr = unwrap_timestamp(Ticks(base << 1 | i64::from(bytes[10] >> 7)), last_pcr.unwrap_or_default());
            let step = last_pcr.map_or(Ticks(1), |clock| pcr - clock);
            assert!((Ticks(1)..=MAX_PCR_INTERVAL).contains(&step), "PCR steps by {step:?} at packet {n}");
            first_pcr.get_or_insert(pcr);
            last_pcr = Some(pcr);
        }
        if packet.starts_unit() && [VIDEO_PID, AUDIO_PID].contains(&pid) {
            let header = pes::parse(packet.payload()).expect("a PES header");
            let (pts, dts) = (header.pts.expect("a PTS"), header.dts.expect("a DTS"));
            let clock = last_pcr.expect("a PCR comes first");
            let (pts, dts) = (unwrap_timestamp(pts, clock), unwrap_timestamp(dts, clock));
            assert!(pts >= dts, "PTS {pts:?} before DTS {dts:?} at packet {n}");
            assert!(
                (Ticks::ZERO..Ticks::from_ms(10_000)).contains(&(dts - clock)),
                "DTS {dts:?}, PCR {clock:?} at packet {n}"
            );
            if let Some(before) = last_dts.insert(pid, dts) {
                assert!(dts > before, "DTS {dts:?} after {before:?} of PID {pid} at packet {n}");
            }
        }
    }
    first_pcr.expect("a PCR")
}
