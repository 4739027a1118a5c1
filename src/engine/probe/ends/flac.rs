//! FLAC (RFC 9639): the end of the last frames.

use std::collections::HashSet;

use super::parse_be;

/// End of the last frames in a piece of the file, seconds. `head` is the beginning of the file.
pub(super) fn end_seconds(head: &[u8], bytes: &[u8]) -> Option<f64> {
    // STREAMINFO is the first metadata block (section 8.2): 18 bytes of sizes, then sample rate, channels, depth, total
    // samples.
    if !head.starts_with(b"fLaC") || head.get(4)? & 0x7f != 0 {
        return None;
    }
    let stream_info = parse_be::<8>(head, 18)?;
    let (sample_rate, total_samples) = (stream_info >> 44, stream_info & ((1 << 36) - 1));
    let fixed_block_size = parse_be::<2>(head, 8).filter(|min_size| Some(*min_size) == parse_be::<2>(head, 10));
    if sample_rate == 0 {
        return None;
    }
    let frames = (0..bytes.len())
        .filter(|at| bytes[*at] == 0xff)
        .filter_map(|at| parse_frame_header(&bytes[at..], fixed_block_size));
    let frames: Vec<FlacFrame> = frames.filter(|frame| total_samples == 0 || frame.start < total_samples).collect();
    // A single match may be a coincidence; two consecutive frames are not.
    let ends: HashSet<u64> = frames.iter().map(|frame| frame.start + frame.samples).collect();
    let last =
        frames.iter().filter(|frame| ends.contains(&frame.start)).map(|frame| frame.start + frame.samples).max()?;
    Some(last as f64 / sample_rate as f64)
}

#[derive(Clone, Copy)]
struct FlacFrame {
    start: u64,
    samples: u64,
}

/// Parses a frame header (section 9.1). `fixed_block_size` is the block size, if the stream has a fixed one.
fn parse_frame_header(bytes: &[u8], fixed_block_size: Option<u64>) -> Option<FlacFrame> {
    let has_variable_blocks = match bytes.get(..2)? {
        [0xff, 0xf8] => false,
        [0xff, 0xf9] => true,
        _ => return None,
    };
    let (size_codes, channel_codes) = (bytes.get(2)?, bytes.get(3)?);
    if channel_codes >> 4 > 10 || channel_codes & 1 != 0 || size_codes >> 4 == 0 || size_codes & 0xf == 0xf {
        return None;
    }
    let (number, mut position) = parse_coded_number(bytes.get(4..)?)?;
    position += 4;
    let samples = match size_codes >> 4 {
        1 => 192,
        code @ 2..=5 => 576 << (code - 2),
        6 => {
            position += 1;
            parse_be::<1>(bytes, position - 1)? + 1
        }
        7 => {
            position += 2;
            parse_be::<2>(bytes, position - 2)? + 1
        }
        code => 256 << (code - 8),
    };
    position += match size_codes & 0xf {
        12 => 1,
        13 | 14 => 2,
        _ => 0,
    };
    if crc8(bytes.get(..position)?) != *bytes.get(position)? {
        return None;
    }
    let start = if has_variable_blocks { number } else { number * fixed_block_size.unwrap_or(samples) };
    Some(FlacFrame { start, samples })
}

/// A number coded like UTF-8, in up to seven bytes, and its length.
fn parse_coded_number(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let len = match first.leading_ones() as usize {
        0 => return Some((u64::from(first), 1)),
        len @ 2..=7 => len,
        _ => return None,
    };
    let first_bits = u64::from(first) & ((1 << (7 - len)) - 1);
    let rest = bytes.get(1..len)?;
    let number = rest
        .iter()
        .try_fold(first_bits, |number, byte| (byte >> 6 == 2).then_some(number << 6 | u64::from(byte & 0x3f)))?;
    Some((number, len))
}

/// CRC-8 with the polynomial x^8 + x^2 + x + 1.
fn crc8(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ byte, |sum: u8, _| if sum & 0x80 != 0 { sum << 1 ^ 0x07 } else { sum << 1 })
    })
}
