//! Detects container and tracks of a stream from its first bytes, to decide how to process it.

use crate::domain::mpegts::packet::{PACKET_LEN, Packet, SYNC_BYTE};
use crate::domain::mpegts::psi::{parse_pat, parse_pmt};

/// Most bytes examined. A PMT is repeated several times a second.
pub const MAX_PROBE_BYTES: usize = 4 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamContainer {
    MpegTs,
    /// Fragmented mp4 that starts with its header.
    Mp4,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamInfo {
    pub container: StreamContainer,
    pub video: Option<VideoCodec>,
    pub audio: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VideoCodec {
    /// H.264, which every player supports without re-encoding.
    H264,
    Other,
}

/// Detects the content of a stream from its first bytes; None while they are not enough.
pub fn detect_stream(bytes: &[u8]) -> Option<StreamInfo> {
    if bytes.get(4..8).is_some_and(|kind| [b"ftyp", b"styp", b"moov"].iter().any(|known| kind == *known)) {
        return detect_mp4(bytes);
    }
    let start = find_sync(bytes)?;
    let packets = || bytes[start..].as_chunks::<PACKET_LEN>().0.iter().filter_map(Packet::new);
    let starts_table = |packet: &Packet, pid: u16| packet.pid() == pid && packet.starts_unit();
    let pmt_pids = packets().filter(|packet| starts_table(packet, 0)).find_map(|packet| parse_pat(packet.payload()))?;
    let pmt_pid = *pmt_pids.first()?;
    let entries =
        packets().filter(|packet| starts_table(packet, pmt_pid)).find_map(|packet| parse_pmt(packet.payload()))?;
    let has_stream_type = |types: &[u8]| entries.iter().any(|entry| types.contains(&entry.stream_type));
    // MPEG-1, MPEG-2, MPEG-4 part 2, HEVC, AVS, VC-1 (ISO/IEC 13818-1 table 2-34).
    let has_other_video = has_stream_type(&[0x01, 0x02, 0x10, 0x24, 0x33, 0x42, 0xd1, 0xea]);
    let other_video = has_other_video.then_some(VideoCodec::Other);
    let video = if has_stream_type(&[0x1b]) { Some(VideoCodec::H264) } else { other_video };
    // MPEG audio, AAC, AC-3 and DTS, and the private streams of DVB.
    let audio = has_stream_type(&[0x03, 0x04, 0x0f, 0x11, 0x80, 0x81, 0x82, 0x87, 0x06]);
    (video.is_some() || audio).then_some(StreamInfo { container: StreamContainer::MpegTs, video, audio })
}

/// Offset of the first packet if the bytes look like a transport stream: sync bytes one packet apart.
fn find_sync(bytes: &[u8]) -> Option<usize> {
    let is_synced = |at: usize| (0..3).all(|n| bytes.get(at + n * PACKET_LEN) == Some(&SYNC_BYTE));
    (0..PACKET_LEN.min(bytes.len())).find(|&at| is_synced(at))
}

/// Detects tracks by the names of sample entries and handlers in the header.
fn detect_mp4(bytes: &[u8]) -> Option<StreamInfo> {
    let position = |name: &[u8]| bytes.windows(4).position(|window| window == name);
    // The header is complete once the box after it has begun.
    position(b"moof").or_else(|| position(b"mdat"))?;
    let video = position(b"vide").map(|_| match position(b"avc1").or_else(|| position(b"avc3")) {
        Some(_) => VideoCodec::H264,
        None => VideoCodec::Other,
    });
    let audio = position(b"soun").is_some();
    (video.is_some() || audio).then_some(StreamInfo { container: StreamContainer::Mp4, video, audio })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::mpegts::psi::{PmtEntry, TrackKind};
    use crate::domain::mpegts::ts_writer::{AccessUnit, TsWriter};
    use proptest::prelude::*;

    fn stream(types: &[(TrackKind, u8)]) -> Vec<u8> {
        let mut writer = TsWriter::new(TrackKind::Video);
        for n in 0..20 {
            let (track, pts, random_access) = (TrackKind::Video, n * 3600, n == 0);
            writer.push_unit(&AccessUnit { track, pts, dts: None, random_access, parts: &[&[9; 300][..]] });
        }
        let entry =
            |&(track, stream_type): &(TrackKind, u8)| PmtEntry { pid: track.pid(), stream_type, descriptors: vec![] };
        writer.into_segment(&types.iter().map(entry).collect::<Vec<_>>())
    }

    #[test]
    fn containers_and_tracks_are_detected() {
        let of = |types: &[(TrackKind, u8)]| detect_stream(&stream(types)).map(|shape| (shape.video, shape.audio));
        assert_eq!(of(&[(TrackKind::Video, 0x1b), (TrackKind::Audio, 0x0f)]), Some((Some(VideoCodec::H264), true)));
        assert_eq!(of(&[(TrackKind::Video, 0x02), (TrackKind::Audio, 0x03)]), Some((Some(VideoCodec::Other), true)));
        assert_eq!(of(&[(TrackKind::Audio, 0x81)]), Some((None, true)));
        assert_eq!(of(&[(TrackKind::Video, 0x1b)]), Some((Some(VideoCodec::H264), false)));
        assert_eq!(of(&[]), None);
        let mut late = vec![1, 2, 3];
        late.extend(stream(&[(TrackKind::Video, 0x1b)]));
        assert!(detect_stream(&late).is_some() && detect_stream(b"<html>").is_none() && detect_stream(&[]).is_none());
        let mp4 = |boxes: &[u8]| detect_stream(boxes).map(|shape| (shape.container, shape.video, shape.audio));
        let header = b"\0\0\0\x18ftypisom....moov..vide..avc1..soun..mp4a..";
        assert_eq!(mp4(header), None, "the header may be incomplete");
        let whole = [&header[..], b"moof"].concat();
        assert_eq!(mp4(&whole), Some((StreamContainer::Mp4, Some(VideoCodec::H264), true)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_inspected_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let _ = detect_stream(&bytes);
        }
    }
}
