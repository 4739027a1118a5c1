//! Transport stream packets, read without trusting them.

pub const LEN: usize = 188;
pub const SYNC: u8 = 0x47;

/// 188 bytes that begin with the sync byte.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a>(&'a [u8; LEN]);

impl<'a> Packet<'a> {
    /// None if the first byte is not the sync byte.
    pub fn new(bytes: &'a [u8; LEN]) -> Option<Self> {
        (bytes[0] == SYNC).then_some(Self(bytes))
    }

    pub fn pid(self) -> u16 {
        u16::from(self.0[1] & 0x1f) << 8 | u16::from(self.0[2])
    }

    /// The payload unit start indicator: a PES packet or a table section begins in this packet.
    pub fn starts_unit(self) -> bool {
        self.0[1] & 0x40 != 0
    }

    /// The transport error indicator: the sender marked the payload as damaged.
    pub fn damaged(self) -> bool {
        self.0[1] & 0x80 != 0
    }

    /// The payload is encrypted.
    pub fn scrambled(self) -> bool {
        self.0[3] & 0xc0 != 0
    }

    pub fn counter(self) -> u8 {
        self.0[3] & 0x0f
    }

    /// Offset of the payload. None if there is no payload, or the adaptation field leaves no room for it.
    pub fn payload_at(self) -> Option<usize> {
        match self.0[3] >> 4 & 3 {
            1 => Some(4),
            3 => Some(5 + usize::from(self.0[4])).filter(|&at| at < LEN),
            _ => None,
        }
    }

    pub fn payload(self) -> &'a [u8] {
        self.payload_at().map_or(&[], |at| &self.0[at..])
    }

    /// The packet carries a PCR and sets the discontinuity indicator: a new clock begins.
    pub fn new_clock(self) -> bool {
        self.0[3] & 0x20 != 0 && self.0[4] > 0 && self.0[5] & 0x90 == 0x90
    }

    /// The random access indicator: the PES packet of a keyframe begins here.
    pub fn random_access(self) -> bool {
        self.0[3] & 0x20 != 0 && self.0[4] > 0 && self.0[5] & 0x40 != 0
    }
}

/// Splits a byte stream that arrives in pieces of any size into packets. Bytes out of sync are skipped.
#[derive(Debug, Default)]
pub struct Packets {
    /// Bytes left over from the previous piece, fewer than [`LEN`].
    rest: Vec<u8>,
}

impl Packets {
    /// Calls `each` for every packet completed by `bytes`.
    pub fn push(&mut self, mut bytes: &[u8], mut each: impl FnMut(&[u8; LEN])) {
        while !self.rest.is_empty() {
            let wanted = LEN - self.rest.len();
            if bytes.len() < wanted {
                self.rest.extend_from_slice(bytes);
                return;
            }
            self.rest.extend_from_slice(&bytes[..wanted]);
            bytes = &bytes[wanted..];
            if self.rest[0] == SYNC {
                if let Some(packet) = self.rest.first_chunk::<LEN>() {
                    each(packet);
                }
                self.rest.clear();
            } else {
                let next = self.rest.iter().position(|&byte| byte == SYNC).unwrap_or(self.rest.len());
                self.rest.drain(..next);
            }
        }
        loop {
            let Some(at) = bytes.iter().position(|&byte| byte == SYNC) else { return };
            bytes = &bytes[at..];
            let Some((packet, after)) = bytes.split_first_chunk::<LEN>() else {
                self.rest.extend_from_slice(bytes);
                return;
            };
            each(packet);
            bytes = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_of_any_size_give_the_same_packets(
            packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), LEN - 1), 0..6),
            junk in proptest::collection::vec(0u8..0x47, 0..50),
            sizes in proptest::collection::vec(1usize..400, 1..40),
        ) {
            let mut stream = junk;
            let mut want = Vec::new();
            for body in &packets {
                let mut packet = vec![SYNC];
                packet.extend_from_slice(body);
                stream.extend_from_slice(&packet);
                want.push(packet);
            }
            let (mut reader, mut got, mut at) = (Packets::default(), Vec::new(), 0);
            for size in sizes.iter().cycle() {
                if at == stream.len() {
                    break;
                }
                let end = (at + size).min(stream.len());
                reader.push(&stream[at..end], |packet| got.push(packet.to_vec()));
                at = end;
            }
            prop_assert_eq!(got, want);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), LEN)) {
            let mut bytes = bytes;
            bytes[0] = SYNC;
            let packet = Packet::new(bytes.first_chunk().unwrap()).unwrap();
            let _ = (packet.pid(), packet.payload().len(), packet.random_access(), packet.starts_unit());
        }
    }
}
