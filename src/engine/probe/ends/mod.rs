//! The real end of a file's media, by its last packets or frames instead of its header. Lengths in the file are not
//! trusted: every read is bounded, and malformed data yields None.

use crate::domain::media::{Container, Media};
use crate::engine::container::bytes::read_up_to;
use crate::engine::source::SourceFile;

mod asf;
mod avi;
mod flac;
mod flv;
mod wavpack;

/// Bytes read at the end of a file to find its last packets: more than any frame has, except intra-only 4K.
const TAIL_BYTES: u64 = 2 << 20;

/// The end of the last packet in seconds from the start of the media, and whether the header states more. None for other
/// containers, if the last packets were not found, or if the file is complete. For `flv`, `wavpack` and `flac` the caller
/// compares the times. Blocks on file I/O.
pub(super) fn measure_end(source: &SourceFile, media: &Media) -> Option<(f64, bool)> {
    let from_time = |seconds: f64| (seconds, false);
    let measured = match media.container {
        Container::Flv => from_time(flv::last_timestamp(&read_tail(source)?)? - media.start_seconds),
        Container::Asf => asf::measure_end(source)?,
        Container::Avi => (avi::end_seconds(source)?, true),
        Container::WavPack => from_time(wavpack::end_samples(&read_tail(source)?)? as f64 / sample_rate(media)?),
        Container::Flac => from_time(flac::end_seconds(&read_at(source, 0, 64)?, &read_tail(source)?)?),
        _ => return None,
    };
    Some(measured).filter(|(seconds, _)| seconds.is_finite() && *seconds > 0.0)
}

fn sample_rate(media: &Media) -> Option<f64> {
    media.audio_streams().next().map(|(_, audio)| f64::from(audio.sample_rate)).filter(|rate| *rate > 0.0)
}

fn read_tail(source: &SourceFile) -> Option<Vec<u8>> {
    read_at(source, source.len.saturating_sub(TAIL_BYTES), TAIL_BYTES as usize)
}

fn read_at(source: &SourceFile, offset: u64, max_bytes: usize) -> Option<Vec<u8>> {
    read_up_to(source, offset, max_bytes).ok()
}

/// The largest number of the records in a piece of the file. `parse` returns the number and the length of the record at
/// the beginning of the bytes; what is not a record is skipped.
fn largest_number(mut bytes: &[u8], parse: impl Fn(&[u8]) -> Option<(u64, usize)>) -> Option<u64> {
    let mut largest = None;
    while !bytes.is_empty() {
        let (number, len) = parse(bytes).map_or((None, 1), |(number, len)| (Some(number), len));
        largest = largest.max(number);
        bytes = bytes.get(len..).unwrap_or_default();
    }
    largest
}

fn parse_le<const N: usize>(bytes: &[u8], offset: usize) -> Option<u64> {
    let field = bytes.get(offset..offset.checked_add(N)?)?;
    Some(field.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

fn parse_be<const N: usize>(bytes: &[u8], offset: usize) -> Option<u64> {
    let field = bytes.get(offset..offset.checked_add(N)?)?;
    Some(field.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = (flv::last_timestamp(&bytes), wavpack::end_samples(&bytes), flac::end_seconds(&bytes, &bytes), asf::parse_send_end(&bytes));
            let flac = [&b"fLaC\0\0\0\x22\x10\0\x10\0\0\0\0\0\0\0\x0a\xc4\x42\xf0\0\0\0\x10"[..], &bytes].concat();
            let frame = [&b"\xff\xf8\xc9\x18"[..], &bytes].concat();
            let _ = flac::end_seconds(&flac, &frame);
            let _ = wavpack::end_samples(&[&b"wvpk\x18\0\0\0\x10\x04"[..], &bytes].concat());
        }
    }
}
