//! Skips frames before a run's start that nothing refers to.
//!
//! A run that starts between two keyframes decodes from the keyframe before it and shows nothing of that. Frames that no other
//! frame refers to (usually half of the B-frames) need not be decoded: they are dropped before the decoder. ffmpeg cannot
//! stop skipping midway, and the property `skip-frame` of GStreamer's decoders has values that libavcodec no longer knows.

use gstreamer as gst;
use gstreamer::prelude::*;

use super::item_clock::ItemClock;
use super::panic_guard::ThreadWaker;
use super::running_pipeline::RunningPipeline;
use crate::domain::media::Video;
use crate::domain::time::FrameRate;

/// Frames right before the start that are always decoded: the first grid frame may show one of them.
const KEPT_FRAMES: f64 = 5.0;

/// Bytes of a NAL unit's length, as configuration records state it; for caps without a record nothing is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    Avc {
        length_bytes: usize,
    },
    /// `sub_layers`: number of temporal sub-layers.
    Hevc {
        length_bytes: usize,
        sub_layers: u8,
    },
}

/// Makes the video decoder of a pipeline skip what is not needed before `start_seconds` of the item. Only for video of a constant
/// frame rate: otherwise the frame shown at the start may lie far before it.
pub(super) fn skip_before(
    pipeline: &RunningPipeline,
    video: &Video,
    clock: ItemClock,
    start_seconds: f64,
    wake: &ThreadWaker,
) {
    let Some(rate) = video.frame_rate.filter(|_| !video.has_variable_frame_rate) else { return };
    let Some(needed_from) = needed_from(start_seconds, rate) else { return };
    let wake = wake.clone();
    pipeline.on_element_added(move |element| {
        let is_decoder = element.factory().is_some_and(|factory| {
            factory.has_type(gst::ElementFactoryType::DECODER | gst::ElementFactoryType::MEDIA_VIDEO)
        });
        if let Some(pad) = element.static_pad("sink").filter(|_| is_decoder) {
            drop_unneeded(&pad, clock, needed_from, wake.clone());
        }
    });
}

/// The time from which all frames are decoded, nanoseconds of the item; None if the run starts at the beginning.
fn needed_from(start_seconds: f64, rate: FrameRate) -> Option<i64> {
    let seconds = start_seconds - KEPT_FRAMES / rate.as_f64();
    (seconds > 0.0).then_some((seconds * 1e9) as i64)
}

fn drop_unneeded(pad: &gst::Pad, clock: ItemClock, needed_from: i64, wake: ThreadWaker) {
    pad.add_probe(gst::PadProbeType::BUFFER, move |pad, info| {
        let is_unneeded = || {
            let Some(gst::PadProbeData::Buffer(buffer)) = &info.data else { return false };
            let Some(time) = item_nanoseconds(pad, clock, buffer) else { return false };
            let coding = pad.current_caps().and_then(|caps| Coding::from_caps(&caps));
            time < needed_from
                && coding.zip(buffer.map_readable().ok()).is_some_and(|(coding, bytes)| coding.is_disposable(&bytes))
        };
        wake.run_callback("skip", gst::PadProbeReturn::Ok, || {
            // Not `Drop`: after a Rust probe GStreamer then warns that there is nothing to drop.
            if is_unneeded() { gst::PadProbeReturn::Handled } else { gst::PadProbeReturn::Ok }
        })
    });
}

/// When a buffer is shown, nanoseconds of the item.
fn item_nanoseconds(pad: &gst::Pad, clock: ItemClock, buffer: &gst::Buffer) -> Option<i64> {
    let segment = pad.sticky_event::<gst::event::Segment>(0)?;
    clock.item_nanoseconds(segment.segment(), buffer.pts()?)
}

impl Coding {
    /// From the configuration record in the caps (ISO/IEC 14496-15).
    fn from_caps(caps: &gst::Caps) -> Option<Self> {
        let fields = caps.structure(0)?;
        let record = fields.get::<gst::Buffer>("codec_data").ok()?;
        let record = record.map_readable().ok()?;
        Self::from_record(fields.name(), &record)
    }

    fn from_record(media_type: &str, record: &[u8]) -> Option<Self> {
        match media_type {
            "video/x-h264" => Some(Self::Avc { length_bytes: usize::from(record.get(4)? & 3) + 1 }),
            "video/x-h265" => {
                let byte = record.get(21)?;
                Some(Self::Hevc { length_bytes: usize::from(byte & 3) + 1, sub_layers: byte >> 3 & 7 })
            }
            _ => None,
        }
    }

