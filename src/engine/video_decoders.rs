//! Hardware that decodes video, an interface a row for both backends, and the formats in which it is tried.

use super::hardware_devices::vaapi_device;
use super::video_encoders::VideoEncoder;
use crate::domain::media::{Stream, StreamKind};

/// An interface to decoding hardware.
#[derive(Debug, PartialEq, Eq)]
pub struct HardwareDecoder {
    /// ffmpeg's name of the interface, e.g. `vaapi`.
    pub name: &'static str,
    /// ffmpeg's arguments before the input in a run, with `{codec}` for ffmpeg's name of the codec and `{vaapi_device}`. Frames
    /// come to the memory of the processor. What the hardware does not decode, ffmpeg decodes in software.
    pub input_args: &'static str,
    /// More of them in a trial: frames stay in the memory of the hardware, so that software cannot take over unnoticed.
    pub trial_args: &'static str,
    /// Filters of a trial that fetch them from there, for 8 and for 10 bits.
    pub trial_filters: [&'static str; 2],
    /// Whether each such device decodes H.264: what does not is no such device, and other formats need no trial.
    pub has_h264: bool,
    /// The encoders of the same device or board, by ffmpeg's names.
    pub encoders: &'static [&'static str],
    /// GStreamer's elements, each after ffmpeg's name of its codec.
    pub elements: &'static [(&'static str, &'static str)],
}

/// A placeholder in the arguments.
const VAAPI_DEVICE: &str = "{vaapi_device}";

/// Best first.
pub static HARDWARE_DECODERS: [HardwareDecoder; 5] = [
    HardwareDecoder {
        name: "cuda",
        input_args: "-hwaccel cuda",
        trial_args: "-hwaccel_output_format cuda",
        trial_filters: ["hwdownload,format=nv12", "hwdownload,format=p010le"],
        has_h264: true,
        encoders: &["h264_nvenc", "hevc_nvenc"],
        elements: &[
            ("h264", "nvh264dec"),
            ("hevc", "nvh265dec"),
            ("vp9", "nvvp9dec"),
            ("av1", "nvav1dec"),
            ("mpeg2video", "nvmpeg2videodec"),
        ],
    },
    // Intel's cards, which QSV is for, decode by VAAPI as well.
    HardwareDecoder {
        name: "vaapi",
        input_args: "-hwaccel vaapi -hwaccel_device {vaapi_device}",
        trial_args: "-hwaccel_output_format vaapi",
        trial_filters: ["hwdownload,format=nv12", "hwdownload,format=p010le"],
        has_h264: true,
        encoders: &["h264_vaapi", "hevc_vaapi", "h264_qsv", "hevc_qsv"],
        elements: &[
            ("h264", "vah264dec"),
            ("hevc", "vah265dec"),
            ("vp9", "vavp9dec"),
            ("av1", "vaav1dec"),
            ("mpeg2video", "vampeg2dec"),
        ],
    },
    HardwareDecoder {
        name: "v4l2m2m",
        input_args: "-c:v {codec}_v4l2m2m",
        trial_args: "",
        trial_filters: ["null", "null"],
        has_h264: true,
        encoders: &["h264_v4l2m2m"],
        elements: &[
            ("h264", "v4l2h264dec"),
            ("hevc", "v4l2h265dec"),
            ("vp9", "v4l2vp9dec"),
            ("mpeg2video", "v4l2mpeg2dec"),
        ],
    },
    // Stateless devices of V4L2, beside the encoder of their board. That of the Raspberry Pi 4 decodes HEVC only. ffmpeg decodes by
    // them with the patches of Raspberry Pi OS or LibreELEC, which call the interface `drm`.
    HardwareDecoder {
        name: "v4l2request",
        input_args: "-hwaccel drm",
        trial_args: "-hwaccel_output_format drm_prime",
        trial_filters: ["hwdownload,format=nv12", "hwdownload,format=p010le"],
        has_h264: false,
        encoders: &["h264_v4l2m2m"],
        elements: &[
            ("h264", "v4l2slh264dec"),
            ("hevc", "v4l2slh265dec"),
            ("vp9", "v4l2slvp9dec"),
            ("av1", "v4l2slav1dec"),
            ("mpeg2video", "v4l2slmpeg2dec"),
        ],
    },
    HardwareDecoder {
        name: "videotoolbox",
        input_args: "-hwaccel videotoolbox",
        trial_args: "-hwaccel_output_format videotoolbox_vld",
        trial_filters: ["hwdownload,format=nv12", "hwdownload,format=p010le"],
        has_h264: true,
        encoders: &["h264_videotoolbox", "hevc_videotoolbox"],
        elements: &[],
    },
];

/// A format of video in which hardware is tried, and how software encodes it for the trial.
#[derive(Debug, PartialEq, Eq)]
pub struct TrialFormat {
    /// For people.
    pub name: &'static str,
    /// ffmpeg's name of the codec.
    pub codec: &'static str,
    pub bit_depth: u8,
    pub is_interlaced: bool,
    /// ffmpeg's filter and encoder.
    pub encode_args: &'static str,
}

