//! Detects container and tracks of a stream from its first bytes, to decide how to process it.

use crate::domain::mpegts::packet::{LEN, Packet, SYNC};
use crate::domain::mpegts::tables::{parse_pat, parse_pmt};

/// Most bytes examined. A PMT is repeated several times a second.
pub const MOST_BYTES: usize = 4 << 20;

/// Container of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    MpegTs,
    /// Fragmented mp4 that starts with its header.
    Mp4,
}

/// Container and tracks of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub container: Container,
    pub video: Option<Video>,
    pub audio: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Video {
    /// H.264, which every player supports without re-encoding.
    Avc,
    Other,
}

/// Detects the content of a stream from its first bytes; None while they are not enough.
pub fn shape(bytes: &[u8]) -> Option<Shape> {
    if bytes.get(4..8).is_some_and(|kind| [b"ftyp", b"styp", b"moov"].iter().any(|known| kind == *known)) {
        return mp4(bytes);
    }
    let start = begin(bytes)?;
    let packets = || bytes[start..].as_chunks::<LEN>().0.iter().filter_map(Packet::new);
    let table = |packet: &Packet, pid: u16| packet.pid() == pid && packet.starts_unit();
    let maps = packets().filter(|packet| table(packet, 0)).find_map(|packet| parse_pat(packet.payload()))?;
    let map = *maps.first()?;
    let entries = packets().filter(|packet| table(packet, map)).find_map(|packet| parse_pmt(packet.payload()))?;
    let has = |types: &[u8]| entries.iter().any(|entry| types.contains(&entry.stream_type));
    let video = match () {
        () if has(&[0x1b]) => Some(Video::Avc),
        // MPEG-1, MPEG-2, MPEG-4 part 2, HEVC, AVS, VC-1 (ISO/IEC 13818-1 table 2-34).
        () if has(&[0x01, 0x02, 0x10, 0x24, 0x33, 0x42, 0xd1, 0xea]) => Some(Video::Other),
        () => None,
    };
    // MPEG audio, AAC, AC-3 and DTS, and the private streams of DVB.
    let audio = has(&[0x03, 0x04, 0x0f, 0x11, 0x80, 0x81, 0x82, 0x87, 0x06]);
    (video.is_some() || audio).then_some(Shape { container: Container::MpegTs, video, audio })
}

/// Offset of the first packet if the bytes look like a transport stream: sync bytes one packet apart.
pub fn begin(bytes: &[u8]) -> Option<usize> {
    let synced = |at: usize| (0..3).all(|n| bytes.get(at + n * LEN) == Some(&SYNC));
    (0..LEN.min(bytes.len())).find(|&at| synced(at))
}

/// Detects tracks by the names of sample entries and handlers in the header.
fn mp4(bytes: &[u8]) -> Option<Shape> {
    let at = |name: &[u8]| bytes.windows(4).position(|four| four == name);
    // The header is complete once the box after it has begun.
    at(b"moof").or_else(|| at(b"mdat"))?;
    let video = at(b"vide").map(|_| match at(b"avc1").or_else(|| at(b"avc3")) {
        Some(_) => Video::Avc,
        None => Video::Other,
    });
    let audio = at(b"soun").is_some();
    (video.is_some() || audio).then_some(Shape { container: Container::Mp4, video, audio })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::mpegts::tables::{Entry, Track};
    use crate::domain::mpegts::write::{Unit, Writer};
    use proptest::prelude::*;

    fn stream(types: &[(Track, u8)]) -> Vec<u8> {
        let mut writer = Writer::new(Track::Video);
        for n in 0..20 {
            let unit =
                Unit { track: Track::Video, pts: n * 3600, dts: None, random_access: n == 0, parts: &[&[9; 300][..]] };
            writer.put(&unit);
        }
        let entry = |(track, stream_type): &(Track, u8)| Entry {
            pid: track.pid(),
            stream_type: *stream_type,
            descriptors: vec![],
        };
        writer.finish(&types.iter().map(entry).collect::<Vec<_>>())
    }

    #[test]
    fn streams_say_what_they_hold() {
        let of = |types: &[(Track, u8)]| shape(&stream(types)).map(|shape| (shape.video, shape.audio));
        assert_eq!(of(&[(Track::Video, 0x1b), (Track::Audio, 0x0f)]), Some((Some(Video::Avc), true)));
        assert_eq!(of(&[(Track::Video, 0x02), (Track::Audio, 0x03)]), Some((Some(Video::Other), true)));
        assert_eq!(of(&[(Track::Audio, 0x81)]), Some((None, true)));
        assert_eq!(of(&[(Track::Video, 0x1b)]), Some((Some(Video::Avc), false)));
        assert_eq!(of(&[]), None);
        let mut late = vec![1, 2, 3];
        late.extend(stream(&[(Track::Video, 0x1b)]));
        assert!(shape(&late).is_some() && shape(b"<html>").is_none() && shape(&[]).is_none());
        let mp4 = |boxes: &[u8]| shape(boxes).map(|shape| (shape.container, shape.video, shape.audio));
        let header = b"\0\0\0\x18ftypisom....moov..vide..avc1..soun..mp4a..";
        assert_eq!(mp4(header), None, "the header may be incomplete");
        let whole = [&header[..], b"moof"].concat();
        assert_eq!(mp4(&whole), Some((Container::Mp4, Some(Video::Avc), true)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_looked_at_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let _ = shape(&bytes);
        }
    }
}
