//! Splits MPEG-1 and MPEG-2 video (ISO/IEC 11172-2, 13818-2) into coded pictures, each with the timestamp of its packet.
//!
//! A packet's timestamp belongs to the first picture start code that begins in it (ISO/IEC 13818-1 section 2.4.3.7). Some
//! multiplexers count from the headers before that code, so a timestamp that no other picture has is taken from there.

use std::collections::VecDeque;

use crate::domain::time::{FrameRate, STANDARD_RATES, Ticks};

/// Largest picture kept, bytes; the highest profile allows some 6 MiB.
const MAX_PICTURE_BYTES: usize = 8 << 20;

/// Most packets of one picture.
const MAX_PACKETS: usize = 1 << 15;

/// Bytes needed after a start code to read its header.
const HEADER_BYTES: usize = 12;

/// A coded frame, or both fields of one, with the headers before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodedPicture {
    /// As its packet states them.
    pub pts: Option<Ticks>,
    pub dts: Option<Ticks>,
    pub is_bidirectional: bool,
    /// An I-picture with a sequence header: decoding may start here.
    pub is_keyframe: bool,
    /// How long it is shown; 0 if the stream has not stated its frame rate.
    pub duration: Ticks,
    pub origin: Origin,
    pub bytes: Vec<u8>,
}

/// Where a picture begins: in the packet at this offset of the file, at this byte of its payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    pub packet: u64,
    pub byte: usize,
}

/// Payloads pushed so far, of which the last picture is incomplete.
#[derive(Debug, Default)]
pub struct PictureSplitter {
    /// From the start of the current picture.
    bytes: Vec<u8>,
    /// Position in `bytes` from which start codes are searched.
    scanned: usize,
    /// The packets of `bytes`.
    packets: VecDeque<PacketStart>,
    /// None until a header or a picture begins.
    current: Option<Current>,
    sequence: Sequence,
}

#[derive(Clone, Copy, Debug)]
struct PacketStart {
    /// Where its payload begins in `bytes`; negative if that is no longer kept.
    at: i64,
    offset: u64,
    /// None if the packet has none, or a picture has it.
    times: Option<(Ticks, Ticks)>,
}

/// The picture that begins at the start of `bytes`.
#[derive(Clone, Copy, Debug, Default)]
struct Current {
    origin: Origin,
    has_sequence_header: bool,
    picture: Option<Picture>,
}

#[derive(Clone, Copy, Debug)]
struct Picture {
    times: Option<(Ticks, Ticks)>,
    /// 1 I, 2 P, 3 B.
    coding_type: u8,
    temporal_reference: u16,
    is_field: bool,
    has_second_field: bool,
    /// How many fields it is shown.
    fields: i64,
}

/// The fields of the last sequence header. Video that is read from the middle begins with those of the file's beginning.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sequence {
    rate: Option<FrameRate>,
    /// Multiplier and divisor of the rate.
    rate_extension: (u32, u32),
    is_progressive: bool,
}

impl PictureSplitter {
    pub fn new(sequence: Sequence) -> Self {
        Self { sequence, ..Self::default() }
    }

    pub fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// Adds the payload of the packet at this offset of the file.
    pub fn push(&mut self, payload: &[u8], times: Option<(Ticks, Ticks)>, offset: u64) {
        if payload.is_empty() {
            return;
        }
        if self.bytes.len() + payload.len() > MAX_PICTURE_BYTES || self.packets.len() >= MAX_PACKETS {
            // Not video: continue with the next header.
            *self = Self::new(self.sequence);
        }
        self.packets.push_back(PacketStart { at: self.bytes.len() as i64, offset, times });
        self.bytes.extend_from_slice(payload);
    }

    /// The next complete picture.
    pub fn next_picture(&mut self) -> Option<CodedPicture> {
        self.scan(HEADER_BYTES)
    }

    /// The last picture. Nothing may be pushed afterwards.
    pub fn finish(&mut self) -> Option<CodedPicture> {
        self.scan(0).or_else(|| self.take_until(self.bytes.len()))
    }

