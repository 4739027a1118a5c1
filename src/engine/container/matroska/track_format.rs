//! The fields of a track entry about video and audio, beside the codec's configuration (RFC 9559 sections 5.1.4.1.28,
//! 5.1.4.1.29 and 5.1.4.1.17).

use super::ebml::{child, children, parse_uint};
use crate::domain::cmaf::{AudioFormat, Color, VideoFormat};

const VIDEO: u32 = 0xe0;
const PIXEL_WIDTH: u32 = 0xb0;
const PIXEL_HEIGHT: u32 = 0xba;
/// Bottom, top, left, right.
const CROPS: [u32; 4] = [0x54aa, 0x54bb, 0x54cc, 0x54dd];
const DISPLAY_WIDTH: u32 = 0x54b0;
const DISPLAY_HEIGHT: u32 = 0x54ba;
const DISPLAY_UNIT: u32 = 0x54b2;
const COLOUR: u32 = 0x55b0;
const MATRIX: u32 = 0x55b1;
const RANGE: u32 = 0x55b9;
const TRANSFER: u32 = 0x55ba;
const PRIMARIES: u32 = 0x55bb;
const MAX_LIGHT: u32 = 0x55bc;
const AVERAGE_LIGHT: u32 = 0x55bd;
const MASTERING: u32 = 0x55d0;
/// Chromaticities in the order of SMPTE ST 2086: green, blue, red, white point; x and y of each.
const CHROMATICITIES: [u32; 8] = [0x55d3, 0x55d4, 0x55d5, 0x55d6, 0x55d1, 0x55d2, 0x55d7, 0x55d8];
/// Maximum and minimum.
const LUMINANCES: [u32; 2] = [0x55d9, 0x55da];
const BLOCK_ADDITION_MAPPING: u32 = 0x41e4;
const BLOCK_ADD_ID_TYPE: u32 = 0x41e7;
const BLOCK_ADD_ID_EXTRA_DATA: u32 = 0x41ed;
const AUDIO: u32 = 0xe1;
const SAMPLING_FREQUENCY: u32 = 0xb5;
const CHANNELS: u32 = 0x9f;
const BIT_DEPTH: u32 = 0x6264;

/// None without a `Video` element, or if the size is missing.
pub(super) fn parse_video(entry: &[u8]) -> Option<VideoFormat> {
    let video = child(entry, VIDEO)?;
    let side = |id| child(video, id).and_then(|bytes| u16::try_from(parse_uint(bytes)).ok()).filter(|&side| side > 0);
    let (width, height) = (side(PIXEL_WIDTH)?, side(PIXEL_HEIGHT)?);
    let colour = child(video, COLOUR);
    Some(VideoFormat {
        width,
        height,
        pixel_aspect: parse_pixel_aspect(video, width, height),
        color: colour.and_then(parse_color),
        mastering_display: colour.and_then(|colour| parse_mastering(child(colour, MASTERING)?)),
        content_light: colour.and_then(parse_content_light),
        dolby_vision: parse_dolby_vision(entry),
    })
}

/// Width to height of a pixel: that of the display to that of the cropped frame. None if pixels are square.
fn parse_pixel_aspect(video: &[u8], width: u16, height: u16) -> Option<(u32, u32)> {
    const UNKNOWN_UNIT: u64 = 4;
    let uint = |id| child(video, id).map(parse_uint);
    let [bottom, top, left, right] = CROPS.map(|id| uint(id).unwrap_or(0));
    let width = u64::from(width).checked_sub(left.checked_add(right)?).filter(|&side| side > 0)?;
    let height = u64::from(height).checked_sub(top.checked_add(bottom)?).filter(|&side| side > 0)?;
    if uint(DISPLAY_UNIT) == Some(UNKNOWN_UNIT) {
        return None;
    }
    let display = |id, default| uint(id).filter(|&side| side > 0).unwrap_or(default);
    let horizontal = display(DISPLAY_WIDTH, width).checked_mul(height)?;
    let vertical = display(DISPLAY_HEIGHT, height).checked_mul(width)?;
    let divisor = crate::domain::greatest_common_divisor(horizontal, vertical);
    let aspect = (u32::try_from(horizontal / divisor).ok()?, u32::try_from(vertical / divisor).ok()?);
    Some(aspect).filter(|aspect| aspect.0 != aspect.1)
}

/// None unless the transfer characteristics, primaries or matrix are stated.
fn parse_color(colour: &[u8]) -> Option<Color> {
    const UNSPECIFIED: u16 = 2;
    const FULL_RANGE: u64 = 2;
    let code = |id| child(colour, id).and_then(|bytes| u16::try_from(parse_uint(bytes)).ok());
    let codes = [PRIMARIES, TRANSFER, MATRIX].map(|id| code(id).unwrap_or(UNSPECIFIED));
    let is_full_range = child(colour, RANGE).map(parse_uint) == Some(FULL_RANGE);
    let [primaries, transfer, matrix] = codes;
    let is_stated = codes != [UNSPECIFIED; 3] || is_full_range;
    is_stated.then_some(Color { primaries, transfer, matrix, is_full_range })
}

/// A `mdcv` body: chromaticities in units of 0.00002, luminances of 0.0001 cd/m².
fn parse_mastering(mastering: &[u8]) -> Option<[u8; 24]> {
    let scaled = |id, units: f64| child(mastering, id).and_then(parse_float).map(|value| (value * units).round());
    let mut out = [0; 24];
    for (field, id) in out[..16].as_chunks_mut::<2>().0.iter_mut().zip(CHROMATICITIES) {
        *field = (scaled(id, 50_000.0)? as u16).to_be_bytes();
    }
    for (field, id) in out[16..].as_chunks_mut::<4>().0.iter_mut().zip(LUMINANCES) {
        *field = (scaled(id, 10_000.0)? as u32).to_be_bytes();
    }
    Some(out)
}

