//! The sample description (`stsd`): the decoder's configuration.

use super::super::Refusal;
use super::super::bytes::{Cursor, Short};
use super::boxes::{child, children, full};

/// The sample description of a track, which must have exactly one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Description {
    /// The record of ISO/IEC 14496-15 section 5.3.3.1 (`avcC`).
    Avc(Vec<u8>),
    /// MPEG-4 audio: the AudioSpecificConfig of ISO/IEC 14496-3 section 1.6.2.1.
    Aac(Vec<u8>),
    /// Any other codec, by its four-character code.
    Other([u8; 4]),
}

/// Size of a visual sample entry before its boxes, bytes.
const VISUAL: usize = 78;

/// Size of an audio sample entry before its boxes, bytes: ISO, and QuickTime's versions 1 and 2.
const AUDIO: [usize; 3] = [28, 44, 64];

pub(super) fn read(stsd: &[u8]) -> Result<Description, Refusal> {
    let (_, _, mut cursor) = full(stsd)?;
    if cursor.u32()? != 1 {
        return Err(Refusal::Final("the track has several sample descriptions".into()));
    }
    let Some((kind, entry)) = children(cursor.0).next() else { return Err(Short.into()) };
    Ok(match &kind {
        b"avc1" | b"avc2" | b"avc3" | b"avc4" => {
            let avcc = entry.get(VISUAL..).and_then(|boxes| child(boxes, b"avcC"));
            Description::Avc(avcc.ok_or(Refusal::Unread("there is no avcC"))?.to_vec())
        }
        b"mp4a" => {
            let esds = AUDIO.iter().find_map(|&fixed| {
                let boxes = entry.get(fixed..)?;
                child(boxes, b"esds").or_else(|| child(child(boxes, b"wave")?, b"esds"))
            });
            match esds.map(decoder) {
                // MPEG-4 audio (ISO/IEC 14496-3), and the three profiles of 13818-7.
                Some(Ok((0x40 | 0x66..=0x68, config))) => Description::Aac(config),
                _ => Description::Other(kind),
            }
        }
        _ => Description::Other(kind),
    })
}

/// The object type and the DecoderSpecificInfo in an elementary stream descriptor (ISO/IEC 14496-1 section 7.2.6.5).
fn decoder(esds: &[u8]) -> Result<(u8, Vec<u8>), Short> {
    let (_, _, cursor) = full(esds)?;
    let mut stream = descriptor(cursor, 3)?;
    stream.take(2)?;
    let flags = stream.u8()?;
    stream.take(if flags & 0x80 != 0 { 2 } else { 0 })?;
    if flags & 0x40 != 0 {
        let length = stream.u8()?;
        stream.take(usize::from(length))?;
    }
    stream.take(if flags & 0x20 != 0 { 2 } else { 0 })?;
    let mut config = descriptor(stream, 4)?;
    let object = config.u8()?;
    config.take(12)?;
    Ok((object, descriptor(config, 5)?.0.to_vec()))
}

/// The body of the first descriptor with this tag.
fn descriptor(mut bytes: Cursor, wanted: u8) -> Result<Cursor, Short> {
    loop {
        let tag = bytes.u8()?;
        let mut length = 0usize;
        for _ in 0..4 {
            let byte = bytes.u8()?;
            length = length << 7 | usize::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                break;
            }
        }
        // A descriptor that is longer than its box is truncated.
        let body = bytes.take(length.min(bytes.0.len()))?;
        if tag == wanted {
            return Ok(Cursor(body));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_configuration_is_found_behind_long_lengths() {
        let esds = [
            &[0, 0, 0, 0, 3, 0x80, 0x80, 0x80, 34, 0, 1, 0][..],
            &[4, 0x80, 0x80, 0x80, 20, 0x40, 0x15, 0, 0, 0, 0, 1, 0xf4, 0, 0, 1, 0xf4, 0],
            &[5, 0x80, 0x80, 0x80, 2, 0x11, 0x90, 6, 1, 2],
        ];
        assert_eq!(decoder(&esds.concat()), Ok((0x40, vec![0x11, 0x90])));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = (decoder(&bytes), read(&bytes));
        }
    }
}
