//! Headerless files: bare audio and video streams and MPEG transport streams, recognised by several consecutive frames.

use super::Container;

/// Number of consecutive frames required.
const MIN_CONSECUTIVE: usize = 3;

/// Most bytes of garbage accepted before the first frame; players resynchronise as well.
const MAX_GARBAGE: usize = 8 * 1024;

/// Length of a tag (ID3v2 or APE) at the start of the file, including its header, bytes.
pub(super) fn tag_len(head: &[u8]) -> Option<u64> {
    if head.starts_with(b"ID3") {
        let size = head.get(6..10)?;
        if size.iter().any(|byte| *byte > 0x7f) {
            return None;
        }
        let footer = if head.get(5)? & 0x10 != 0 { 10 } else { 0 };
        return Some(size.iter().fold(0, |len, byte| len << 7 | u64::from(*byte)) + 10 + footer);
    }
    if head.starts_with(b"APETAGEX") {
        return Some(u64::from(u32::from_le_bytes(head.get(12..16)?.try_into().ok()?)) + 32);
    }
    None
}

/// Recognises a bare audio stream at the start or after a little garbage.
pub(super) fn detect_audio(head: &[u8]) -> Option<Container> {
    (0..head.len().min(MAX_GARBAGE)).filter(|at| matches!(head[*at], 0xff | 0x0b | 0x7f)).find_map(|at| {
        let rest = &head[at..];
        [
            (Container::Mp3, mp3_frame_len as FrameLenFn),
            (Container::Aac, adts_frame_len),
            (Container::Ac3, ac3_frame_len),
            (Container::Dts, dts_frame_len),
        ]
        .into_iter()
        .find(|(_, frame)| has_consecutive_frames(rest, *frame))
        .map(|(container, _)| match container {
            Container::Ac3 if rest.get(5).is_some_and(|byte| byte >> 3 > 10) => Container::Eac3,
            other => other,
        })
    })
}

/// Size, duration and sample rate of one frame of a bare audio stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AudioFrame {
    pub size_bytes: usize,
    pub seconds: f64,
    pub hertz: u32,
}

/// Parses the frame at the start of a slice. None if there is no frame, or for containers whose frames are not parsed
/// here.
pub fn parse_audio_frame(container: Container, bytes: &[u8]) -> Option<AudioFrame> {
    let (size_bytes, samples, hertz) = match container {
        Container::Aac => {
            const HERTZ: [u32; 13] =
                [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350];
            let len = adts_frame_len(bytes)?;
            let blocks = u32::from(bytes[6] & 3) + 1;
            (len, blocks * 1024, HERTZ[usize::from(bytes[2] >> 2 & 0xf)])
        }
        Container::Mp3 => parse_mpeg_audio(bytes)?,
        Container::Ac3 | Container::Eac3 => parse_dolby_audio(bytes)?,
        _ => return None,
    };
    Some(AudioFrame { size_bytes, seconds: f64::from(samples) / f64::from(hertz), hertz })
}

/// Function that returns the length of the frame at the start of a slice, bytes.
type FrameLenFn = fn(&[u8]) -> Option<usize>;

/// True if frames follow one another: three, or two that end the slice.
fn has_consecutive_frames(mut rest: &[u8], frame_len: FrameLenFn) -> bool {
    for n in 0..MIN_CONSECUTIVE {
        match frame_len(rest) {
            Some(len) if len <= rest.len() => rest = &rest[len..],
            Some(_) => return n >= 1,
            None => return n >= 2 && rest.len() < 8,
        }
    }
    true
}

fn mp3_frame_len(bytes: &[u8]) -> Option<usize> {
    parse_mpeg_audio(bytes).map(|(len, ..)| len)
}

/// MPEG audio layers 1 to 3 (ISO/IEC 11172-3 section 2.4.1.3, 13818-3 for half rates): bytes, samples, sample rate.
fn parse_mpeg_audio(bytes: &[u8]) -> Option<(usize, u32, u32)> {
    const V1_L1: [u32; 14] = [32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448];
    const V1_L2: [u32; 14] = [32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384];
    const V1_L3: [u32; 14] = [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320];
    const V2_L1: [u32; 14] = [32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256];
    const V2_L23: [u32; 14] = [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160];
    let [a, b, c, _] = *bytes.first_chunk::<4>()?;
    if a != 0xff || b & 0xe0 != 0xe0 {
        return None;
    }
    let (version, layer) = (b >> 3 & 3, b >> 1 & 3);
    let (rate_code, bitrate_code) = (c >> 2 & 3, usize::from(c >> 4));
    if version == 1 || layer == 0 || rate_code == 3 || !(1..15).contains(&bitrate_code) {
        return None;
    }
    let hertz = [44_100, 48_000, 32_000][usize::from(rate_code)] >> [2, 0, 1, 0][usize::from(version)];
    let kbps = match (version == 3, layer) {
        (true, 3) => V1_L1,
        (true, 2) => V1_L2,
        (true, _) => V1_L3,
        (false, 3) => V2_L1,
        (false, _) => V2_L23,
    }[bitrate_code - 1];
    let padding = u32::from(c >> 1 & 1);
    let (len, samples) = match layer {
        3 => ((12 * kbps * 1000 / hertz + padding) * 4, 384),
        1 if version != 3 => (72 * kbps * 1000 / hertz + padding, 576),
        _ => (144 * kbps * 1000 / hertz + padding, 1152),
    };
    Some((len as usize, samples, hertz))
}

