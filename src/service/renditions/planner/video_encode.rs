//! Settings of a video encode: size, frame rate and maximum bit rate.

use super::STEREO_KBPS;
use crate::domain::codec::TargetCodec;
use crate::domain::encode_slots::pixel_cost;
use crate::domain::media::{Media, Video};
use crate::domain::plan::EncodeVideo;
use crate::domain::playback::capabilities::ClientCapabilities;
use crate::domain::playback::{RUNGS, SubtitleDelivery};
use crate::domain::time::{FrameRate, STANDARD_RATES};
use crate::engine::video_encoders::VideoEncoder;
use crate::error::{Code, Error, Result};
use crate::service::Service;

/// Most pixels of an encoded picture: the limit of level 5.1 (ISO/IEC 14496-10 table A-1).
const MAX_PIXELS: f64 = 36_864.0 * 256.0;

/// Smaller video is H.264: SVT-AV1 refuses a side of less than 64 pixels, and x265 less than 16.
const MIN_SIDE_OF_OTHER_CODECS: u32 = 64;

/// Limits of a video encode.
#[derive(Clone, Copy, Debug)]
pub(super) struct EncodeLimits<'a> {
    /// None: the original height.
    pub max_height: Option<u32>,
    /// Of video and audio together.
    pub max_bitrate_kbps: Option<u32>,
    pub field_rate: FieldRate<'a>,
}

/// How interlaced video is encoded.
#[derive(Clone, Copy, Debug)]
pub(super) enum FieldRate<'a> {
    /// One frame for two fields.
    FramePerPair,
    /// A frame for each field.
    FramePerField,
    /// A frame for each field, if this client decodes them and this machine keeps up; otherwise one for two fields.
    IfFastEnough(&'a ClientCapabilities),
}

/// How the codec of an encode is chosen.
#[derive(Clone, Copy, Debug)]
pub(super) enum CodecChoice<'a> {
    /// H.264, which every player decodes, or the codec of the other rungs.
    Fixed(TargetCodec),
    /// The codec that the client prefers in fMP4, if this server encodes it; otherwise H.264.
    Preferred(&'a ClientCapabilities),
}

/// Plans the encode of stream `index` within these limits, with a subtitle to burn in if that is its delivery.
///
/// # Errors
/// `TRANSCODER_UNAVAILABLE` if no encoder works.
pub(super) async fn plan_encode(
    service: &Service,
    media: &Media,
    index: u32,
    limits: EncodeLimits<'_>,
    subtitle: &SubtitleDelivery,
    codec: CodecChoice<'_>,
) -> Result<EncodeVideo> {
    let found = media.video_streams().find(|(stream, _)| stream.index == index);
    let (stream, video) = found.ok_or_else(|| Error::internal(format!("the chosen stream {index} is not video")))?;
    let (width, height) = target_size(video, limits.max_height);
    let field_rate = field_rate(service, video, (width, height), limits.field_rate);
    let frame_rate = field_rate.unwrap_or_else(|| target_rate(video));
    let encoder = choose_encoder(service, codec, (width, height), frame_rate).await;
    let unavailable = || Error::new(Code::TranscoderUnavailable, "no video encoder works on this machine");
    let encoder = encoder.ok_or_else(unavailable)?;
    let rung_kbps = RUNGS.iter().rev().find(|(_, lines, _)| *lines >= height).map_or(RUNGS[0].2, |(.., kbps)| *kbps);
    // At original resolution, 1.5 times the rung's bit rate.
    let ceiling_kbps = if limits.max_height.is_some() { rung_kbps } else { rung_kbps + rung_kbps / 2 };
    let ceiling_kbps = ceiling_kbps * encoder.codec.bit_rate_percent() / 100;
    let limit_kbps = limits.max_bitrate_kbps.map(|limit| limit.saturating_sub(STEREO_KBPS).max(100));
    let burn = match subtitle {
        SubtitleDelivery::Burn(burn) => Some(burn.clone()),
        _ => None,
    };
    Ok(EncodeVideo {
        stream: stream.index,
        width,
        height,
        frame_rate,
        deinterlace: video.is_interlaced,
        has_frame_per_field: field_rate.is_some(),
        tone_map: video.hdr,
        burn,
        watermark: None,
        max_kbps: limit_kbps.map_or(ceiling_kbps, |limit| ceiling_kbps.min(limit)),
        codec: encoder.codec,
        encoder: encoder.name.to_owned(),
    })
}

async fn choose_encoder(
    service: &Service,
    codec: CodecChoice<'_>,
    (width, height): (u32, u32),
    rate: FrameRate,
) -> Option<&'static VideoEncoder> {
    let encoders = &service.local_encoders;
    let is_small = width.min(height) < MIN_SIDE_OF_OTHER_CODECS;
    match codec {
        _ if is_small => encoders.best(TargetCodec::H264).await,
        CodecChoice::Fixed(codec) => encoders.best(codec).await,
        CodecChoice::Preferred(client) => {
            let pixel_rate = f64::from(width) * f64::from(height) * rate.as_f64();
            let preferred: Vec<TargetCodec> = client.encoders_for((width, height), rate).collect();
            encoders.choose(&preferred, pixel_rate).await
        }
    }
}

