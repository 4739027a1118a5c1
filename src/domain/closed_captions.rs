//! Closed captions in the messages of pictures (CEA-608 and CEA-708): which channels have any.

use std::collections::BTreeSet;

use super::bytes::{ByteCursor, Truncated};

/// Country USA, provider ATSC, `GA94`, type `cc_data` (ATSC A/53 part 4 section 6.2.3.1).
const CAPTION_HEADER: [u8; 8] = [0xb5, 0, 0x31, b'G', b'A', b'9', b'4', 3];

/// Values of `cc_type` (CEA-708 section 4.3): the two fields of CEA-608, and packets of CEA-708.
const FIELD_1: u8 = 0;
const FIELD_2: u8 = 1;
const PACKET_START: u8 = 3;

/// The first bytes of CEA-608's codes, without parity: extended data, and controls of the second channel of a field.
const EXTENDED_DATA: std::ops::RangeInclusive<u8> = 0x01..=0x0f;
const SECOND_CHANNEL: std::ops::RangeInclusive<u8> = 0x18..=0x1f;

/// Longest packet of CEA-708, bytes.
const MAX_PACKET_BYTES: usize = 128;

/// A channel of closed captions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CaptionChannel {
    /// A channel of CEA-608, 1 to 4.
    Cea608(u8),
    /// A service of CEA-708, 1 to 63.
    Cea708(u8),
}

/// Collects the channels of a stream of messages.
#[derive(Debug, Default)]
pub struct CaptionScanner {
    channels: BTreeSet<CaptionChannel>,
    /// The packet of CEA-708 that is being read.
    packet: Vec<u8>,
}

impl CaptionScanner {
    /// Reads the content of a message that is registered by ITU-T T.35. Others than captions are ignored.
    pub fn read_message(&mut self, message: &[u8]) {
        if let Some(data) = message.strip_prefix(&CAPTION_HEADER) {
            // What precedes damage counts.
            let _ = self.read_data(ByteCursor(data));
        }
    }

    /// The channels found. The first channel of CEA-608 is among them as soon as there is padding for it: captions may follow.
    pub fn into_channels(mut self) -> Vec<CaptionChannel> {
        self.read_packet();
        self.channels.into_iter().collect()
    }

    /// `cc_data` (ATSC A/53 part 4 section 6.2.3.1).
    fn read_data(&mut self, mut data: ByteCursor) -> Result<(), Truncated> {
        let flags = data.u8()?;
        if flags & 0x40 == 0 {
            return Ok(());
        }
        data.take(1)?;
        for _ in 0..flags & 0x1f {
            let (kind, pair) = (data.u8()?, [data.u8()?, data.u8()?]);
            if kind & 4 == 0 {
                continue;
            }
            match kind & 3 {
                FIELD_1 => self.read_pair(1, pair[0] & 0x7f),
                FIELD_2 if pair[0] & 0x7f != 0 => self.read_pair(3, pair[0] & 0x7f),
                FIELD_2 => {}
                kind => self.read_packet_part(kind == PACKET_START, pair),
            }
        }
        Ok(())
    }

    /// A pair of bytes of CEA-608; `first_channel` is the first of its field.
    fn read_pair(&mut self, first_channel: u8, first_byte: u8) {
        if !EXTENDED_DATA.contains(&first_byte) {
            let is_second = SECOND_CHANNEL.contains(&first_byte);
            self.channels.insert(CaptionChannel::Cea608(first_channel + u8::from(is_second)));
        }
    }

    fn read_packet_part(&mut self, is_start: bool, pair: [u8; 2]) {
        if is_start {
            self.read_packet();
            self.packet.clear();
        }
        if self.packet.len() < MAX_PACKET_BYTES {
            self.packet.extend(pair);
        }
    }

    /// The services of the packet (CEA-708 section 6.2), which may be incomplete.
    fn read_packet(&mut self) {
        let mut blocks = ByteCursor(self.packet.get(1..).unwrap_or_default());
        while let Ok(Some(service)) = read_service_block(&mut blocks) {
            self.channels.insert(CaptionChannel::Cea708(service));
        }
    }
}

/// The number of the next service with content; None after the last one.
fn read_service_block(blocks: &mut ByteCursor) -> Result<Option<u8>, Truncated> {
    loop {
        let head = blocks.u8()?;
        let (number, size) = (head >> 5, head & 0x1f);
        if head == 0 {
            return Ok(None);
        }
        // Numbers above 6 are in a byte of their own.
        let number = if number == 7 && size > 0 { blocks.u8()? & 0x3f } else { number };
        blocks.take(size.into())?;
        if size > 0 && number > 0 {
            return Ok(Some(number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CaptionChannel::{Cea608, Cea708};
    use proptest::prelude::*;

    fn message(triples: &[[u8; 3]]) -> Vec<u8> {
        [&CAPTION_HEADER[..], &[0xc0 | triples.len() as u8, 0xff], &triples.concat(), &[0xff]].concat()
    }

    fn channels(messages: &[Vec<u8>]) -> Vec<CaptionChannel> {
        let mut scanner = CaptionScanner::default();
        messages.iter().for_each(|message| scanner.read_message(message));
        scanner.into_channels()
    }

    #[test]
    fn padding_announces_the_first_channel_only() {
        assert_eq!(channels(&[message(&[[0xfc, 0x80, 0x80], [0xfd, 0x80, 0x80]])]), [Cea608(1)]);
        // Not valid.
        assert_eq!(channels(&[message(&[[0xf8, 0x94, 0x20]])]), []);
        assert_eq!(channels(&[]), []);
    }

    #[test]
    fn control_codes_identify_the_channels() {
        // With odd parity: resume caption loading in both channels of both fields; letters; extended data.
        assert_eq!(channels(&[message(&[[0xfc, 0x1c, 0x20]])]), [Cea608(2)]);
        assert_eq!(channels(&[message(&[[0xfd, 0x15, 0x2c], [0xfd, 0x9d, 0x2c]])]), [Cea608(3), Cea608(4)]);
        assert_eq!(channels(&[message(&[[0xfc, 0xc8, 0xe9], [0xfd, 0x01, 0x83]])]), [Cea608(1)]);
    }

    #[test]
    fn services_are_read_across_messages() {
        // A packet of eight bytes: service 1 with two bytes, service 8 with one, and the end.
        let first = message(&[[0xff, 0x04, 0x22]]);
        let second = message(&[[0xfe, b'H', b'i'], [0xfe, 0xe1, 8], [0xfe, b'!', 0]]);
        assert_eq!(channels(&[first, second]), [Cea708(1), Cea708(8)]);
        // A service without content.
        assert_eq!(channels(&[message(&[[0xff, 0x02, 0x20], [0xfe, 0, 0]])]), []);
    }

    #[test]
    fn other_messages_are_ignored() {
        let mut afd = message(&[[0xfc, 0x94, 0x20]]);
        afd[3..7].copy_from_slice(b"DTG1");
        assert_eq!(channels(&[afd]), []);
        let mut not_processed = message(&[[0xfc, 0x94, 0x20]]);
        not_processed[8] &= !0x40;
        assert_eq!(channels(&[not_processed]), []);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let message = [&CAPTION_HEADER[..], &bytes].concat();
            let found = channels(&[bytes, message.clone(), message]);
            let is_valid = |channel: &CaptionChannel| match channel {
                Cea608(number) => (1..=4).contains(number),
                Cea708(number) => (1..=63).contains(number),
            };
            prop_assert!(found.iter().all(is_valid));
        }
    }
}
