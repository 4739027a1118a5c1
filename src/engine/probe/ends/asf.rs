//! ASF (Advanced Systems Format Specification 1.20): the send times of the last packets, which have a fixed size.

use super::{parse_le, read_at};
use crate::engine::source::SourceFile;

const HEADER_OBJECT: [u8; 16] = *b"\x30\x26\xb2\x75\x8e\x66\xcf\x11\xa6\xd9\x00\xaa\x00\x62\xce\x6c";
const FILE_PROPERTIES: [u8; 16] = *b"\xa1\xdc\xab\x8c\x47\xa9\xcf\x11\x8e\xe4\x00\xc0\x0c\x20\x53\x65";
const DATA_OBJECT: [u8; 16] = *b"\x36\x26\xb2\x75\x8e\x66\xcf\x11\xa6\xd9\x00\xaa\x00\x62\xce\x6c";
/// Maximum size of the header, which may have scripts and images.
const MAX_HEADER_BYTES: u64 = 4 << 20;
/// Packets checked; audio and video interleave more closely than this.
const LAST_PACKETS: u64 = 32;

/// End of the last complete packet in seconds, and whether packets are missing. None for a complete file. A recorded
/// stream does not state its number of packets.
pub(super) fn measure_end(source: &SourceFile) -> Option<(f64, bool)> {
    let head = read_at(source, 0, 30)?;
    let header_len =
        parse_le::<8>(&head, 16).filter(|len| head.starts_with(&HEADER_OBJECT) && *len <= MAX_HEADER_BYTES)?;
    let header = read_at(source, 0, header_len as usize)?;
    let mut position = 30;
    let (stated_packets, packet_len) = loop {
        let len = usize::try_from(parse_le::<8>(&header, position + 16)?).ok().filter(|len| *len >= 24)?;
        if header.get(position..position + 16)? == FILE_PROPERTIES {
            break (parse_le::<8>(&header, position + 56)?, parse_le::<4>(&header, position + 92)?);
        }
        position = position.checked_add(len)?;
    };
    let data_object = read_at(source, header_len, 50)?;
    if !data_object.starts_with(&DATA_OBJECT) || !(64..=1 << 20).contains(&packet_len) {
        return None;
    }
    let first_packet = header_len + 50;
    // An index may follow the packets. A recorded stream states no data size.
    let stated_len = parse_le::<8>(&data_object, 16).filter(|len| *len > 50);
    let end = stated_len.map_or(source.len, |len| source.len.min(header_len.saturating_add(len)));
    let packet_count = end.saturating_sub(first_packet) / packet_len;
    if stated_packets > 0 && packet_count >= stated_packets {
        return None;
    }
    let first_checked = packet_count.saturating_sub(LAST_PACKETS);
    let ends = (first_checked..packet_count)
        .filter_map(|packet| parse_send_end(&read_at(source, first_packet + packet * packet_len, 32)?));
    ends.max().map(|milliseconds| (milliseconds as f64 / 1000.0, stated_packets > 0))
}

/// Sum of a packet's send time and duration, milliseconds (section 5.2.2).
pub(super) fn parse_send_end(packet: &[u8]) -> Option<u64> {
    let flags = *packet.first()?;
    // Error correction data; its length is in the lower four bits.
    let mut position = if flags & 0x80 != 0 { 1 + usize::from(flags & 0x0f) } else { 0 };
    let length_flags = *packet.get(position)?;
    position += 2;
    for shift in [5, 1, 3] {
        // Packet length, sequence, padding: none, one, two or four bytes.
        position += [0, 1, 2, 4][usize::from(length_flags >> shift & 3)];
    }
    Some(parse_le::<4>(packet, position)? + parse_le::<2>(packet, position + 4)?)
}
