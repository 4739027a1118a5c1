//! The sample entry of a Matroska track, from its `CodecPrivate` or its first frame (Matroska codec mappings,
//! draft-ietf-cellar-codec section 6).

use super::track::refusal;
use crate::domain::cmaf::audio_frames::AudioFrames;
use crate::domain::cmaf::entry::{EntryError, aac, ac3, alac, av1, avc, dts, eac3, flac, hevc, mp3, opus, vp9};
use crate::domain::cmaf::{AudioFormat, SampleEntry, VideoFormat};
use crate::domain::time::FrameRate;
use crate::engine::container::ContainerError;
use crate::engine::container::matroska::TrackEntry;

/// The entry of a video track. `first_frame` has at least the headers of the first frame.
pub(super) fn video_entry(
    track: &TrackEntry,
    format: &VideoFormat,
    first_frame: &[u8],
) -> Result<SampleEntry, ContainerError> {
    let private = &*track.codec_private;
    let entry = match &*track.codec {
        b"V_MPEG4/ISO/AVC" => avc::entry(private, format),
        b"V_MPEGH/ISO/HEVC" => hevc::entry(private, format),
        b"V_AV1" if private.is_empty() => {
            av1::record_from_temporal_unit(first_frame).and_then(|record| av1::entry(&record, format))
        }
        b"V_AV1" => av1::entry(private, format),
        b"V_VP9" => {
            let nanos = track.frame_nanos.and_then(|nanos| u32::try_from(nanos).ok());
            let rate = nanos.and_then(|nanos| FrameRate::new(1_000_000_000, nanos));
            vp9::entry(private, first_frame, format, rate)
        }
        _ => Err(EntryError::Unsupported("the video codec has no MP4 form that players support")),
    };
    entry.map_err(refusal)
}

/// The entry of an audio track, and the length of its frames. `first_frame` is whole.
pub(super) fn audio_entry(
    track: &TrackEntry,
    format: AudioFormat,
    first_frame: &[u8],
) -> Result<(SampleEntry, AudioFrames), ContainerError> {
    parse_audio(track, format, first_frame).map_err(refusal)
}

fn parse_audio(
    track: &TrackEntry,
    format: AudioFormat,
    first_frame: &[u8],
) -> Result<(SampleEntry, AudioFrames), EntryError> {
    let private = &*track.codec_private;
    let codec = str::from_utf8(&track.codec).unwrap_or_default();
    // What follows a slash names a profile.
    let family = codec.split_once('/').map_or(codec, |(family, _)| family);
    Ok(match (family, codec) {
        ("A_AAC", _) => {
            let from_id;
            let config = match private {
                [] => {
                    from_id = config_from_codec_id(codec, format)?;
                    &from_id[..]
                }
                private => private,
            };
            (aac::entry(config)?, AudioFrames::of_aac(config)?)
        }
        ("A_AC3", _) => (ac3::entry(first_frame)?, AudioFrames::of_ac3(first_frame)?),
        ("A_EAC3", _) => (eac3::entry(first_frame)?, AudioFrames::of_eac3(first_frame)?),
        ("A_DTS", _) => (dts::entry(first_frame)?, AudioFrames::of_dts(first_frame)?),
        ("A_OPUS", _) => (opus::entry(private)?, AudioFrames::OPUS),
        ("A_FLAC", _) => (flac::entry(private)?, AudioFrames::of_flac(private)?),
        ("A_ALAC", _) => (alac::entry(private)?, AudioFrames::of_alac(private)?),
        (_, "A_MPEG/L3") => (mp3::entry(format)?, AudioFrames::of_mp3(format.sample_rate)?),
        _ => return Err(EntryError::Unsupported("the audio codec has no MP4 form that players support")),
    })
}

/// The configuration of AAC in old files, which name the profile in the codec id, e.g. `A_AAC/MPEG2/LC/SBR`.
fn config_from_codec_id(codec: &str, format: AudioFormat) -> Result<[u8; 2], EntryError> {
    let object_type = match codec.split('/').nth(2) {
        Some("MAIN") => 1,
        Some("LC") => 2,
        Some("SSR") => 3,
        Some("LTP") => 4,
        _ => return Err(EntryError::Unsupported("the AAC track has no configuration")),
    };
    aac::audio_specific_config(object_type, format.sample_rate, format.channels)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(codec: &str, codec_private: &[u8]) -> TrackEntry {
        TrackEntry {
            number: 1,
            uid: 0,
            codec: codec.into(),
            codec_private: codec_private.to_vec(),
            frame_nanos: None,
            delay_nanos: 0,
            stripped_bytes: Vec::new(),
            language: None,
            video_format: None,
            audio_format: None,
        }
    }

    #[test]
    fn aac_is_described_by_its_configuration_or_its_codec_id() {
        let format = AudioFormat { channels: 2, sample_rate: 22_050, bits: 16 };
        let (entry, frames) = audio_entry(&track("A_AAC/MPEG2/LC/SBR", &[]), format, &[]).unwrap();
        assert_eq!((entry.codecs.as_str(), frames.sample_rate), ("mp4a.40.2", 22_050));
        let (_, frames) = audio_entry(&track("A_AAC", &[0x11, 0x90]), format, &[]).unwrap();
        assert_eq!(frames.sample_rate, 48_000);
        let refused = audio_entry(&track("A_AAC", &[]), format, &[]).unwrap_err();
        assert_eq!(refused.reason(), "the AAC track has no configuration");
    }

    #[test]
    fn other_codecs_are_refused() {
        for codec in ["A_TRUEHD", "A_VORBIS", "A_MPEG/L2", "A_PCM/INT/LIT", ""] {
            assert!(audio_entry(&track(codec, &[]), AudioFormat::default(), &[]).is_err(), "{codec}");
        }
        for codec in ["V_VP8", "V_MS/VFW/FOURCC", "V_MPEG4/ISO/AVC"] {
            assert!(video_entry(&track(codec, &[]), &VideoFormat::default(), &[]).is_err(), "{codec}");
        }
    }
}