    /// Whether no other frame refers to the frame in these bytes. False when in doubt.
    fn is_disposable(self, bytes: &[u8]) -> bool {
        let length_bytes = match self {
            Self::Avc { length_bytes } | Self::Hevc { length_bytes, .. } => length_bytes,
        };
        let (mut rest, mut has_slice) = (bytes, false);
        while !rest.is_empty() {
            let Some((length, after)) = rest.split_at_checked(length_bytes) else { return false };
            let length = length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            let Some((nal, after)) = after.split_at_checked(length) else { return false };
            rest = after;
            match self.is_disposable_slice(nal) {
                Some(true) => has_slice = true,
                Some(false) => return false,
                None => {}
            }
        }
        has_slice
    }

    /// Whether nothing refers to this slice; None if the unit is no slice.
    fn is_disposable_slice(self, nal: &[u8]) -> Option<bool> {
        match (self, nal) {
            // nal_ref_idc (ITU-T H.264 section 7.4.1).
            (Self::Avc { .. }, [header, ..]) => (1..=5).contains(&(header & 0x1f)).then_some(header & 0x60 == 0),
            // Even types below 16 are sub-layer non-reference pictures; those of the highest sub-layer are referred to by
            // none (ITU-T H.265 section 7.4.2.2).
            (Self::Hevc { sub_layers, .. }, [first, second, ..]) => {
                let (kind, sub_layer) = (first >> 1 & 0x3f, second & 7);
                (kind < 32).then_some(kind < 16 && kind % 2 == 0 && sub_layers > 0 && sub_layer == sub_layers)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(units: &[&[u8]]) -> Vec<u8> {
        units.iter().flat_map(|unit| [&(unit.len() as u32).to_be_bytes()[..], unit].concat()).collect()
    }

    #[test]
    fn only_frames_that_nothing_refers_to_are_skipped() {
        let avc = Coding::from_record("video/x-h264", &[1, 100, 0, 31, 0xff]).unwrap();
        assert_eq!(avc, Coding::Avc { length_bytes: 4 });
        assert!(avc.is_disposable(&units(&[&[0x06, 1], &[0x01, 0x9a]])), "a B-frame with nal_ref_idc 0 and an SEI");
        assert!(!avc.is_disposable(&units(&[&[0x41, 0x9a]])), "a P-frame");
        assert!(!avc.is_disposable(&units(&[&[0x01, 0x9a], &[0x21, 0x9a]])), "one slice of two is referred to");
        assert!(!avc.is_disposable(&units(&[&[0x06, 1]])), "no slice");
        assert!(!avc.is_disposable(&[0, 0, 0, 9, 1]), "a truncated unit");
        let record: Vec<u8> = (0..22).map(|at| if at == 21 { 1 << 3 | 3 } else { 0 }).collect();
        let hevc = Coding::from_record("video/x-h265", &record).unwrap();
        assert_eq!(hevc, Coding::Hevc { length_bytes: 4, sub_layers: 1 });
        assert!(hevc.is_disposable(&units(&[&[0x00, 0x01, 0xaf]])), "TRAIL_N");
        assert!(!hevc.is_disposable(&units(&[&[0x02, 0x01, 0xaf]])), "TRAIL_R");
        assert!(!hevc.is_disposable(&units(&[&[0x26, 0x01, 0xaf]])), "IDR");
        let layered = Coding::Hevc { length_bytes: 4, sub_layers: 2 };
        assert!(!layered.is_disposable(&units(&[&[0x00, 0x01, 0xaf]])), "the layer above may refer to it");
        assert!(layered.is_disposable(&units(&[&[0x00, 0x02, 0xaf]])));
        let unknown = Coding::Hevc { length_bytes: 4, sub_layers: 0 };
        assert!(!unknown.is_disposable(&units(&[&[0x00, 0x01, 0xaf]])));
    }

    #[test]
    fn frames_right_before_the_start_are_kept() {
        let rate = FrameRate { num: 25, den: 1 };
        assert_eq!(needed_from(2.0, rate), Some(1_800_000_000));
        assert_eq!(needed_from(0.1, rate), None);
    }
}
