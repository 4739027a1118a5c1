//! Frames of audio as samples.

use super::{ConversionError, ConvertedTrack, TrackConfig};
use crate::domain::cmaf::times::AudioClock;
use crate::domain::cmaf::{Sample, SampleEntry};
use crate::domain::mpegts::elementary_stream::ElementaryStream;
use crate::domain::mpegts::unwrap_timestamp;
use crate::domain::time::Ticks;

/// Timestamps are rounded to ticks.
const ROUNDING: Ticks = Ticks(1);

/// The frames of a PES packet, all with the same format.
#[derive(Debug)]
pub(super) struct AudioFrames<'a> {
    pub entry: SampleEntry,
    /// Samples per second.
    pub sample_rate: u32,
    /// At least one.
    pub frames: Vec<AudioFrame<'a>>,
}

/// A frame in the form that it has in an MP4 file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AudioFrame<'a> {
    pub bytes: &'a [u8],
    /// Duration, samples.
    pub samples: u32,
}

/// Reads a stream of audio whose PES packets `split_frames` splits into frames. The track ends where its last frame does.
pub(super) fn read(
    stream: &ElementaryStream,
    split_frames: impl Fn(&[u8]) -> Result<AudioFrames<'_>, ConversionError>,
    end: Ticks,
    config: Option<&TrackConfig>,
) -> Result<ConvertedTrack, ConversionError> {
    let mut config = config.cloned();
    let mut clock = None;
    let (mut samples, mut payload) = (Vec::new(), Vec::new());
    for (pts, bytes) in stream.packets() {
        let mut time = unwrap_timestamp(pts.ok_or(ConversionError::NoTimestamp)?, end);
        let AudioFrames { entry, sample_rate, frames } = split_frames(bytes)?;
        let own = TrackConfig::Audio { entry, sample_rate };
        if !config.get_or_insert_with(|| own.clone()).accepts_audio(&own) {
            return Err(ConversionError::ConfigChanged);
        }
        let clock = clock.get_or_insert_with(|| AudioClock::new(sample_rate, time, ROUNDING));
        for frame in frames {
            let start = clock.advance(time, frame.samples, 1);
            let size = u32::try_from(frame.bytes.len());
            let size = size.map_err(|_| ConversionError::Damaged("a frame of audio is too long"))?;
            samples.push(Sample { size, dts: start, pts: start, is_keyframe: true });
            payload.extend_from_slice(frame.bytes);
            time += Ticks::from_units(frame.samples, sample_rate);
        }
    }
    let config = config.ok_or(ConversionError::NoPackets)?;
    let end = clock.and_then(|clock| clock.end()).unwrap_or(end.to_units(config.timescale()));
    Ok(ConvertedTrack { config, samples, payload, end })
}
