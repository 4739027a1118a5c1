//! Which stream of a program map a probed stream is, and where its video can be decoded from.

use super::psi::{Pmt, PmtEntry, TrackKind};
use crate::domain::media::{Media, StreamKind};

/// An entry of a program map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectedEntry {
    pub pid: u16,
    pub stream_type: u8,
    pub kind: TrackKind,
}

/// The entry of stream `index`: ffmpeg numbers streams in the order of the map. None if the map lists another number of
/// streams of its kind than the probe, or another codec in its place.
pub fn select_entry(pmt: &Pmt, media: &Media, index: u32) -> Option<SelectedEntry> {
    let probed = media.stream(index)?;
    let is_same_kind = |kind: &StreamKind| std::mem::discriminant(kind) == std::mem::discriminant(&probed.kind);
    let same_kind = media.streams.iter().filter(|stream| is_same_kind(&stream.kind));
    let position = same_kind.clone().position(|stream| stream.index == index)?;
    let kind = match probed.kind {
        StreamKind::Video(_) => TrackKind::Video,
        StreamKind::Audio(_) => TrackKind::Audio,
        _ => return None,
    };
    let described = pmt.entries.iter().filter_map(|entry| Some((entry, content(entry)?)));
    let listed: Vec<_> = described.filter(|(_, (listed_kind, _))| *listed_kind == kind).collect();
    let &(entry, (_, codecs)) = listed.get(position)?;
    let is_match = same_kind.count() == listed.len() && codecs.contains(&probed.codec.as_str());
    is_match.then_some(SelectedEntry { pid: entry.pid, stream_type: entry.stream_type, kind })
}

/// The kind of an entry and the codecs it may have, by ffmpeg's names; None if it is neither video nor audio. Stream types
/// of ISO/IEC 13818-1 table 2-34, of ATSC (A/53) and of Blu-ray.
fn content(entry: &PmtEntry) -> Option<(TrackKind, &'static [&'static str])> {
    Some(match entry.stream_type {
        0x01 | 0x02 => (TrackKind::Video, &["mpeg2video", "mpeg1video"]),
        0x1b => (TrackKind::Video, &["h264"]),
        0x24 => (TrackKind::Video, &["hevc"]),
        // MPEG-4 part 2, MVC, VVC, AVS, Dirac and VC-1 are counted, and left to ffmpeg.
        0x10 | 0x20 | 0x33 | 0x42 | 0xd1 | 0xd2 | 0xea => (TrackKind::Video, &[]),
        0x03 | 0x04 => (TrackKind::Audio, &["mp1", "mp2", "mp3"]),
        0x0f => (TrackKind::Audio, &["aac"]),
        0x11 => (TrackKind::Audio, &["aac_latm"]),
        0x81 | 0x84 | 0x87 => (TrackKind::Audio, &["ac3", "eac3"]),
        0x82 | 0x85 | 0x8a => (TrackKind::Audio, &["dts"]),
        // PCM of Blu-ray discs.
        0x80 => (TrackKind::Audio, &[]),
        0x06 => return private_content(&entry.descriptors),
        _ => return None,
    })
}

/// The content of private data, by its descriptors (ETSI EN 300 468 table 12).
fn private_content(mut descriptors: &[u8]) -> Option<(TrackKind, &'static [&'static str])> {
    while let [tag, len, rest @ ..] = descriptors {
        let (body, rest) = rest.split_at_checked(usize::from(*len))?;
        match (tag, body) {
            (0x6a, _) | (0x05, b"AC-3") => return Some((TrackKind::Audio, &["ac3"])),
            (0x7a, _) | (0x05, b"EAC3") => return Some((TrackKind::Audio, &["eac3"])),
            (0x7b, _) | (0x05, [b'D', b'T', b'S', b'1'..=b'3']) => return Some((TrackKind::Audio, &["dts"])),
            (0x05, b"HEVC") => return Some((TrackKind::Video, &["hevc"])),
            (0x05, b"Opus") => return Some((TrackKind::Audio, &[])),
            _ => descriptors = rest,
        }
    }
    None
}

/// Whether the beginning of a frame holds a sequence header (MPEG-2) or a parameter set (H.264, HEVC), as keyframes do.
/// Multiplexers need not set the random access indicator.
pub fn starts_with_parameters(stream_type: u8, payload: &[u8]) -> bool {
    payload.windows(4).any(|bytes| match (stream_type, bytes) {
        (0x01 | 0x02, [0, 0, 1, 0xb3]) => true,
        (0x1b, [0, 0, 1, unit]) => unit & 0x1f == 7,
        (0x24, [0, 0, 1, unit]) => matches!(unit >> 1 & 0x3f, 32..=34),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::media::{Audio, Container, Stream, Video};
    use proptest::prelude::*;

    fn entry(pid: u16, stream_type: u8, descriptors: &[u8]) -> PmtEntry {
        PmtEntry { pid, stream_type, descriptors: descriptors.to_vec() }
    }

    #[test]
    fn streams_are_matched_by_kind_order_and_codec() {
        let video = StreamKind::Video(Video::new(64, 36));
        let audio = |index, codec| Stream::new(index, codec, StreamKind::Audio(Audio::new(2, 48_000)));
        let streams = vec![Stream::new(0, "h264", video), audio(1, "mp2"), Stream::default(), audio(3, "ac3")];
        let media = Media::new(Container::MpegTs, streams);
        let teletext = entry(0x102, 0x06, b"\x56\x05deu\x09\x00");
        let mut entries = vec![entry(0x100, 0x1b, b""), entry(0x101, 0x04, b""), teletext];
        entries.push(entry(0x103, 0x06, b"\x0a\x04deu\x00\x6a\x01\x00"));
        let pmt = Pmt { pcr_pid: 0x100, entries };
        let pid = |pmt: &Pmt, index| select_entry(pmt, &media, index).map(|entry| entry.pid);
        assert_eq!([0, 1, 2, 3].map(|index| pid(&pmt, index)), [Some(0x100), Some(0x101), None, Some(0x103)]);
        let with = |index: usize, changed: PmtEntry| {
            let mut pmt = pmt.clone();
            pmt.entries[index] = changed;
            pmt
        };
        assert_eq!(pid(&with(0, entry(0x100, 0x24, b"")), 0), None, "another codec");
        assert_eq!(pid(&with(2, entry(0x102, 0x0f, b"")), 1), None, "another number of audio streams");
    }

    #[test]
    fn keyframes_begin_with_their_parameters() {
        assert!(starts_with_parameters(0x02, &[0, 0, 1, 0xb3, 0x14]));
        assert!(starts_with_parameters(0x1b, &[0, 0, 0, 1, 9, 0xf0, 0, 0, 0, 1, 0x67, 0x64]));
        assert!(starts_with_parameters(0x24, &[0, 0, 1, 0x46, 1, 0x50, 0, 0, 1, 0x40, 1]));
        assert!(!starts_with_parameters(0x1b, &[0, 0, 0, 1, 9, 0xf0, 0, 0, 1, 0x41]));
        assert!(!starts_with_parameters(0x02, &[0, 0, 1, 0, 0, 0, 1]));
    }

    proptest! {
        #[test]
        fn any_descriptors_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = private_content(&bytes);
        }
    }
}