/// The rate of the fields of interlaced video, if each becomes a frame: the client decodes H.264 with so many frames and one
/// encode slot keeps up.
fn field_rate(
    service: &Service,
    video: &Video,
    (width, height): (u32, u32),
    choice: FieldRate<'_>,
) -> Option<FrameRate> {
    let frame_rate = target_rate(video);
    let rate = FrameRate::new(frame_rate.num * 2, frame_rate.den)?;
    let fps = rate.as_f64();
    let cost = pixel_cost((width, height, fps), Some((video.width, video.height, frame_rate.as_f64())));
    let is_chosen = || match choice {
        FieldRate::FramePerPair => false,
        FieldRate::FramePerField => true,
        FieldRate::IfFastEnough(client) => {
            client.decodes_h264((width, height), rate) && service.renditions.encode_slots().keeps_up_with(cost)
        }
    };
    let is_field_rate = video.is_interlaced && !video.has_variable_frame_rate && fps <= 60.0;
    (is_field_rate && is_chosen()).then_some(rate)
}

/// The encoded size: never larger than the display size, both sides even.
fn target_size(video: &Video, max_height: Option<u32>) -> (u32, u32) {
    let (width, height) = video.display_size();
    let height_scale = max_height.map_or(1.0, |lines| f64::from(lines) / height);
    let area_scale = (MAX_PIXELS / (width * height)).sqrt();
    let scale = height_scale.min(area_scale).min(4096.0 / width.max(height) * 2.0).min(1.0);
    let even_side = |side: f64| ((side * scale / 2.0).round() as u32 * 2).max(2);
    (even_side(width), even_side(height))
}

/// The source's own rate if it is constant and plausible; its base rate if it is variable, so that no frame is dropped and all
/// are shown in time; otherwise the nearest standard one. At most 60.
pub(super) fn target_rate(video: &Video) -> FrameRate {
    let is_plausible = |rate: &FrameRate| (1.0..=240.0).contains(&rate.as_f64());
    let Some(rate) = video.frame_rate.filter(is_plausible) else { return FrameRate { num: 25, den: 1 } };
    let fps = rate.as_f64();
    let distance = |rate: &FrameRate| (rate.as_f64() - fps).abs();
    let by_distance = |a: &FrameRate, b: &FrameRate| distance(a).total_cmp(&distance(b));
    let standard = STANDARD_RATES.into_iter().min_by(by_distance).unwrap_or(FrameRate { num: 30, den: 1 });
    let is_usable_base = |base: &FrameRate| (fps..=60.0).contains(&base.as_f64());
    if let Some(base) = video.base_frame_rate.filter(|_| video.has_variable_frame_rate).filter(is_usable_base) {
        return base;
    }
    if video.has_variable_frame_rate || fps > 60.0 || (standard.as_f64() / fps - 1.0).abs() < 0.0005 {
        return standard;
    }
    rate
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample_video(width: u32, height: u32) -> Video {
        Video { frame_rate: FrameRate::new(25, 1), ..Video::new(width, height) }
    }

    #[test]
    fn sizes_are_as_shown_never_larger_and_even() {
        let size_of = |video: Video, lines| target_size(&video, lines);
        assert_eq!(size_of(sample_video(1920, 1080), None), (1920, 1080));
        assert_eq!(size_of(sample_video(1920, 1080), Some(720)), (1280, 720));
        assert_eq!(size_of(sample_video(640, 360), Some(1080)), (640, 360));
        assert_eq!(size_of(Video { sample_aspect: (64, 45), ..sample_video(720, 576) }, None), (1024, 576));
        assert_eq!(size_of(Video { rotation: 90, ..sample_video(1920, 1080) }, Some(720)), (406, 720));
        assert_eq!(size_of(sample_video(1, 1), None), (2, 2));
    }

    proptest! {
        #[test]
        fn every_size_can_be_encoded(
            width in 1u32..20_000, height in 1u32..20_000, num in 0u32..500, den in 0u32..500,
            rotation in prop_oneof![Just(0u16), Just(90), Just(180), Just(270)],
            lines in proptest::option::of(prop_oneof![Just(240u32), Just(720), Just(2160)]),
        ) {
            let video = Video { sample_aspect: (num, den), rotation, ..sample_video(width, height) };
            let (width, height) = target_size(&video, lines);
            prop_assert!(width >= 2 && height >= 2 && width % 2 == 0 && height % 2 == 0);
            prop_assert!(width <= 8192 && height <= 8192);
            prop_assert!(f64::from(width) * f64::from(height) <= MAX_PIXELS * 1.1);
        }
    }

    #[test]
    fn frame_rates_are_the_sources_own_or_a_sensible_constant() {
        let rate = |num, den, variable_frame_rate| {
            let frame_rate = FrameRate::new(num, den);
            let rate = target_rate(&Video {
                frame_rate,
                has_variable_frame_rate: variable_frame_rate,
                ..sample_video(640, 360)
            });
            (rate.num, rate.den)
        };
        assert_eq!(rate(24_000, 1001, false), (24_000, 1001));
        assert_eq!(rate(2997, 100, false), (30_000, 1001), "rounded to the standard rate");
        assert_eq!(rate(15, 1, false), (15, 1));
        assert_eq!(rate(28, 1, true), (30_000, 1001));
        let of_base = |num, den| {
            let base_frame_rate = FrameRate::new(num, den);
            let video = Video { frame_rate: FrameRate::new(244, 10), base_frame_rate, ..sample_video(640, 360) };
            let rate = target_rate(&Video { has_variable_frame_rate: true, ..video });
            (rate.num, rate.den)
        };
        assert_eq!(of_base(30_000, 1001), (30_000, 1001));
        assert_eq!(of_base(120, 1), (24, 1), "too fast");
        assert_eq!(of_base(15, 1), (24, 1), "slower than the average");
        assert_eq!(rate(120, 1, false), (60, 1));
        assert_eq!(rate(1000, 1, false), (25, 1), "a time base, not a rate");
        assert_eq!(rate(1, 10, false), (25, 1));
        assert_eq!(rate(0, 0, false), (25, 1));
    }
}
