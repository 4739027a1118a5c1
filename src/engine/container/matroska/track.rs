//! One track entry, and how its frames are compressed.

use super::ebml::{child, children, parse_text, parse_uint};
use super::track_format::{parse_audio, parse_video};
use crate::domain::cmaf::{AudioFormat, VideoFormat};
use crate::engine::container::ContainerError;

/// A track entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackEntry {
    /// The number that blocks refer to.
    pub number: u64,
    /// The unique id that tags refer to; 0 without one.
    pub uid: u64,
    /// E.g. `V_MPEG4/ISO/AVC`.
    pub codec: Vec<u8>,
    /// `CodecPrivate`: the decoder's configuration.
    pub codec_private: Vec<u8>,
    /// Default duration of a frame, nanoseconds.
    pub frame_nanos: Option<u64>,
    /// Codec delay, nanoseconds; subtracted from the time of every block.
    pub delay_nanos: u64,
    /// Bytes that were removed from the start of every frame (header stripping).
    pub stripped_bytes: Vec<u8>,
    /// BCP-47, otherwise ISO 639-2.
    pub language: Option<String>,
    /// None if this is not video.
    pub video_format: Option<VideoFormat>,
    /// None if this is not audio.
    pub audio_format: Option<AudioFormat>,
}

impl TrackEntry {
    /// `stream` is ffmpeg's number, which counts video, audio, subtitle and metadata tracks in order.
    pub(super) fn parse(tracks: &[u8], stream: u32) -> Result<(Self, Compression), ContainerError> {
        let entries = children(tracks).filter(|(id, _)| *id == 0xae).map(|(_, entry)| entry);
        let is_counted = |entry: &&[u8]| {
            let track_type = child(entry, 0x83).map_or(0, parse_uint);
            [1, 2, 0x11, 0x21].contains(&track_type)
        };
        let entry = entries.filter(is_counted).nth(stream as usize);
        let entry = entry.ok_or(ContainerError::Unsupported("there is no such track"))?;
        let bytes = |child_id: u32| child(entry, child_id).unwrap_or_default().to_vec();
        let uint = |child_id: u32| child(entry, child_id).map(parse_uint).filter(|&number| number > 0);
        let compression = Compression::parse(child(entry, 0x6d80))?;
        let track = Self {
            number: uint(0xd7).ok_or(ContainerError::Unsupported("the track has no number"))?,
            uid: uint(0x73c5).unwrap_or(0),
            codec: bytes(0x86),
            codec_private: bytes(0x63a2),
            frame_nanos: uint(0x23_e383),
            delay_nanos: uint(0x56aa).unwrap_or(0),
            stripped_bytes: match &compression {
                Compression::HeaderStripped(bytes) => bytes.clone(),
                _ => Vec::new(),
            },
            // Without an element the language is English (RFC 9559 section 5.1.4.1.19).
            language: [0x22_b59d, 0x22_b59c]
                .into_iter()
                .find_map(|id| child(entry, id))
                .map_or(Some("eng".into()), parse_text),
            video_format: parse_video(entry),
            audio_format: parse_audio(entry),
        };
        Ok((track, compression))
    }

    /// Whether this is H.264 with an avcC record.
    pub fn is_h264(&self) -> bool {
        self.codec == b"V_MPEG4/ISO/AVC"
    }
}

/// Compression of a track's frames (RFC 9559 section 5.1.4.1.31).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    Zlib,
    /// Header stripping: these bytes were removed from the start of every frame.
    HeaderStripped(Vec<u8>),
}

impl Compression {
    fn parse(encodings: Option<&[u8]>) -> Result<Self, ContainerError> {
        let Some(encodings) = encodings else { return Ok(Self::None) };
        let unsupported = Err(ContainerError::Unsupported("the track is compressed or encrypted"));
        let mut entries = children(encodings).filter(|(id, _)| *id == 0x6240);
        let (Some((_, encoding)), None) = (entries.next(), entries.next()) else { return unsupported };
        let uint = |parent: &[u8], id, default| child(parent, id).map_or(default, parse_uint);
        // Only the frames may be compressed, and nothing encrypted.
        if uint(encoding, 0x5032, 1) != 1 || uint(encoding, 0x5033, 0) != 0 {
            return unsupported;
        }
        let compression = child(encoding, 0x5034).unwrap_or_default();
        match uint(compression, 0x4254, 0) {
            0 => Ok(Self::Zlib),
            3 => Ok(Self::HeaderStripped(child(compression, 0x4255).unwrap_or_default().to_vec())),
            _ => unsupported,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compression_is_parsed_and_unknown_encodings_are_refused() {
        let element = |id: u16, body: &[u8]| [&id.to_be_bytes()[..], &[0x80 | body.len() as u8], body].concat();
        let encoding = |content: &[u8]| element(0x6240, &[&element(0x5031, &[0]), content].concat());
        let compressed = |content: &[u8]| encoding(&element(0x5034, content));
        let parse = |bytes: &[u8]| Compression::parse(Some(bytes)).ok();
        assert_eq!(Compression::parse(None), Ok(Compression::None));
        assert_eq!(parse(&compressed(&[])), Some(Compression::Zlib));
        let stripped = [element(0x4254, &[3]), element(0x4255, &[1, 2])].concat();
        assert_eq!(parse(&compressed(&stripped)), Some(Compression::HeaderStripped(vec![1, 2])));
        for unsupported in [
            compressed(&element(0x4254, &[2])),
            encoding(&element(0x5033, &[1])),
            encoding(&element(0x5032, &[3])),
            [compressed(&[]), compressed(&[])].concat(),
            Vec::new(),
        ] {
            assert_eq!(parse(&unsupported), None);
        }
    }
}
