//! Which stream of a program stream a probed stream is.

use super::packet::PacketHeader;
use crate::domain::media::{Media, StreamKind};
use crate::domain::mpegts::psi::TrackKind;

/// Length of the header of DVD audio in private stream 1: number of the substream, of frames, and an offset.
const SUBSTREAM_HEADER_LEN: usize = 4;

/// The number of a stream in its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamId {
    Plain(u8),
    /// A substream of private stream 1.
    Private(u8),
}

impl StreamId {
    /// The stream of a packet, whose payload begins with `payload`. None if it is neither video nor audio.
    pub fn of_packet(header: &PacketHeader, payload: &[u8]) -> Option<Self> {
        let id = match header.stream_id {
            0xbd if payload.len() >= SUBSTREAM_HEADER_LEN => Self::Private(*payload.first()?),
            0xbd => return None,
            id => Self::Plain(id),
        };
        id.content().map(|_| id)
    }

    /// The bytes of the stream itself in the payload of one of its packets.
    pub fn media_bytes(self, payload: &[u8]) -> &[u8] {
        let skipped = if matches!(self, Self::Private(_)) { SUBSTREAM_HEADER_LEN } else { 0 };
        payload.get(skipped..).unwrap_or_default()
    }

    pub fn kind(self) -> Option<TrackKind> {
        self.content().map(|(kind, _)| kind)
    }

    /// The kind, and the codecs that are read, by ffmpeg's names. ffmpeg numbers the substreams in the same way.
    fn content(self) -> Option<(TrackKind, &'static [&'static str])> {
        Some(match self {
            Self::Plain(0xe0..=0xef) => (TrackKind::Video, &["mpeg1video", "mpeg2video"]),
            Self::Plain(0xc0..=0xdf) => (TrackKind::Audio, &["mp1", "mp2", "mp3", "aac", "aac_latm"]),
            Self::Private(0x80..=0x87) => (TrackKind::Audio, &["ac3"]),
            Self::Private(0x88..=0x8f | 0x98..=0x9f) => (TrackKind::Audio, &["dts"]),
            Self::Private(0xc0..=0xcf) => (TrackKind::Audio, &["ac3", "eac3"]),
            // LPCM and TrueHD are counted, and left to ffmpeg.
            Self::Private(0xa0..=0xbf) => (TrackKind::Audio, &[]),
            _ => return None,
        })
    }
}

/// Whether a program stream may contain this codec in a form that is read.
pub fn is_readable_codec(codec: &str) -> bool {
    let ids = [StreamId::Plain(0xe0), StreamId::Plain(0xc0), StreamId::Private(0x88), StreamId::Private(0xc0)];
    ids.iter().any(|id| id.content().is_some_and(|(_, codecs)| codecs.contains(&codec)))
}

/// The id of stream `index`: ffmpeg numbers streams in the order of their first packets, which is that of `ids`. None if the file
/// begins with another number of streams of its kind than the probe found, or with another codec in its place.
pub fn select_stream(ids: &[StreamId], media: &Media, index: u32) -> Option<StreamId> {
    let probed = media.stream(index)?;
    let kind = match probed.kind {
        StreamKind::Video(_) => TrackKind::Video,
        StreamKind::Audio(_) => TrackKind::Audio,
        _ => return None,
    };
    let is_same_kind = |kind: &StreamKind| std::mem::discriminant(kind) == std::mem::discriminant(&probed.kind);
    let same_kind = media.streams.iter().filter(|stream| is_same_kind(&stream.kind));
    let position = same_kind.clone().position(|stream| stream.index == index)?;
    let listed: Vec<StreamId> = ids.iter().copied().filter(|id| id.kind() == Some(kind)).collect();
    let (_, codecs) = listed.get(position)?.content()?;
    let is_match = same_kind.count() == listed.len() && codecs.contains(&probed.codec.as_str());
    is_match.then(|| listed[position])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::media::{Audio, Container, Stream, Video};

    #[test]
    fn streams_are_matched_by_kind_order_and_codec() {
        let video = StreamKind::Video(Video::new(64, 36));
        let audio = |index, codec| Stream::new(index, codec, StreamKind::Audio(Audio::new(2, 48_000)));
        let streams = vec![Stream::default(), Stream::new(1, "mpeg2video", video), audio(2, "ac3"), audio(3, "mp2")];
        let media = Media::new(Container::MpegPs, streams);
        let mut ids = vec![StreamId::Private(0x81), StreamId::Plain(0xe0), StreamId::Plain(0xc0)];
        let selected = |ids: &[StreamId]| [0, 1, 2, 3, 4].map(|index| select_stream(ids, &media, index));
        let (private, plain) = (|id| Some(StreamId::Private(id)), |id| Some(StreamId::Plain(id)));
        assert_eq!(selected(&ids), [None, plain(0xe0), private(0x81), plain(0xc0), None]);
        ids.swap(0, 2);
        assert_eq!(selected(&ids), [None, plain(0xe0), None, None, None], "another order");
        ids.push(StreamId::Private(0xa0));
        assert_eq!(selected(&ids)[3], None, "another number of audio streams");
    }

    #[test]
    fn only_video_and_audio_packets_are_read() {
        let id_of = |stream_id, payload: &[u8]| {
            let header = PacketHeader { stream_id, header_len: 9, total_len: 100, pts: None, dts: None };
            StreamId::of_packet(&header, payload)
        };
        assert_eq!(id_of(0xe0, &[]), Some(StreamId::Plain(0xe0)));
        assert_eq!(id_of(0xbd, &[0x80, 1, 0, 1, 0x0b]), Some(StreamId::Private(0x80)));
        assert_eq!(id_of(0xbd, &[0x80]), None, "too short");
        assert_eq!(id_of(0xbd, &[0x20, 0, 0, 0, 0]), None, "subtitles");
        assert_eq!(StreamId::Private(0x80).media_bytes(&[0x80, 1, 0, 1, 0x0b]), [0x0b]);
        assert_eq!(StreamId::Plain(0xc0).media_bytes(&[0xff]), [0xff]);
        assert!(is_readable_codec("mpeg1video") && is_readable_codec("ac3") && is_readable_codec("dts"));
        assert!(!is_readable_codec("pcm_dvd") && !is_readable_codec("h264"));
    }
}
