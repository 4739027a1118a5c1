//! Transport stream packets, read without trusting them.

pub const PACKET_LEN: usize = 188;
pub const SYNC_BYTE: u8 = 0x47;

/// 188 bytes that begin with the sync byte.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a>(&'a [u8; PACKET_LEN]);

impl<'a> Packet<'a> {
    /// None if the first byte is not the sync byte.
    pub fn new(bytes: &'a [u8; PACKET_LEN]) -> Option<Self> {
        (bytes[0] == SYNC_BYTE).then_some(Self(bytes))
    }

    pub fn pid(self) -> u16 {
        u16::from(self.0[1] & 0x1f) << 8 | u16::from(self.0[2])
    }

    /// The payload unit start indicator: a PES packet or a table section begins in this packet.
    pub fn starts_unit(self) -> bool {
        self.0[1] & 0x40 != 0
    }

    /// The transport error indicator: the sender marked the payload as damaged.
    pub fn has_transport_error(self) -> bool {
        self.0[1] & 0x80 != 0
    }

    /// The payload is encrypted.
    pub fn is_scrambled(self) -> bool {
        self.0[3] & 0xc0 != 0
    }

    pub fn continuity_counter(self) -> u8 {
        self.0[3] & 0x0f
    }

    /// Offset of the payload. None if there is no payload, or the adaptation field leaves no room for it.
    pub fn payload_offset(self) -> Option<usize> {
        match self.0[3] >> 4 & 3 {
            1 => Some(4),
            3 => Some(5 + usize::from(self.0[4])).filter(|&at| at < PACKET_LEN),
            _ => None,
        }
    }

    pub fn payload(self) -> &'a [u8] {
        self.payload_offset().map_or(&[], |at| &self.0[at..])
    }

    /// The packet carries a PCR and sets the discontinuity indicator: a new clock begins.
    pub fn starts_new_clock(self) -> bool {
        self.0[3] & 0x20 != 0 && self.0[4] > 0 && self.0[5] & 0x90 == 0x90
    }

    /// The random access indicator: the PES packet of a keyframe begins here.
    pub fn is_random_access_point(self) -> bool {
        self.0[3] & 0x20 != 0 && self.0[4] > 0 && self.0[5] & 0x40 != 0
    }
}

/// Splits a byte stream that arrives in pieces of any size into packets. Bytes out of sync are skipped.
#[derive(Debug, Default)]
pub struct PacketReader {
    /// Bytes left over from the previous piece, fewer than [`PACKET_LEN`].
    partial: Vec<u8>,
}

impl PacketReader {
    /// Calls `on_packet` for every packet completed by `bytes`.
    pub fn push(&mut self, mut bytes: &[u8], mut on_packet: impl FnMut(&[u8; PACKET_LEN])) {
        while !self.partial.is_empty() {
            let missing = PACKET_LEN - self.partial.len();
            if bytes.len() < missing {
                self.partial.extend_from_slice(bytes);
                return;
            }
            self.partial.extend_from_slice(&bytes[..missing]);
            bytes = &bytes[missing..];
            if self.partial[0] == SYNC_BYTE {
                if let Some(packet) = self.partial.first_chunk::<PACKET_LEN>() {
                    on_packet(packet);
                }
                self.partial.clear();
            } else {
                let next = self.partial.iter().position(|&byte| byte == SYNC_BYTE).unwrap_or(self.partial.len());
                self.partial.drain(..next);
            }
        }
        loop {
            let Some(at) = bytes.iter().position(|&byte| byte == SYNC_BYTE) else { return };
            bytes = &bytes[at..];
            let Some((packet, after)) = bytes.split_first_chunk::<PACKET_LEN>() else {
                self.partial.extend_from_slice(bytes);
                return;
            };
            on_packet(packet);
            bytes = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::mpegts::tests::chunks;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn chunks_of_any_size_give_the_same_packets(
            packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), PACKET_LEN - 1), 0..6),
            junk in proptest::collection::vec(0u8..0x47, 0..50),
            sizes in proptest::collection::vec(1usize..400, 1..40),
        ) {
            let mut stream = junk;
            let mut expected = Vec::new();
            for body in &packets {
                let mut packet = vec![SYNC_BYTE];
                packet.extend_from_slice(body);
                stream.extend_from_slice(&packet);
                expected.push(packet);
            }
            let (mut reader, mut got) = (PacketReader::default(), Vec::new());
            for chunk in chunks(&stream, &sizes) {
                reader.push(chunk, |packet| got.push(packet.to_vec()));
            }
            prop_assert_eq!(got, expected);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), PACKET_LEN)) {
            let mut bytes = bytes;
            bytes[0] = SYNC_BYTE;
            let packet = Packet::new(bytes.first_chunk().unwrap()).unwrap();
            let _ = (packet.pid(), packet.payload().len(), packet.is_random_access_point(), packet.starts_unit());
        }
    }
}