    /// Reads headers until a picture is complete. `lookahead` bytes must follow a start code, unless the stream has ended.
    fn scan(&mut self, lookahead: usize) -> Option<CodedPicture> {
        while let Some(at) = find_start_code(&self.bytes, self.scanned) {
            let code_end = at + 4;
            if self.bytes.len() < code_end + lookahead {
                self.scanned = at;
                return None;
            }
            let code = self.bytes.get(at + 3).copied()?;
            let starts_picture = match code {
                0x00 => !self.is_second_field(code_end),
                0xb3 | 0xb8 => true,
                _ => false,
            };
            if starts_picture && self.current.is_some_and(|current| current.picture.is_some()) {
                return self.take_until(at);
            }
            if starts_picture && self.current.is_none() {
                self.discard(at);
                self.current = Some(Current { origin: self.origin(), ..Current::default() });
                continue;
            }
            self.read_header(code, code_end);
            self.scanned = code_end;
        }
        self.scanned = self.scanned.max(self.bytes.len().saturating_sub(3));
        if self.current.is_none() {
            self.discard(self.scanned);
        }
        None
    }

    fn header(&self, at: usize) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        for (to, from) in header.iter_mut().zip(self.bytes.get(at..).unwrap_or_default()) {
            *to = *from;
        }
        header
    }

    fn read_header(&mut self, code: u8, at: usize) {
        let header = self.header(at);
        let Some(current) = &mut self.current else { return };
        match (code, header[0] >> 4, &mut current.picture) {
            (0xb3, ..) => {
                current.has_sequence_header = true;
                let rate = STANDARD_RATES.get(usize::from(header[3] & 15).wrapping_sub(1)).copied();
                self.sequence = Sequence { rate, rate_extension: (1, 1), is_progressive: false };
            }
            (0xb5, 1, None) => {
                self.sequence.is_progressive = header[1] & 8 != 0;
                let (multiplier, divisor) = (header[5] >> 5 & 3, header[5] & 31);
                self.sequence.rate_extension = (u32::from(multiplier) + 1, u32::from(divisor) + 1);
            }
            (0xb5, 8, Some(picture)) if !picture.has_second_field => {
                picture.is_field = header[2] & 3 != 3;
                let [is_top_first, repeats_first] = [0x80, 2].map(|bit| header[3] & bit != 0);
                picture.fields = match (repeats_first, self.sequence.is_progressive) {
                    (true, true) => 4 + 2 * i64::from(is_top_first),
                    (true, false) if header[4] & 0x80 != 0 => 3,
                    _ => 2,
                };
            }
            (0x00, _, Some(picture)) => picture.has_second_field = true,
            (0x00, _, none) => {
                let (temporal_reference, coding_type) = picture_header(header);
                *none = Some(Picture {
                    times: take_times(&mut self.packets, at - 4),
                    coding_type,
                    temporal_reference,
                    is_field: false,
                    has_second_field: false,
                    fields: 2,
                });
            }
            _ => {}
        }
    }

    /// Whether the picture header at `at` begins the second field of the current picture.
    fn is_second_field(&self, at: usize) -> bool {
        let picture = self.current.and_then(|current| current.picture);
        picture.is_some_and(|picture| {
            let (temporal_reference, _) = picture_header(self.header(at));
            picture.is_field && !picture.has_second_field && temporal_reference == picture.temporal_reference
        })
    }

    /// Takes the current picture, which ends at `end`. None if only headers came.
    fn take_until(&mut self, end: usize) -> Option<CodedPicture> {
        let current = self.current.take();
        let bytes = self.bytes.get(..end).unwrap_or_default().to_vec();
        self.discard(end);
        let Current { origin, has_sequence_header, picture } = current?;
        let picture = picture?;
        Some(CodedPicture {
            pts: picture.times.map(|(pts, _)| pts),
            dts: picture.times.map(|(_, dts)| dts),
            is_bidirectional: picture.coding_type == 3,
            is_keyframe: picture.coding_type == 1 && has_sequence_header,
            duration: self.sequence.duration(picture.fields),
            origin,
            bytes,
        })
    }

    /// Drops the first `count` bytes and the packets that end in them.
    fn discard(&mut self, count: usize) {
        self.bytes.drain(..count.min(self.bytes.len()));
        self.scanned = self.scanned.saturating_sub(count);
        for packet in &mut self.packets {
            packet.at -= count as i64;
        }
        while self.packets.get(1).is_some_and(|second| second.at <= 0) {
            self.packets.pop_front();
        }
    }

    /// The origin of the first byte.
    fn origin(&self) -> Origin {
        let first = self.packets.front();
        first.map_or_else(Origin::default, |first| Origin {
            packet: first.offset,
            byte: first.at.unsigned_abs() as usize,
        })
    }
}

