//! Sample entries (ISO/IEC 14496-12 section 8.5.2) and codec strings (RFC 6381): one file per codec family, each from
//! the codec's own configuration, and `copied` from an entry of another MP4 file.

pub mod aac;
pub mod ac3;
pub mod alac;
pub mod av1;
pub mod avc;
pub mod copied;
pub mod dolby_vision;
pub mod dts;
pub mod eac3;
pub mod esds;
pub mod flac;
pub mod hevc;
pub mod mp3;
pub mod opus;
#[cfg(test)]
mod testing;
pub mod vp9;

use h264_reader::rbsp::BitReaderError;

use super::boxes::push_box;
use super::{AudioFormat, SampleEntry, VideoFormat};
use crate::domain::bytes::{ByteCursor, Truncated, records};
use crate::domain::codec::{CodecInfo, codec_string};

/// Why a track has no sample entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    #[error("the codec's configuration is truncated or damaged")]
    Truncated,
    #[error("{0}")]
    Unsupported(&'static str),
}

impl From<Truncated> for EntryError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}

impl From<BitReaderError> for EntryError {
    fn from(_: BitReaderError) -> Self {
        Self::Truncated
    }
}

impl SampleEntry {
    /// An entry without further attributes.
    fn new(bytes: Vec<u8>, codecs: impl Into<String>) -> Self {
        Self { bytes, codecs: codecs.into(), supplemental_codecs: None, channels: None }
    }
}

/// A visual sample entry (ISO/IEC 14496-12 section 12.1.3) with the boxes that `config` writes, and those that describe
/// the format.
fn visual_entry(kind: &[u8; 4], format: &VideoFormat, config: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    push_box(&mut out, kind, |out| {
        push_data_reference(out);
        out.extend([0; 16]);
        out.extend(format.width.to_be_bytes());
        out.extend(format.height.to_be_bytes());
        // 72 dpi, horizontally and vertically; reserved; one frame in a sample; no compressor name.
        out.extend([0, 0x48, 0, 0, 0, 0x48, 0, 0, 0, 0, 0, 0, 0, 1]);
        out.extend([0; 32]);
        // Depth: colour without alpha. Then `pre_defined`.
        out.extend([0, 0x18, 0xff, 0xff]);
        config(out);
        push_format_boxes(out, format);
    });
    out
}

/// Colour, light levels and pixel aspect (ISO/IEC 14496-12 sections 12.1.4 to 12.1.7).
fn push_format_boxes(out: &mut Vec<u8>, format: &VideoFormat) {
    if let Some(color) = format.color {
        push_box(out, b"colr", |out| {
            out.extend(b"nclx");
            for code in [color.primaries, color.transfer, color.matrix] {
                out.extend(code.to_be_bytes());
            }
            out.push(u8::from(color.is_full_range) << 7);
        });
    }
    if let Some(mastering_display) = format.mastering_display {
        push_box(out, b"mdcv", |out| out.extend(mastering_display));
    }
    if let Some((max, average)) = format.content_light {
        push_box(out, b"clli", |out| out.extend([max.to_be_bytes(), average.to_be_bytes()].concat()));
    }
    if let Some((width, height)) = format.pixel_aspect {
        push_box(out, b"pasp", |out| out.extend([width.to_be_bytes(), height.to_be_bytes()].concat()));
    }
}

/// An audio sample entry of version 0 (ISO/IEC 14496-12 section 12.2.3) with the boxes that `config` writes.
fn audio_entry(kind: &[u8; 4], format: AudioFormat, config: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    push_box(&mut out, kind, |out| {
        push_data_reference(out);
        out.extend([0; 8]);
        out.extend(format.channels.to_be_bytes());
        out.extend(format.bits.to_be_bytes());
        out.extend([0; 4]);
        out.extend(entry_rate(format.sample_rate).to_be_bytes());
        out.extend([0; 2]);
        config(out);
    });
    out
}

/// The start of every sample entry: reserved bytes, and `data_reference_index` 1.
fn push_data_reference(out: &mut Vec<u8>) {
    out.extend([0, 0, 0, 0, 0, 0, 0, 1]);
}

/// The field `samplerate` has 16 bits for the integer part. Higher rates are halved until they fit, as the FLAC mapping
/// requires; decoders read the rate from the codec's configuration.
fn entry_rate(mut sample_rate: u32) -> u16 {
    while sample_rate > u32::from(u16::MAX) {
        sample_rate /= 2;
    }
    sample_rate as u16
}

/// The codec string of a configuration record, with this four-character code.
fn record_codecs(codec: &str, kind: &[u8; 4], record: &[u8]) -> Result<String, EntryError> {
    let string = codec_string(&CodecInfo { codec, config: record, ..CodecInfo::default() });
    let parameters = string.as_deref().and_then(|text| text.get(4..)).ok_or(EntryError::Truncated)?;
    Ok(String::from_utf8_lossy(kind).into_owned() + parameters)
}

/// The boxes in a body, up to the first damaged one.
fn children(body: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    records(body, 8, take_box).map_while(Result::ok)
}

pub(super) fn take_box<'a>(rest: &mut ByteCursor<'a>) -> Result<([u8; 4], &'a [u8]), Truncated> {
    let mut header = *rest;
    let size = header.u32()?;
    let kind = header.take(4)?.try_into().map_err(|_| Truncated)?;
    let size = match size {
        0 => rest.0.len() as u64,
        1 => header.u64()?,
        size => u64::from(size),
    };
    let header_bytes = rest.0.len() - header.0.len();
    let whole = rest.take(usize::try_from(size).map_err(|_| Truncated)?)?;
    Ok((kind, whole.get(header_bytes..).ok_or(Truncated)?))
}

/// The first box of this type in a body.
pub(super) fn child<'a>(body: &'a [u8], kind: &[u8; 4]) -> Option<&'a [u8]> {
    children(body).find(|(found, _)| found == kind).map(|(_, content)| content)
}
