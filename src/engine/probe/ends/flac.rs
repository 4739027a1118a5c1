//! FLAC (RFC 9639): the end of the last frames.

use std::collections::HashSet;

use super::big;

/// End of the last frames in a piece of the file, seconds. `head` is the beginning of the file.
pub(super) fn end(head: &[u8], piece: &[u8]) -> Option<f64> {
    // STREAMINFO is the first metadata block (section 8.2): 18 bytes of sizes, then sample rate, channels, depth, total
    // samples.
    if !head.starts_with(b"fLaC") || head.get(4)? & 0x7f != 0 {
        return None;
    }
    let packed = big::<8>(head, 18)?;
    let (rate, total) = (packed >> 44, packed & ((1 << 36) - 1));
    let block = big::<2>(head, 8).filter(|least| Some(*least) == big::<2>(head, 10));
    if rate == 0 {
        return None;
    }
    let frames = (0..piece.len()).filter(|at| piece[*at] == 0xff).filter_map(|at| frame(&piece[at..], block));
    let frames: Vec<Frame> = frames.filter(|frame| total == 0 || frame.start < total).collect();
    // A single match may be a coincidence; two consecutive frames are not.
    let ends: HashSet<u64> = frames.iter().map(|frame| frame.start + frame.samples).collect();
    let last =
        frames.iter().filter(|frame| ends.contains(&frame.start)).map(|frame| frame.start + frame.samples).max()?;
    Some(last as f64 / rate as f64)
}

#[derive(Clone, Copy)]
struct Frame {
    start: u64,
    samples: u64,
}

/// Parses a frame header (section 9.1). `block` is the block size, if the stream has a fixed one.
fn frame(bytes: &[u8], block: Option<u64>) -> Option<Frame> {
    let variable = match bytes.get(..2)? {
        [0xff, 0xf8] => false,
        [0xff, 0xf9] => true,
        _ => return None,
    };
    let (sizes, channels) = (bytes.get(2)?, bytes.get(3)?);
    if channels >> 4 > 10 || channels & 1 != 0 || sizes >> 4 == 0 || sizes & 0xf == 0xf {
        return None;
    }
    let (number, mut at) = coded(bytes.get(4..)?)?;
    at += 4;
    let samples = match sizes >> 4 {
        1 => 192,
        code @ 2..=5 => 576 << (code - 2),
        6 => {
            at += 1;
            big::<1>(bytes, at - 1)? + 1
        }
        7 => {
            at += 2;
            big::<2>(bytes, at - 2)? + 1
        }
        code => 256 << (code - 8),
    };
    at += match sizes & 0xf {
        12 => 1,
        13 | 14 => 2,
        _ => 0,
    };
    if checksum(bytes.get(..at)?) != *bytes.get(at)? {
        return None;
    }
    let start = if variable { number } else { number * block.unwrap_or(samples) };
    Some(Frame { start, samples })
}

/// A number coded like UTF-8, in up to seven bytes, and its length.
fn coded(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let len = match first.leading_ones() as usize {
        0 => return Some((u64::from(first), 1)),
        len @ 2..=7 => len,
        _ => return None,
    };
    let lead = u64::from(first) & ((1 << (7 - len)) - 1);
    let rest = bytes.get(1..len)?;
    let number =
        rest.iter().try_fold(lead, |number, byte| (byte >> 6 == 2).then_some(number << 6 | u64::from(byte & 0x3f)))?;
    Some((number, len))
}

/// CRC-8 with the polynomial x^8 + x^2 + x + 1.
fn checksum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ byte, |sum: u8, _| if sum & 0x80 != 0 { sum << 1 ^ 0x07 } else { sum << 1 })
    })
}