/// The first times of the packets up to this byte that no picture has.
fn take_times(packets: &mut VecDeque<PacketStart>, at: usize) -> Option<(Ticks, Ticks)> {
    let packets = packets.iter_mut().take_while(|packet| packet.at <= at as i64);
    packets.filter_map(|packet| packet.times.take()).next()
}

impl Sequence {
    fn duration(&self, fields: i64) -> Ticks {
        let Some(rate) = self.rate else { return Ticks::ZERO };
        let (multiplier, divisor) = self.rate_extension;
        let (num, den) = (i64::from(rate.num * multiplier), i64::from(rate.den * divisor));
        Ticks::from_units(fields * den, 2 * num)
    }
}

/// Temporal reference and coding type of a picture header.
fn picture_header(header: [u8; HEADER_BYTES]) -> (u16, u8) {
    let bits = u16::from_be_bytes([header[0], header[1]]);
    (bits >> 6, (bits >> 3 & 7) as u8)
}

/// The position of the first start code at or after `from`, with its fourth byte.
fn find_start_code(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    // The third byte decides how far to move: a start code has 1 there.
    while let Some(&[first, second, third, _]) = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
        match (first, second, third) {
            (0, 0, 1) => return Some(at),
            (_, _, 0) => at += 1,
            _ => at += 3,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A sequence header of 25 fps, with its extension.
    const SEQUENCE: [u8; 22] =
        [0, 0, 1, 0xb3, 0x14, 0, 0xf0, 0x13, 0xff, 0xff, 0xe0, 0x18, 0, 0, 1, 0xb5, 0x14, 0x82, 0, 1, 0, 0];

    /// A picture of this type (1 I, 2 P, 3 B) with one slice; `structure` is 3 for a frame.
    fn picture(coding_type: u8, temporal_reference: u16, structure: u8, slice: &[u8]) -> Vec<u8> {
        let header = (temporal_reference << 6 | u16::from(coding_type) << 3).to_be_bytes();
        let extension = [0, 0, 1, 0xb5, 0x8f, 0xff, 0xf0 | structure, 0x80, 0x80];
        [&[0, 0, 1, 0], &header[..], &[0xff, 0xf8], &extension, &[0, 0, 1, 1], slice].concat()
    }

    fn split(packets: &[(&[u8], Option<i64>)]) -> Vec<CodedPicture> {
        let (mut splitter, mut pictures) = (PictureSplitter::default(), Vec::new());
        for (number, (payload, time)) in packets.iter().enumerate() {
            splitter.push(payload, time.map(|time| (Ticks(time), Ticks(time))), 1000 * number as u64);
            pictures.extend(std::iter::from_fn(|| splitter.next_picture()));
        }
        pictures.extend(std::iter::from_fn(|| splitter.finish()));
        pictures
    }

    #[test]
    fn a_timestamp_belongs_to_the_first_picture_that_begins_in_its_packet() {
        let intra = [&SEQUENCE[..], &picture(1, 0, 3, &[7; 50])].concat();
        let (first, second) = (picture(3, 1, 3, &[8; 50]), picture(3, 2, 3, &[9; 50]));
        // The packets end inside the I-picture, and inside the second B-picture.
        let stream = [&intra[..], &first, &second].concat();
        let split_at = |at: usize| stream.split_at(at);
        let (head, tail) = split_at(60);
        let pictures = split(&[(head, Some(100)), (tail, Some(200))]);
        let times: Vec<_> = pictures.iter().map(|picture| picture.pts.map(|pts| pts.0)).collect();
        assert_eq!(times, [Some(100), Some(200), None]);
        assert_eq!(
            pictures.iter().map(|picture| &picture.bytes[..]).collect::<Vec<_>>(),
            [&intra[..], &first, &second]
        );
        assert_eq!(pictures.iter().map(|picture| picture.is_keyframe).collect::<Vec<_>>(), [true, false, false]);
        assert!(!pictures[0].is_bidirectional && pictures[1].is_bidirectional);
        assert_eq!(pictures[0].duration, Ticks(3600));
        let origins: Vec<_> = pictures.iter().map(|picture| (picture.origin.packet, picture.origin.byte)).collect();
        let first_byte = intra.len() - 60;
        assert_eq!(origins, [(0, 0), (1000, first_byte), (1000, first_byte + first.len())]);
        // Read from the second packet on, the same pictures have the same times.
        let later = split(&[(tail, Some(200))]);
        assert_eq!((later.len(), later[0].pts, later[0].origin.byte), (2, Some(Ticks(200)), first_byte));
        // The headers are in the first packet, the picture in the second one.
        let (head, tail) = split_at(SEQUENCE.len());
        for times in [[Some(100), None], [None, Some(100)]] {
            let pictures = split(&[(head, times[0]), (tail, times[1])]);
            assert_eq!(pictures.iter().map(|picture| picture.pts).collect::<Vec<_>>(), [Some(Ticks(100)), None, None]);
        }
        // A start code that is split belongs to the packet of its first byte.
        let (head, tail) = split_at(intra.len() + 2);
        let pictures = split(&[(head, None), (tail, Some(200))]);
        assert_eq!(pictures.iter().map(|picture| picture.pts).collect::<Vec<_>>(), [None, None, Some(Ticks(200))]);
    }

    #[test]
    fn fields_and_repeated_fields_are_counted() {
        let intra = [&SEQUENCE[..], &picture(1, 0, 1, &[7; 9]), &picture(2, 0, 2, &[7; 9])].concat();
        let single = picture(2, 1, 1, &[8; 9]);
        let pictures = split(&[(&[&intra[..], &single, &picture(2, 2, 3, &[9; 9])].concat(), None)]);
        assert_eq!(pictures.len(), 3);
        assert_eq!(pictures[0].bytes, intra, "two fields make a picture");
        let mut repeated = picture(2, 1, 3, &[9; 9]);
        repeated[15] |= 2;
        let pictures = split(&[(&[&intra[..], &repeated].concat(), None)]);
        assert_eq!(pictures[1].duration, Ticks(5400), "three fields");
    }

    #[test]
    fn memory_is_bounded() {
        let mut splitter = PictureSplitter::default();
        splitter.push(&picture(1, 0, 3, &[7; 9]), None, 0);
        for _ in 0..2 * MAX_PACKETS {
            splitter.push(&[7], None, 0);
            assert_eq!(splitter.next_picture(), None);
        }
        assert!(splitter.packets.len() <= MAX_PACKETS);
        for _ in 0..200 {
            splitter.push(&[7; 65_536], None, 0);
        }
        assert!(splitter.bytes.len() <= MAX_PICTURE_BYTES);
    }

    proptest! {
        #[test]
        fn any_bytes_are_split_without_panic_or_loss(
            payloads in proptest::collection::vec(
                proptest::collection::vec(prop_oneof![3 => Just(0u8), 3 => Just(1), 1 => Just(0xb3), 1 => Just(0xb5), 1 => any::<u8>()], 0..60),
                0..20,
            ),
        ) {
            let packets: Vec<_> = payloads.iter().map(|payload| (&payload[..], Some(5))).collect();
            let pictures = split(&packets);
            let whole = payloads.concat();
            let joined: Vec<u8> = pictures.iter().flat_map(|picture| picture.bytes.clone()).collect();
            prop_assert!(pictures.is_empty() || whole.windows(joined.len()).any(|bytes| bytes == joined));
            prop_assert!(pictures.windows(2).all(|pair| pair[0].origin < pair[1].origin));
        }
    }
}
