//! Streams that no packager lays out as CMAF, but ffmpeg copies into MPEG-TS segments, which are converted
//! ([`CmafConverter`](crate::engine::cmaf_converter::CmafConverter)).

use crate::domain::media::{Audio, Container, Hdr, Media, Stream, StreamKind};

/// Sample rates below this are MPEG-2 (ISO/IEC 13818-3).
const MIN_MPEG1_RATE: u32 = 32_000;

/// Whether a stream is copied by conversion. The other containers have tables, or state no presentation times.
///
/// Interlaced video may have a field in each packet, where a sample has a frame. Dolby Vision without a base layer for other decoders
/// needs a configuration, which transport streams state in a descriptor and program streams nowhere.
pub(super) fn is_convertible(media: &Media, stream: &Stream) -> bool {
    let has_container = matches!(media.container, Container::MpegTs | Container::MpegPs);
    let has_codec = match &stream.kind {
        StreamKind::Video(video) => {
            let is_configured = video.hdr != Some(Hdr::DolbyVision) || video.dolby_vision.is_some();
            let has_base_layer = video.dolby_vision.is_none_or(|config| config.has_base_layer);
            matches!(&*stream.codec, "h264" | "hevc") && !video.is_interlaced && is_configured && has_base_layer
        }
        StreamKind::Audio(_) => matches!(&*stream.codec, "aac" | "ac3" | "eac3" | "mp3"),
        _ => false,
    };
    has_container && has_codec
}

/// The codec string (RFC 6381) of converted audio.
pub(super) fn codec_string(stream: &Stream, audio: &Audio) -> String {
    match (&*stream.codec, audio.sample_rate < MIN_MPEG1_RATE) {
        ("mp3", true) => "mp4a.69".to_owned(),
        ("mp3", false) => "mp4a.6B".to_owned(),
        _ => stream.codec_string.clone().unwrap_or_else(|| "mp4a.40.2".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::media::{DolbyVision, Video};

    #[test]
    fn broadcast_codecs_are_converted_from_streams_with_times() {
        let stream = |codec, kind| Stream::new(0, codec, kind);
        let video = |codec| stream(codec, StreamKind::Video(Video::new(64, 36)));
        let audio = |codec| stream(codec, StreamKind::Audio(Audio::new(2, 48_000)));
        let interlaced = Video { is_interlaced: true, ..Video::new(64, 36) };
        let unconfigured = Video { hdr: Some(Hdr::DolbyVision), ..Video::new(64, 36) };
        let base = DolbyVision {
            profile: 5,
            level: 6,
            has_metadata: true,
            has_enhancement_layer: false,
            has_base_layer: true,
            compatibility: 0,
        };
        let dolby_vision = Video { dolby_vision: Some(base), ..unconfigured.clone() };
        let enhancement = DolbyVision { has_base_layer: false, has_enhancement_layer: true, ..base };
        let enhancement = Video { dolby_vision: Some(enhancement), ..Video::new(64, 36) };
        let is_convertible_in = |container, stream: &Stream| is_convertible(&Media::new(container, Vec::new()), stream);
        for (stream, expected) in [
            (video("h264"), true),
            (video("hevc"), true),
            (video("mpeg2video"), false),
            (stream("h264", StreamKind::Video(interlaced)), false),
            (stream("hevc", StreamKind::Video(unconfigured)), false),
            (stream("hevc", StreamKind::Video(dolby_vision)), true),
            (stream("hevc", StreamKind::Video(enhancement)), false),
            (audio("aac"), true),
            (audio("ac3"), true),
            (audio("eac3"), true),
            (audio("mp3"), true),
            (audio("mp2"), false),
            (audio("dts"), false),
        ] {
            assert_eq!(is_convertible_in(Container::MpegTs, &stream), expected, "{stream:?}");
            assert_eq!(is_convertible_in(Container::MpegPs, &stream), expected, "{stream:?}");
            assert!(!is_convertible_in(Container::Avi, &stream));
        }
        let mp3 = |sample_rate| codec_string(&audio("mp3"), &Audio::new(2, sample_rate));
        assert_eq!((&*mp3(48_000), &*mp3(24_000)), ("mp4a.6B", "mp4a.69"));
    }
}
