//! The video encoders of both backends, a row each: codec, names, device, pixel format, rate control and GOP.

use super::hardware_devices::vaapi_device;
use crate::domain::codec::TargetCodec::{self, Av1, H264, Hevc};

/// A video encoder of ffmpeg and GStreamer.
#[derive(Debug, PartialEq, Eq)]
pub struct VideoEncoder {
    pub codec: TargetCodec,
    /// ffmpeg's name, in plans as well, e.g. `libx264`.
    pub name: &'static str,
    pub is_hardware: bool,
    /// None if only GStreamer uses it, or if an earlier row has the same name.
    pub ffmpeg: Option<FfmpegEncoder>,
    /// None if only ffmpeg uses it.
    pub gstreamer: Option<EncoderElement>,
}

/// ffmpeg's arguments of an encoder.
#[derive(Debug, PartialEq, Eq)]
pub struct FfmpegEncoder {
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
    VideoEncoder { codec, name, is_hardware, ffmpeg: None, gstreamer: Some(gstreamer) }
}

/// A row of an encoder that GStreamer does not use: its pipelines make H.264 only.
const fn ffmpeg_row(
    codec: TargetCodec,
    name: &'static str,
    is_hardware: bool,
    ffmpeg: Option<FfmpegEncoder>,
) -> VideoEncoder {
    VideoEncoder { codec, name, is_hardware, ffmpeg, gstreamer: None }
}

/// Arguments of a hardware encoder, which only runs use: slates and external channels are encoded in software.
const fn hardware(filter: &'static str, run_args: &'static str) -> Option<FfmpegEncoder> {
    Some(FfmpegEncoder { filter, run_args, bitrate_args: "" })
}

