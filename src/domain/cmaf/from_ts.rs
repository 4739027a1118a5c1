//! CMAF segments from MPEG-TS segments that a backend encoded or copied, so that all tracks are served in one form.
//!
//! A segment contains one track: H.264 or HEVC as a byte stream (ITU-T H.264 and H.265 annex B), one access unit in each PES
//! packet; AV1 as ffmpeg's private data, one temporal unit in each; or whole frames of AAC in ADTS, AC-3, E-AC-3 or MP3. Its times stay
//! on the clock of the transport stream, in units of 90 kHz for video
//! and in samples for audio.

mod ac3_frames;
mod adts;
mod annex_b;
mod audio;
mod av1;
mod mp3_frames;
#[cfg(test)]
mod tests;
mod video;

pub use video::VideoCodec;

use super::entry::hevc::{self, HdrMessages};
use super::entry::{self, EntryError, avc};
use super::init::{IDENTITY_MATRIX, InitTrack, TrackHeader, write_init};
use super::moof::{Fragment, LayoutError, lay_out};
use super::{Sample, SampleEntry, VideoFormat};
use crate::domain::media::DolbyVision;
use crate::domain::mpegts::elementary_stream::ElementaryStream;
use crate::domain::mpegts::psi::TrackKind;
use crate::domain::time::Ticks;

/// The position of a segment in its rendition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentPosition {
    /// `sequence_number` of `mfhd`, from 1.
    pub sequence_number: u32,
    /// End of the segment on its grid, on the clock of the transport stream but without its wrap: the last frame of video
    /// lasts until then, unless leading pictures of the next segment precede it. Timestamps are unwrapped to the times nearest to it.
    pub end: Ticks,
}

/// A media segment, and the description of its track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CmafSegment {
    /// `moof` and `mdat`.
    pub bytes: Vec<u8>,
    /// As [`FragmentHead::decode_time_at`](super::moof::FragmentHead::decode_time_at).
    pub decode_time_at: usize,
    pub config: TrackConfig,
    /// Length of the range from byte 0 to the end of the first frame, if that is a keyframe of video: the range that an
    /// I-frame playlist lists.
    pub keyframe_len: Option<u64>,
}

/// The description of a track from which its init segment is made. It must be equal for all segments of a rendition, except
/// where the samples repeat it: the parameter sets of H.264, and the frame headers of AC-3, E-AC-3 and MP3. Of these only codec
/// and sample rate must be equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrackConfig {
    Video {
        codec: VideoCodec,
        /// NAL units of the parameter sets, without start codes, in the order of the stream and without repetitions.
        parameter_sets: Vec<Vec<u8>>,
        /// Those of HEVC.
        messages: HdrMessages,
    },
    /// The sequence header of AV1, as a whole unit.
    Av1 { sequence_header: Vec<u8> },
    Audio {
        entry: SampleEntry,
        /// Samples per second; of the core codec for AAC with spectral band replication.
        sample_rate: u32,
    },
}

