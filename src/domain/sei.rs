//! Supplemental enhancement information (SEI) of H.264 and HEVC (ITU-T H.264 section 7.3.2.3.1, ITU-T H.265 section 7.3.5).

use std::io::Read;
use std::num::NonZeroUsize;

use h264_reader::rbsp::ByteReader;

use super::bytes::{ByteCursor, Truncated};

/// `payloadType` of messages registered by ITU-T T.35.
pub const REGISTERED_BY_T35: u32 = 4;

/// Passes the type and the content of every message of a NAL unit to `read`, up to one that is damaged. `header_bytes` is 1 for
/// H.264 and 2 for HEVC.
pub fn read_messages(unit: &[u8], header_bytes: NonZeroUsize, mut read: impl FnMut(u32, &[u8])) {
    let mut bytes = Vec::new();
    // What precedes damage counts.
    let _ = ByteReader::skipping_bytes(unit, header_bytes).read_to_end(&mut bytes);
    let mut cursor = ByteCursor(&bytes);
    // The last byte has the trailing bits.
    while cursor.0.len() > 1 {
        let Ok((kind, content)) = read_message(&mut cursor) else { return };
        read(kind, content);
    }
}

/// Whether a NAL unit of messages of H.264 says that decoding may begin with its picture: a recovery point whose
/// `recovery_frame_cnt`, an Exp-Golomb number, is 0 (ITU-T H.264 sections D.1.8 and D.2.8). With gradual refresh it is more.
pub fn has_recovery_point(unit: &[u8]) -> bool {
    const RECOVERY_POINT: u32 = 6;
    let mut is_found = false;
    read_messages(unit, NonZeroUsize::MIN, |kind, content| {
        is_found |= kind == RECOVERY_POINT && content.first().is_some_and(|first| first & 0x80 != 0);
    });
    is_found
}

fn read_message<'a>(bytes: &mut ByteCursor<'a>) -> Result<(u32, &'a [u8]), Truncated> {
    let kind = read_number(bytes)?;
    let size = read_number(bytes)?;
    Ok((kind, bytes.take(size as usize)?))
}

/// A number in bytes that add up, of which only the last is not 255.
fn read_number(bytes: &mut ByteCursor) -> Result<u32, Truncated> {
    let mut sum = 0u32;
    loop {
        let byte = bytes.u8()?;
        sum = sum.saturating_add(byte.into());
        if byte != 255 {
            return Ok(sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(unit: &[u8], header_bytes: usize) -> Vec<(u32, Vec<u8>)> {
        let mut found = Vec::new();
        read_messages(unit, NonZeroUsize::new(header_bytes).unwrap(), |kind, content| {
            found.push((kind, content.to_vec()))
        });
        found
    }

    #[test]
    fn messages_are_read_without_emulation_prevention() {
        let unit = [6, 4, 3, 0, 0, 3, 1, 255, 2, 1, 9, 0x80];
        assert_eq!(messages(&unit, 1), [(4, vec![0, 0, 1]), (257, vec![9])]);
        assert_eq!(messages(&[0x4e, 1, 4, 1, 7, 0x80], 2), [(4, vec![7])]);
    }

    #[test]
    fn recovery_points_without_gradual_refresh_are_found() {
        // After a timing message.
        assert!(has_recovery_point(&[6, 1, 1, 0x55, 6, 1, 0x84, 0x80]));
        assert!(!has_recovery_point(&[6, 6, 1, 0x44, 0x80]));
        assert!(!has_recovery_point(&[6, 5, 1, 0x84, 0x80]) && !has_recovery_point(&[6, 6, 0, 0x80]));
    }

    #[test]
    fn damage_ends_the_messages() {
        assert_eq!(messages(&[6, 4, 1, 7, 4, 200, 1, 0x80], 1), [(4, vec![7])]);
        for unit in [&[][..], &[6], &[6, 0x80], &[6, 255, 255]] {
            assert_eq!(messages(unit, 1), [], "{unit:?}");
        }
    }
}
