//! CMAF (ISO/IEC 23000-19): fragmented MP4 segments of one track each, laid out from tables of samples.
//!
//! Pure functions: an init segment (`init`, read back by `init_reader`) from a sample entry (`entry`), decode times (`times`),
//! and the head of a media segment (`moof`), which the samples' own bytes follow.
#![doc = include_str!("README.md")]

pub mod audio_frames;
pub mod boxes;
pub mod entry;
pub mod from_ts;
pub mod init;
pub mod init_reader;
pub mod moof;
pub mod times;

/// A sample entry, the child of `stsd` that configures a decoder (ISO/IEC 14496-12 section 8.5.2), and how a playlist
/// names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleEntry {
    /// The whole box, with its size and its four-character code.
    pub bytes: Vec<u8>,
    /// For the attribute `CODECS` (RFC 6381).
    pub codecs: String,
    /// For the attribute `SUPPLEMENTAL-CODECS`: Dolby Vision over a base layer that other decoders play.
    pub supplemental_codecs: Option<String>,
    /// For the attribute `CHANNELS`, where the number of channels is not enough, e.g. `16/JOC` for Dolby Atmos.
    pub channels: Option<String>,
}

/// The statements of a container about video, beside the decoder's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VideoFormat {
    /// Coded size, pixels.
    pub width: u16,
    pub height: u16,
    /// Width to height of a pixel, if it is not square (`pasp`).
    pub pixel_aspect: Option<(u32, u32)>,
    pub color: Option<Color>,
    /// SMPTE ST 2086, as in a `mdcv` box: 24 bytes.
    pub mastering_display: Option<[u8; 24]>,
    /// Maximum and average light level, cd/m² (`clli`).
    pub content_light: Option<(u16, u16)>,
    /// A DOVIDecoderConfigurationRecord (`dvcC` or `dvvC` without the box header).
    pub dolby_vision: Option<Vec<u8>>,
}

/// Code points of ITU-T H.273 (`colr` of type `nclx`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Color {
    pub primaries: u16,
    pub transfer: u16,
    pub matrix: u16,
    pub is_full_range: bool,
}

impl Color {
    /// For the attribute `VIDEO-RANGE` of HLS (RFC 8216bis section 4.4.6.2): by the transfer characteristics of SMPTE
    /// ST 2084 and of hybrid log-gamma.
    pub fn video_range(self) -> &'static str {
        match self.transfer {
            16 => "PQ",
            18 => "HLG",
            _ => "SDR",
        }
    }
}

/// The statements of a container about audio.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AudioFormat {
    pub channels: u16,
    /// Samples per second.
    pub sample_rate: u32,
    /// Bits of a sample, for lossless codecs.
    pub bits: u16,
}

/// One sample of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Bytes.
    pub size: u32,
    /// Decoding and presentation time, units of the track's timescale.
    pub dts: i64,
    pub pts: i64,
    pub is_keyframe: bool,
}
