//! The elementary stream descriptor of `mp4a` (ISO/IEC 14496-1 section 7.2.6.5, 14496-14 section 5.6).

use super::EntryError;
use crate::domain::bytes::{ByteCursor, Truncated};
use crate::domain::cmaf::boxes::push_full_box;

/// Descriptor tags.
const ES: u8 = 3;
const DECODER_CONFIG: u8 = 4;
const DECODER_SPECIFIC_INFO: u8 = 5;
const SL_CONFIG: u8 = 6;

/// Appends an `esds` box for audio. Buffer size and bit rates are unknown.
pub fn push(out: &mut Vec<u8>, object_type: u8, specific_info: Option<&[u8]>) -> Result<(), EntryError> {
    // Stream type 5 is audio, below a bit that is always set.
    let mut config = vec![object_type, 5 << 2 | 1];
    config.extend([0; 11]);
    if let Some(info) = specific_info {
        push_descriptor(&mut config, DECODER_SPECIFIC_INFO, info)?;
    }
    // An id of 0 and no flags, as in all files; `predefined` 2 is MP4.
    let mut stream = vec![0; 3];
    push_descriptor(&mut stream, DECODER_CONFIG, &config)?;
    push_descriptor(&mut stream, SL_CONFIG, &[2])?;
    let mut descriptor = Vec::new();
    push_descriptor(&mut descriptor, ES, &stream)?;
    push_full_box(out, b"esds", 0, 0, |out| out.extend(descriptor));
    Ok(())
}

/// The length is in one byte, because configurations are short.
fn push_descriptor(out: &mut Vec<u8>, tag: u8, body: &[u8]) -> Result<(), EntryError> {
    let length = u8::try_from(body.len()).ok().filter(|length| *length < 0x80);
    out.extend([tag, length.ok_or(EntryError::Unsupported("the audio configuration is too long"))?]);
    out.extend(body);
    Ok(())
}

/// The object type and the DecoderSpecificInfo, if there is one, of an `esds` box's content.
pub fn parse(esds: &[u8]) -> Result<(u8, Option<&[u8]>), Truncated> {
    let mut bytes = ByteCursor(esds);
    bytes.take(4)?;
    let mut stream = find_descriptor(bytes, ES)?;
    stream.take(2)?;
    let flags = stream.u8()?;
    stream.take(if flags & 0x80 != 0 { 2 } else { 0 })?;
    if flags & 0x40 != 0 {
        let length = stream.u8()?;
        stream.take(usize::from(length))?;
    }
    stream.take(if flags & 0x20 != 0 { 2 } else { 0 })?;
    let mut config = find_descriptor(stream, DECODER_CONFIG)?;
    let object_type = config.u8()?;
    config.take(12)?;
    Ok((object_type, find_descriptor(config, DECODER_SPECIFIC_INFO).ok().map(|info| info.0)))
}

/// The body of the first descriptor with this tag.
fn find_descriptor(mut bytes: ByteCursor<'_>, expected_tag: u8) -> Result<ByteCursor<'_>, Truncated> {
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
        if tag == expected_tag {
            return Ok(ByteCursor(body));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_configuration_is_found_after_long_lengths() {
        let esds = [
            &[0, 0, 0, 0, 3, 0x80, 0x80, 0x80, 34, 0, 1, 0][..],
            &[4, 0x80, 0x80, 0x80, 20, 0x40, 0x15, 0, 0, 0, 0, 1, 0xf4, 0, 0, 1, 0xf4, 0],
            &[5, 0x80, 0x80, 0x80, 2, 0x11, 0x90, 6, 1, 2],
        ];
        assert_eq!(parse(&esds.concat()), Ok((0x40, Some(&[0x11, 0x90][..]))));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse(&bytes);
        }
    }
}
