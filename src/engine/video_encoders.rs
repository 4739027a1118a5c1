//! The video encoders of both backends, a row each: codec, names, device, pixel format, rate control and GOP.
//!
//! AV1 or HEVC takes a row here, a launch text in `pipelines/encoders/`, a variant of [`TargetCodec`] and a writer of its
//! segments (fragmented MP4).

use crate::domain::codec::TargetCodec::{self, H264};

/// A video encoder of ffmpeg and GStreamer.
#[derive(Debug, PartialEq, Eq)]
pub struct VideoEncoder {
    pub codec: TargetCodec,
    /// ffmpeg's name, in plans as well, e.g. `libx264`.
    pub name: &'static str,
    pub is_hardware: bool,
    /// The device file it needs, if any, and ffmpeg's global option for it.
    pub device: Option<(&'static str, &'static str)>,
    /// None if only GStreamer uses it, or if an earlier row has the same name.
    pub ffmpeg: Option<FfmpegEncoder>,
    pub gstreamer: EncoderElement,
}

/// ffmpeg's arguments of an encoder.
#[derive(Debug, PartialEq, Eq)]
pub struct FfmpegEncoder {
    /// Whether runs use it. Otherwise it is tested for diagnostics only.
    pub is_supported: bool,
    /// Last filters before it.
    pub filter: &'static str,
    /// Rate control and GOP in a run: `{gop}` are the options of its length, `{kbps}` is the maximum bit rate.
    pub run_args: &'static str,
    /// Its arguments in commands that set a bit rate: slates and external channels.
    pub bitrate_args: &'static str,
}

/// GStreamer's element of an encoder.
#[derive(Debug, PartialEq, Eq)]
pub struct EncoderElement {
    /// Its name, and that of its launch text.
    pub element: &'static str,
    pub launch: &'static str,
    /// Its pixel format, e.g. `NV12`.
    pub format: &'static str,
    /// Property of the bit rate, if it has one, and how many of its units make one kbit/s.
    pub rate: Option<(&'static str, u32)>,
    /// Property of the keyframe interval, if it has one.
    pub keyframe_interval: Option<&'static str>,
    /// Properties for a run's first segment, which a viewer waits for: faster at the cost of size.
    pub first_segment: &'static [(&'static str, &'static str)],
}

macro_rules! element {
    ($element:literal, $format:literal, $rate:expr, $keyframe_interval:expr) => {
        EncoderElement {
            element: $element,
            launch: include_str!(concat!("../../pipelines/encoders/", $element, ".launch")),
            format: $format,
            rate: $rate,
            keyframe_interval: $keyframe_interval,
            first_segment: &[],
        }
    };
}

/// A row of an encoder that ffmpeg does not use.
const fn row(codec: TargetCodec, name: &'static str, is_hardware: bool, gstreamer: EncoderElement) -> VideoEncoder {
    VideoEncoder { codec, name, is_hardware, device: None, ffmpeg: None, gstreamer }
}

/// ffmpeg tests it, and runs do not use it.
const fn tested(filter: &'static str, run_args: &'static str) -> Option<FfmpegEncoder> {
    Some(FfmpegEncoder { is_supported: false, filter, run_args, bitrate_args: "" })
}

const VAAPI_DEVICE: Option<(&str, &str)> = Some(("/dev/dri/renderD128", "-vaapi_device"));

/// Best first: hardware before software, because it leaves the processor to other viewers.
pub static VIDEO_ENCODERS: [VideoEncoder; 7] = [
    VideoEncoder {
        ffmpeg: tested("format=nv12", "-preset p4 -rc vbr -cq 23 -no-scenecut 1 -forced-idr 1 -bf 0 {gop}"),
        ..row(H264, "h264_nvenc", true, element!("nvh264enc", "NV12", Some(("max-bitrate", 1)), Some("gop-size")))
    },
    VideoEncoder {
        ffmpeg: tested("format=nv12", "-preset veryfast -global_quality 23 -idr_interval 0 -forced_idr 1 -bf 0 {gop}"),
        ..row(H264, "h264_qsv", true, element!("qsvh264enc", "NV12", Some(("bitrate", 1)), Some("gop-size")))
    },
    VideoEncoder {
        device: VAAPI_DEVICE,
        ffmpeg: tested("format=nv12,hwupload", "-rc_mode VBR -bf 0 {gop} -b:v {kbps}k"),
        ..row(H264, "h264_vaapi", true, element!("vah264enc", "NV12", Some(("bitrate", 1)), Some("key-int-max")))
    },
    VideoEncoder {
        device: VAAPI_DEVICE,
        ..row(H264, "h264_vaapi", true, element!("vaapih264enc", "NV12", Some(("bitrate", 1)), Some("keyframe-period")))
    },
    VideoEncoder {
        ffmpeg: tested("format=yuv420p", "{gop}"),
        ..row(H264, "h264_v4l2m2m", true, element!("v4l2h264enc", "NV12", None, None))
    },
    VideoEncoder {
        // A short lookahead, because each frame of it delays the first segment by a frame; motion search as in other
        // servers. Processor time to the first 2 s of 1080p, measured: 2.25 s; with a lookahead of ten 2.4 s. Without
        // partitions in P pictures an eighth less, for 1 to 7 % more bytes at the same SSIM (three films).
        ffmpeg: Some(FfmpegEncoder {
            is_supported: true,
            filter: "format=yuv420p",
            run_args: "-preset veryfast -crf 23 -profile:v high -sc_threshold 0 {gop} \
                       -x264-params rc-lookahead=5:subme=0:open-gop=0:partitions=i4x4,i8x8",
            bitrate_args: "-preset veryfast -profile:v high -sc_threshold 0",
        }),
        ..row(
            H264,
            "libx264",
            false,
            EncoderElement {
                // A fifth less processor time for a twentieth more bytes at the same SSIM (measured).
                first_segment: &[(
                    "option-string",
                    "scenecut=0:open-gop=0:rc-lookahead=5:subme=0:partitions=none:b-adapt=0:weightp=0",
                )],
                ..element!("x264enc", "I420", Some(("bitrate", 1)), Some("key-int-max"))
            },
        )
    },
    row(H264, "libopenh264", false, element!("openh264enc", "I420", Some(("bitrate", 1000)), Some("gop-size"))),
];

impl VideoEncoder {
    /// `-c:v` with its options, for commands that set a bit rate: slates and external channels.
    pub(super) fn bitrate_args(&self) -> String {
        format!("-c:v {} {}", self.name, self.ffmpeg.as_ref().map_or("", |ffmpeg| ffmpeg.bitrate_args))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_launch_text_names_its_element_as_pipelines_look_it_up() {
        for VideoEncoder { gstreamer: EncoderElement { element, launch, .. }, .. } in &VIDEO_ENCODERS {
            assert_eq!(launch.split_whitespace().take(2).collect::<Vec<_>>(), [*element, "name=video_encoder"]);
        }
    }
}
