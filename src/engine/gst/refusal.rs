//! The renditions that GStreamer leaves to ffmpeg, each with its reason.

use super::copied_audio;
use super::source_refusal::source_refusal;
use crate::domain::codec::TargetCodec;
use crate::domain::media::{Container, Media, Stream, StreamKind};
use crate::domain::plan::{AudioPlan, BurnedSubtitle, EncodeVideo, Rendition, VideoPlan};
use crate::engine::worker::message::EngineReport;
use crate::engine::{Job, Result, RunError};

/// The channel layouts of FLAC (RFC 9639 section 9.1.3) that flacdec decodes rightly, as ffmpeg names them. It swaps the channels of
/// 6.1 and 7.1 (GStreamer 1.22, measured), and avdec_flac loses a frame (4,608 samples) of some files in Matroska.
const FLAC_LAYOUTS: [&str; 8] = ["mono", "stereo", "3.0", "quad", "5.0", "5.0(side)", "5.1", "5.1(side)"];

/// Checks that GStreamer can make the segments of a job.
///
/// # Errors
/// `Internal` with the reason of the refusal, or for a segment past the end.
pub fn check_job(job: &Job, report: &EngineReport) -> Result<()> {
    if job.first >= job.spec.grid.len() {
        return Err(RunError::Internal(format!("segment {} is past the end", job.first)));
    }
    match refusal_reason(&job.spec.media, &job.spec.rendition, report) {
        Some(reason) => Err(RunError::Internal(format!("GStreamer does not make this rendition: {reason}"))),
        None => Ok(()),
    }
}

/// Why GStreamer leaves a rendition to ffmpeg on a machine with these elements; None if it can make it. Touches no element.
pub fn refusal_reason(media: &Media, rendition: &Rendition, report: &EngineReport) -> Option<&'static str> {
    match &rendition.video {
        Some(VideoPlan::Copy { .. }) => return Some("ffmpeg copies video in an eighth of the processor time"),
        Some(VideoPlan::Encode(plan)) if plan.codec != TargetCodec::H264 => {
            return Some("the pipelines of GStreamer encode H.264 only");
        }
        Some(VideoPlan::Encode(plan)) if plan.tone_map.is_some() => {
            return Some("no element of GStreamer maps HDR to SDR without a graphics card");
        }
        Some(VideoPlan::Encode(plan)) if plan.watermark.is_some() && !can_overlay_watermarks(report) => {
            return Some("this GStreamer lacks overlaycomposition, pngdec or avdec_mjpeg to overlay a watermark");
        }
        Some(VideoPlan::Encode(EncodeVideo { burn: Some(burn), .. })) => match burn {
            BurnedSubtitle::Embedded { stream, bitmap: true } if !can_overlay_subtitles(media, *stream) => {
                return Some("bitmap subtitles are read from Matroska (PGS, VobSub) and mp4 files (VobSub) only");
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
    if let Some(AudioPlan::Copy { stream }) = rendition.audio {
        if rendition.video.is_none() {
            return Some("ffmpeg copies audio alone in less time");
        }
        if media.stream(stream).is_none_or(|stream| copied_audio::stream_type(&stream.codec).is_none()) {
            return Some("GStreamer copies AAC and MP3 only");
        }
    }
    if let Some(AudioPlan::Encode { stream, channels, .. }) = rendition.audio {
        if channels > 6 {
            return Some("the AAC encoder of GStreamer takes at most six channels");
        }
        if media.stream(stream).is_some_and(|stream| has_unread_layout(media.container, stream)) {
            return Some("GStreamer does not read the channel layout that this file states");
        }
    }
    source_refusal(media, rendition)
}

/// Whether the channels of this audio stream have other positions than the decoder assumes. FLAC states them in a tag, PCM in mp4 in
/// a box, which GStreamer 1.22 does not read. PCM in Matroska states none, and the default layouts of GStreamer and ffmpeg differ.
fn has_unread_layout(container: Container, stream: &Stream) -> bool {
    let StreamKind::Audio(audio) = &stream.kind else { return false };
    let layout = audio.channel_layout.as_deref();
    match stream.codec.as_str() {
        "flac" => layout.is_some_and(|layout| !FLAC_LAYOUTS.contains(&layout)),
        codec if codec.starts_with("pcm_") && container != Container::Wav => match audio.channels {
            1 | 2 => false,
            6 => layout.is_some_and(|layout| !matches!(layout, "5.1" | "5.1(side)")),
            8 => layout.is_some_and(|layout| layout != "7.1"),
            _ => true,
        },
        _ => false,
    }
}

/// Whether this GStreamer has the elements that decode and overlay watermarks.
fn can_overlay_watermarks(report: &EngineReport) -> bool {
    ["overlaycomposition", "pngdec", "avdec_mjpeg"].into_iter().all(|element| report.has(element))
}

/// Whether this stream contains bitmap subtitles that can be read: PGS or VobSub in Matroska, VobSub in mp4.
fn can_overlay_subtitles(media: &Media, stream: u32) -> bool {
    let codec = media.stream(stream).map(|stream| stream.codec.as_str());
    match media.container {
        Container::Matroska | Container::Webm => matches!(codec, Some("hdmv_pgs_subtitle" | "dvd_subtitle")),
        Container::Mp4 => codec == Some("dvd_subtitle"),
        _ => false,
    }
}
