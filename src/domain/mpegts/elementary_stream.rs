//! Joins the packets of a whole segment into PES packets.

use super::PMT_PID;
use super::packet::{PACKET_LEN, Packet};
use super::psi::{PmtEntry, TrackKind, parse_pmt};
use super::{pes, pes::PesHeader};
use crate::domain::time::Ticks;

/// The PES packets of one stream of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementaryStream {
    pub kind: TrackKind,
    /// The stream's entry in the segment's program map; None without a map, or if that does not list the stream.
    pub entry: Option<PmtEntry>,
    /// All PES packets, with their headers.
    bytes: Vec<u8>,
    /// Where each packet begins in `bytes`.
    starts: Vec<usize>,
}

/// A PES packet: its presentation time (33 bits), if its header is whole and states one, and its payload.
pub type PesPacket<'a> = (Option<Ticks>, &'a [u8]);

impl ElementaryStream {
    /// Reads the streams of a segment that contains any of the PIDs of our segments, video first. Streams without packets
    /// are left out, and so is what precedes the first PES packet of a stream.
    pub fn read_all(segment: &[u8]) -> Vec<Self> {
        let mut entries = Vec::new();
        let mut streams = [TrackKind::Video, TrackKind::Audio].map(Self::empty);
        for packet in segment.as_chunks::<PACKET_LEN>().0.iter().filter_map(Packet::new) {
            if packet.pid() == PMT_PID && entries.is_empty() {
                entries = parse_pmt(packet.payload()).unwrap_or_default();
            }
            let Some(kind) = TrackKind::from_pid(packet.pid()) else { continue };
            streams[kind as usize].push(packet);
        }
        let mut streams: Vec<Self> = streams.into_iter().filter(|stream| !stream.starts.is_empty()).collect();
        for stream in &mut streams {
            stream.entry = entries.iter().find(|entry| entry.pid == stream.kind.pid()).cloned();
        }
        streams
    }

    fn empty(kind: TrackKind) -> Self {
        Self { kind, entry: None, bytes: Vec::new(), starts: Vec::new() }
    }

    fn push(&mut self, packet: Packet) {
        if packet.starts_unit() {
            self.starts.push(self.bytes.len());
        }
        if !self.starts.is_empty() {
            self.bytes.extend_from_slice(packet.payload());
        }
    }

    /// The PES packets in their order, which is decoding order.
    pub fn packets(&self) -> impl Iterator<Item = PesPacket<'_>> {
        let ends = self.starts.iter().skip(1).copied().chain([self.bytes.len()]);
        self.starts.iter().zip(ends).map(|(&start, end)| {
            let bytes = &self.bytes[start..end];
            let Some(PesHeader { total_len, header_len, pts, .. }) = pes::parse(bytes) else { return (None, bytes) };
            let end = total_len.unwrap_or(bytes.len()).min(bytes.len());
            (pts, bytes.get(header_len..end).unwrap_or_default())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::mpegts::ts_writer::{AccessUnit, TsWriter};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn written_packets_read_back(
            sizes in proptest::collection::vec((any::<bool>(), 1usize..800, any::<u8>()), 1..30), large in 65_500usize..65_600,
        ) {
            let units: Vec<(TrackKind, Vec<u8>)> = sizes.iter().enumerate().map(|(n, &(is_video, size, fill))| {
                let size = if n == 0 { large } else { size };
                (if is_video { TrackKind::Video } else { TrackKind::Audio }, vec![fill; size])
            }).collect();
            let mut writer = TsWriter::new(TrackKind::Video);
            for (n, (track, bytes)) in units.iter().enumerate() {
                let (pts, dts) = (Ticks(n as i64 * 3600), (*track == TrackKind::Video).then_some(Ticks(0)));
                writer.push_unit(&AccessUnit { track: *track, pts, dts, random_access: n == 0, parts: &[bytes.as_slice()] });
            }
            let entry = PmtEntry { pid: TrackKind::Audio.pid(), stream_type: 0x0f, descriptors: Vec::new() };
            let streams = ElementaryStream::read_all(&writer.into_segment(std::slice::from_ref(&entry)));
            for kind in [TrackKind::Video, TrackKind::Audio] {
                let numbered = units.iter().enumerate().filter(|(_, (track, _))| *track == kind);
                let expected: Vec<_> = numbered.map(|(n, (_, bytes))| (Some(Ticks(n as i64 * 3600)), &bytes[..])).collect();
                let stream = streams.iter().find(|stream| stream.kind == kind);
                prop_assert_eq!(stream.map(|stream| stream.packets().collect()).unwrap_or_else(Vec::new), expected);
                if let Some(stream) = stream {
                    prop_assert_eq!(stream.entry.as_ref(), (kind == TrackKind::Audio).then_some(&entry));
                }
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let mut bytes = bytes;
            for packet in bytes.chunks_mut(PACKET_LEN) {
                packet[0] = 0x47;
                if packet.len() > 2 {
                    (packet[1], packet[2]) = (packet[1] & 0x40, 0x41 + packet[2] % 2);
                }
            }
            for stream in ElementaryStream::read_all(&bytes) {
                prop_assert!(stream.packets().count() > 0);
            }
        }
    }
}