fn parse_content_light(colour: &[u8]) -> Option<(u16, u16)> {
    let level = |id| child(colour, id).and_then(|bytes| u16::try_from(parse_uint(bytes)).ok());
    Some((level(MAX_LIGHT)?, level(AVERAGE_LIGHT)?))
}

/// The Dolby Vision configuration among the block additions ("Dolby Vision Streams Within the Matroska Container").
fn parse_dolby_vision(entry: &[u8]) -> Option<Vec<u8>> {
    const TYPES: [&[u8; 4]; 3] = [b"dvcC", b"dvvC", b"dvwC"];
    children(entry).filter(|(id, _)| *id == BLOCK_ADDITION_MAPPING).find_map(|(_, mapping)| {
        let kind = u32::try_from(child(mapping, BLOCK_ADD_ID_TYPE).map(parse_uint)?).ok()?.to_be_bytes();
        TYPES.contains(&&kind).then_some(child(mapping, BLOCK_ADD_ID_EXTRA_DATA)?.to_vec())
    })
}

/// None without an `Audio` element. A rate that is not stated is 8 kHz, as the element's default.
pub(super) fn parse_audio(entry: &[u8]) -> Option<AudioFormat> {
    let audio = child(entry, AUDIO)?;
    let number = |id| child(audio, id).and_then(|bytes| u16::try_from(parse_uint(bytes)).ok());
    Some(AudioFormat {
        channels: number(CHANNELS).unwrap_or(1),
        sample_rate: child(audio, SAMPLING_FREQUENCY).and_then(parse_float).unwrap_or(8000.0).round() as u32,
        bits: number(BIT_DEPTH).unwrap_or(16),
    })
}

/// A float of 4 or 8 bytes (RFC 8794 section 7.3), if it is finite.
fn parse_float(bytes: &[u8]) -> Option<f64> {
    let value = match *bytes {
        [a, b, c, d] => f32::from_be_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => f64::from_be_bytes([a, b, c, d, e, f, g, h]),
        _ => return None,
    };
    Some(value).filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn element(id: u32, body: &[u8]) -> Vec<u8> {
        let id = id.to_be_bytes();
        let used = id.iter().position(|&byte| byte != 0).unwrap();
        [&id[used..], &[0x40 | (body.len() >> 8) as u8, body.len() as u8], body].concat()
    }

    fn number(id: u32, value: u32) -> Vec<u8> {
        element(id, &value.to_be_bytes())
    }

    #[test]
    fn size_aspect_and_colour_are_parsed() {
        let colour = [
            number(PRIMARIES, 9),
            number(TRANSFER, 16),
            number(MATRIX, 9),
            number(RANGE, 1),
            number(MAX_LIGHT, 1000),
            number(AVERAGE_LIGHT, 400),
            element(
                MASTERING,
                &[
                    CHROMATICITIES.map(|id| element(id, &0.5f32.to_be_bytes())).concat(),
                    LUMINANCES.map(|id| element(id, &1000f64.to_be_bytes())).concat(),
                ]
                .concat(),
            ),
        ];
        let video = [
            number(PIXEL_WIDTH, 720),
            number(PIXEL_HEIGHT, 576),
            number(DISPLAY_WIDTH, 16),
            number(DISPLAY_HEIGHT, 9),
            number(DISPLAY_UNIT, 3),
            element(COLOUR, &colour.concat()),
        ];
        let dovi =
            [number(BLOCK_ADD_ID_TYPE, u32::from_be_bytes(*b"dvvC")), element(BLOCK_ADD_ID_EXTRA_DATA, &[7; 24])];
        let entry = [element(VIDEO, &video.concat()), element(BLOCK_ADDITION_MAPPING, &dovi.concat())].concat();
        let format = parse_video(&entry).unwrap();
        assert_eq!((format.width, format.height, format.pixel_aspect), (720, 576, Some((64, 45))));
        assert_eq!(format.color, Some(Color { primaries: 9, transfer: 16, matrix: 9, is_full_range: false }));
        assert_eq!(format.content_light, Some((1000, 400)));
        let mastering = format.mastering_display.unwrap();
        assert_eq!(mastering[..2], 25_000u16.to_be_bytes());
        assert_eq!(mastering[16..20], 10_000_000u32.to_be_bytes());
        assert_eq!(format.dolby_vision, Some(vec![7; 24]));
    }

    #[test]
    fn pixels_of_a_cropped_frame_are_square() {
        let crops =
            [number(CROPS[0], 4), number(CROPS[1], 4), number(DISPLAY_WIDTH, 1920), number(DISPLAY_HEIGHT, 1080)];
        let video = [number(PIXEL_WIDTH, 1920), number(PIXEL_HEIGHT, 1088), crops.concat()].concat();
        assert_eq!(parse_video(&element(VIDEO, &video)).unwrap().pixel_aspect, None);
        let audio =
            element(AUDIO, &[element(SAMPLING_FREQUENCY, &44_100f32.to_be_bytes()), number(CHANNELS, 6)].concat());
        assert_eq!(parse_audio(&audio), Some(AudioFormat { channels: 6, sample_rate: 44_100, bits: 16 }));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = (parse_video(&bytes), parse_audio(&bytes));
            let _ = (parse_video(&element(VIDEO, &bytes)), parse_audio(&element(AUDIO, &bytes)));
            let _ = (parse_color(&bytes), parse_mastering(&bytes), parse_dolby_vision(&bytes));
        }
    }
}
