//! The renditions that GStreamer leaves to ffmpeg, each with its reason.

use crate::domain::media::{Container, Media, Stream};
use crate::domain::plan::{AudioPlan, BurnedSubtitle, EncodeVideo, Rendition, VideoPlan};
use crate::engine::worker::message::EngineReport;

/// Why GStreamer leaves a rendition to ffmpeg on a machine with these elements; None if it can make it. Touches no element.
pub fn refusal_reason(media: &Media, rendition: &Rendition, report: &EngineReport) -> Option<&'static str> {
    match &rendition.video {
        Some(VideoPlan::Copy { .. }) => return Some("ffmpeg copies video in an eighth of the processor time"),
        Some(VideoPlan::Encode(plan)) if plan.tone_map.is_some() => {
            return Some("no element of GStreamer maps HDR to SDR without a graphics card");
        }
        Some(VideoPlan::Encode(plan)) if plan.watermark.is_some() => return Some("watermarks are overlaid by ffmpeg"),
        Some(VideoPlan::Encode(EncodeVideo { burn: Some(burn), .. })) => match burn {
            BurnedSubtitle::Embedded { stream, bitmap: true } if !can_overlay_subtitles(media, *stream) => {
                return Some("PGS and VobSub are read from Matroska files only");
            }
            burn if burn.is_bitmap() && !report.has("overlaycomposition") => {
                return Some("this GStreamer has no overlaycomposition to burn in bitmap subtitles");
            }
            burn if !burn.is_bitmap() && !report.has("assrender") => {
                return Some("this GStreamer has no assrender to burn in text subtitles");
            }
            _ => {}
        },
        Some(VideoPlan::Encode(_)) | None => {}
    }
    if let Some(AudioPlan::Copy { .. }) = rendition.audio {
        return Some("copied audio keeps the frame grid of its source, which ffmpeg's muxer knows");
    }
    if let Some(AudioPlan::Encode { gain_tenths_db: Some(_), .. }) = rendition.audio {
        return Some("audio is levelled by ffmpeg's limiter");
    }
    if !media.clock_pieces.is_empty() {
        return Some("its pieces are put on one clock, in a pipe that ffmpeg reads");
    }
    match media.container {
        Container::Mp4 | Container::Matroska | Container::Webm => {}
        // Times start at the first clock reference, and a seek is a guess.
        Container::MpegTs | Container::MpegPs => return Some("a stream's times do not start at its first frame"),
        _ if rendition.video.is_some() => return Some("seeking in this container is not exact"),
        Container::Flac | Container::Wav | Container::Ogg => {}
        _ => return Some("seeking in this container is not exact"),
    }
    (media.start_seconds.abs() > 0.001).then_some("its clock does not start at 0")
}

/// Whether this stream contains bitmap subtitles that can be read: PGS or VobSub in Matroska.
fn can_overlay_subtitles(media: &Media, stream: u32) -> bool {
    let is_supported = |stream: &Stream| matches!(stream.codec.as_str(), "hdmv_pgs_subtitle" | "dvd_subtitle");
    matches!(media.container, Container::Matroska | Container::Webm) && media.stream(stream).is_some_and(is_supported)
}
