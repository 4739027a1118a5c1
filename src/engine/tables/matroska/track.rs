//! One track entry, and how its frames are compressed.

use super::ebml::{children, number};
use crate::engine::tables::Refusal;

/// A track entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// The number that blocks refer to.
    pub number: u64,
    /// E.g. `V_MPEG4/ISO/AVC`.
    pub codec: Vec<u8>,
    /// `CodecPrivate`: the decoder's configuration.
    pub private: Vec<u8>,
    /// Default duration of a frame, nanoseconds.
    pub duration: Option<u64>,
    /// Codec delay, nanoseconds; subtracted from the time of every block.
    pub delay: u64,
}

impl Track {
    /// `stream` is ffmpeg's number, which counts video, audio, subtitle and metadata tracks in order.
    pub(super) fn read(tracks: &[u8], stream: u32) -> Result<(Self, Packing), Refusal> {
        let entries = children(tracks).filter(|(id, _)| *id == 0xae).map(|(_, entry)| entry);
        let counted = |entry: &&[u8]| {
            let kind = children(entry).find(|(id, _)| *id == 0x83).map_or(0, |(_, bytes)| number(bytes));
            [1, 2, 0x11, 0x21].contains(&kind)
        };
        let entry = entries.filter(counted).nth(stream as usize).ok_or(Refusal::Unread("there is no such track"))?;
        let part = |wanted: u32| part(entry, wanted);
        let figure = |wanted: u32| part(wanted).map(self::number).filter(|&number| number > 0);
        let packing = Packing::read(part(0x6d80))?;
        let track = Self {
            number: figure(0xd7).ok_or(Refusal::Unread("the track has no number"))?,
            codec: part(0x86).unwrap_or_default().to_vec(),
            private: part(0x63a2).unwrap_or_default().to_vec(),
            duration: figure(0x23_e383),
            delay: figure(0x56aa).unwrap_or(0),
        };
        Ok((track, packing))
    }

    /// Whether this is H.264 with an avcC record.
    pub fn is_avc(&self) -> bool {
        self.codec == b"V_MPEG4/ISO/AVC"
    }
}

/// Compression of a track's frames (RFC 9559 section 5.1.4.1.31).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packing {
    None,
    Zlib,
    /// Header stripping: these bytes were removed from the start of every frame.
    Stripped(Vec<u8>),
}

impl Packing {
    fn read(encodings: Option<&[u8]>) -> Result<Self, Refusal> {
        let Some(encodings) = encodings else { return Ok(Self::None) };
        let unread = Err(Refusal::Unread("the track is compressed or encrypted"));
        let mut each = children(encodings).filter(|(id, _)| *id == 0x6240);
        let (Some((_, encoding)), None) = (each.next(), each.next()) else { return unread };
        let figure = |whole: &[u8], id, otherwise| part(whole, id).map_or(otherwise, number);
        // Only the frames may be compressed, and nothing encrypted.
        if figure(encoding, 0x5032, 1) != 1 || figure(encoding, 0x5033, 0) != 0 {
            return unread;
        }
        let packing = part(encoding, 0x5034).unwrap_or_default();
        match figure(packing, 0x4254, 0) {
            0 => Ok(Self::Zlib),
            3 => Ok(Self::Stripped(part(packing, 0x4255).unwrap_or_default().to_vec())),
            _ => unread,
        }
    }
}

fn part(whole: &[u8], wanted: u32) -> Option<&[u8]> {
    children(whole).find(|(id, _)| *id == wanted).map(|(_, bytes)| bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_is_read_and_what_is_not_known_is_refused() {
        let element = |id: u16, body: &[u8]| [&id.to_be_bytes()[..], &[0x80 | body.len() as u8], body].concat();
        let encoding = |inside: &[u8]| element(0x6240, &[&element(0x5031, &[0]), inside].concat());
        let packed = |inside: &[u8]| encoding(&element(0x5034, inside));
        let read = |bytes: &[u8]| Packing::read(Some(bytes)).ok();
        assert_eq!(Packing::read(None), Ok(Packing::None));
        assert_eq!(read(&packed(&[])), Some(Packing::Zlib));
        let stripped = [element(0x4254, &[3]), element(0x4255, &[1, 2])].concat();
        assert_eq!(read(&packed(&stripped)), Some(Packing::Stripped(vec![1, 2])));
        for odd in [
            packed(&element(0x4254, &[2])),
            encoding(&element(0x5033, &[1])),
            encoding(&element(0x5032, &[3])),
            [packed(&[]), packed(&[])].concat(),
            Vec::new(),
        ] {
            assert_eq!(read(&odd), None);
        }
    }
}