/// Why a segment cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConversionError {
    #[error("the segment has no packets, and the description of its track is not known")]
    NoPackets,
    #[error("the segment has video and audio, but a CMAF segment contains one track")]
    SeveralTracks,
    #[error("streams of type {0:#04x} are not converted")]
    StreamType(u8),
    #[error("the program map does not list the segment's stream")]
    NoStreamType,
    #[error("a PES packet has no timestamp")]
    NoTimestamp,
    #[error("{0}")]
    Damaged(&'static str),
    #[error("the parameter sets or the audio format differ from those of the init segment")]
    ConfigChanged,
    #[error(transparent)]
    Entry(#[from] EntryError),
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

/// Converts a segment. `config` is that of the rendition's other segments, with which this one must agree; without one, the
/// segment's own is taken.
///
/// Access unit delimiters, ADTS headers and parameter sets of HEVC are removed. Parameter sets of H.264 stay in the samples
/// (`avc3`), so that a segment of another encoder plays after any init segment. Decode times of video are squeezed
/// ([`squeeze_decode_times`](super::times::squeeze_decode_times)). A segment without packets becomes a `moof` without
/// samples, if `config` is given.
///
/// # Errors
/// If the segment is damaged, contains several tracks or an unsupported codec, or does not agree with `config`; or if it does
/// not fit the fields of a `moof`.
pub fn convert_segment(
    segment: &[u8],
    position: SegmentPosition,
    config: Option<&TrackConfig>,
) -> Result<CmafSegment, ConversionError> {
    convert_streams(&ElementaryStream::read_all(segment), position, config)
}

/// Converts one track of a segment that may have several, like [`convert_segment`].
///
/// # Errors
/// As [`convert_segment`].
pub fn convert_track(
    segment: &[u8],
    kind: TrackKind,
    position: SegmentPosition,
    config: Option<&TrackConfig>,
) -> Result<CmafSegment, ConversionError> {
    let mut streams = ElementaryStream::read_all(segment);
    streams.retain(|stream| stream.kind == kind);
    convert_streams(&streams, position, config)
}

fn convert_streams(
    streams: &[ElementaryStream],
    position: SegmentPosition,
    config: Option<&TrackConfig>,
) -> Result<CmafSegment, ConversionError> {
    let track = match (streams, config) {
        ([], None) => return Err(ConversionError::NoPackets),
        ([], Some(config)) => ConvertedTrack::without_samples(config.clone(), position.end),
        ([stream], config) => ConvertedTrack::read(stream, position.end, config)?,
        _ => return Err(ConversionError::SeveralTracks),
    };
    let kind = track.config.kind();
    let ConvertedTrack { config, samples, payload, end } = track;
    let sequence_number = position.sequence_number;
    let head = lay_out(&Fragment { kind, sequence_number, samples: &samples, end, base: 0 })?;
    let keyframe = samples.first().filter(|sample| kind == TrackKind::Video && sample.is_keyframe);
    let keyframe_len = keyframe.map(|sample| head.bytes.len() as u64 + u64::from(sample.size));
    let (mut bytes, decode_time_at) = (head.bytes, head.decode_time_at);
    bytes.extend_from_slice(&payload);
    Ok(CmafSegment { bytes, decode_time_at, config, keyframe_len })
}

/// The samples of a segment and their bytes.
#[derive(Debug)]
struct ConvertedTrack {
    config: TrackConfig,
    samples: Vec<Sample>,
    payload: Vec<u8>,
    /// Where the last sample ends, units of the track's timescale.
    end: i64,
}

impl ConvertedTrack {
    fn without_samples(config: TrackConfig, end: Ticks) -> Self {
        let end = end.to_units(config.timescale());
        Self { config, samples: Vec::new(), payload: Vec::new(), end }
    }

    fn read(stream: &ElementaryStream, end: Ticks, config: Option<&TrackConfig>) -> Result<Self, ConversionError> {
        // ISO/IEC 13818-1 table 2-34; ATSC A/53 part 3 section 6.7; 6 is private data.
        match stream.entry.as_ref().ok_or(ConversionError::NoStreamType)?.stream_type {
            0x1b => video::read(stream, VideoCodec::H264, end, config),
            0x24 => video::read(stream, VideoCodec::Hevc, end, config),
            0x06 if stream.kind == TrackKind::Video => av1::read(stream, end, config),
            0x03 | 0x04 => audio::read(stream, mp3_frames::split_frames, end, config),
            0x0f => audio::read(stream, adts::split_frames, end, config),
            0x81 | 0x87 => audio::read(stream, ac3_frames::split_frames, end, config),
            other => Err(ConversionError::StreamType(other)),
        }
    }
}

impl TrackConfig {
    pub fn kind(&self) -> TrackKind {
        match self {
            Self::Video { .. } | Self::Av1 { .. } => TrackKind::Video,
            Self::Audio { .. } => TrackKind::Audio,
        }
    }

    /// Whether frames of audio with the description `other` can be decoded after this one's init segment.
    fn accepts_audio(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Audio { entry, sample_rate }, Self::Audio { entry: other_entry, sample_rate: other_rate }) => {
                let has_frame_headers = matches!(&*entry.codecs, "ac-3" | "ec-3" | "mp4a.6B" | "mp4a.69");
                let is_same = entry == other_entry || has_frame_headers && entry.codecs == other_entry.codecs;
                is_same && sample_rate == other_rate
            }
            _ => false,
        }
    }

    /// Units per second of the track's times.
    pub fn timescale(&self) -> u32 {
        match self {
            Self::Video { .. } | Self::Av1 { .. } => Ticks::PER_SECOND as u32,
            Self::Audio { sample_rate, .. } => *sample_rate,
        }
    }

    /// The format that the first sequence parameter set states, of HEVC with the light levels of its messages, of AV1 the size
    /// only. The default for audio.
    ///
    /// # Errors
    /// If the parameter set is missing or damaged.
    pub fn video_format(&self) -> Result<VideoFormat, EntryError> {
        let (codec, parameter_sets, messages) = match self {
            Self::Video { codec, parameter_sets, messages } => (codec, parameter_sets, messages),
            Self::Av1 { sequence_header } => {
                let (width, height) = entry::av1::picture_size(sequence_header)?;
                return Ok(VideoFormat { width, height, ..VideoFormat::default() });
            }
            Self::Audio { .. } => return Ok(VideoFormat::default()),
        };
        let mut sets = parameter_sets.iter();
        let sps = sets.find(|unit| codec.is_sequence_parameter_set(unit)).ok_or(EntryError::Truncated)?;
        match codec {
            VideoCodec::H264 => avc::video_format(sps),
            VideoCodec::Hevc => hevc::video_format(sps, messages),
        }
    }

    /// The sample entry for the init segment; `format` describes video and is not used for audio.
    ///
    /// # Errors
    /// If the parameter sets are damaged, too long or incomplete.
    pub fn sample_entry(&self, format: &VideoFormat) -> Result<SampleEntry, EntryError> {
        match self {
            Self::Video { codec, parameter_sets, .. } => {
                let units: Vec<&[u8]> = parameter_sets.iter().map(Vec::as_slice).collect();
                match codec {
                    VideoCodec::H264 => {
                        let record = avc::record_from_parameter_sets(&units)?;
                        avc::entry_with(&record, format, avc::ParameterSets::InBand)
                    }
                    VideoCodec::Hevc => hevc::entry(&hevc::record_from_parameter_sets(&units)?, format),
                }
            }
            Self::Av1 { sequence_header } => {
                entry::av1::entry(&entry::av1::record_from_temporal_unit(sequence_header)?, format)
            }
            Self::Audio { entry, .. } => Ok(entry.clone()),
        }
    }

    /// The init segment. `dolby_vision` is the configuration of HEVC, which no access unit states.
    ///
    /// # Errors
    /// If the parameter sets are damaged, too long or incomplete.
    pub fn init_segment(
        &self,
        language: Option<&str>,
        dolby_vision: Option<&DolbyVision>,
    ) -> Result<Vec<u8>, EntryError> {
        let dolby_vision = dolby_vision.map(|config| config.record().to_vec());
        let format = VideoFormat { dolby_vision, ..self.video_format()? };
        let entry = self.sample_entry(&format)?;
        let header = match self.kind() {
            TrackKind::Video => TrackHeader::Video { format: &format, matrix: IDENTITY_MATRIX },
            TrackKind::Audio => TrackHeader::Audio,
        };
        Ok(write_init(&InitTrack { header, timescale: self.timescale(), language, entry: &entry }))
    }
}