/// Length of an AAC frame in ADTS (ISO/IEC 13818-7 section 6.2).
fn adts_frame_len(bytes: &[u8]) -> Option<usize> {
    let head = bytes.first_chunk::<7>()?;
    if head[0] != 0xff || head[1] & 0xf6 != 0xf0 || head[2] >> 2 & 0xf > 12 {
        return None;
    }
    let len = usize::from(head[3] & 3) << 11 | usize::from(head[4]) << 3 | usize::from(head[5] >> 5);
    (len >= 7).then_some(len)
}

/// Length of an AC-3 or E-AC-3 frame (ETSI TS 102 366).
fn ac3_frame_len(bytes: &[u8]) -> Option<usize> {
    const KBPS: [usize; 19] = [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640];
    let head = bytes.first_chunk::<6>()?;
    if head[..2] != [0x0b, 0x77] {
        return None;
    }
    match head[5] >> 3 {
        0..=10 => {
            let (rate, code) = (head[4] >> 6, head[4] & 0x3f);
            let kbps = KBPS.get(usize::from(code / 2))?;
            match rate {
                0 => Some(kbps * 4),
                1 => Some((kbps * 96_000 / 44_100 + usize::from(code & 1)) * 2),
                2 => Some(kbps * 6),
                _ => None,
            }
        }
        11..=16 => Some(((usize::from(head[2] & 7) << 8 | usize::from(head[3])) + 1) * 2),
        _ => None,
    }
}

/// Bytes, samples and sample rate of an AC-3 or E-AC-3 frame at a full rate.
fn parse_dolby_audio(bytes: &[u8]) -> Option<(usize, u32, u32)> {
    let len = ac3_frame_len(bytes)?;
    let (kind, codes) = (bytes[2] >> 6, bytes[4]);
    let hertz = *[48_000, 44_100, 32_000].get(usize::from(codes >> 6))?;
    match bytes[5] >> 3 {
        0..=8 => Some((len, 1536, hertz)),
        // A dependent substream plays together with the frame before it.
        11.. if kind == 1 => Some((len, 0, hertz)),
        11.. => Some((len, [1, 2, 3, 6][usize::from(codes >> 4 & 3)] * 256, hertz)),
        _ => None,
    }
}

/// Length of a DTS core frame, 16-bit big endian (ETSI TS 102 114).
fn dts_frame_len(bytes: &[u8]) -> Option<usize> {
    let head = bytes.first_chunk::<8>()?;
    if head[..4] != [0x7f, 0xfe, 0x80, 0x01] {
        return None;
    }
    let len = (usize::from(head[5] & 3) << 12 | usize::from(head[6]) << 4 | usize::from(head[7] >> 4)) + 1;
    (len >= 96).then_some(len)
}

/// True for consecutive transport packets of 188, 192 (M2TS) or 204 bytes; the first may follow a little garbage.
pub(super) fn is_transport_stream(head: &[u8]) -> bool {
    const SYNC: u8 = 0x47;
    [188, 192, 204].into_iter().any(|size| {
        (0..head.len().min(MAX_GARBAGE)).filter(|at| head[*at] == SYNC).any(|at| {
            let sync_bytes = head[at..].iter().step_by(size).take(5);
            let count = sync_bytes.len();
            // Five packets, or as many as a very short file has.
            (count == 5 || (count >= 2 && head.len() < 5 * size)) && sync_bytes.copied().all(|byte| byte == SYNC)
        })
    })
}

/// True for a parameter set in Annex B: H.264 (7) or H.265 (32 to 34). An access unit delimiter (9 or 35) may precede it.
pub(super) fn is_video_stream(head: &[u8]) -> bool {
    let nal = match strip_start_code(head) {
        Some([0x09, _, rest @ ..] | [0x46, 1, _, rest @ ..]) => strip_start_code(rest),
        first => first,
    };
    match nal {
        Some([0x67 | 0x27 | 0x47, profile, ..]) => matches!(profile, 66 | 77 | 88 | 100 | 110 | 122 | 244),
        Some([first, second, ..]) => matches!(first, 0x40 | 0x42 | 0x44) && *second == 1,
        _ => false,
    }
}

fn strip_start_code(bytes: &[u8]) -> Option<&[u8]> {
    bytes.strip_prefix(&[0, 0, 0, 1]).or_else(|| bytes.strip_prefix(&[0, 0, 1]))
}
