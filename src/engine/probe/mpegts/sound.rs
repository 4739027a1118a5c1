//! Audio parameters from frame headers, and the audio duration of a PES packet.

use super::super::seen::Seen;
use crate::domain::sniff::{self, Container, AudioFrame};

fn container(codec: &str) -> Option<Container> {
    Some(match codec {
        "aac" => Container::Aac,
        "mp2" | "mp3" => Container::Mp3,
        "ac3" => Container::Ac3,
        "eac3" => Container::Eac3,
        _ => return None,
    })
}

/// The frames that begin in a payload; its first bytes may belong to a previous frame.
fn frames<'a>(codec: &str, payload: &'a [u8]) -> impl Iterator<Item = (&'a [u8], AudioFrame)> {
    let (container, mut rest) = (container(codec), payload);
    std::iter::from_fn(move || {
        let container = container?;
        while !rest.is_empty() {
            if let Some(heard) = sniff::parse_audio_frame(container, rest) {
                let frame = rest;
                rest = rest.get(heard.size_bytes..).unwrap_or_default();
                return Some((frame, heard));
            }
            rest = &rest[1..];
        }
        None
    })
}

/// Total duration of the frames that begin in a payload, seconds; None if there are none.
pub(super) fn seconds(codec: &str, payload: &[u8]) -> Option<f64> {
    frames(codec, payload).map(|(_, heard)| heard.seconds).reduce(|sum, next| sum + next)
}

/// The parameters of a stream by the frames of its first payload; None if they differ or are unusual.
pub(super) fn seen(codec: &str, payload: &[u8]) -> Option<Seen> {
    let mut all = frames(codec, payload).filter(|(frame, heard)| heard.size_bytes <= frame.len());
    let said = |(frame, _): (&[u8], AudioFrame)| match codec {
        "aac" => aac(frame),
        "mp3" => mpeg(frame),
        "ac3" => ac3(frame),
        "eac3" => eac3(frame),
        _ => None,
    };
    let (codec, profile, channels, sample_rate) = said(all.next()?)?;
    if all.any(|frame| said(frame) != Some((codec, profile, channels, sample_rate))) {
        return None;
    }
    let profile = profile.map(str::to_owned);
    Some(Seen { codec: Some(codec), profile, channels, sample_rate, ..Seen::default() })
}

/// Codec, profile, channels and sample rate.
type Said = (&'static str, Option<&'static str>, u32, u32);

/// ADTS (ISO/IEC 13818-7 section 6.2).
fn aac(frame: &[u8]) -> Option<Said> {
    const HERTZ: [u32; 6] = [96_000, 88_200, 64_000, 48_000, 44_100, 32_000];
    let head = frame.first_chunk::<4>()?;
    let hertz = *HERTZ.get(usize::from(head[2] >> 2 & 0x0f))?;
    let channels = u32::from((head[2] & 1) << 2 | head[3] >> 6);
    // Low complexity. Channel configuration 0 is defined in the payload, and 7 has two possible speaker layouts.
    (head[2] >> 6 == 1 && (1..=6).contains(&channels)).then_some(("aac", Some("lc"), channels, hertz))
}

/// MPEG audio (ISO/IEC 11172-3 section 2.4.1.3, 13818-3 for half rates).
fn mpeg(frame: &[u8]) -> Option<Said> {
    let head = frame.first_chunk::<4>()?;
    let codec = match head[1] >> 1 & 3 {
        1 => "mp3",
        2 => "mp2",
        _ => return None,
    };
    let halved = match head[1] >> 3 & 3 {
        3 => 0,
        2 => 1,
        _ => return None,
    };
    let hertz = [44_100, 48_000, 32_000].get(usize::from(head[2] >> 2 & 3))? >> halved;
    let channels = if head[3] >> 6 == 3 { 1 } else { 2 };
    Some((codec, None, channels, hertz))
}

/// Channels of an audio coding mode with or without LFE; only mono, stereo and 5.1.
fn dolby(mode: u8, low: bool) -> Option<u32> {
    match (mode, low) {
        (1, false) => Some(1),
        (2, false) => Some(2),
        (7, true) => Some(6),
        _ => None,
    }
}

/// ETSI TS 102 366 section 4.3.
fn ac3(frame: &[u8]) -> Option<Said> {
    let head = frame.first_chunk::<8>()?;
    let hertz = *[48_000, 44_100, 32_000].get(usize::from(head[4] >> 6))?;
    let mode = head[6] >> 5;
    // The mix levels of the mode precede the LFE flag.
    let before = 3
        + if mode & 1 != 0 && mode != 1 { 2 } else { 0 }
        + if mode & 4 != 0 { 2 } else { 0 }
        + if mode == 2 { 2 } else { 0 };
    let bits = u16::from_be_bytes([head[6], head[7]]);
    let low = bits >> (15 - before) & 1 != 0;
    (head[5] >> 3 <= 8).then_some(("ac3", None, dolby(mode, low)?, hertz))
}

/// ETSI TS 102 366 section E.1.2. A single independent substream.
fn eac3(frame: &[u8]) -> Option<Said> {
    let head = frame.first_chunk::<6>()?;
    let hertz = *[48_000, 44_100, 32_000].get(usize::from(head[4] >> 6))?;
    let alone = head[2] >> 3 == 0 && head[5] >> 3 > 10;
    alone.then_some(("eac3", None, dolby(head[4] >> 1 & 7, head[4] & 1 != 0)?, hertz))
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
            prop_assert!(seconds(codec, &bytes).is_none_or(|seconds| seconds >= 0.0));
            let _ = seen(codec, &bytes);
        }
    }
}
