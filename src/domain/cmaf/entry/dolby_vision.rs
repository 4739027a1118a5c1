//! Dolby Vision in ISO base media files ("Dolby Vision Streams Within the ISO Base Media File Format" 2.4) and in HLS
//! (draft-pantos-hls-rfc8216bis section 4.4.6.2).

use super::EntryError;
use crate::domain::cmaf::boxes::push_box;

/// Size of a DOVIDecoderConfigurationRecord, bytes. The last 18 are reserved.
const RECORD_BYTES: usize = 24;

/// How a stream is signalled to players.
#[derive(Debug, PartialEq, Eq)]
pub enum Signalling {
    /// Profile 5: the base layer is of no use to other decoders. `codecs` replaces the base layer's string.
    Only { codecs: String, record: [u8; RECORD_BYTES] },
    /// Profile 8: decoders of the base layer play it. `codecs` is for `SUPPLEMENTAL-CODECS`.
    Supplemental { codecs: String, record: [u8; RECORD_BYTES] },
}

impl Signalling {
    /// None if the stream is to be signalled as its base layer only. This includes profile 7, whose enhancement layer
    /// is in NAL units of types 62 and 63, which HEVC decoders ignore, and which streaming players do not decode.
    pub fn parse(record: &[u8], transfer: Option<u16>) -> Result<Option<Self>, EntryError> {
        let [_, _, profile_and_level, level_and_flags, compatibility, ..] = *record else {
            return Err(EntryError::Truncated);
        };
        let has_base_layer = level_and_flags & 1 != 0;
        if !has_base_layer {
            return Err(EntryError::Unsupported("the track is a Dolby Vision enhancement layer without a base layer"));
        }
        let profile = profile_and_level >> 1;
        let level = (profile_and_level & 1) << 5 | level_and_flags >> 3;
        let codecs = format!("dvh1.{profile:02}.{level:02}");
        let mut padded = [0; RECORD_BYTES];
        let used = record.len().min(RECORD_BYTES);
        padded[..used].copy_from_slice(&record[..used]);
        Ok(match (profile, compatibility_brand(compatibility >> 4, transfer)) {
            (5, _) => Some(Self::Only { codecs, record: padded }),
            (8, Some(brand)) => Some(Self::Supplemental { codecs: format!("{codecs}/{brand}"), record: padded }),
            _ => None,
        })
    }

    /// `dvcC` for profiles up to 7, `dvvC` for 8 to 10.
    pub fn push_configuration(&self, out: &mut Vec<u8>) {
        let (kind, record) = match self {
            Self::Only { record, .. } => (b"dvcC", record),
            Self::Supplemental { record, .. } => (b"dvvC", record),
        };
        push_box(out, kind, |out| out.extend(record));
    }
}

/// The brand of a base layer (<https://mp4ra.org/registered-types/brands>), by `dv_bl_signal_compatibility_id`: HDR10,
/// SDR, and HLG, which may be signalled with the transfer characteristics of SDR (14 of ITU-T H.273).
fn compatibility_brand(compatibility: u8, transfer: Option<u16>) -> Option<&'static str> {
    match compatibility {
        1 => Some("db1p"),
        2 => Some("db2g"),
        4 if transfer == Some(14) => Some("db4g"),
        4 => Some("db4h"),
        _ => None,
    }
}