const fn format(name: &'static str, codec: &'static str, bit_depth: u8, encode_args: &'static str) -> TrialFormat {
    TrialFormat { name, codec, bit_depth, is_interlaced: false, encode_args }
}

/// All are 4:2:0, to which most hardware is limited.
pub static TRIAL_FORMATS: [TrialFormat; 9] = [
    format("H.264", "h264", 8, "-pix_fmt yuv420p -c:v libx264 -preset veryfast"),
    TrialFormat {
        is_interlaced: true,
        ..format(
            "interlaced H.264",
            "h264",
            8,
            "-vf tinterlace=interleave_top,setfield=tff -pix_fmt yuv420p -c:v libx264 -preset veryfast -flags +ildct+ilme",
        )
    },
    format("HEVC", "hevc", 8, "-pix_fmt yuv420p -c:v libx265 -preset ultrafast -x265-params log-level=error"),
    format(
        "10-bit HEVC with HDR",
        "hevc",
        10,
        "-pix_fmt yuv420p10le -color_primaries bt2020 -color_trc smpte2084 -colorspace bt2020nc -c:v libx265 \
         -preset ultrafast -x265-params log-level=error:hdr10=1",
    ),
    format("VP9", "vp9", 8, "-pix_fmt yuv420p -c:v libvpx-vp9 -deadline realtime -cpu-used 8 -b:v 2M"),
    format("AV1", "av1", 8, "-pix_fmt yuv420p -c:v libsvtav1 -preset 12"),
    format("10-bit AV1", "av1", 10, "-pix_fmt yuv420p10le -c:v libsvtav1 -preset 12"),
    format("MPEG-2", "mpeg2video", 8, "-pix_fmt yuv420p -c:v mpeg2video -q:v 4"),
    TrialFormat {
        is_interlaced: true,
        ..format(
            "interlaced MPEG-2",
            "mpeg2video",
            8,
            "-vf tinterlace=interleave_top,setfield=tff -pix_fmt yuv420p -c:v mpeg2video -q:v 4 -flags +ildct+ilme",
        )
    },
];

impl TrialFormat {
    /// Whether a stream has this format.
    pub fn is_of(&self, stream: &Stream) -> bool {
        let StreamKind::Video(video) = &stream.kind else { return false };
        stream.codec == self.codec
            && (video.bit_depth, video.is_interlaced) == (self.bit_depth, self.is_interlaced)
            && video.chroma == "4:2:0"
    }
}

impl HardwareDecoder {
    /// ffmpeg's own decoders in place of hardware.
    #[cfg(test)]
    pub(super) const SOFTWARE: Self = Self {
        name: "software",
        input_args: "",
        trial_args: "",
        trial_filters: ["null", "null"],
        has_h264: true,
        encoders: &[],
        elements: &[],
    };

    /// Whether this encoder is of the same device.
    pub fn is_beside(&self, encoder: &VideoEncoder) -> bool {
        self.encoders.contains(&encoder.name)
    }

    /// GStreamer's element for a codec, by ffmpeg's name.
    pub fn element(&self, codec: &str) -> Option<&'static str> {
        self.elements.iter().find(|(name, _)| *name == codec).map(|(_, element)| *element)
    }

    /// The device file that ffmpeg opens for it, if it is one of VAAPI.
    pub fn device(&self) -> Option<String> {
        self.input_args.contains(VAAPI_DEVICE).then(vaapi_device)
    }

    /// ffmpeg's arguments before the input, for video of this codec.
    pub(super) fn input_args(&self, codec: &str) -> String {
        // ffmpeg's decoders of V4L2 call the codec `mpeg2`.
        let args = self.input_args.replace("{codec}", if codec == "mpeg2video" { "mpeg2" } else { codec });
        self.device().map_or_else(|| args.clone(), |device| args.replace(VAAPI_DEVICE, &device))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::codec::is_hardware_decoder;

    #[test]
    fn each_decoder_is_beside_encoders_of_the_table() {
        for decoder in &HARDWARE_DECODERS {
            assert!(is_hardware_decoder(decoder.name), "{}", decoder.name);
            for name in decoder.encoders {
                let encoder = VideoEncoder::of_name(name).unwrap();
                assert!(encoder.is_hardware && decoder.is_beside(encoder), "{name}");
            }
        }
        assert!(!HARDWARE_DECODERS[0].is_beside(VideoEncoder::of_name("h264_vaapi").unwrap()));
    }

    #[test]
    fn a_decoder_that_is_chosen_by_name_has_that_of_the_codec() {
        let [cuda, _, v4l2, ..] = &HARDWARE_DECODERS;
        assert_eq!(cuda.input_args("hevc"), "-hwaccel cuda");
        assert_eq!(v4l2.input_args("hevc"), "-c:v hevc_v4l2m2m");
        assert_eq!(v4l2.input_args("mpeg2video"), "-c:v mpeg2_v4l2m2m");
    }
}
