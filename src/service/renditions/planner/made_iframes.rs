//! I-frames of sessions whose video has no keyframes in the file that can be sent: it is encoded, or copied by conversion.

use super::SessionPlan;
use super::ladder::Rung;
use crate::domain::codec::TargetCodec;
use crate::domain::plan::VideoPlan;
use crate::domain::playlist::{PlaylistTrack, Variant};
use crate::domain::segment_format::SegmentFormat;
use crate::domain::time::FrameRate;
use crate::engine::artwork::iframe::MAX_FRAME_KBITS;

/// Largest width and height of a frame, pixels: level 3 of H.264 suffices.
const MAX_SIDE: f64 = 640.0;

/// I-frames that are made for a session, on the grid of one of its rungs.
#[derive(Clone, Copy, Debug)]
pub struct MadeIFrames<'a> {
    /// In whose name they are listed.
    pub track: PlaylistTrack,
    pub rung: &'a Rung,
    /// ffmpeg's index of the video.
    pub stream: u32,
    /// Pixels.
    pub size: (u32, u32),
}

impl SessionPlan {
    /// The I-frames that are made for the session; None if one of its rungs has those of its file, in MPEG-TS and without
    /// video.
    pub fn made_iframes(&self) -> Option<MadeIFrames<'_>> {
        let is_packaged = self.rungs.iter().any(|rung| rung.iframe_bandwidth.is_some());
        if is_packaged || self.format() != SegmentFormat::Fmp4 {
            return None;
        }
        let (number, rung) = self.rungs.iter().enumerate().next_back()?;
        let stream = match rung.spec.rendition.video.as_ref()? {
            VideoPlan::Encode(plan) => plan.stream,
            VideoPlan::Copy { stream } => *stream,
        };
        let size = iframe_size(rung.size?);
        Some(MadeIFrames { track: PlaylistTrack::Video(number), rung, stream, size })
    }
}

impl MadeIFrames<'_> {
    /// The entry of the multivariant playlist that leads to them. The codec is `avc1` where a client does not know `avc3`.
    pub fn variant(&self, knows_avc3: bool) -> Variant {
        let codec = TargetCodec::H264.string_of_encode(None, self.size, FrameRate { num: 25, den: 1 });
        // The first segments may be shorter than the others.
        let shortest = self.rung.spec.grid.segment_length(0).as_seconds().max(0.1);
        let bandwidth = (f64::from(MAX_FRAME_KBITS) * 1000.0 / shortest) as u64;
        Variant {
            track: self.track,
            codecs: Some(if knows_avc3 { codec } else { codec.replacen("avc3", "avc1", 1) }),
            supplemental_codecs: None,
            size: Some(self.size),
            frame_rate: None,
            video_range: None,
            bandwidth,
            average_bandwidth: bandwidth,
            iframe_bandwidth: Some(bandwidth),
        }
    }
}

/// A size with these proportions within [`MAX_SIDE`], in even numbers.
fn iframe_size((width, height): (u32, u32)) -> (u32, u32) {
    let scale = (MAX_SIDE / f64::from(width.max(height).max(1))).min(1.0);
    let even = |side: u32| ((f64::from(side) * scale / 2.0).round() as u32 * 2).max(2);
    (even(width), even(height))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_keep_their_proportions_within_level_3() {
        assert_eq!(iframe_size((1920, 800)), (640, 266));
        assert_eq!(iframe_size((1080, 1920)), (360, 640));
        assert_eq!(iframe_size((320, 180)), (320, 180), "never enlarged");
        assert_eq!(iframe_size((7680, 2)), (640, 2));
        assert_eq!(iframe_size((1, 1)), (2, 2));
        let (width, height) = iframe_size((4096, 4096));
        assert_eq!(
            TargetCodec::H264.string_of_encode(None, (width, height), FrameRate { num: 25, den: 1 }),
            "avc3.64001e"
        );
    }
}
