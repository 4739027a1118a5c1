//! Audio-only segments: AAC frames, muxed by our own writer.
//!
//! hlssink2 would give audio the PID of the video, and there is nothing to split: the frames are on their grid already.

use gstreamer as gst;

use super::downmix::Mixer;
use crate::domain::mpegts::AUDIO_PID;
use crate::domain::mpegts::psi::{PmtEntry, TrackKind};
use crate::domain::mpegts::ts_writer::{AccessUnit, TsWriter};
use crate::domain::time::Ticks;
use crate::engine::{Result, RunError, TIMELINE_BASE};

/// The stream type of AAC in ADTS (ISO/IEC 13818-1 table 2-34).
const ADTS_STREAM_TYPE: u8 = 0x0f;

/// Samples beyond this are noise of a broken file: 30 dB above full scale. The AAC encoder gives nothing for samples that are no
/// numbers, or too large to be squared (libavcodec 59, seen with floating-point WAV).
const MAX_SAMPLE: f32 = 32.0;

/// The samples of a decoded buffer, interleaved, mixed to the channels of the rendition.
pub(super) fn read_samples(sample: &gst::Sample, mixer: &mut Mixer) -> Result<Vec<f32>> {
    let caps = sample.caps().and_then(|caps| caps.structure(0));
    let channels = caps.and_then(|caps| usize::try_from(caps.get::<i32>("channels").ok()?).ok());
    let channels = channels.ok_or_else(|| RunError::Decode("an audio buffer has no channels".into()))?;
    let mask = caps.and_then(|caps| caps.get::<gst::Bitmask>("channel-mask").ok()).map_or(0, |mask| mask.0);
    let map = sample.buffer().and_then(|buffer| buffer.map_readable().ok());
    let map = map.ok_or_else(|| RunError::Decode("an audio buffer has no samples".into()))?;
    let samples = map.as_chunks::<4>().0.iter().map(|&bytes| sane_sample(f32::from_le_bytes(bytes)));
    mixer.mix(samples.collect(), channels, mask)
}

/// The sample, limited; silence if it is no number.
fn sane_sample(sample: f32) -> f32 {
    if sample.is_nan() { 0.0 } else { sample.clamp(-MAX_SAMPLE, MAX_SAMPLE) }
}

/// A segment of AAC frames, each with its start in the item.
pub(super) fn mux_segment(frames: &[(Ticks, Vec<u8>)]) -> Vec<u8> {
    let mut writer = TsWriter::new(TrackKind::Audio);
    for (start, bytes) in frames {
        let pts = TIMELINE_BASE + *start;
        let parts = &[bytes.as_slice()];
        writer.push_unit(&AccessUnit { track: TrackKind::Audio, pts, dts: None, random_access: true, parts });
    }
    writer.into_segment(&[PmtEntry { pid: AUDIO_PID, stream_type: ADTS_STREAM_TYPE, descriptors: Vec::new() }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_broken_files_are_numbers_the_encoder_accepts() {
        assert_eq!([0.5, -1.2].map(sane_sample), [0.5, -1.2]);
        assert_eq!([f32::NAN, -f32::NAN].map(sane_sample), [0.0, 0.0]);
        assert_eq!([f32::INFINITY, f32::MIN].map(sane_sample), [MAX_SAMPLE, -MAX_SAMPLE]);
    }
}
