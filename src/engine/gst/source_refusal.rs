//! The files that GStreamer leaves to ffmpeg because their times would not be exact, each with its reason.

use super::pes_feed::payload_caps;
use crate::domain::media::{Container, Media, Stream};
use crate::domain::mpegps::stream_id::is_readable_codec;
use crate::domain::plan::{AudioPlan, Rendition, VideoPlan};

/// Why GStreamer does not read the streams of this rendition; None if it reads them with exact times.
pub(super) fn source_refusal(media: &Media, rendition: &Rendition) -> Option<&'static str> {
    if !media.clock_pieces.is_empty() && media.container != Container::MpegTs {
        return Some("its pieces are put on one clock, in a pipe that ffmpeg reads");
    }
    let video = match &rendition.video {
        Some(VideoPlan::Encode(plan)) => media.stream(plan.stream),
        _ => None,
    };
    let audio = match rendition.audio {
        Some(AudioPlan::Encode { stream, .. } | AudioPlan::Copy { stream }) => media.stream(stream),
        None => None,
    };
    let streams = || [video, audio].into_iter().flatten();
    match media.container {
        Container::Mp4 | Container::Matroska | Container::Webm => None,
        Container::Avi
            if video.is_some_and(|video| !is_stored_in_display_order(video) && !is_reordered_mpeg4(video)) =>
        {
            Some("AVI states no display times for video of this codec with B-frames")
        }
        Container::Avi => None,
        Container::MpegTs if streams().any(|stream| payload_caps(&stream.codec).is_none()) => {
            Some("this codec of a transport stream is decoded by ffmpeg")
        }
        Container::MpegPs if streams().any(|stream| !is_readable_codec(&stream.codec)) => {
            Some("this codec of a program stream is decoded by ffmpeg")
        }
        Container::MpegTs | Container::MpegPs => None,
        _ if rendition.video.is_some() => Some("seeking in this container is not exact"),
        Container::Flac | Container::Wav | Container::Ogg => {
            (media.start_seconds.abs() > 0.001).then_some("its clock does not start at 0")
        }
        _ => Some("seeking in this container is not exact"),
    }
}

/// Whether this is MPEG-4 video that may have B-frames: of AVI files it is fed, with times from the types of its frames.
pub(super) fn is_reordered_mpeg4(video: &Stream) -> bool {
    video.codec == "mpeg4" && !is_stored_in_display_order(video)
}

/// Whether this video has no B-frames, by its codec and profile, so that frames are stored in the order of display.
fn is_stored_in_display_order(video: &Stream) -> bool {
    match video.codec.as_str() {
        "mpeg4" => video.profile.as_deref() == Some("simple-profile"),
        codec => matches!(
            codec,
            "mjpeg" | "dvvideo" | "huffyuv" | "ffv1" | "msmpeg4v1" | "msmpeg4v2" | "msmpeg4v3" | "wmv1" | "wmv2"
        ),
    }
}
