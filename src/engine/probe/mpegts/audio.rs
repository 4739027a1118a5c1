//! Audio parameters from frame headers, and the audio duration of a PES packet.

use super::super::decoder_info::DecoderInfo;
use crate::domain::sniff::{self, AudioFrame, Container};

fn container_of(codec: &str) -> Option<Container> {
    Some(match codec {
        "aac" => Container::Aac,
        "mp2" | "mp3" => Container::Mp3,
        "ac3" => Container::Ac3,
        "eac3" => Container::Eac3,
        _ => return None,
    })
}

/// The frames that begin in a payload; its first bytes may belong to a previous frame.
fn split_frames<'a>(codec: &str, payload: &'a [u8]) -> impl Iterator<Item = (&'a [u8], AudioFrame)> {
    let (container, mut rest) = (container_of(codec), payload);
    std::iter::from_fn(move || {
        let container = container?;
        while !rest.is_empty() {
            if let Some(frame_info) = sniff::parse_audio_frame(container, rest) {
                let frame = rest;
                rest = rest.get(frame_info.size_bytes..).unwrap_or_default();
                return Some((frame, frame_info));
            }
            rest = &rest[1..];
        }
        None
    })
}

/// Total duration of the frames that begin in a payload, seconds; None without any.
pub(super) fn duration_seconds(codec: &str, payload: &[u8]) -> Option<f64> {
    split_frames(codec, payload).map(|(_, frame_info)| frame_info.seconds).reduce(|sum, next| sum + next)
}

/// The parameters of a stream by the frames of its first payload; None if they differ or are unusual.
pub(super) fn parse_decoder_info(codec: &str, payload: &[u8]) -> Option<DecoderInfo> {
    let mut whole_frames = split_frames(codec, payload).filter(|(frame, info)| info.size_bytes <= frame.len());
    let parse = |(frame, AudioFrame { hertz, .. }): (&[u8], AudioFrame)| {
        let (codec, profile, channels) = match codec {
            "aac" => parse_adts(frame, hertz),
            "mp3" => parse_mpeg_audio(frame, hertz),
            "ac3" => parse_ac3(frame),
            "eac3" => parse_eac3(frame),
            _ => None,
        }?;
        Some((codec, profile, channels, hertz))
    };
    let (codec, profile, channels, sample_rate) = parse(whole_frames.next()?)?;
    if whole_frames.any(|frame| parse(frame) != Some((codec, profile, channels, sample_rate))) {
        return None;
    }
    let profile = profile.map(str::to_owned);
    Some(DecoderInfo { codec: Some(codec), profile, channels, sample_rate, ..DecoderInfo::default() })
}

/// Codec, profile and channels.
type AudioParameters = (&'static str, Option<&'static str>, u32);

/// ADTS (ISO/IEC 13818-7 section 6.2).
fn parse_adts(frame: &[u8], hertz: u32) -> Option<AudioParameters> {
    let header = frame.first_chunk::<4>()?;
    let channels = u32::from((header[2] & 1) << 2 | header[3] >> 6);
    // Low complexity. Channel configuration 0 is defined in the payload, and 7 has two possible speaker layouts.
    let is_usual = header[2] >> 6 == 1 && (1..=6).contains(&channels) && hertz >= 32_000;
    is_usual.then_some(("aac", Some("lc"), channels))
}

/// MPEG audio (ISO/IEC 11172-3 section 2.4.1.3, 13818-3 for half rates).
fn parse_mpeg_audio(frame: &[u8], hertz: u32) -> Option<AudioParameters> {
    let header = frame.first_chunk::<4>()?;
    let codec = match header[1] >> 1 & 3 {
        1 => "mp3",
        2 => "mp2",
        _ => return None,
    };
    let channels = if header[3] >> 6 == 3 { 1 } else { 2 };
    // Only MPEG 2.5 has lower rates.
    (hertz >= 16_000).then_some((codec, None, channels))
}

/// Channels of an audio coding mode with or without LFE; only mono, stereo and 5.1.
fn dolby_channels(mode: u8, has_lfe: bool) -> Option<u32> {
    match (mode, has_lfe) {
        (1, false) => Some(1),
        (2, false) => Some(2),
        (7, true) => Some(6),
        _ => None,
    }
}

/// ETSI TS 102 366 section 4.3.
fn parse_ac3(frame: &[u8]) -> Option<AudioParameters> {
    let header = frame.first_chunk::<8>()?;
    let mode = header[6] >> 5;
    // The mix levels of the mode precede the LFE flag.
    let lfe_bit = 3
        + if mode & 1 != 0 && mode != 1 { 2 } else { 0 }
        + if mode & 4 != 0 { 2 } else { 0 }
        + if mode == 2 { 2 } else { 0 };
    let bits = u16::from_be_bytes([header[6], header[7]]);
    let has_lfe = bits >> (15 - lfe_bit) & 1 != 0;
    (header[5] >> 3 <= 8).then_some(("ac3", None, dolby_channels(mode, has_lfe)?))
}

/// ETSI TS 102 366 section E.1.2. A single independent substream.
fn parse_eac3(frame: &[u8]) -> Option<AudioParameters> {
    let header = frame.first_chunk::<6>()?;
    let is_single_substream = header[2] >> 3 == 0 && header[5] >> 3 > 10;
    is_single_substream.then_some(("eac3", None, dolby_channels(header[4] >> 1 & 7, header[4] & 1 != 0)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(
            codec in prop_oneof![Just("aac"), Just("mp3"), Just("ac3"), Just("eac3")],
            bytes in proptest::collection::vec(prop_oneof![Just(0xffu8), Just(0x0b), Just(0x77), Just(0xf1), any::<u8>()], 0..300),
        ) {
            prop_assert!(duration_seconds(codec, &bytes).is_none_or(|seconds| seconds >= 0.0));
            let _ = parse_decoder_info(codec, &bytes);
        }
    }
}