/// Best first within a codec: hardware before software, because it leaves the processor to other viewers.
pub static VIDEO_ENCODERS: [VideoEncoder; 14] = [
    VideoEncoder {
        ffmpeg: hardware("format=nv12", "-preset p4 -rc vbr -cq 23 -no-scenecut 1 -forced-idr 1 -bf 0 {gop}"),
        ..row(H264, "h264_nvenc", true, element!("nvh264enc", "NV12", Some(("max-bitrate", 1)), Some("gop-size")))
    },
    VideoEncoder {
        ffmpeg: hardware(
            "format=nv12",
            "-preset veryfast -global_quality 23 -idr_interval 0 -forced_idr 1 -bf 0 {gop}",
        ),
        ..row(H264, "h264_qsv", true, element!("qsvh264enc", "NV12", Some(("bitrate", 1)), Some("gop-size")))
    },
    VideoEncoder {
        ffmpeg: hardware("format=nv12,hwupload", "-rc_mode VBR -bf 0 {gop} -b:v {kbps}k"),
        ..row(H264, "h264_vaapi", true, element!("vah264enc", "NV12", Some(("bitrate", 1)), Some("key-int-max")))
    },
    row(H264, "h264_vaapi", true, element!("vaapih264enc", "NV12", Some(("bitrate", 1)), Some("keyframe-period"))),
    VideoEncoder {
        ffmpeg: hardware("format=yuv420p", "{gop} -b:v {kbps}k"),
        ..row(H264, "h264_v4l2m2m", true, element!("v4l2h264enc", "NV12", None, None))
    },
    ffmpeg_row(
        H264,
        "h264_videotoolbox",
        true,
        hardware("format=nv12", "-allow_sw 0 -realtime 0 -profile:v high -bf 0 {gop} -b:v {kbps}k"),
    ),
    VideoEncoder {
        // A short lookahead, because each frame of it delays the first segment by a frame; motion search as in other
        // servers. Processor time to the first 2 s of 1080p, measured: 2.25 s; with a lookahead of ten 2.4 s. Without
        // partitions in P pictures an eighth less, for 1 to 7 % more bytes at the same SSIM (three films).
        ffmpeg: Some(FfmpegEncoder {
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
    ffmpeg_row(
        Hevc,
        "hevc_nvenc",
        true,
        hardware("format=nv12", "-preset p4 -rc vbr -cq 26 -no-scenecut 1 -forced-idr 1 -bf 0 {gop}"),
    ),
    ffmpeg_row(
        Hevc,
        "hevc_qsv",
        true,
        hardware("format=nv12", "-preset veryfast -global_quality 26 -idr_interval 1 -forced_idr 1 -bf 0 {gop}"),
    ),
    ffmpeg_row(Hevc, "hevc_vaapi", true, hardware("format=nv12,hwupload", "-rc_mode VBR -bf 0 {gop} -b:v {kbps}k")),
    ffmpeg_row(
        Hevc,
        "hevc_videotoolbox",
        true,
        hardware("format=nv12", "-allow_sw 0 -realtime 0 -profile:v main -bf 0 {gop} -b:v {kbps}k"),
    ),
    ffmpeg_row(
        Hevc,
        "libx265",
        false,
        // Its own log is on standard error, where ffmpeg's errors are. It describes itself in each stream unless `info=0`.
        // Against x264 as above, 640 pixels wide, two films: 68 and 65 % of the bytes (crf 25 and 28) at the same SSIM or more.
        Some(FfmpegEncoder {
            filter: "format=yuv420p",
            run_args: "-preset superfast -crf 25 -profile:v main -forced-idr 1 {gop} \
                       -x265-params log-level=error:info=0:open-gop=0:scenecut=0",
            bitrate_args: "",
        }),
    ),
    ffmpeg_row(
        Av1,
        "libsvtav1",
        false,
        // SVT-AV1 ignores forced keyframes without the parameter, and inserts none at a change of scene. Against x264 as above:
        // 54 and 69 % of the bytes at a higher SSIM.
        Some(FfmpegEncoder {
            filter: "format=yuv420p",
            run_args: "-preset 10 -crf 40 {gop} -svtav1-params enable-force-key-frames=1:irefresh-type=2",
            bitrate_args: "",
        }),
    ),
];

/// The elements of GStreamer, in the order of their rows.
pub fn encoder_elements() -> impl Iterator<Item = (&'static VideoEncoder, &'static EncoderElement)> {
    VIDEO_ENCODERS.iter().filter_map(|encoder| Some((encoder, encoder.gstreamer.as_ref()?)))
}

/// Whether an element of GStreamer uses hardware.
pub fn is_hardware_element(name: &str) -> bool {
    encoder_elements().any(|(encoder, element)| element.element == name && encoder.is_hardware)
}

impl FfmpegEncoder {
    /// Rate control and GOP of a run with this many frames in a GOP, and this maximum bit rate, kbit/s.
    pub(super) fn run_args(&self, gop_frames: u32, max_kbps: u32) -> String {
        let gop = format!("-g {gop_frames} -keyint_min {gop_frames}");
        self.run_args.replace("{gop}", &gop).replace("{kbps}", &max_kbps.to_string())
    }
}

impl VideoEncoder {
    /// The row of this name of ffmpeg, e.g. `libx264`.
    pub fn of_name(name: &str) -> Option<&'static Self> {
        VIDEO_ENCODERS.iter().find(|encoder| encoder.name == name)
    }

    /// The encoder of H.264 by the same interface to hardware, e.g. `h264_vaapi` of `hevc_vaapi`.
    pub(super) fn h264_encoder(&self) -> Option<&'static Self> {
        let (_, interface) = self.name.split_once('_')?;
        Self::of_name(&format!("h264_{interface}"))
    }

    /// The beginning of the names of the devices below `/dev` that it uses on Linux; `None` if they vary, or if it needs none.
    pub(super) fn device_prefix(&self) -> Option<&'static str> {
        match self.name.split_once('_')?.1 {
            "qsv" | "vaapi" => Some("renderD"),
            "v4l2m2m" => Some("video"),
            _ => None,
        }
    }

    /// The device file that ffmpeg opens for it, if it is one of VAAPI.
    pub fn device(&self) -> Option<String> {
        self.name.ends_with("_vaapi").then(vaapi_device)
    }

    /// ffmpeg's global option for its device and the device, if it needs one.
    pub(super) fn device_args(&self) -> Option<[String; 2]> {
        self.device().map(|device| ["-vaapi_device".to_owned(), device])
    }

    /// `-c:v` with its options, for commands that set a bit rate: slates and external channels.
    pub(super) fn bitrate_args(&self) -> String {
        format!("-c:v {} {}", self.name, self.ffmpeg.as_ref().map_or("", |ffmpeg| ffmpeg.bitrate_args))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::codec::is_hardware_encoder;

    #[test]
    fn hardware_encoders_are_known_by_their_names() {
        for VideoEncoder { name, is_hardware, .. } in &VIDEO_ENCODERS {
            assert_eq!(is_hardware_encoder(name), *is_hardware, "{name}");
        }
    }

    #[test]
    fn encoders_of_one_interface_have_the_end_of_their_names() {
        let h264 = |name: &str| VideoEncoder::of_name(name).unwrap().h264_encoder().map(|encoder| encoder.name);
        assert_eq!((h264("hevc_vaapi"), h264("h264_nvenc")), (Some("h264_vaapi"), Some("h264_nvenc")));
        assert_eq!((h264("libx265"), h264("libsvtav1")), (None, None));
    }

    #[test]
    fn each_launch_text_names_its_element_as_pipelines_look_it_up() {
        for (_, EncoderElement { element, launch, .. }) in encoder_elements() {
            assert_eq!(launch.split_whitespace().take(2).collect::<Vec<_>>(), [*element, "name=video_encoder"]);
        }
    }
}
