//! Direct play formats of each client family.

use crate::domain::playback::device::{DeviceProfile, VideoSupport, audio_support, owned_names, video_support};

/// Clients that play the same formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientFamily {
    /// Blink and Gecko.
    Browser,
    /// AVFoundation and WebKit.
    Apple,
    /// MediaCodec in a player with its own demuxers.
    Android,
    Gstreamer,
    /// Everything is decoded in software: ffmpeg, libVLC, and what is built on them.
    Software,
    /// Televisions of Samsung and LG.
    Television,
    Roku,
    Chromecast,
    Console,
}

const H264: [&str; 4] = ["constrained-baseline", "baseline", "main", "high"];
const FULL_HD: (u32, u32) = (1920, 1088);

impl ClientFamily {
    pub(super) fn profile(self) -> DeviceProfile {
        let (containers, video, audio, channels): (&[&str], Vec<VideoSupport>, &[&str], u32) = match self {
            Self::Browser => return DeviceProfile::default(),
            // No HEVC: AVFoundation plays it from mp4 only under the name `hvc1`, and most files have `hev1`.
            Self::Apple => (
                &["mp4", "mp3", "wav", "flac", "adts", "aiff"],
                vec![video_support("h264", &H264, 5.2)],
                &["aac", "mp3", "alac", "flac", "ac3", "eac3", "pcm_s16le"],
                6,
            ),
            // Required of every device with a screen by the Android Compatibility Definition (section 5.3).
            Self::Android => (
                &["mp4", "mkv", "webm", "mp3", "flac", "ogg", "wav", "adts"],
                vec![
                    video_support("h264", &H264, 5.1),
                    limited_to(FULL_HD, video_support("hevc", &["main"], 4.1)),
                    video_support("vp8", &[], 9.9),
                    limited_to(FULL_HD, video_support("vp9", &[], 9.9)),
                ],
                &["aac", "mp3", "opus", "vorbis", "flac", "pcm_s16le"],
                6,
            ),
            Self::Gstreamer => (
                &["mp4", "mkv", "webm", "mp3", "flac", "ogg", "wav", "adts"],
                vec![video_support("h264", &H264, 5.2), video_support("vp8", &[], 9.9), video_support("vp9", &[], 9.9)],
                &["aac", "mp3", "opus", "vorbis", "flac", "pcm_s16le"],
                6,
            ),
            Self::Software => return software_profile(),
            Self::Television => (
                &["mp4", "mkv", "mp3", "wav", "adts"],
                vec![
                    video_support("h264", &H264, 5.1),
                    // 10-bit too. Full HD at most, because smaller sets have no higher resolution.
                    VideoSupport {
                        bit_depths: vec![8, 10],
                        ..limited_to(FULL_HD, video_support("hevc", &["main", "main-10"], 5.1))
                    },
                ],
                &["aac", "mp3", "ac3", "eac3", "pcm_s16le"],
                6,
            ),
            Self::Roku => (
                &["mp4", "mkv", "mp3", "flac", "wav"],
                vec![limited_to(FULL_HD, video_support("h264", &H264, 4.2))],
                &["aac", "mp3", "flac", "pcm_s16le"],
                2,
            ),
            Self::Chromecast => (
                &["mp4", "webm", "mp3", "wav"],
                vec![
                    limited_to(FULL_HD, video_support("h264", &H264, 4.1)),
                    limited_to(FULL_HD, video_support("vp8", &[], 9.9)),
                ],
                &["aac", "mp3", "opus", "vorbis", "pcm_s16le"],
                6,
            ),
            Self::Console => {
                (&["mp4", "mp3"], vec![limited_to(FULL_HD, video_support("h264", &H264, 4.2))], &["aac", "mp3"], 2)
            }
        };
        DeviceProfile {
            containers: owned_names(containers),
            video,
            audio: audio.iter().map(|&codec| audio_support(codec, channels)).collect(),
            ..DeviceProfile::default()
        }
    }
}

/// No Dolby Vision, because VLC shows it in false colours; no 4:2:2 or 4:4:4, because boxes with a hardware decoder lack
/// them.
fn software_profile() -> DeviceProfile {
    const CONTAINERS: [&str; 16] = [
        "mp4", "mkv", "webm", "ts", "ps", "avi", "flv", "asf", "ogg", "wav", "flac", "mp3", "adts", "ac3", "aiff", "wv",
    ];
    const VIDEO: &str = "h264 hevc av1 vp8 vp9 mpeg1video mpeg2video mpeg4 msmpeg4v2 msmpeg4v3 vc1 wmv3 theora h263";
    const AUDIO: &str = "aac mp2 mp3 opus vorbis flac alac ac3 eac3 dts truehd wmav1 wmav2 wmapro wavpack \
                         pcm_s16le pcm_s16be pcm_s24le pcm_s32le pcm_bluray pcm_dvd";
    let video = |codec: &str| VideoSupport {
        bit_depths: vec![8, 10],
        hdr: owned_names(&["sdr", "hdr10", "hlg"]),
        max_level: None,
        interlaced: true,
        ..video_support(codec, &[], 0.0)
    };
    DeviceProfile {
        containers: owned_names(&CONTAINERS),
        video: VIDEO.split(' ').map(video).collect(),
        audio: AUDIO.split(' ').map(|codec| audio_support(codec, 8)).collect(),
        ..DeviceProfile::default()
    }
}

fn limited_to((width, height): (u32, u32), video: VideoSupport) -> VideoSupport {
    VideoSupport { max_width: Some(width), max_height: Some(height), ..video }
}
