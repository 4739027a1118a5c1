//! ASF (Advanced Systems Format Specification 1.20): the send times of the last packets, which have a fixed size.

use super::{little, read};
use crate::engine::source::Source;

const HEADER: [u8; 16] = *b"\x30\x26\xb2\x75\x8e\x66\xcf\x11\xa6\xd9\x00\xaa\x00\x62\xce\x6c";
const FILE_PROPERTIES: [u8; 16] = *b"\xa1\xdc\xab\x8c\x47\xa9\xcf\x11\x8e\xe4\x00\xc0\x0c\x20\x53\x65";
const DATA: [u8; 16] = *b"\x36\x26\xb2\x75\x8e\x66\xcf\x11\xa6\xd9\x00\xaa\x00\x62\xce\x6c";
/// Maximum size of the header, which may have scripts and images.
const MOST_HEADER: u64 = 4 << 20;
/// Packets checked; audio and video interleave more closely than this.
const LAST_PACKETS: u64 = 32;

/// End of the last complete packet in seconds, and whether packets are missing. None for a complete file. A recorded
/// stream does not state its number of packets.
pub(super) fn end(source: &Source) -> Option<(f64, bool)> {
    let head = read(source, 0, 30)?;
    let header_len = little::<8>(&head, 16).filter(|len| head.starts_with(&HEADER) && *len <= MOST_HEADER)?;
    let header = read(source, 0, header_len as usize)?;
    let mut at = 30;
    let (promised, packet_len) = loop {
        let len = usize::try_from(little::<8>(&header, at + 16)?).ok().filter(|len| *len >= 24)?;
        if header.get(at..at + 16)? == FILE_PROPERTIES {
            break (little::<8>(&header, at + 56)?, little::<4>(&header, at + 92)?);
        }
        at = at.checked_add(len)?;
    };
    let data = read(source, header_len, 50)?;
    if !data.starts_with(&DATA) || !(64..=1 << 20).contains(&packet_len) {
        return None;
    }
    let first = header_len + 50;
    // An index may follow the packets. A recorded stream states no data size.
    let stated = little::<8>(&data, 16).filter(|len| *len > 50);
    let end = stated.map_or(source.len, |len| source.len.min(header_len.saturating_add(len)));
    let whole = end.saturating_sub(first) / packet_len;
    if promised > 0 && whole >= promised {
        return None;
    }
    let from = whole.saturating_sub(LAST_PACKETS);
    let ends = (from..whole).filter_map(|packet| send_end(&read(source, first + packet * packet_len, 32)?));
    ends.max().map(|milliseconds| (milliseconds as f64 / 1000.0, promised > 0))
}

/// Sum of a packet's send time and duration, milliseconds (section 5.2.2).
pub(super) fn send_end(packet: &[u8]) -> Option<u64> {
    let first = *packet.first()?;
    // Error correction data; its length is in the lower four bits.
    let mut at = if first & 0x80 != 0 { 1 + usize::from(first & 0x0f) } else { 0 };
    let lengths = *packet.get(at)?;
    at += 2;
    for shift in [5, 1, 3] {
        // Packet length, sequence, padding: none, one, two or four bytes.
        at += [0, 1, 2, 4][usize::from(lengths >> shift & 3)];
    }
    Some(little::<4>(packet, at)? + little::<2>(packet, at + 4)?)
}
